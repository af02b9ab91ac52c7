//! The completion port of an adapter's overlapped files: packets arrive here as calls of the library.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::abi::{Handle, HandleKind, HandleTable, Packet, PortTable};

/// A completion port. Its handle is a pointer to it.
#[repr(C)]
pub(super) struct Port {
    table: &'static PortTable,
    state: Mutex<State>,
    /// The number of packets, to be read without the lock.
    queued: AtomicUsize,
    /// A packet has arrived, or [`wake`](Port::wake) was called: for threads that wait in a file.
    changed: Condvar,
    /// A packet has arrived and no thread waits in a file: for the adapter's own thread.
    left_alone: Condvar,
}

/// Notifies an event loop that it has work.
pub(super) type Ring = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    packets: VecDeque<Arrived>,
    /// Changes with every call of `wake`.
    wakes: u64,
    /// Threads that wait in files.
    parked: usize,
    is_closed: bool,
    /// Called when a packet arrives and by `wake`: for event loops.
    bells: Vec<Ring>,
}

/// A packet. The pointer only identifies the request.
struct Arrived(Packet);

// SAFETY: the pointer in the packet only identifies a request, and is not dereferenced.
unsafe impl Send for Arrived {}

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
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            table: &TABLE,
            state: Mutex::default(),
            queued: AtomicUsize::new(0),
            changed: Condvar::new(),
            left_alone: Condvar::new(),
        })
    }

    /// The handle, without a separate reference.
    pub(super) fn handle(self: &Arc<Self>) -> Handle {
        Arc::as_ptr(self).cast_mut().cast()
    }

    /// The oldest packet.
    pub(super) fn pop(&self) -> Option<Packet> {
        self.state
            .lock()
            .packets
            .pop_front()
            .map(|arrived| arrived.0)
    }

    /// Lets all threads in [`park`](Self::park) look again.
    pub(super) fn wake(&self) {
        let mut state = self.state.lock();
        state.wakes += 1;
        for ring in &state.bells {
            ring();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Calls `ring` whenever a packet arrives, and in `wake`.
    pub(super) fn add_bell(&self, ring: Ring) {
        self.state.lock().bells.push(ring);
    }

    /// Stops calling `ring`.
    pub(super) fn remove_bell(&self, ring: &Ring) {
        let mut state = self.state.lock();
        state.bells.retain(|known| !Arc::ptr_eq(known, ring));
    }

    /// Returns true if no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.load(Ordering::SeqCst) == 0
    }

    /// Calls `drain` whenever there are packets, until `done` returns true or the deadline has passed.
    pub(super) fn park(
        &self,
        drain: &dyn Fn(),
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) {
        let mut state = self.state.lock();
        state.parked += 1;
        loop {
            let wakes = state.wakes;
            let has_packets = !state.packets.is_empty();
            drop(state);
            if has_packets {
                drain();
            }
            let is_over = done() || deadline.is_some_and(|deadline| deadline <= Instant::now());
            state = self.state.lock();
            if is_over {
                break;
            }
            if state.wakes == wakes && state.packets.is_empty() {
                match deadline {
                    Some(deadline) => drop(self.changed.wait_until(&mut state, deadline)),
                    None => self.changed.wait(&mut state),
                }
            }
        }
        state.parked -= 1;
        if state.parked == 0 && !state.packets.is_empty() {
            self.left_alone.notify_one();
        }
    }

    /// Waits for packets that no thread in a file takes. Returns false when the port is closed.
    pub(super) fn wait_alone(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return false;
            }
            // Threads that wait in files take packets, and notify this thread when they leave some.
            if !state.packets.is_empty() && state.parked == 0 {
                return true;
            }
            self.left_alone.wait(&mut state);
        }
    }

    /// Ends the adapter's own thread.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.left_alone.notify_all();
        self.changed.notify_all();
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
    let packet = unsafe { packet.read() };
    let mut state = port.state.lock();
    state.packets.push_back(Arrived(packet));
    let is_alone = state.parked == 0;
    port.queued.store(state.packets.len(), Ordering::SeqCst);
    for ring in &state.bells {
        ring();
    }
    drop(state);
    if is_alone {
        port.left_alone.notify_one();
    } else {
        port.changed.notify_all();
    }
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

/// A packet without a request, which ends nothing.
#[cfg(test)]
pub(super) fn empty_packet() -> Packet {
    Packet {
        key: 0,
        overlapped: std::ptr::null_mut(),
        internal: 0,
        bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_reaches_whoever_waits_and_the_own_thread_otherwise() {
        let port = Port::new();
        let packet = empty_packet();
        // SAFETY: the port's own handle.
        unsafe { post(port.handle(), &raw const packet) };
        assert!(port.wait_alone());
        let drained = Mutex::new(0);
        let drain = || {
            while port.pop().is_some() {
                *drained.lock() += 1;
            }
        };
        port.park(&drain, &|| *drained.lock() > 0, None);
        assert_eq!(*drained.lock(), 1);
        let sent = std::thread::spawn({
            let port = Arc::clone(&port);
            // SAFETY: the port's own handle.
            move || unsafe {
                post(
                    port.handle(),
                    &raw const *Box::leak(Box::new(empty_packet())),
                )
            }
        });
        port.park(&drain, &|| *drained.lock() > 1, None);
        sent.join().unwrap();
        port.close();
        assert!(!port.wait_alone());
    }
}
