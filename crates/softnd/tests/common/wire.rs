//! The octets that two sides exchange: a relay that records them, and a reader of FPDUs that shares no code with the engine.

use std::cell::RefCell;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::SIMULATED;
use super::raw::{self, Peer, Server};

/// There is a marker at every 512th octet of the stream, counted from its first FPDU (RFC 5044 §4.3).
const MARKER_EVERY: usize = 512;
const MARKER: usize = 4;

type Octets = Arc<Mutex<Vec<u8>>>;

/// Relays one connection and records its octets. The relay records octets before it passes them on, so that it has all octets that a
/// side has received.
pub struct Relay {
    pub address: SocketAddr,
    passed: [Octets; 2],
}

impl Relay {
    /// Listens on a free port, and connects on to `target`.
    pub fn to(target: SocketAddr) -> Self {
        let (server, address) = raw::server();
        let passed = [Octets::default(), Octets::default()];
        if SIMULATED {
            let relay = Simulated::Listening(server, target, passed.clone());
            RELAYS.with_borrow_mut(|relays| relays.push(relay));
            return Self { address, passed };
        }
        let [there, back] = passed.clone();
        thread::spawn(move || {
            let (Peer::Tcp(active), Peer::Tcp(passive)) = (server.accept(), raw::dial(target))
            else {
                unreachable!("of the system");
            };
            let ends = (passive.try_clone().unwrap(), active.try_clone().unwrap());
            thread::spawn(move || forward(ends.0, ends.1, &back));
            forward(active, passive, &there);
        });
        Self { address, passed }
    }

    /// The octets that the active side has sent, and those of the passive side.
    pub fn octets(&self) -> [Vec<u8>; 2] {
        self.passed
            .each_ref()
            .map(|passed| passed.lock().unwrap().clone())
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, passed: &Octets) {
    let mut octets = vec![0; 1 << 16];
    // A side that resets the connection ends the relay too.
    while let Ok(count @ 1..) = from.read(&mut octets) {
        passed.lock().unwrap().extend_from_slice(&octets[..count]);
        if to.write_all(&octets[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

thread_local! {
    /// The relays of this test in its simulated network, driven by the waits of the test.
    static RELAYS: RefCell<Vec<Simulated>> = const { RefCell::new(Vec::new()) };
}

/// A relay in a simulated network.
enum Simulated {
    Listening(Server, SocketAddr, [Octets; 2]),
    /// The active and the passive side, and the octets that each of them has sent.
    Connected([Peer; 2], [Direction; 2]),
}

struct Direction {
    passed: Octets,
    /// Octets that have been passed on.
    sent: usize,
    ended: bool,
}

impl Simulated {
    fn relay(&mut self) {
        if let Self::Listening(server, target, passed) = self
            && let Some(active) = server.try_accept()
        {
            let directions = passed.clone().map(|passed| Direction {
                passed,
                sent: 0,
                ended: false,
            });
            *self = Self::Connected([active, raw::dial(*target)], directions);
        }
        if let Self::Connected([active, passive], [there, back]) = self {
            there.forward(active, passive);
            back.forward(passive, active);
        }
    }
}

impl Direction {
    fn forward(&mut self, from: &mut Peer, to: &mut Peer) {
        let mut passed = self.passed.lock().unwrap();
        let mut octets = vec![0; 1 << 16];
        while !self.ended {
            match from.try_read(&mut octets) {
                Ok(count @ 1..) => passed.extend_from_slice(&octets[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => self.ended = true,
            }
        }
        while self.sent < passed.len() {
            match to.try_write(&passed[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(_) => return,
            }
        }
        if self.ended {
            let _ = to.shutdown();
        }
    }
}

/// Passes on the octets that have arrived at the relays of this test. Returns true if there is a relay.
pub fn relay() -> bool {
    RELAYS.with_borrow_mut(|relays| {
        relays.iter_mut().for_each(Simulated::relay);
        !relays.is_empty()
    })
}
/// The number of octets that each FPDU takes on the wire, markers included, in a stream that begins with its start-up frame.
///
/// # Panics
/// If the stream does not consist of whole FPDUs, with a right marker in each place or with none at all, according to `markers`.
pub fn fpdus(stream: &[u8], markers: bool) -> Vec<usize> {
    let private_data = u16::from_be_bytes([stream[18], stream[19]]);
    let stream = &stream[20 + usize::from(private_data)..];
    let is_marker = |at: usize| markers && at % MARKER_EVERY < MARKER;
    // The index of each octet that belongs to no marker.
    let places: Vec<_> = (0..stream.len()).filter(|at| !is_marker(*at)).collect();
    let mut left = &places[..];
    let mut lengths = Vec::new();
    let mut begin = 0;
    while let [high, low, ..] = *left {
        let ulpdu = usize::from(u16::from_be_bytes([stream[high], stream[low]]));
        assert!(ulpdu >= 14, "no DDP segment has {ulpdu} octets, at {begin}");
        let fpdu = (2 + ulpdu).next_multiple_of(4) + 4;
        assert!(fpdu <= left.len(), "a cut FPDU at {begin}");
        let (this, rest) = left.split_at(fpdu);
        let end = rest.first().copied().unwrap_or(stream.len());
        // A marker between two FPDUs belongs to the second one and points at it.
        let end = end - if end > this[fpdu - 1] + 1 { MARKER } else { 0 };
        for at in (begin..end).filter(|at| markers && at % MARKER_EVERY == 0) {
            let back = u16::try_from(at.saturating_sub(this[0])).unwrap();
            let marker = [[0; 2], back.to_be_bytes()].concat();
            assert_eq!(stream[at..at + MARKER], marker, "the marker at {at}");
        }
        lengths.push(end - begin);
        (begin, left) = (end, rest);
    }
    assert_eq!(left.len(), 0, "a cut FPDU at {begin}");
    lengths
}
