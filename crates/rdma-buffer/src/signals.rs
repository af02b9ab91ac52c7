//! Threads of the libraries take no signals, which belong to the program: one that takes its signals from `signalfd` or `sigwait` blocks them
//! in its own threads, and a thread without its mask would end the process.

/// Calls `start` with all signals blocked that a program can wait for, so that a thread that it starts has them blocked from its first
/// instruction. Signals of faults stay, because a fault in a thread is of that thread.
#[cfg(unix)]
pub fn blocked<R>(start: impl FnOnce() -> R) -> R {
    let _before = Mask::block(&waitable());
    start()
}

/// There are no signals.
#[cfg(not(unix))]
pub fn blocked<R>(start: impl FnOnce() -> R) -> R {
    start()
}

/// Signals of faults, and that of refused system calls.
#[cfg(unix)]
const FAULTS: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// All signals but [`FAULTS`].
#[cfg(unix)]
fn waitable() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the place is valid for the call, which fills it whole. The C library leaves its own signals out.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    for fault in FAULTS {
        // SAFETY: `sigfillset` has filled the set, and the call changes it alone.
        unsafe { libc::sigdelset(set.as_mut_ptr(), fault) };
    }
    // SAFETY: `sigfillset` has filled it; the function fails for null pointers alone.
    unsafe { set.assume_init() }
}

/// The mask that this thread had before. It is set again when the value is dropped.
#[cfg(unix)]
struct Mask(libc::sigset_t);

#[cfg(unix)]
impl Mask {
    fn block(set: &libc::sigset_t) -> Self {
        let mut before = *set;
        // SAFETY: both sets are valid for the call, which changes the mask of this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, &raw mut before) };
        Self(before)
    }
}

#[cfg(unix)]
impl Drop for Mask {
    fn drop(&mut self) {
        let Self(before) = self;
        // SAFETY: the set is valid for the call, which changes the mask of this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let mask = Mask::block(&waitable());
        // SAFETY: the call reads the set.
        unsafe { libc::sigismember(&raw const mask.0, signal) == 1 }
    }

    #[test]
    fn a_thread_takes_no_signals_but_those_of_faults() {
        let begins =
            || std::thread::spawn(|| [libc::SIGTERM, libc::SIGUSR2, libc::SIGSEGV].map(is_blocked));
        assert_eq!(blocked(begins).join().unwrap(), [true, true, false]);
        assert_eq!(begins().join().unwrap(), [false; 3]);
        assert!(!is_blocked(libc::SIGTERM));
    }

    #[test]
    fn the_mask_is_as_before_after_a_panic() {
        let panicked = std::panic::catch_unwind(|| blocked(|| panic!("planted")));
        assert!(panicked.is_err() && !is_blocked(libc::SIGTERM));
    }
}
