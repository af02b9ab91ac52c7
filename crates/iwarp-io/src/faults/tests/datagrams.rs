//! The faults of a plan on datagrams.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::*;

/// One socket under a plan. Datagrams consist of their number.
struct Socket {
    faults: Arc<Faults>,
    datagrams: DatagramFaults,
    now: Instant,
    next: u8,
}

fn peer() -> SocketAddr {
    "10.0.0.7:99".parse().unwrap()
}

fn faults(text: &str) -> Arc<Faults> {
    Faults::new(text.parse().unwrap_or_else(|error| panic!("{error}")))
}

fn socket(text: &str) -> Socket {
    let faults = faults(text);
    Socket {
        datagrams: faults.datagrams(true).expect("a rule is about it"),
        faults,
        now: Instant::now(),
        next: 1,
    }
}

impl Socket {
    fn pass(&mut self, direction: Direction, peer: SocketAddr) -> (Vec<Vec<u8>>, Passed) {
        let datagram = PassingDatagram {
            peer,
            ecn: 2,
            octets: vec![self.next],
        };
        self.next += 1;
        let mut out = VecDeque::new();
        let passed = self.datagrams.pass(direction, self.now, datagram, &mut out);
        assert!(out.iter().all(|datagram| datagram.ecn == 2));
        let octets = out.into_iter().map(|datagram| datagram.octets);
        (octets.collect(), passed)
    }

    /// Sends `count` datagrams, and returns the numbers of those that pass.
    fn send(&mut self, count: u8) -> Vec<u8> {
        let sent = (0..count).flat_map(|_| self.pass(Direction::Sent, peer()).0);
        sent.flatten().collect()
    }

    /// Lets time pass, and returns the numbers of the datagrams that pass meanwhile.
    fn later(&mut self, time: Duration) -> Vec<u8> {
        self.now += time;
        let mut out = VecDeque::new();
        self.datagrams.awake(Direction::Sent, self.now, &mut out);
        out.into_iter()
            .flat_map(|datagram| datagram.octets)
            .collect()
    }

    fn happened(&self) -> Vec<u64> {
        self.faults.happened().map(|(_, count)| count).collect()
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn datagrams_are_lost_and_doubled() {
    let mut socket =
        socket("when every 3rd datagram sent: drop; when every 4th datagram sent: duplicate");
    assert_eq!(socket.send(9), [1, 2, 4, 4, 5, 7, 8, 8]);
    assert_eq!(socket.happened(), [3, 2]);
    // If several rules select a datagram that is lost, those behind the loss do nothing.
    assert_eq!(socket.send(3), [10, 11]);
    assert_eq!(socket.happened(), [4, 2]);
    assert_eq!(socket.datagrams.wake_at(), None);
}

#[test]
fn datagrams_are_overtaken_by_others() {
    let mut socket = socket(
        "when 1st datagram sent: delay behind 3 datagrams; when 2nd datagram sent: delay behind 1 datagram",
    );
    assert_eq!(socket.send(6), [3, 2, 4, 1, 5, 6]);
    assert_eq!(socket.happened(), [1, 1]);
}

#[test]
fn datagrams_are_late_by_a_time() {
    let mut socket = socket(
        "when 1st datagram sent: delay for 5 ms; when 2nd datagram sent: delay for 3 ms; when 3rd datagram sent: duplicate; \
         when 3rd datagram sent: delay for 3 ms; when 3rd datagram sent: delay for 1 ms",
    );
    let start = socket.now;
    assert_eq!(socket.send(4), [4]);
    assert_eq!(socket.datagrams.wake_at(), Some(start + 3 * MS));
    assert_eq!(socket.later(2 * MS), []);
    assert_eq!(socket.later(MS), [2, 3, 3]);
    assert_eq!(socket.datagrams.wake_at(), Some(start + 5 * MS));
    assert_eq!(socket.later(10 * MS), [1]);
    assert_eq!(socket.datagrams.wake_at(), None);
    assert_eq!(socket.happened(), [1, 1, 1, 1, 0]);
}

#[test]
fn a_time_beyond_all_clocks_is_a_loss() {
    let mut socket = socket("when 1st datagram sent: delay for 18446744073709551615 s");
    assert_eq!(socket.send(2), [2]);
    assert_eq!(socket.datagrams.wake_at(), None);
}

#[test]
fn bits_are_flipped_where_there_are_any() {
    let mut socket = socket(
        "when each datagram sent: flip bit 0 of payload; when 2nd datagram sent: flip bit 7 of payload; \
         when each datagram sent: flip bit 8 of payload",
    );
    assert_eq!(socket.send(2), [0x81, 0x83]);
    assert_eq!(socket.happened(), [2, 1, 0]);
}

#[test]
fn a_socket_is_rebound_if_the_owner_connects_from_it() {
    let rule = "when 2nd datagram received: rebind";
    let mut socket = socket(rule);
    let mut receive = || socket.pass(Direction::Received, peer()).1;
    let passed = [receive(), receive(), receive()];
    assert_eq!(passed, [Passed::AsEver, Passed::Rebind, Passed::AsEver]);
    assert_eq!(socket.happened(), [1]);
    assert!(faults(rule).datagrams(false).is_none());
}

#[test]
fn sockets_directions_and_peers_are_counted_apart() {
    let text = "when 2nd datagram sent: drop; when 1st datagram received: drop; \
                when 1st datagram sent with peer 10.0.0.8: drop; when 5th datagram sent over all sockets: drop; \
                when each datagram sent on socket 2: duplicate";
    let mut first = socket(text);
    assert_eq!(first.send(3), [1, 3]);
    assert_eq!(first.pass(Direction::Received, peer()).0.len(), 0);
    assert_eq!(first.pass(Direction::Received, peer()).0.len(), 1);
    let other = "10.0.0.8:1".parse().unwrap();
    assert_eq!(first.pass(Direction::Sent, other).0.len(), 0);
    let second = Socket {
        datagrams: first.faults.datagrams(true).unwrap(),
        faults: Arc::clone(&first.faults),
        now: first.now,
        next: 1,
    };
    let mut second = second;
    // The first one is the fifth overall.
    assert_eq!(second.send(3), [3, 3]);
    assert_eq!(second.happened(), [2, 1, 1, 1, 1]);
}

#[test]
fn late_datagrams_that_are_too_many_are_lost() {
    let mut socket = socket("when each datagram received: delay for 1 ms");
    let mut out = VecDeque::new();
    for _ in 0..70 {
        let datagram = PassingDatagram {
            peer: peer(),
            ecn: 0,
            octets: vec![0; 1024 * 1024],
        };
        let direction = Direction::Received;
        let passed = socket
            .datagrams
            .pass(direction, socket.now, datagram, &mut out);
        assert_eq!(passed, Passed::AsEver);
    }
    assert!(out.is_empty());
    let later = socket.now + MS;
    socket.datagrams.awake(Direction::Received, later, &mut out);
    assert_eq!(out.len(), 64);
}

#[test]
fn a_plan_without_datagrams_costs_a_socket_nothing() {
    let faults = faults("when each FPDU sent: reset; when each datagram sent on socket 2: drop");
    assert!(faults.datagrams(true).is_none());
    assert!(faults.datagrams(false).is_some());
}
