//! Completion ports.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::sync::Arc;

use netdirect::Status;
use windows_sys::Win32::Foundation::{INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows_sys::Win32::System::IO::{
    CreateIoCompletionPort, GetQueuedCompletionStatusEx, OVERLAPPED_ENTRY,
    PostQueuedCompletionStatus,
};

use super::duplicate;
use crate::abi::{Handle, Packet};
use crate::handle::PortClosed;

// The system writes packets.
const _: () = assert!(
    size_of::<Packet>() == size_of::<OVERLAPPED_ENTRY>()
        && offset_of!(Packet, key) == offset_of!(OVERLAPPED_ENTRY, lpCompletionKey)
        && offset_of!(Packet, overlapped) == offset_of!(OVERLAPPED_ENTRY, lpOverlapped)
        && offset_of!(Packet, internal) == offset_of!(OVERLAPPED_ENTRY, Internal)
        && offset_of!(Packet, bytes) == offset_of!(OVERLAPPED_ENTRY, dwNumberOfBytesTransferred)
);

/// A reference to a completion port: a handle of this value's own.
#[derive(Clone, Debug)]
pub struct PortRef(Arc<OwnedHandle>);

impl PortRef {
    /// A new port without packets.
    ///
    /// # Panics
    ///
    /// The system has no room for a port.
    pub fn create() -> Self {
        Self::try_create().expect("the system has room for a completion port")
    }

    /// A new port without packets.
    pub(crate) fn try_create() -> io::Result<Self> {
        // SAFETY: no file, and no port that exists already.
        let port = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, ptr::null_mut(), 0, 0) };
        if port.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system has just made the handle for this caller.
        Ok(Self(Arc::new(unsafe {
            OwnedHandle::from_raw_handle(port)
        })))
    }

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
        duplicate(handle).map(|handle| Self(Arc::new(handle)))
    }

    /// The handle, which lives as long as this reference.
    pub fn handle(&self) -> Handle {
        self.0.as_raw_handle()
    }

    /// Appends a packet. The system does not take its status: the status arrives as 0.
    pub fn post(&self, packet: &Packet) {
        // As elsewhere nobody learns of a packet that the system has no memory for.
        let _ = self.try_post(packet);
    }

    /// Appends a packet, as [`post`](Self::post) does.
    pub(crate) fn try_post(&self, packet: &Packet) -> io::Result<()> {
        let &Packet {
            key,
            overlapped,
            bytes,
            ..
        } = packet;
        // SAFETY: this reference keeps the handle open; the system hands the pointer on, and does not use it.
        let posted =
            unsafe { PostQueuedCompletionStatus(self.handle(), bytes, key, overlapped.cast()) };
        if posted == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Takes up to `room.len()` packets, the oldest first, and returns their number. Waits up to `milliseconds` for the first one;
    /// [`INFINITE`](crate::handle::INFINITE) is for ever. Returns 0 when this time has passed.
    ///
    /// Of a packet's `internal` the lowest 32 bits are the status. The others may have any value.
    ///
    /// # Errors
    ///
    /// [`PortClosed`], when the port was closed.
    pub fn take(
        &self,
        room: &mut [MaybeUninit<Packet>],
        milliseconds: u32,
    ) -> Result<usize, PortClosed> {
        let count = u32::try_from(room.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return Ok(0);
        }
        let mut taken = 0;
        // SAFETY: this reference keeps the handle open, and there is room for `count` packets, which have this layout.
        let is_taken = unsafe {
            GetQueuedCompletionStatusEx(
                self.handle(),
                room.as_mut_ptr().cast(),
                count,
                &raw mut taken,
                milliseconds,
                0,
            )
        };
        if is_taken != 0 {
            return Ok(taken.min(count) as usize);
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(code) if code.cast_unsigned() == WAIT_TIMEOUT => Ok(0),
            _ => Err(PortClosed),
        }
    }

    /// Takes the oldest packet, as [`take`](Self::take) does. `None` when the time has passed.
    ///
    /// # Errors
    ///
    /// [`PortClosed`], when the port was closed.
    pub fn take_one(&self, milliseconds: u32) -> Result<Option<Packet>, PortClosed> {
        let mut room = [MaybeUninit::uninit()];
        let taken = self.take(&mut room, milliseconds)?;
        // SAFETY: a packet was taken, and written there.
        Ok((taken > 0).then(|| unsafe { room[0].assume_init() }))
    }
}
