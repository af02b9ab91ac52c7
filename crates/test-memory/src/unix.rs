//! The calls of Unix.

use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

/// Maps this many octets, all zero.
pub(super) fn map(len: usize) -> *mut u8 {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses the address, so that no other memory is replaced.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
    start.expect("memory").cast()
}

/// Takes all access to these octets away.
///
/// # Safety
///
/// They were mapped by [`map`], whole pages of them, and no reference to them exists.
pub(super) unsafe fn take_away(start: *mut u8, len: usize) {
    // SAFETY: the mapping stays where it is, and the caller has no reference to it.
    let done = unsafe { mprotect(start.cast(), len, MprotectFlags::empty()) };
    done.expect("a block without access");
}
