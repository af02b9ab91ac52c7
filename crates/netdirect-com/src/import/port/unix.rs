//! A port where a handle points to a table of functions: packets arrive as calls of the library.

use std::ops::Deref;
use std::sync::Arc;

use netdirect::Result;

use super::packets::Packets;
use crate::abi::{Handle, HandleKind, HandleTable, Packet, PortTable};

/// A completion port. Its handle is a pointer to it.
#[repr(C)]
pub(in crate::import) struct Port {
    table: &'static PortTable,
    packets: Packets,
}

static TABLE: PortTable = PortTable {
    handle: HandleTable {
        #[expect(clippy::cast_possible_truncation, reason = "a table of a few words")]
        size: size_of::<PortTable>() as u32,
        kind: HandleKind::PORT,
        add_ref,
        release,
        close: release,
    },
    post,
    take,
};

impl Port {
    /// Packets arrive in the calls of the library that post them.
    pub(in crate::import) const BRINGS_LATER: bool = false;

    #[expect(
        clippy::unnecessary_wraps,
        reason = "Windows may have no room for a port"
    )]
    pub(in crate::import) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            table: &TABLE,
            packets: Packets::default(),
        }))
    }

    /// The handle, without a separate reference.
    pub(in crate::import) fn handle(self: &Arc<Self>) -> Handle {
        Arc::as_ptr(self).cast_mut().cast()
    }

    /// Waits until the packets that the library has posted before have arrived.
    #[expect(clippy::unused_self, reason = "the system's ports need it")]
    pub(in crate::import) fn settle(&self) {}
}

impl Deref for Port {
    type Target = Packets;

    fn deref(&self) -> &Packets {
        &self.packets
    }
}

/// The port behind a handle.
///
/// # Safety
///
/// The handle was made by [`Port::handle`], and the caller has a reference.
unsafe fn port<'a>(handle: Handle) -> &'a Port {
    // SAFETY: the contract of this function.
    unsafe { &*handle.cast::<Port>() }
}

unsafe extern "system" fn add_ref(handle: Handle) {
    // SAFETY: only these ports have this table, and the caller has a reference.
    unsafe { Arc::increment_strong_count(handle.cast::<Port>().cast_const()) };
}

unsafe extern "system" fn release(handle: Handle) {
    // SAFETY: as above, and the caller gives its reference back.
    unsafe { Arc::decrement_strong_count(handle.cast::<Port>().cast_const()) };
}

unsafe extern "system" fn post(handle: Handle, packet: *const Packet) {
    // SAFETY: only these ports have this table, and the caller has a reference.
    let port = unsafe { port(handle) };
    // SAFETY: the caller passes a packet.
    port.packets.push(unsafe { packet.read() });
}

/// Only the adapter takes packets.
unsafe extern "system" fn take(
    _handle: Handle,
    _packets: *mut Packet,
    _count: u32,
    _milliseconds: u32,
) -> u32 {
    0
}
