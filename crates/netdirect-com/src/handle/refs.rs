//! References to objects of whoever made them.

use netdirect::Status;

use crate::abi::{EventTable, Handle, HandleKind, HandleTable, Packet, PortTable};

/// The table that the object behind a handle begins with.
///
/// # Safety
///
/// `handle` is null, or points to a live object that begins with a [`HandleTable`].
unsafe fn table(handle: Handle) -> Result<*const HandleTable, Status> {
    let object = handle.cast::<*const HandleTable>();
    if object.is_null() || !object.is_aligned() {
        return Err(Status::INVALID_HANDLE);
    }
    // SAFETY: the object is live, and begins with a pointer to its table (this function's contract).
    Ok(unsafe { object.read() })
}

/// The table of an object of this kind, whose table has at least the size of `T`.
///
/// # Safety
///
/// As [`table`].
unsafe fn table_of<T>(handle: Handle, kind: HandleKind) -> Result<&'static T, Status> {
    // SAFETY: as this function's contract.
    let table = unsafe { table(handle) }?;
    // SAFETY: every table begins with this structure, and lives as long as the object's library.
    let head = unsafe { *table };
    if head.kind != kind || (head.size as usize) < size_of::<T>() {
        return Err(Status::INVALID_HANDLE);
    }
    // SAFETY: the kind says which table it is, and the size that it is whole. Whoever has made the object keeps its table.
    Ok(unsafe { &*table.cast::<T>() })
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
                /// `handle` is null, or a handle that is not closed during the call.
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
}

impl EventRef {
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

    /// Whether the event is set; an event with automatic reset is reset.
    pub fn take(&self) -> bool {
        // SAFETY: this reference keeps the event alive.
        unsafe { (self.table.take)(self.handle) != 0 }
    }
}

impl PortRef {
    /// Appends a packet.
    pub fn post(&self, packet: &Packet) {
        // SAFETY: this reference keeps the port alive, and the packet is read during the call only.
        unsafe { (self.table.post)(self.handle, packet) };
    }

    /// Takes up to `packets.len()` packets, the oldest first, waiting up to `milliseconds` for the first one.
    pub fn take(&self, packets: &mut [Packet], milliseconds: u32) -> usize {
        let count = u32::try_from(packets.len()).unwrap_or(u32::MAX);
        // SAFETY: this reference keeps the port alive, and there is room for `count` packets.
        let taken =
            unsafe { (self.table.take)(self.handle, packets.as_mut_ptr(), count, milliseconds) };
        taken as usize
    }
}
