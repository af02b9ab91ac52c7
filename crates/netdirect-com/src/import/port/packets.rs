//! Packets that have arrived in the completion port of an adapter's overlapped files, and the threads that wait for them.

use std::collections::VecDeque;
#[cfg(any(unix, test))]
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::abi::Packet;

/// The packets that have arrived.
#[derive(Default)]
pub(in crate::import) struct Packets {
    state: Mutex<State>,
    /// The number of packets, to be read without the lock.
    queued: AtomicUsize,
    /// A packet has arrived, or [`wake`](Packets::wake) was called: for threads that wait in a file.
    changed: Condvar,
    /// A packet has arrived and no thread waits in a file: for the adapter's own thread.
    left_alone: Condvar,
}

/// Notifies an event loop that it has work.
#[cfg(unix)]
pub(in crate::import) type Ring = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    packets: VecDeque<Arrived>,
    /// Changes with every call of `wake`.
    wakes: u64,
    /// Threads that wait in files.
    parked: usize,
    is_closed: bool,
    /// Called when a packet arrives and by `wake`: for event loops.
    #[cfg(unix)]
    bells: Vec<Ring>,
}

impl State {
    #[cfg(unix)]
    fn ring(&self) {
        for ring in &self.bells {
            ring();
        }
    }

    /// There are no event loops here.
    #[cfg(not(unix))]
    #[expect(clippy::unused_self, reason = "other systems have bells")]
    fn ring(&self) {}
}

/// A packet. The pointer only identifies the request.
struct Arrived(Packet);

// SAFETY: the pointer in the packet only identifies a request, and is not dereferenced.
unsafe impl Send for Arrived {}

impl Packets {
    /// Appends a packet.
    pub(super) fn push(&self, packet: Packet) {
        let mut state = self.state.lock();
        state.packets.push_back(Arrived(packet));
        let is_alone = state.parked == 0;
        self.queued.store(state.packets.len(), Ordering::SeqCst);
        state.ring();
        drop(state);
        if is_alone {
            self.left_alone.notify_one();
        } else {
            self.changed.notify_all();
        }
    }

    /// The oldest packet.
    pub(in crate::import) fn pop(&self) -> Option<Packet> {
        self.state
            .lock()
            .packets
            .pop_front()
            .map(|arrived| arrived.0)
    }

    /// Lets all threads in [`park`](Self::park) look again.
    pub(in crate::import) fn wake(&self) {
        let mut state = self.state.lock();
        state.wakes += 1;
        state.ring();
        drop(state);
        self.changed.notify_all();
    }

    /// Calls `ring` whenever a packet arrives, and in `wake`.
    #[cfg(unix)]
    pub(in crate::import) fn add_bell(&self, ring: Ring) {
        self.state.lock().bells.push(ring);
    }

    /// Stops calling `ring`.
    #[cfg(unix)]
    pub(in crate::import) fn remove_bell(&self, ring: &Ring) {
        let mut state = self.state.lock();
        state.bells.retain(|known| !Arc::ptr_eq(known, ring));
    }

    /// Returns true if no packet waits.
    pub(in crate::import) fn is_empty(&self) -> bool {
        self.queued.load(Ordering::SeqCst) == 0
    }

    /// Calls `drain` whenever there are packets, until `done` returns true or the deadline has passed.
    pub(in crate::import) fn park(
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
    pub(in crate::import) fn wait_alone(&self) -> bool {
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
    pub(in crate::import) fn close(&self) {
        self.state.lock().is_closed = true;
        self.left_alone.notify_all();
        self.changed.notify_all();
    }
}

/// A packet without a request, which ends nothing.
#[cfg(test)]
pub(in crate::import) fn empty_packet() -> Packet {
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
        let port = Arc::new(Packets::default());
        port.push(empty_packet());
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
            move || port.push(empty_packet())
        });
        port.park(&drain, &|| *drained.lock() > 1, None);
        sent.join().unwrap();
        port.close();
        assert!(!port.wait_alone());
    }
}
