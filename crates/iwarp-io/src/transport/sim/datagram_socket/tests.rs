use std::time::Duration;

use super::*;
use crate::progress::readiness::Edges;
use crate::simulation::Conditions;
use crate::simulation::world::tests::tokens;
use crate::simulation::world::{Mode, SimSet};

const NOW: Option<Duration> = Some(Duration::ZERO);

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

/// Two sockets of one world.
fn pair(world: &World) -> (DatagramSocket, DatagramSocket) {
    let bind = |address| DatagramSocket::bind(world, address).unwrap();
    (bind(address(1, 0)), bind(address(2, 7000)))
}

#[test]
fn a_datagram_is_received_once_with_its_sender_and_its_ecn_bits() {
    let world = World::new(1, Conditions::default());
    let (one, other) = pair(&world);
    one.send_to(other.local(), 0b10, b"whole").unwrap();
    one.send_to(other.local(), 0b11, b"shortened").unwrap();
    one.send_to(other.local(), 0, b"").unwrap();
    let mut buffer = [0; 5];
    let early = other.recv_from(&mut buffer).unwrap_err();
    assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
    world.pass(Duration::from_millis(1));
    for (text, ecn) in [(&b"whole"[..], 0b10), (b"short", 0b11), (b"", 0)] {
        let received = other.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..received.len], text);
        assert_eq!((received.from, received.ecn), (one.local(), ecn));
    }
    let late = other.recv_from(&mut buffer).unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn an_edge_is_reported_for_each_datagram_and_a_level_until_all_are_taken() {
    let world = World::new(2, Conditions::default());
    let (one, other) = pair(&world);
    let (edges, levels) = (SimSet::new(&world), SimSet::new(&world));
    edges
        .add(other.source(), 1, Mode::Edge(Edges::READ))
        .unwrap();
    levels.add(other.source(), 2, Mode::Level).unwrap();
    assert_eq!(tokens(&edges, NOW), [], "nothing was received yet");
    assert_eq!(tokens(&levels, NOW), [], "a socket is no source of room");
    let mut buffer = [0; 8];
    for _ in 0..2 {
        one.send_to(other.local(), 0, b"x").unwrap();
        assert_eq!(tokens(&edges, None), [1], "the wait moves the clock");
        assert_eq!(tokens(&edges, NOW), [], "an edge is reported once");
        assert_eq!(tokens(&levels, NOW), [2]);
    }
    other.recv_from(&mut buffer).unwrap();
    assert_eq!(tokens(&levels, NOW), [2], "a second one waits");
    other.recv_from(&mut buffer).unwrap();
    assert_eq!(tokens(&levels, NOW), []);
    // A set reports a source that is ready when it is added.
    one.send_to(other.local(), 0, b"x").unwrap();
    assert_eq!(tokens(&levels, None), [2]);
    let late = SimSet::new(&world);
    late.add(other.source(), 3, Mode::Edge(Edges::READ))
        .unwrap();
    assert_eq!(tokens(&late, NOW), [3]);
}

#[test]
fn a_sender_is_told_when_no_socket_has_the_address() {
    let world = World::new(3, Conditions::default());
    let (one, other) = pair(&world);
    let (gone, never) = (other.local(), address(3, 9));
    let (edges, levels) = (SimSet::new(&world), SimSet::new(&world));
    edges.add(one.source(), 1, Mode::Edge(Edges::READ)).unwrap();
    levels.add(one.source(), 2, Mode::Level).unwrap();
    // The socket is closed while the datagram is on its way.
    one.send_to(gone, 0, b"anybody?").unwrap();
    drop(other);
    assert_eq!(tokens(&edges, None), [1]);
    assert_eq!(tokens(&levels, NOW), [2]);
    assert!(world.time() > Duration::ZERO);
    one.send_to(never, 0, b"first").unwrap();
    one.send_to(never, 0, b"second").unwrap();
    world.pass(Duration::from_millis(1));
    assert_eq!(one.take_refused(), Some(gone));
    assert_eq!(one.take_refused(), Some(never));
    assert_eq!(one.take_refused(), None, "each address is reported once");
    assert_eq!(tokens(&levels, NOW), []);
    let error = one.recv_from(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_dropped_socket_leaves_its_address_and_all_sets() {
    let world = World::new(4, Conditions::default());
    let (one, other) = pair(&world);
    let local = other.local();
    let set = SimSet::new(&world);
    let source = other.source();
    set.add(source, 1, Mode::Level).unwrap();
    one.send_to(local, 0, b"too late").unwrap();
    world.pass(Duration::from_millis(1));
    assert_eq!(tokens(&set, NOW), [1]);
    assert_eq!(
        world.report(),
        [
            format!("{}, datagrams: 0 received and not taken", one.local()),
            format!("{local}, datagrams: 1 received and not taken"),
        ]
    );
    drop(other);
    let gone = set.remove(source).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    let again = DatagramSocket::bind(&world, local).unwrap();
    assert!(
        again.recv_from(&mut [0; 8]).is_err(),
        "nothing is left over"
    );
}

#[test]
fn a_rebound_socket_is_reached_at_the_address_that_its_peer_sees() {
    let world = World::new(6, Conditions::default());
    let (one, other) = pair(&world);
    let seen = one.rebind().unwrap();
    assert_ne!(seen, one.local());
    one.send_to(other.local(), 0, b"ping").unwrap();
    world.pass(Duration::from_millis(1));
    let from = other.recv_from(&mut [0; 8]).unwrap().from;
    assert_eq!(from, seen);
    other.send_to(one.local(), 0, b"lost").unwrap();
    other.send_to(from, 0, b"pong").unwrap();
    world.pass(Duration::from_millis(1));
    let mut buffer = [0; 8];
    let received = one.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..received.len], b"pong");
    assert_eq!(other.take_refused(), None);
}

#[test]
fn another_thread_is_turned_away() {
    let world = World::new(5, Conditions::default());
    let (one, other) = pair(&world);
    one.send_to(other.local(), 0, b"x").unwrap();
    one.send_to(address(3, 9), 0, b"x").unwrap();
    world.pass(Duration::from_millis(1));
    let (one, other, remote) = std::thread::spawn(move || {
        let check = |error: io::Error| assert!(error.to_string().contains("only the thread"));
        check(one.send_to(other.local(), 0, b"x").unwrap_err());
        check(other.recv_from(&mut [0; 8]).unwrap_err());
        check(DatagramSocket::bind(one.world(), address(4, 0)).unwrap_err());
        let remote = one.take_refused();
        (one, other, remote)
    })
    .join()
    .unwrap();
    assert_eq!(remote, None);
    assert_eq!(one.take_refused(), Some(address(3, 9)));
    assert_eq!(other.recv_from(&mut [0; 8]).unwrap().len, 1);
}
