//! Requests to write the counters: by SIGUSR1, and by calls after which this program runs no more (exit, `_exit`, exec).
//!
//! Such a request may be made by a handler of a signal, while the thread that it has interrupted holds any lock. So it only changes atomics
//! and calls the kernel, and a thread of the library does the work. The child of a fork, or of a `vfork`, has no such thread, and its requests
//! are dropped.

use std::ffi::{c_int, c_long};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use super::signals::{action_of, empty_set};

/// The number of the last request, and of the last one that was served.
static REQUESTED: AtomicU32 = AtomicU32::new(0);
static SERVED: AtomicU32 = AtomicU32::new(0);
/// The process whose thread serves requests.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// A wait for a request is [`LOOKS`] waits of this length at most.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 20;

/// Requests of one process, for the thread that serves them.
pub(crate) struct CounterRequests {
    seen: u32,
}

impl CounterRequests {
    /// Those that are made from now on.
    pub(crate) fn new() -> Self {
        let seen = REQUESTED.load(Ordering::Relaxed);
        SERVED.store(seen, Ordering::Relaxed);
        Self { seen }
    }

    /// A thread of this process serves requests. SIGUSR1 makes one, if its action is still the default one.
    pub(crate) fn begin() {
        PROCESS.store(this_process(), Ordering::Release);
        on_signal();
    }

    /// Calls `write` for each request, until the process ends.
    pub(crate) fn serve(self, write: impl Fn()) -> ! {
        let mut seen = self.seen;
        loop {
            let requested = REQUESTED.load(Ordering::Acquire);
            if requested == seen {
                sleep_while(&REQUESTED, seen, None);
                continue;
            }
            write();
            seen = requested;
            SERVED.store(seen, Ordering::Release);
            wake(&SERVED);
        }
    }
}

/// Makes a request, unless this process serves none. Returns its number.
fn request() -> Option<u32> {
    let process = PROCESS.load(Ordering::Acquire);
    if process == 0 || process != this_process() {
        return None;
    }
    let number = REQUESTED.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    wake(&REQUESTED);
    Some(number)
}

/// Has the counters written, and waits for it, but not for ever: the thread that writes may wait for a lock that the caller's thread holds.
pub(crate) fn have_written() {
    let Some(number) = request() else {
        return;
    };
    for _ in 0..LOOKS {
        let served = SERVED.load(Ordering::Acquire);
        if served.wrapping_sub(number).cast_signed() >= 0 {
            return;
        }
        sleep_while(&SERVED, served, Some(LOOK));
    }
}

/// `libnd_paths.so` calls this where a program calls `_exit` or executes another one.
// SAFETY: no other symbol has this name.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn softnd_program_ends() {
    have_written();
}

fn on_signal() {
    if action_of(libc::SIGUSR1).is_some_and(|action| action.sa_sigaction == libc::SIG_DFL) {
        let action = libc::sigaction {
            sa_sigaction: handler as extern "C" fn(c_int) as usize,
            sa_mask: empty_set(),
            sa_flags: libc::SA_RESTART | libc::SA_ONSTACK,
            sa_restorer: None,
        };
        set_action(&action);
    }
}

extern "C" fn handler(signal: c_int) {
    // SAFETY: the function has no requirements; glibc keeps one errno for each thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is valid for the life of this thread, and only this thread uses it.
    let kept = unsafe { errno.read() };
    if request().is_none() {
        // The child of a fork that has opened no device: it gets the default action, once this handler returns.
        set_action(&libc::sigaction {
            sa_sigaction: libc::SIG_DFL,
            sa_mask: empty_set(),
            sa_flags: 0,
            sa_restorer: None,
        });
        // SAFETY: the function has no requirements, and may be called by a handler.
        unsafe { libc::raise(signal) };
    }
    // SAFETY: as above.
    unsafe { errno.write(kept) };
}

/// Sets the action of SIGUSR1.
fn set_action(action: &libc::sigaction) {
    // SAFETY: the action is valid for the call, and its handler does what handlers may do alone.
    unsafe { libc::sigaction(libc::SIGUSR1, action, ptr::null_mut()) };
}

fn this_process() -> c_int {
    // SAFETY: the function has no requirements. glibc asks the kernel, so that the child of a `vfork` gets its own number.
    unsafe { libc::getpid() }
}

/// Sleeps until a wake, a signal, or the end of the time, unless the number has changed already.
fn sleep_while(number: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: 0,
        tv_nsec: c_long::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the number is in a static, and the time is null or valid for the call, which changes neither.
    unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), operation, value, limit) };
}

/// Wakes all threads that sleep for this number.
fn wake(number: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the number is in a static, and the call does not change it.
    unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), operation, c_int::MAX) };
}
