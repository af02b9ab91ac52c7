//! What a `HANDLE` points to on systems that have no handles of Windows.
//!
//! A handle points to an object whose first word points to a table of functions. So a program, a library that it is linked with and one
//! that it loads at run time use each other's events, completion ports and overlapped files, each through the table of whoever made the
//! object. Every object counts its references. `CloseHandle` gives back the reference that the creator got; whoever keeps a handle
//! beyond a call takes a reference of its own.
//!
//! A table says how long it is, so that later versions can append functions; whoever calls one of those looks at `size` first.

use netdirect::Status;

use super::structures::Overlapped;
use super::words::{Bool, Handle};

/// The bit of `OVERLAPPED.hEvent` that keeps the end of a request out of the completion port (OVL-021). It is no part of the handle.
pub const WAKE_EVENT_BIT: usize = 1;

/// What kind of object a handle points to.
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

/// What the table of every object begins with.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HandleTable {
    /// Octets of the whole table.
    pub size: u32,
    /// The kind of the object.
    pub kind: HandleKind,
    /// Takes a reference.
    pub add_ref: unsafe extern "system" fn(handle: Handle),
    /// Gives a reference back. The last one frees the object.
    pub release: unsafe extern "system" fn(handle: Handle),
}

/// The table of an event.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventTable {
    /// Size, kind and references.
    pub handle: HandleTable,
    /// Sets the event. An event with automatic reset releases one thread.
    pub set: unsafe extern "system" fn(event: Handle),
    /// Resets the event.
    pub reset: unsafe extern "system" fn(event: Handle),
    /// Whether the event is set. An event with automatic reset is reset, so that one caller gets true.
    pub take: unsafe extern "system" fn(event: Handle) -> Bool,
    /// Calls `watcher` whenever the event is set, until [`unwatch`](Self::unwatch). Whoever watches looks with
    /// [`take`](Self::take) after this call, and after each call of the watcher.
    pub watch: unsafe extern "system" fn(event: Handle, watcher: *const Watcher),
    /// The watcher is called no more; a call under way in another thread has ended when this returns.
    pub unwatch: unsafe extern "system" fn(event: Handle, watcher: *const Watcher),
}

/// Somebody who waits for events. It lives until [`EventTable::unwatch`] has returned.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Watcher {
    /// The event was set. Called by any thread, with a lock of the event held: it calls no function of the event.
    pub wake: unsafe extern "system" fn(watcher: *const Self),
}

/// The table of a completion port.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PortTable {
    /// Size, kind and references.
    pub handle: HandleTable,
    /// Appends a packet. Calls no code of the client.
    pub post: unsafe extern "system" fn(port: Handle, packet: *const Packet),
    /// Takes up to `count` packets, the oldest first, and returns how many it took. Waits up to `milliseconds` for the first one;
    /// `0xFFFFFFFF` is for ever.
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
    /// Answers [`INVALID_PARAMETER`](Status::INVALID_PARAMETER) if the file has a port already.
    pub associate: unsafe extern "system" fn(file: Handle, port: Handle, key: usize) -> Status,
}
