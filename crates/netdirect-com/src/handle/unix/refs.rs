//! References to objects of any library.

use std::mem::{ManuallyDrop, MaybeUninit};

use netdirect::Status;

use crate::abi::{
    EventTable, FileTable, Handle, HandleKind, HandleTable, PORT_CLOSED, Packet, PortTable, Watcher,
};
use crate::context;
use crate::handle::PortClosed;

/// The table that the object behind a handle begins with.
///
/// # Safety
///
/// `handle` is null or `INVALID_HANDLE_VALUE`, or points to a live object that begins with a pointer to a [`HandleTable`].
unsafe fn table(handle: Handle) -> Result<*const HandleTable, Status> {
    let object = handle.cast::<*const HandleTable>();
    // Null, INVALID_HANDLE_VALUE, and small numbers such as Windows' own handles.
    if !context::may_be_object(object) {
        return Err(Status::INVALID_HANDLE);
    }
    // SAFETY: the object is live, and begins with a pointer to its table (this function's contract).
    Ok(unsafe { object.read() })
}

/// The table of an object of this kind, whose table has at least the size of `T`.
///
/// # Safety
///
/// As for [`table`].
unsafe fn table_of<T>(handle: Handle, kind: HandleKind) -> Result<&'static T, Status> {
    // SAFETY: as this function's contract.
    let table = unsafe { table(handle) }?;
    // SAFETY: every table begins with this structure, and lives as long as the object's library.
    let head = unsafe { *table };
    if head.kind != kind || (head.size as usize) < size_of::<T>() {
        return Err(Status::INVALID_HANDLE);
    }
    // SAFETY: the kind identifies the type of the table, and the size shows that it is complete. The object's maker keeps its table.
    Ok(unsafe { &*table.cast::<T>() })
}

/// The value of the field `size` for a table of type `T`.
#[expect(clippy::cast_possible_truncation, reason = "a table of a few words")]
pub(super) const fn table_size<T>() -> u32 {
    size_of::<T>() as u32
}

/// `CloseHandle`: gives back the reference of the creator.
///
/// # Errors
///
/// [`INVALID_HANDLE`](Status::INVALID_HANDLE): null, or not a handle.
///
/// # Safety
///
/// `handle` is null or `INVALID_HANDLE_VALUE`, or a handle that was not closed. The caller does not use the handle any more.
pub unsafe fn close(handle: Handle) -> Result<(), Status> {
    // SAFETY: the contract of this function.
    let table = unsafe { table(handle) }?;
    // SAFETY: every table begins with this structure.
    let HandleTable { kind, close, .. } = unsafe { *table };
    if ![HandleKind::EVENT, HandleKind::PORT, HandleKind::FILE].contains(&kind) {
        return Err(Status::INVALID_HANDLE);
    }
    // SAFETY: the object is live, and this is a function of its own table.
    unsafe { close(handle) };
    Ok(())
}

macro_rules! references {
    ($($(#[$doc:meta])* $name:ident: $table:ty, $kind:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name {
                handle: Handle,
                table: &'static $table,
            }

            // SAFETY: any thread may call the functions of a handle's table.
            unsafe impl Send for $name {}
            // SAFETY: as above.
            unsafe impl Sync for $name {}

            impl $name {
                /// Takes a reference.
                ///
                /// # Errors
                ///
                /// [`INVALID_HANDLE`](Status::INVALID_HANDLE): null, or an object of another kind.
                ///
                /// # Safety
                ///
                /// `handle` is null or `INVALID_HANDLE_VALUE`, or a handle that is not closed during the call.
                pub unsafe fn retain(handle: Handle) -> Result<Self, Status> {
                    // SAFETY: the contract of this function.
                    let table: &'static $table = unsafe { table_of(handle, $kind) }?;
                    // SAFETY: the object is live, and this is a function of its own table.
                    unsafe { (table.handle.add_ref)(handle) };
                    Ok(Self { handle, table })
                }

                /// The handle, which lives as long as this reference.
                pub fn handle(&self) -> Handle {
                    self.handle
                }
            }

            impl Clone for $name {
                fn clone(&self) -> Self {
                    // SAFETY: this reference keeps the object alive.
                    unsafe { (self.table.handle.add_ref)(self.handle) };
                    Self { ..*self }
                }
            }

            impl Drop for $name {
                fn drop(&mut self) {
                    // SAFETY: the reference is this one's, and is given back once.
                    unsafe { (self.table.handle.release)(self.handle) };
                }
            }
        )*
    };
}

references! {
    /// A reference to an event.
    EventRef: EventTable, HandleKind::EVENT;
    /// A reference to a completion port.
    PortRef: PortTable, HandleKind::PORT;
    /// A reference to an overlapped file.
    FileRef: FileTable, HandleKind::FILE;
}

