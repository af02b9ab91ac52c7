//! Calls that block are cancellation points (`pthreads(7)`), as `read(2)` is, in which rdma-core's calls block.
//!
//! A cancelled thread ends by a forced unwinding: glibc takes down the frames of the thread's stack, and runs the cleanup handlers of C and
//! the destructors of C++. Frames of Rust that hold a lock, or a place among the threads that wait, must not be taken down so. Rust allows
//! it for frames alone that have nothing to drop. Therefore:
//!
//! - [`cancellable`] is the outermost frame of such a call. A thread that was cancelled before ends there, as in `read`. It switches
//!   cancellation off for everything else that the call does: the driver calls functions of the system that are cancellation points as well.
//! - All other calls of programs switch cancellation off as well ([`uncancelled`]), except for those of the fast path, whose system calls
//!   are not libc's.
//! - Only [`sleep`], the innermost frame, switches cancellation on again, around one `poll`. This happens in a function in assembly, which
//!   does what the macro `pthread_cleanup_push` does in C: it has registered a place to which glibc jumps when the unwinding arrives at this
//!   frame. No frame of Rust lies between `poll` and that place. A handler of C would run there and continue the unwinding. Here the
//!   function returns instead, and says that the thread is cancelled.
//! - All frames of Rust then return in the ordinary way, with a failure, and release what they hold. The event stays in its queue.
//! - [`cancellable`], with nothing left to drop, continues the unwinding (`__pthread_unwind_next`), as the macro `pthread_cleanup_pop` does.
//!   So for glibc the whole call is one cleanup handler, during which it does not cancel the thread again.
//!
//! A thread that is cancelled while it does not sleep, or has an event already, returns from the call, and ends at its next cancellation
//! point.

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
#[path = "none.rs"]
mod imp;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[path = "glibc.rs"]
mod imp;

use std::ffi::c_int;
use std::time::Duration;

/// Returns true if the thread was cancelled in the call that it is in.
pub(crate) fn has_come() -> bool {
    imp::has_come()
}

/// Sleeps until a descriptor is readable, for up to `limit`, and lets the thread be cancelled meanwhile. Returns true if it was, or after a
/// signal; `None` without having slept, in a call that is no cancellation point, and where the program has switched cancellation off.
pub(crate) fn sleep(descriptor: Option<c_int>, limit: Option<Duration>) -> Option<bool> {
    imp::sleep(descriptor, milliseconds(limit))
}

/// The limit as `poll` wants it, rounded up.
fn milliseconds(limit: Option<Duration>) -> c_int {
    limit.map_or(-1, |limit| {
        c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
    })
}

/// Makes a call a cancellation point. The caller has nothing to drop, and neither has `body`: the thread may end here.
#[inline]
pub(crate) fn cancellable(body: impl FnOnce() -> c_int + Copy) -> c_int {
    imp::cancellable(body)
}

/// Calls `body`, in which the thread is not cancelled: functions of the system that open, read or close are cancellation points, and would
/// take down frames of Rust.
pub(crate) fn uncancelled<T>(body: impl FnOnce() -> T) -> T {
    imp::uncancelled(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_rounded_up() {
        assert_eq!(milliseconds(None), -1);
        assert_eq!(milliseconds(Some(Duration::ZERO)), 0);
        assert_eq!(milliseconds(Some(Duration::from_nanos(1))), 1);
        assert_eq!(milliseconds(Some(Duration::from_millis(7))), 7);
        assert_eq!(milliseconds(Some(Duration::MAX)), c_int::MAX);
    }

    #[test]
    fn a_call_that_is_no_cancellation_point_sleeps_elsewhere() {
        assert_eq!(sleep(None, None), None);
        assert!(!has_come());
    }

    #[test]
    fn a_call_looks_without_a_descriptor() {
        let called = cancellable(|| {
            assert_ne!(sleep(None, Some(Duration::ZERO)), Some(true));
            7
        });
        assert_eq!((called, sleep(None, None)), (7, None));
    }
}
