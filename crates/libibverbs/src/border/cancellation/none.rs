//! Where the library has no functions for C programs, calls are no cancellation points.

use std::ffi::c_int;

pub(super) fn has_come() -> bool {
    false
}

pub(super) fn sleep(_: Option<c_int>, _: c_int) -> Option<bool> {
    None
}

pub(super) fn uncancelled<T>(body: impl FnOnce() -> T) -> T {
    body()
}

pub(super) fn cancellable(body: impl FnOnce() -> c_int + Copy) -> c_int {
    body()
}
