//! Events.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::sync::Arc;

use netdirect::Status;
use windows_sys::Win32::System::Threading::{CreateEventW, ResetEvent, SetEvent};

use super::duplicate;
use crate::abi::Handle;
use crate::handle::wait;

/// A reference to an event: a handle of this value's own.
#[derive(Clone, Debug)]
pub struct EventRef(Arc<OwnedHandle>);

impl EventRef {
    /// Makes a new event, which is set if `is_set`.
    ///
    /// A set event with manual reset ends all waits until it is reset; one with automatic reset ends one wait, and is reset by it.
    ///
    /// # Panics
    ///
    /// The system has no room for an event.
    pub fn create(has_manual_reset: bool, is_set: bool) -> Self {
        Self::try_create(has_manual_reset, is_set).expect("the system has room for an event")
    }

    /// Makes a new event.
    pub(super) fn try_create(has_manual_reset: bool, is_set: bool) -> io::Result<Self> {
        // SAFETY: null pointers ask for no name, and for the usual rights.
        let event = unsafe {
            CreateEventW(
                ptr::null(),
                has_manual_reset.into(),
                is_set.into(),
                ptr::null(),
            )
        };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system has just made the handle for this caller.
        Ok(Self(Arc::new(unsafe {
            OwnedHandle::from_raw_handle(event)
        })))
    }

    /// Takes a reference, and resets the event: the system says by this call whether the object is an event.
    ///
    /// # Errors
    ///
    /// [`INVALID_HANDLE`](Status::INVALID_HANDLE): null, closed, or an object of another kind.
    ///
    /// # Safety
    ///
    /// None on this system, which knows its handles. The name is that of other systems, whose handles are pointers.
    pub unsafe fn retain(handle: Handle) -> Result<Self, Status> {
        let event = Self(Arc::new(duplicate(handle)?));
        if event.try_reset() {
            Ok(event)
        } else {
            Err(Status::INVALID_HANDLE)
        }
    }

    /// The handle, which lives as long as this reference.
    pub fn handle(&self) -> Handle {
        self.0.as_raw_handle()
    }

    /// Sets the event.
    pub fn set(&self) {
        // SAFETY: this reference keeps the handle open.
        unsafe { SetEvent(self.handle()) };
    }

    /// Resets the event.
    pub fn reset(&self) {
        self.try_reset();
    }

    fn try_reset(&self) -> bool {
        // SAFETY: this reference keeps the handle open; the system refuses what is no event.
        unsafe { ResetEvent(self.handle()) != 0 }
    }

    /// Returns true if the event is set. An event with automatic reset is reset.
    pub fn take(&self) -> bool {
        wait(self, 0)
    }
}
