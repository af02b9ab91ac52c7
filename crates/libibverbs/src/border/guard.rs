//! Panics end here, and results become those of C.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use softverbs::{Errno, Error, Result};

use super::cancellation::uncancelled;
use super::explain::explain;
use super::{Facade, Handle};

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: the function has no requirements; glibc keeps one errno for each thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is valid for the life of this thread, and only this thread uses it.
    unsafe { *errno = number };
}

/// Calls `body`. A panic in it becomes EIO: no panic may pass through the frames of a C program. The thread is not cancelled meanwhile.
pub(crate) fn guarded<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    uncancelled(|| guarded_quick(body))
}

/// As [`guarded`], for the calls of the fast path. Their system calls are not libc's, so they are no cancellation points, but for the close of
/// the socket of a connection that ends.
#[inline]
pub(crate) fn guarded_quick<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        crate::process::broke();
        Err(Error::new(Errno::IO, "a panic within the library"))
    });
    result.inspect_err(explain)
}

/// For functions that return the number of an error. Programs print `errno` nevertheless.
pub(crate) fn code(body: impl FnOnce() -> Result<()>) -> c_int {
    uncancelled(|| code_quick(body))
}

/// As [`code`], for the fast path as [`guarded_quick`] is.
#[inline]
pub(crate) fn code_quick(body: impl FnOnce() -> Result<()>) -> c_int {
    match guarded_quick(body) {
        Ok(()) => 0,
        Err(error) => {
            set_errno(error.raw());
            error.raw()
        }
    }
}

/// For functions that return -1, with the number in `errno`.
#[inline]
pub(crate) fn minus_one(body: impl FnOnce() -> Result<c_int>) -> c_int {
    guarded(body).unwrap_or_else(|error| {
        set_errno(error.raw());
        -1
    })
}

/// For functions that return an object, or null with the number in `errno`.
pub(crate) fn null<T: Facade>(body: impl FnOnce() -> Result<Handle<T>>) -> Handle<T> {
    guarded(body).unwrap_or_else(|error| {
        set_errno(error.raw());
        Handle::NULL
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The panic's own message is on standard error.
    fn panics() -> Result<()> {
        panic!("planted")
    }

    #[test]
    fn a_panic_becomes_an_error_of_c() {
        assert_eq!(code(panics), libc::EIO);
        set_errno(0);
        assert_eq!(minus_one(|| panics().map(|()| 0)), -1);
        assert_eq!(
            std::io::Error::last_os_error().raw_os_error(),
            Some(libc::EIO)
        );
        assert_eq!(code(|| Ok(())), 0);
    }
}
