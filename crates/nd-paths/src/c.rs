//! `errno`, texts, and the environment. Pointers come from C programs and from the C library alone, which keep the promises of C.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// The result of a function that fails with a number in `errno`.
pub(crate) trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for isize {
    const FAILED: Self = -1;
}

impl<T> Failed for *mut T {
    const FAILED: Self = ptr::null_mut();
}

fn errno() -> *mut c_int {
    // SAFETY: the function has no requirements; glibc keeps one errno for each thread.
    unsafe { libc::__errno_location() }
}

fn set_errno(number: c_int) {
    // SAFETY: the pointer is valid for the life of this thread, and only this thread uses it.
    unsafe { errno().write(number) };
}

/// Fails with a number.
pub(crate) fn failed<R: Failed>(number: c_int) -> R {
    set_errno(number);
    R::FAILED
}

/// Calls functions of which the program shall see no `errno`.
pub(crate) fn with_errno_kept<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: as for `set_errno`.
    let kept = unsafe { errno().read() };
    let result = body();
    set_errno(kept);
    result
}

/// The octets of a text, which the caller uses no longer than the call lasts that the text was passed to; `None` for null.
pub(crate) fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: programs pass texts that end in a zero, and change none during the call that they pass it to.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

// SAFETY: the C library has this function with this type; the crate `libc` does not declare it for Linux.
unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

/// A variable of the environment, which a program with more rights than its user does not follow.
pub(crate) fn environment(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends in a zero. No thread changes the environment before the program starts.
    text(unsafe { secure_getenv(name.as_ptr()) })
}
