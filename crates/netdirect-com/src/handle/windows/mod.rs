//! Windows' own handles.
//!
//! A handle is a number, which the system gives to another object after `CloseHandle`. So what is kept beyond a call is a duplicate
//! ([`duplicate`]), and an object is recognised by the system and never by its number.

mod event;
mod file;
mod pipe;
mod port;
#[cfg(test)]
mod tests;
mod wait;

use std::os::windows::io::{FromRawHandle, OwnedHandle};
use std::ptr;

use netdirect::Status;
use windows_sys::Win32::Foundation::{CloseHandle, DUPLICATE_SAME_ACCESS, DuplicateHandle};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use crate::abi::Handle;

pub use event::EventRef;
pub use file::FileRef;
pub(crate) use pipe::FilePipe;
pub use port::PortRef;
pub use wait::{wait, wait_for_all, wait_for_any};

/// `CloseHandle`.
///
/// # Errors
///
/// [`INVALID_HANDLE`](Status::INVALID_HANDLE): null, or not a handle.
///
/// # Safety
///
/// `handle` is null or `INVALID_HANDLE_VALUE`, or a handle that was not closed. The caller does not use the handle any more.
pub unsafe fn close(handle: Handle) -> Result<(), Status> {
    // SAFETY: the contract of this function; the system refuses numbers that are no handles.
    let closed = unsafe { CloseHandle(handle) };
    if closed == 0 {
        return Err(Status::INVALID_HANDLE);
    }
    Ok(())
}

/// Another handle for the object behind this one, which may be any number.
///
/// # Errors
///
/// [`INVALID_HANDLE`](Status::INVALID_HANDLE): it is no handle.
fn duplicate(handle: Handle) -> Result<OwnedHandle, Status> {
    let mut twin = ptr::null_mut();
    // SAFETY: the function has no conditions.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: the system refuses a number that is no handle, and there is room for the answer.
    let made = unsafe {
        DuplicateHandle(
            process,
            handle,
            process,
            &raw mut twin,
            0,
            0,
            DUPLICATE_SAME_ACCESS,
        )
    };
    if handle.is_null() || made == 0 {
        return Err(Status::INVALID_HANDLE);
    }
    // SAFETY: the system has just made the handle for this caller.
    Ok(unsafe { OwnedHandle::from_raw_handle(twin) })
}
