//! A port of the system: a thread brings its packets here, and does nothing else. So it can be waited for in any call of a client.

use std::io;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::thread;

use netdirect::{Error, Result, Status};
use parking_lot::{Condvar, Mutex};

use super::packets::Packets;
use crate::abi::{Handle, Packet};
use crate::handle::{INFINITE, PortRef};

/// A completion port.
pub(in crate::import) struct Port {
    system: PortRef,
    arrived: Arc<Arrived>,
}

#[derive(Default)]
struct Arrived {
    packets: Packets,
    settled: Mutex<Settled>,
    changed: Condvar,
}

/// How many packets with the key [`SETTLE`] were posted, and how many have arrived.
#[derive(Default)]
struct Settled {
    asked: u64,
    done: u64,
}

/// The key of a packet behind which nothing that was posted before is left. Files have the key 0.
const SETTLE: usize = 1;

/// The key of the last packet.
const STOP: usize = 2;

impl Port {
    /// Packets arrive by a thread, a little later than the call that has posted them returns.
    pub(in crate::import) const BRINGS_LATER: bool = true;

    /// A new port, with its thread.
    ///
    /// # Errors
    ///
    /// [`INSUFFICIENT_RESOURCES`](Status::INSUFFICIENT_RESOURCES): there is no port, or no thread.
    pub(in crate::import) fn new() -> Result<Arc<Self>> {
        let lacks = |what, error: io::Error| {
            Error::new(
                Status::INSUFFICIENT_RESOURCES,
                format!("no {what} for the adapter's requests: {error}"),
            )
        };
        let system = PortRef::try_create().map_err(|error| lacks("completion port", error))?;
        let arrived: Arc<Arrived> = Arc::default();
        let (from, to) = (system.clone(), Arc::clone(&arrived));
        let thread = thread::Builder::new().name("netdirect-com".to_owned());
        thread
            .spawn(move || bring(&from, &to))
            .map_err(|error| lacks("thread", error))?;
        Ok(Arc::new(Self { system, arrived }))
    }

    /// The handle, which is open as long as this value lives.
    pub(in crate::import) fn handle(&self) -> Handle {
        self.system.handle()
    }

    /// Waits until the packets that the library has posted before have arrived.
    pub(in crate::import) fn settle(&self) {
        let mut settled = self.arrived.settled.lock();
        if self.post(SETTLE).is_err() {
            // The packets arrive all the same, a little later.
            return;
        }
        settled.asked += 1;
        let own = settled.asked;
        while settled.done < own {
            self.arrived.changed.wait(&mut settled);
        }
    }

    /// Ends the port's thread, and the adapter's own one.
    pub(in crate::import) fn close(&self) {
        self.arrived.packets.close();
        while self.post(STOP).is_err() {
            // The system has no memory for a packet just now, and the thread must not be left.
            thread::yield_now();
        }
    }

    fn post(&self, key: usize) -> io::Result<()> {
        self.system.try_post(&Packet {
            key,
            overlapped: ptr::null_mut(),
            internal: 0,
            bytes: 0,
        })
    }
}

impl Deref for Port {
    type Target = Packets;

    fn deref(&self) -> &Packets {
        &self.arrived.packets
    }
}

fn bring(from: &PortRef, to: &Arrived) {
    while let Ok(packet) = from.take_one(INFINITE) {
        match packet {
            Some(Packet { key: SETTLE, .. }) => {
                to.settled.lock().done += 1;
                to.changed.notify_all();
            }
            Some(Packet { key: STOP, .. }) => return,
            Some(packet) => to.packets.push(packet),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_posted_has_arrived_when_the_port_has_settled() {
        let port = Port::new().unwrap();
        // SAFETY: a port.
        let of_library = unsafe { PortRef::retain(port.handle()) }.unwrap();
        for round in 1..=200_usize {
            for offset in 0..3 {
                let overlapped = ptr::without_provenance_mut(round * 64 + offset);
                of_library.post(&Packet {
                    overlapped,
                    ..super::super::packets::empty_packet()
                });
            }
            port.settle();
            let arrived = [(); 3].map(|()| port.pop().unwrap().overlapped.addr() - round * 64);
            assert_eq!(arrived, [0, 1, 2]);
            assert!(port.pop().is_none());
        }
        // The thread ends, and gives its reference back.
        let arrived = Arc::downgrade(&port.arrived);
        port.close();
        drop(port);
        while arrived.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
