//! Types of one word.

use std::ffi::c_void;

/// `BOOL`: 0 is false, every other value is true.
pub type Bool = i32;

/// An interface pointer: it points to a pointer to a table of functions.
pub type This = *mut c_void;

/// `HANDLE`: an event, a completion port or an overlapped file.
pub type Handle = *mut c_void;