impl EventRef {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// The object has this table, and the reference is the caller's.
    pub(super) unsafe fn from_reference(handle: Handle, table: &'static EventTable) -> Self {
        Self { handle, table }
    }

    /// Converts the reference into a handle, which lives until it is [closed](close).
    pub fn into_handle(self) -> Handle {
        ManuallyDrop::new(self).handle
    }

    /// Sets the event.
    pub fn set(&self) {
        // SAFETY: this reference keeps the event alive.
        unsafe { (self.table.set)(self.handle) };
    }

    /// Resets the event.
    pub fn reset(&self) {
        // SAFETY: this reference keeps the event alive.
        unsafe { (self.table.reset)(self.handle) };
    }

    /// Returns true if the event is set. An event with automatic reset is reset.
    pub fn take(&self) -> bool {
        // SAFETY: this reference keeps the event alive.
        unsafe { (self.table.take)(self.handle) != 0 }
    }

    /// Calls the watcher whenever the event is set, at once if it is set now.
    ///
    /// # Safety
    ///
    /// The watcher lives and does not move until [`unwatch`](Self::unwatch) was called.
    pub(super) unsafe fn watch(&self, watcher: *const Watcher) {
        // SAFETY: this reference keeps the event alive, and the caller keeps the watcher alive.
        unsafe { (self.table.watch)(self.handle, watcher) };
    }

    pub(super) fn unwatch(&self, watcher: *const Watcher) {
        // SAFETY: this reference keeps the event alive; the watcher is compared only.
        unsafe { (self.table.unwatch)(self.handle, watcher) };
    }

    /// Keeps the event in its state until [`let_go`](Self::let_go), and returns true if it is set.
    ///
    /// # Safety
    ///
    /// The caller holds no event at a higher address, and for an event that it holds calls only `let_go`, once.
    pub(super) unsafe fn hold(&self) -> bool {
        // SAFETY: this reference keeps the event alive, and the caller keeps to the order.
        unsafe { (self.table.hold)(self.handle) != 0 }
    }

    /// Ends a [`hold`](Self::hold), and resets an event with automatic reset if it is taken.
    ///
    /// # Safety
    ///
    /// The caller holds the event.
    pub(super) unsafe fn let_go(&self, is_taken: bool) {
        // SAFETY: this reference keeps the event alive, and the caller holds it.
        unsafe { (self.table.let_go)(self.handle, is_taken.into()) };
    }
}

impl PortRef {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// The object has this table, and the reference is the caller's.
    pub(super) unsafe fn from_reference(handle: Handle, table: &'static PortTable) -> Self {
        Self { handle, table }
    }

    /// Converts the reference into a handle, which lives until it is [closed](close).
    pub fn into_handle(self) -> Handle {
        ManuallyDrop::new(self).handle
    }

    /// Appends a packet.
    pub fn post(&self, packet: &Packet) {
        // SAFETY: this reference keeps the port alive, and the packet is read during the call only.
        unsafe { (self.table.post)(self.handle, packet) };
    }

    /// Takes up to `room.len()` packets, the oldest first, and returns their number. Waits up to `milliseconds` for the first one;
    /// [`INFINITE`](crate::handle::INFINITE) is for ever. Returns 0 when this time has passed.
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
        let packets = room.as_mut_ptr().cast();
        // SAFETY: this reference keeps the port alive, and there is room for `count` packets.
        let taken = unsafe { (self.table.take)(self.handle, packets, count, milliseconds) };
        match taken {
            PORT_CLOSED => Err(PortClosed),
            taken => Ok(taken.min(count) as usize),
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

impl FileRef {
    /// Makes the ends of the file's requests go to a port, with this key.
    ///
    /// # Errors
    ///
    /// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): the file has a port already.
    pub fn associate(&self, port: &PortRef, key: usize) -> Result<(), Status> {
        // SAFETY: the references keep both alive.
        let status = unsafe { (self.table.associate)(self.handle, port.handle, key) };
        if status.is_success() {
            Ok(())
        } else {
            Err(status)
        }
    }

    /// Returns true in the child of a fork if the parent has made the file.
    pub(super) fn is_of_parent(&self) -> bool {
        // SAFETY: this reference keeps the file alive.
        unsafe { (self.table.is_of_parent)(self.handle) != 0 }
    }

    /// Calls the watcher at the end of each request of the file's objects.
    ///
    /// # Safety
    ///
    /// The watcher lives and does not move until [`unwatch`](Self::unwatch) was called.
    pub(super) unsafe fn watch(&self, watcher: *const Watcher) {
        // SAFETY: this reference keeps the file alive, and the caller keeps the watcher alive.
        unsafe { (self.table.watch)(self.handle, watcher) };
    }

    pub(super) fn unwatch(&self, watcher: *const Watcher) {
        // SAFETY: this reference keeps the file alive; the watcher is compared only.
        unsafe { (self.table.unwatch)(self.handle, watcher) };
    }
}
