//! Functions that all handles share.

#![allow(non_snake_case, reason = "the names are Windows'")]

use netdirect_com::abi::{Bool, Handle};
use netdirect_com::handle::close;

use crate::errors::{self, Win32Error, answer};

/// CloseHandle.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn CloseHandle(object: Handle) -> Bool {
    // SAFETY: the promise of programs.
    answer(unsafe { close(object) }.map_err(Win32Error::from))
}

/// GetLastError.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn GetLastError() -> u32 {
    errors::last()
}

/// SetLastError.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn SetLastError(error: u32) {
    errors::set_last(Win32Error(error));
}
