//! The objects that a `HANDLE` points to on systems that have no handles of Windows.
//!
//! A handle points to an object whose first word points to a table of functions. So a program, a library that it is linked with and one
//! that it loads at run time use each other's events, completion ports and overlapped files, each through the table that the object's maker
//! gave it. Every object counts its references. `CloseHandle` calls `close`, which gives back the reference of the creator; code that keeps
//! a handle beyond a call takes another reference.
//!
//! A table contains its length, so that later versions can append functions; callers of one of those check `size` first.

use netdirect::Status;

use super::structures::Overlapped;
use super::words::{Bool, Handle};

/// The bit of `OVERLAPPED.hEvent` that keeps the end of a request out of the completion port (OVL-021). It is not part of the handle.
pub const WAKE_EVENT_BIT: usize = 1;

/// The kind of object that a handle points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct HandleKind(pub u32);

impl HandleKind {
    /// The table is an [`EventTable`].
    pub const EVENT: Self = Self(0x4E44_0001);
    /// The table is a [`PortTable`].
    pub const PORT: Self = Self(0x4E44_0002);
    /// The table is a [`FileTable`].
    pub const FILE: Self = Self(0x4E44_0003);
}

/// The beginning of the table of every object.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HandleTable {
    /// The length of the whole table, in octets.
    pub size: u32,
    /// The kind of the object.
    pub kind: HandleKind,
    /// Takes a reference.
    pub add_ref: unsafe extern "system" fn(handle: Handle),
    /// Gives a reference back. The last one frees the object.
    pub release: unsafe extern "system" fn(handle: Handle),
    /// `CloseHandle`: gives back the reference of the creator. A completion port releases the threads that wait in it.
    pub close: unsafe extern "system" fn(handle: Handle),
}

/// The table of an event.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventTable {
    /// Size, kind and references.
    pub handle: HandleTable,
    /// Sets the event and calls its watchers, the oldest first. A watcher that returns true takes the signal: an event with automatic reset
    /// is then reset at once, and no other watcher is called.
    pub set: unsafe extern "system" fn(event: Handle),
    /// Resets the event.
    pub reset: unsafe extern "system" fn(event: Handle),
    /// Returns true if the event is set. An event with automatic reset is reset, so that one caller gets true.
    pub take: unsafe extern "system" fn(event: Handle) -> Bool,
    /// Adds a watcher, which is called whenever the event is set, until [`unwatch`](Self::unwatch). If the event is set already, the
    /// watcher is called before this returns, as by [`set`](Self::set).
    pub watch: unsafe extern "system" fn(event: Handle, watcher: *const Watcher),
    /// Removes a watcher. A call of the watcher under way in another thread has ended when this returns.
    pub unwatch: unsafe extern "system" fn(event: Handle, watcher: *const Watcher),
    /// Keeps the event in its state until [`let_go`](Self::let_go), and returns true if it is set. Other threads' calls for this event wait
    /// that long. A wait for all of several events takes all of them or none: it holds them in the order of their addresses, and in between
    /// calls only `hold` and `let_go`.
    pub hold: unsafe extern "system" fn(event: Handle) -> Bool,
    /// Ends a [`hold`](Self::hold). If `take` is true, an event with automatic reset is reset.
    pub let_go: unsafe extern "system" fn(event: Handle, take: Bool),
}

/// A wait for events, or for the ends of a file's requests. It lives until `unwatch` has returned.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Watcher {
    /// The event was set, or a request has ended. Called by any thread, with a lock of the event or file held: it calls no function of
    /// either. Returns true if it takes the signal of the event, which ends the wait; a file ignores the result.
    pub wake: unsafe extern "system" fn(watcher: *const Self) -> Bool,
}

/// The value that [`PortTable::take`] returns when the port was closed.
pub const PORT_CLOSED: u32 = u32::MAX;

/// The table of a completion port.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PortTable {
    /// Size, kind and references.
    pub handle: HandleTable,
    /// Appends a packet. A closed port drops it. Calls no code of the client.
    pub post: unsafe extern "system" fn(port: Handle, packet: *const Packet),
    /// Takes up to `count` packets, the oldest first, and returns their number. Waits up to `milliseconds` for the first one; `0xFFFFFFFF`
    /// is for ever. Returns 0 when this time has passed, and [`PORT_CLOSED`] when the port was closed before or meanwhile.
    pub take: unsafe extern "system" fn(
        port: Handle,
        packets: *mut Packet,
        count: u32,
        milliseconds: u32,
    ) -> u32,
}

/// One completion: `OVERLAPPED_ENTRY`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet {
    /// `lpCompletionKey`.
    pub key: usize,
    /// `lpOverlapped`.
    pub overlapped: *mut Overlapped,
    /// `Internal`: the status.
    pub internal: usize,
    /// `dwNumberOfBytesTransferred`.
    pub bytes: u32,
}

/// The table of an overlapped file.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FileTable {
    /// Size, kind and references.
    pub handle: HandleTable,
    /// From now on the end of every pending request of the file's objects appends a packet with this key to `port` (ADPT-007).
    ///
    /// Returns [`INVALID_PARAMETER`](Status::INVALID_PARAMETER) if the file has a port already.
    pub associate: unsafe extern "system" fn(file: Handle, port: Handle, key: usize) -> Status,
    /// Adds a watcher, which is called at the end of each request of the file's objects, after `OVERLAPPED.Internal` was written, until
    /// [`unwatch`](Self::unwatch). Win32's GetOverlappedResult uses it to sleep if an `OVERLAPPED` has no event.
    pub watch: unsafe extern "system" fn(file: Handle, watcher: *const Watcher),
    /// Removes a watcher. A call of the watcher under way in another thread has ended when this returns.
    pub unwatch: unsafe extern "system" fn(file: Handle, watcher: *const Watcher),
    /// Returns true in the child of a fork if the parent has made the file: no request of its objects ends in the child.
    pub is_of_parent: unsafe extern "system" fn(file: Handle) -> Bool,
}
