//! The answers of functions that are not supported, or that do nothing here.
//!
//! They take no arguments, whatever the caller passes: the caller of a C function cleans up its own arguments.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::border::set_errno;

/// For functions that return an error number.
pub(crate) extern "C" fn code() -> c_int {
    libc::EOPNOTSUPP
}

/// For functions that return an object.
pub(crate) extern "C" fn null() -> *mut c_void {
    set_errno(libc::EOPNOTSUPP);
    ptr::null_mut()
}

/// For functions that return -1, and the number in `errno`. Some have a result of 64 bits.
pub(crate) extern "C" fn minus_one() -> isize {
    set_errno(libc::EOPNOTSUPP);
    -1
}

/// For functions of drivers that have no result and need none: this library has no drivers.
pub(crate) extern "C" fn nothing() {}
