//! Which handlers of signals the program has installed.

use std::ffi::c_int;
use std::ptr;

/// The highest number of a signal on Linux.
const LAST: c_int = 64;
/// Signals of faults. A wait does not raise them, and runtimes of languages install handlers for them.
const FAULTS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

/// Returns true if a signal is to end a call that waits with EINTR: the program has a handler without `SA_RESTART`. The signal that arrived
/// is not known, so all handlers count.
pub(crate) fn end_waits() -> bool {
    (1..=LAST)
        .filter(|signal| !FAULTS.contains(signal))
        .any(has_interrupting_handler)
}

fn has_interrupting_handler(signal: c_int) -> bool {
    action_of(signal).is_some_and(|action| {
        let is_handled = !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        is_handled && action.sa_flags & libc::SA_RESTART == 0
    })
}

/// The action of a signal. `None` for the two signals that glibc keeps to itself, and refuses to query.
pub(super) fn action_of(signal: c_int) -> Option<libc::sigaction> {
    let mut action = libc::sigaction {
        sa_sigaction: libc::SIG_DFL,
        sa_mask: empty_set(),
        sa_flags: 0,
        sa_restorer: None,
    };
    // SAFETY: with a null pointer for the new action nothing changes; the place for the present one is valid for the call.
    let result = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    (result == 0).then_some(action)
}

pub(super) fn empty_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the place is valid for the call, which fills it whole.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` has filled it; the function fails for null pointers alone.
    unsafe { set.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn handler(_: c_int) {}

    fn install(flags: c_int) {
        let action = libc::sigaction {
            sa_sigaction: handler as extern "C" fn(c_int) as usize,
            sa_mask: empty_set(),
            sa_flags: flags,
            sa_restorer: None,
        };
        // SAFETY: the action is valid for the call, and its handler does nothing.
        let result = unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut()) };
        assert_eq!(result, 0);
    }

    #[test]
    fn a_handler_without_restart_ends_waits() {
        assert!(!end_waits());
        install(libc::SA_RESTART);
        assert!(!end_waits());
        install(0);
        assert!(end_waits());
    }
}
