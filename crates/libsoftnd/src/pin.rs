//! Keeps the library loaded.

use std::ffi::c_void;
#[cfg(unix)]
use std::mem::MaybeUninit;

/// From now on the library stays loaded until the process ends: threads run its code, and an adapter that a client has released may still
/// end its connections. Does nothing if the library is a part of the program.
#[cfg(unix)]
pub(crate) fn pin() {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    let here: *const c_void = pin as fn() as *const c_void;
    // SAFETY: the address is one of this library, and there is room for the answer.
    let is_found = unsafe { libc::dladdr(here, found.as_mut_ptr()) } != 0;
    // SAFETY: zeros are a value of the structure, too.
    let found = unsafe { found.assume_init() };
    if !is_found || found.dli_fname.is_null() {
        return;
    }
    // SAFETY: the name is the dynamic linker's own; the library is loaded already (RTLD_NOLOAD), so that none of its code runs.
    let _kept = unsafe {
        libc::dlopen(
            found.dli_fname,
            libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
        )
    };
}

/// As on other systems.
#[cfg(windows)]
pub(crate) fn pin() {
    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    };
    let here: *const c_void = pin as fn() as *const c_void;
    let mut module = std::ptr::null_mut();
    // SAFETY: the flags say that the name is an address of the library, which is loaded; there is room for the answer.
    let _pinned = unsafe {
        GetModuleHandleExW(
            GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
            here.cast(),
            &raw mut module,
        )
    };
}
