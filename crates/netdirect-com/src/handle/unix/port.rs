//! Completion ports of this library.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::slice;
use std::sync::Arc;

use super::refs::{PortRef, table_size};
use super::sync::{Condvar, Mutex};
use crate::abi::{Handle, HandleKind, HandleTable, PORT_CLOSED, Packet, PortTable};
use crate::handle::limit::deadline;

/// A completion port. Its handle is a pointer to it.
#[derive(Debug)]
#[repr(C)]
struct Port {
    table: &'static PortTable,
    state: Mutex<State>,
    posted: Condvar,
}

#[derive(Debug, Default)]
struct State {
    packets: VecDeque<Packet>,
    /// Threads that wait for a packet.
    waiting: usize,
    is_closed: bool,
}

// SAFETY: the pointers in packets are handed on, and not used.
unsafe impl Send for State {}

static TABLE: PortTable = PortTable {
    handle: HandleTable {
        size: table_size::<PortTable>(),
        kind: HandleKind::PORT,
        add_ref,
        release,
        close,
    },
    post,
    take,
};

impl PortRef {
    /// A new port without packets.
    pub fn create() -> Self {
        let port = Arc::new(Port {
            table: &TABLE,
            state: Mutex::new(State::default()),
            posted: Condvar::default(),
        });
        let handle = Arc::into_raw(port).cast_mut().cast();
        // SAFETY: the table is that of the object, whose only reference goes to the new value.
        unsafe { Self::from_reference(handle, &TABLE) }
    }
}

impl Port {
    fn post(&self, packet: Packet) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        state.packets.push_back(packet);
        if state.waiting > 0 {
            self.posted.notify_one();
        }
    }

    fn take(&self, room: &mut [MaybeUninit<Packet>], milliseconds: u32) -> u32 {
        let mut state = self.state.lock();
        if state.packets.is_empty() && !state.is_closed && milliseconds > 0 {
            let deadline = deadline(milliseconds);
            let mut has_passed = false;
            state.waiting += 1;
            while state.packets.is_empty() && !state.is_closed && !has_passed {
                (state, has_passed) = self.posted.wait(state, deadline);
            }
            state.waiting -= 1;
        }
        if state.is_closed {
            return PORT_CLOSED;
        }
        let count = state.packets.len().min(room.len());
        for (place, packet) in room.iter_mut().zip(state.packets.drain(..count)) {
            place.write(packet);
        }
        u32::try_from(count).expect("the room has a length of 32 bits")
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.packets.clear();
        self.posted.notify_all();
    }
}

/// The port behind a handle.
///
/// # Safety
///
/// The table of the object is [`TABLE`], and the caller has a reference to it.
unsafe fn port<'a>(handle: Handle) -> &'a Port {
    // SAFETY: only ports of this file have this table.
    unsafe { &*handle.cast::<Port>() }
}

unsafe extern "system" fn add_ref(handle: Handle) {
    // SAFETY: the object was made by `Arc::into_raw`, and the caller has a reference to it.
    unsafe { Arc::increment_strong_count(handle.cast::<Port>().cast_const()) };
}

unsafe extern "system" fn release(handle: Handle) {
    // SAFETY: as above, and the caller gives its reference back.
    unsafe { Arc::decrement_strong_count(handle.cast::<Port>().cast_const()) };
}

unsafe extern "system" fn close(handle: Handle) {
    // SAFETY: the contract of the table.
    unsafe { port(handle) }.close();
    // SAFETY: the caller gives the reference of the creator back.
    unsafe { release(handle) };
}

unsafe extern "system" fn post(handle: Handle, packet: *const Packet) {
    // SAFETY: the caller passes a packet that can be read.
    let packet = unsafe { packet.read() };
    // SAFETY: the contract of the table.
    unsafe { port(handle) }.post(packet);
}

unsafe extern "system" fn take(
    handle: Handle,
    packets: *mut Packet,
    count: u32,
    milliseconds: u32,
) -> u32 {
    if count == 0 {
        return 0;
    }
    // SAFETY: the caller passes room for `count` packets, which no other thread uses during the call.
    let room = unsafe { slice::from_raw_parts_mut(packets.cast(), count as usize) };
    // SAFETY: the contract of the table.
    unsafe { port(handle) }.take(room, milliseconds)
}
