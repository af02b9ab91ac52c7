//! A peer that has had thousands of connections guesses the STag of a later client's region (SEC-008, SEC-009), and peers whose
//! guesses are counted (SEC-036).

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use netdirect::{Adapter, Buffer, Counters, Listener, OpFlags, RemoteAddress, RemoteToken, Status};
use softnd::Options;
use softnd::simulation::Simulation;

/// Ordinary connections of the peer before it guesses.
const CONNECTIONS: usize = 4200;

/// Guesses, each of which costs a connection.
const GUESSES: usize = 300;

/// The contents of a region, and the octets that the peer writes into it.
const BEFORE: [u8; 64] = [0x55; 64];
const WRITTEN: [u8; 64] = [0xaa; 64];

/// Writes complete when the server has placed or refused them.
fn options() -> Options {
    Options::default().confirm_writes(true)
}

/// A server that registers a region for each connection, and a peer that knows all STags of its own regions.
struct Attack {
    server: Side,
    peer: Side,
    client: Side,
    listener: (Arc<dyn Listener>, std::net::SocketAddr),
    /// The server's memory, covered by each of its regions, as with an allocator that reuses freed memory.
    memory: Buffer,
}

impl Attack {
    /// The adapters of the server, of the peer, and of a client.
    fn new(adapters: [Arc<dyn Adapter>; 3]) -> Self {
        let [server, peer, client] = adapters.map(Side::on_adapter);
        let listener = server.listener(0);
        let memory = Buffer::new(BEFORE.len());
        memory.write(0, &BEFORE);
        Self {
            server,
            peer,
            client,
            listener,
            memory,
        }
    }

    fn connect(&self, from: &Side) -> Pair {
        let queue_pair = from.queue_pair();
        let (from, to) = (from.clone(), self.server.clone());
        connect_through(from, to, queue_pair, 1, self.listener.clone())
    }

    /// The status of a Write of 64 octets over a new connection.
    fn write(&self, from: &Side, source: &Region, to: RemoteAddress) -> Status {
        let pair = self.connect(from);
        let sges = [source.sge(0, WRITTEN.len())];
        let flags = OpFlags::empty();
        pair.active_qp.write(1, &sges, to, flags).unwrap();
        from.result().status
    }

    /// The tokens of the regions of many connections, which the server registers one after the other.
    fn ordinary_connections(&self) -> Vec<RemoteToken> {
        let connections = (0..CONNECTIONS).map(|_| {
            let region = self.server.register(&self.memory, ALL);
            drop(self.connect(&self.peer));
            region.remote(0).token
        });
        connections.collect()
    }

    fn run(&self) {
        let [source, clients] = [&self.peer, &self.client].map(|side| {
            let region = side.region(WRITTEN.len(), ALL);
            region.buffer.write(0, &WRITTEN);
            region
        });
        let known = self.ordinary_connections();
        let region = self.server.register(&self.memory, ALL);
        let at = region.remote(0);
        let client = self.connect(&self.client);
        for token in guesses(&known) {
            let status = self.write(&self.peer, &source, RemoteAddress { token, ..at });
            assert_eq!(status, Status::ACCESS_VIOLATION, "{token:?} was guessed");
        }
        assert_eq!(self.memory.to_vec(), BEFORE);

        // The client is not disturbed.
        let sges = [clients.sge(0, WRITTEN.len())];
        let qp = &client.active_qp;
        qp.write(2, &sges, at, OpFlags::empty()).unwrap();
        assert_eq!(self.client.result().status, Status::SUCCESS);
        assert_eq!(self.memory.to_vec(), WRITTEN);
    }
}

/// Tokens with the index that was used 4,096 registrations before the next one, with all keys, then the latest tokens.
fn guesses(known: &[RemoteToken]) -> impl Iterator<Item = RemoteToken> {
    let [a, b, c, _] = known[known.len() - 4096].to_bytes();
    let keys = (0..=u8::MAX).map(move |key| RemoteToken::from_bytes([a, b, c, key]));
    let latest = known.iter().rev().copied();
    keys.chain(latest).take(GUESSES)
}

