//! Contexts: numbers for the traits, pointers that are never dereferenced for COM. And which pointers can be none of objects.

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

/// Addresses below this one have no memory of programs: systems leave them free, so that null pointers and small numbers are noticed.
const FIRST_ADDRESS: usize = 0x1_0000;

/// Returns true if an object may be at this address. It is none of null, of a small number, such as a handle of Windows, and of an address
/// that is not aligned.
#[inline]
pub(crate) fn may_be_object<T>(pointer: *const T) -> bool {
    pointer.addr() >= FIRST_ADDRESS && pointer.is_aligned()
}
