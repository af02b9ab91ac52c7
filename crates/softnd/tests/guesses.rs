//! A peer that has had thousands of connections guesses the STag of a later client's region (SEC-008, SEC-009).

mod common;

use std::sync::Arc;

use common::*;
use netdirect::{Adapter, Buffer, Listener, OpFlags, RemoteAddress, RemoteToken, Status};
use softnd::Options;
use softnd::simulation::Simulation;

/// Ordinary connections of the peer before it guesses.
const CONNECTIONS: usize = 4200;

/// Guesses, each of which costs a connection.
const GUESSES: usize = 300;

/// What a region holds, and what the peer writes into it.
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
    /// The server's memory, which each of its regions covers, as an allocator that gives freed memory again has it.
    memory: Buffer,
}

impl Attack {
    /// The adapters are the server's, the peer's, and a client's.
    fn new(adapters: [Arc<dyn Adapter>; 3]) -> Self {
        let [server, peer, client] = adapters.map(Side::of);
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

/// All keys beside the index that came 4,096 registrations before the next one, then the latest tokens.
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

/// The same over sockets of the system.
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
