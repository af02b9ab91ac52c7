//! Overlapped files, by the handles that programs have.

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};

use netdirect::Status;
use windows_sys::Win32::Foundation::ERROR_INVALID_HANDLE;
use windows_sys::Win32::System::IO::CreateIoCompletionPort;

use super::duplicate;
use super::port::PortRef;
use crate::abi::Handle;

/// A reference to an overlapped file: a handle of this value's own.
#[derive(Debug)]
pub struct FileRef(OwnedHandle);

impl FileRef {
    /// Takes a reference.
    ///
    /// # Errors
    ///
    /// [`INVALID_HANDLE`](Status::INVALID_HANDLE): null or closed.
    ///
    /// # Safety
    ///
    /// None on this system, which knows its handles. The name is that of other systems, whose handles are pointers.
    pub unsafe fn retain(handle: Handle) -> Result<Self, Status> {
        duplicate(handle).map(Self)
    }

    /// Makes the ends of the file's requests go to a port, with this key.
    ///
    /// # Errors
    ///
    /// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): the file has a port already. [`INVALID_HANDLE`](Status::INVALID_HANDLE): one of
    /// both is an object of another kind.
    pub fn associate(&self, port: &PortRef, key: usize) -> Result<(), Status> {
        // SAFETY: the references keep both handles open; the system refuses objects of other kinds.
        let tied = unsafe { CreateIoCompletionPort(self.0.as_raw_handle(), port.handle(), key, 0) };
        if !tied.is_null() {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(code) if code.cast_unsigned() == ERROR_INVALID_HANDLE => {
                Err(Status::INVALID_HANDLE)
            }
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}
