//! Contexts: numbers for the traits, pointers that are never dereferenced for COM.

use std::ffi::c_void;
use std::ptr;

/// The number of a pointer.
#[inline]
pub(crate) fn number(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// The pointer with this number.
#[inline]
pub(crate) fn pointer(number: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(number).unwrap_or(0))
}
