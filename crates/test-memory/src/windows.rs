//! The calls of Windows.

use std::io::Error;
use std::ptr;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RESERVE, PAGE_NOACCESS, PAGE_READWRITE, VirtualAlloc, VirtualProtect,
};

/// Maps this many octets, all zero.
pub(super) fn map(len: usize) -> *mut u8 {
    let how = MEM_RESERVE | MEM_COMMIT;
    // SAFETY: the system chooses the address, so that no other memory is replaced.
    let start = unsafe { VirtualAlloc(ptr::null(), len, how, PAGE_READWRITE) };
    assert!(!start.is_null(), "memory: {}", Error::last_os_error());
    start.cast()
}

/// Takes all access to these octets away.
///
/// # Safety
///
/// They were mapped by [`map`], whole pages of them, and no reference to them exists.
pub(super) unsafe fn take_away(start: *mut u8, len: usize) {
    let mut before = 0;
    // SAFETY: the mapping stays where it is, and the caller has no reference to it; `before` gets the rights of before.
    let done = unsafe { VirtualProtect(start.cast(), len, PAGE_NOACCESS, &raw mut before) };
    assert_ne!(
        done,
        0,
        "a block without access: {}",
        Error::last_os_error()
    );
}