fn simulated(simulation: &Simulation) {
    let adapters = [1, 2, 3].map(|host| simulation.open([10, 0, 0, host], options()).unwrap());
    Attack::new(adapters).run();
}

#[test]
fn sec_008_earlier_stags_do_not_help_to_guess_over_tcp() {
    simulated(&Simulation::new(1));
}

#[test]
fn sec_008_earlier_stags_do_not_help_to_guess_over_udp() {
    simulated(&Simulation::new(1).over_udp());
}

/// Runs the attack over sockets of the system.
fn real(url: &str) {
    Attack::new([(); 3].map(|()| softnd::open(url, options()).unwrap())).run();
}

#[test]
#[ignore = "5,000 connections over sockets, for the night"]
fn sec_008_earlier_stags_do_not_help_to_guess_over_tcp_sockets() {
    real("softnd+tcp://127.0.0.1");
}

#[test]
#[ignore = "5,000 connections over sockets, for the night"]
fn sec_008_earlier_stags_do_not_help_to_guess_over_udp_sockets() {
    real("softnd+udp://127.0.0.1");
}

/// Three hosts of one network, of which the first refuses peers for a minute after three protection faults.
fn three(simulation: &Simulation) -> [Side; 3] {
    let minute = Duration::from_secs(60);
    [1, 2, 3].map(|host| {
        let options = options().refuse_after_protection_faults(3, minute);
        Side::on_adapter(simulation.open([10, 0, 0, host], options).unwrap())
    })
}

fn counters(side: &Side) -> Counters {
    side.adapter.extensions().unwrap().counters()
}

/// SEC-036: the faults of each peer are counted, and a peer with many is refused, and no other one.
fn faults_are_counted_and_refused(simulation: &Simulation) {
    let [server, peer, other] = three(simulation);
    let source = peer.region(8, ALL);
    let nowhere = RemoteAddress::default();
    for faults in 1..=3 {
        assert_eq!(connect_status(&peer, &server), Status::SUCCESS);
        let pair = connect(peer.clone(), server.clone(), 1);
        let sges = [source.sge(0, 8)];
        let flags = OpFlags::empty();
        pair.active_qp.write(1, &sges, nowhere, flags).unwrap();
        assert_eq!(peer.result().status, Status::ACCESS_VIOLATION);
        let counted = counters(&server);
        assert_eq!(counted.get("protection_faults.10.0.0.2"), Some(faults));
        assert_eq!(counted.total("protection_faults"), faults);
    }
    assert_ne!(connect_status(&peer, &server), Status::SUCCESS);
    assert_eq!(connect_status(&other, &server), Status::SUCCESS);
    assert_eq!(connect_status(&server, &peer), Status::SUCCESS, "outbound");
    let refused = counters(&server).get("refused_for_faults");
    assert!(refused >= Some(1), "{refused:?}");
    assert_eq!(counters(&peer).total("protection_faults"), 0);
    simulation.pass(Duration::from_secs(61));
    assert_eq!(connect_status(&peer, &server), Status::SUCCESS);
}

#[test]
fn sec_036_faults_are_counted_and_refused_over_tcp() {
    faults_are_counted_and_refused(&Simulation::new(2));
}

#[test]
fn sec_036_faults_are_counted_and_refused_over_udp() {
    faults_are_counted_and_refused(&Simulation::new(2).over_udp());
}

/// SEC-001: the regions of one opened adapter are closed to the peers of another, though both have one address.
#[test]
fn sec_001_an_adapter_opened_again_has_regions_of_its_own() {
    let simulation = Simulation::new(3);
    let side = |host| Side::on_adapter(simulation.open([10, 0, 0, host], options()).unwrap());
    let (one, other, peer) = (side(1), side(1), side(2));
    let source = peer.region(8, ALL);
    for (server, expected) in [(&one, Status::SUCCESS), (&other, Status::ACCESS_VIOLATION)] {
        let region = one.region(8, ALL);
        let pair = connect(peer.clone(), server.clone(), 1);
        let sges = [source.sge(0, 8)];
        let to = region.remote(0);
        pair.active_qp
            .write(1, &sges, to, OpFlags::empty())
            .unwrap();
        assert_eq!(peer.result().status, expected);
    }
}
