//! Responses that pass a Send which waits for a Receive, over every transport.

use super::super::stream_io::kept::KEPT;
use super::*;
use crate::environment::Environment;
use crate::transport::quic::Quic;
use crate::transport::quic::security::Security;
use crate::transport::same_host::SameHost;
use crate::transport::tcp::{Tcp, TcpOptions};

impl End {
    fn passing(self) -> Self {
        self.endpoint.pass_responses();
        self
    }

    /// Reads 8 octets of the other end's memory, from its offset `at` to this end's offset 2048.
    fn read_from(&self, other: &Self, context: u64, at: u64) {
        let from = other.sge(at, 8);
        let read = Operation::Read {
            sink: Payload::Sges(&[self.sge(2048, 8)]),
            remote: RemoteAddress {
                stag: from.token,
                to: from.address,
            },
        };
        self.post(context, read).unwrap();
    }

    /// The octets that this end keeps behind a Send, with the memory for them.
    fn kept(&self) -> Option<(usize, usize)> {
        self.endpoint.lock().io.as_ref()?.kept_octets()
    }

    fn is_stalled(&self) -> bool {
        self.endpoint.is_stalled() == Some(true)
    }
}

/// TCP, pipes, rings in shared memory, and QUIC over UDP; the simulated network, and QUIC there.
fn transports() -> Vec<Transport> {
    let mut all = vec![
        Transport::Tcp(Tcp::default()),
        Transport::Pipe(Pipes::default()),
        Transport::Sim(World::new(1, Conditions::default())),
    ];
    if let Some(mut same_host) = SameHost::if_possible() {
        same_host.wait_for(LONG);
        let options = TcpOptions {
            same_host: Some(same_host),
            ..TcpOptions::default()
        };
        all.push(Transport::Tcp(Tcp::new(options)));
    }
    if cfg!(feature = "udp") {
        let world = World::new(1, Conditions::default());
        for environment in [Environment::System, Environment::Sim(world)] {
            let quic = Quic::new(environment, &Security::default()).unwrap();
            all.push(Transport::Quic(quic));
        }
    }
    all
}

fn pair(net: &Net) -> (End, End) {
    let (active, passive) = (net.end().passing(), net.end().passing());
    net.connect(&active, &passive, Start::Awaited);
    net.until("ready", || passive.signals().contains(Signals::READY));
    drop(passive.endpoint.drive_from(Drivers::Queues));
    (active, passive)
}

/// Each side waits for its Read before it posts the Receive that the other's Send waits for.
#[test]
fn two_sides_that_wait_for_each_other_go_on() {
    for transport in transports() {
        let net = Net::over(transport);
        let (active, passive) = pair(&net);
        active.buffer.write(0, b"active..");
        passive.buffer.write(0, b"passive.");
        for round in 0..20 {
            let context = 10 * round;
            for (end, other) in [(&active, &passive), (&passive, &active)] {
                end.read_from(other, context, 0);
                end.send(context + 1, b"waits...").unwrap();
                // Behind the Send, in the direction of the other's Response.
                end.read_from(other, context + 2, 0);
            }
            for end in [&active, &passive] {
                net.until("read", || end.has_ended(context));
                end.receive(context + 3, 64);
            }
            for end in [&active, &passive] {
                let last = || end.has_ended(context + 2) && end.has_ended(context + 3);
                net.until("received", last);
            }
        }
        for (end, text) in [(&active, b"passive."), (&passive, b"active..")] {
            assert!(end.ends().iter().all(|(_, succeeded)| *succeeded));
            assert_eq!(end.ends().len(), 80);
            assert_eq!(end.buffer.to_vec()[2048..2056], *text);
            assert_eq!(end.kept(), None);
        }
    }
}

/// Without the option nothing more happens.
#[test]
fn a_response_waits_behind_a_send_unless_it_passes() {
    for passes in [false, true] {
        let net = Net::simulated();
        let (active, passive) = if passes { pair(&net) } else { net.pair() };
        passive.send(1, b"waits...").unwrap();
        net.until("it waits", || active.is_stalled());
        active.read_from(&passive, 2, 0);
        while net.world().step() {}
        assert_eq!(active.has_ended(2), passes);
        active.receive(3, 0);
        net.until("received", || active.has_ended(3) && active.has_ended(2));
    }
}

/// The other end sends Writes without end behind a Send. The limit holds, what is behind it waits in the transport, and all of it arrives.
#[test]
fn at_the_limit_reading_stops_until_there_is_a_receive() {
    let net = Net::simulated();
    let (active, passive) = pair(&net);
    active.send(1, b"waits...").unwrap();
    let to = passive.sge(0, 4096);
    let remote = RemoteAddress {
        stag: to.token,
        to: to.address,
    };
    let mut posted = 0;
    loop {
        let data = Payload::Sges(&[active.sge(0, 4096)]);
        match active.post(1000 + posted, Operation::Write { data, remote }) {
            Ok(()) => posted += 1,
            Err(refused) => {
                assert_eq!(refused, Refused::Request(PostError::QueueFull));
                if !net.world().step() {
                    break;
                }
            }
        }
        assert!(posted < 1000, "the transport has no end");
        if let Some((octets, memory)) = passive.kept() {
            assert!(octets <= memory && memory <= KEPT);
        }
    }
    assert!(posted * 4096 > KEPT as u64, "{posted}");
    assert_eq!(passive.kept(), Some((KEPT, KEPT)));
    assert!(passive.is_stalled());
    // A Response behind all that waits, also if the Read comes before.
    passive.read_from(&active, 2, 0);
    while net.world().step() {}
    assert!(!passive.has_ended(2));
    passive.receive(3, 0);
    net.until("all is written", || {
        active.has_ended(999 + posted) && passive.has_ended(2) && passive.has_ended(3)
    });
    net.until("nothing is kept", || passive.kept().is_none());
    assert!(active.ends().iter().chain(&passive.ends()).all(|end| end.1));
}

/// The orderly end waits behind the Send, a reset does not.
#[test]
fn the_end_of_the_stream_is_noticed_as_without_passing() {
    for transport in transports() {
        let has_resets = !matches!(transport, Transport::Pipe(_));
        let net = Net::over(transport);
        for is_reset in [false, true] {
            if is_reset && !has_resets {
                continue;
            }
            let (active, passive) = pair(&net);
            active.send(1, b"waits...").unwrap();
            active.send(2, b"waits...").unwrap();
            passive.read_from(&active, 3, 0);
            net.until("it waits and reads on", || {
                passive.is_stalled() && passive.has_ended(3) && active.has_ended(2)
            });
            if is_reset {
                drop(active.endpoint.abort(ConnectionEnd::Removed));
                net.until("the reset", || passive.signals().contains(Signals::RESET));
                assert_eq!(passive.ends(), [(3, true)]);
                continue;
            }
            passive.receive(4, 0);
            net.until("one is received", || passive.has_ended(4));
            drop(active.endpoint.disconnect().1);
            assert!(passive.is_stalled());
            assert!(!passive.signals().contains(Signals::PEER_CLOSED));
            passive.receive(5, 8);
            passive.receive(6, 16);
            net.until("the end", || {
                passive.signals().contains(Signals::PEER_CLOSED)
            });
            net.until("flushed", || passive.has_ended(6));
            let ends = passive.ends();
            assert_eq!(ends, [(3, true), (4, true), (5, true), (6, false)]);
            drop(passive.endpoint.disconnect().1);
            net.until("gone", || {
                passive.endpoint.is_gone() && active.endpoint.is_gone()
            });
        }
    }
}

/// Connections that draw from one pool wait for a Receive of it, and their Responses pass meanwhile.
#[test]
fn responses_pass_where_receives_are_shared() {
    for net in Net::each() {
        let pairs = [pair(&net), pair(&net)];
        for (active, passive) in &pairs {
            active.send(1, b"waits...").unwrap();
            net.until("it waits", || passive.is_stalled());
            passive.read_from(active, 2, 0);
            net.until("read", || passive.has_ended(2));
        }
        let memory = net.end();
        for (context, (_, passive)) in (3..).zip(&pairs) {
            net.pool
                .lock()
                .unwrap()
                .push_back((context, memory.sge(0, 8)));
            passive.endpoint.ready(Edges::KICK);
            net.until("received", || passive.has_ended(context));
        }
    }
}

/// This side ends the connection while octets are kept: they are dropped.
#[test]
fn kept_octets_are_dropped_with_the_connection() {
    for net in Net::each() {
        let (active, passive) = pair(&net);
        active.send(1, b"waits...").unwrap();
        net.until("it waits", || passive.is_stalled());
        for context in 2..6 {
            active.send(context, b"waits...").unwrap();
        }
        net.until("kept", || passive.kept().is_some());
        drop(passive.endpoint.disconnect().1);
        net.until("dropped", || passive.kept().is_none());
        drop(active.endpoint.disconnect().1);
        net.until("gone", || {
            passive.endpoint.is_gone() && active.endpoint.is_gone()
        });
    }
}

/// Whatever the network does to the stream, all arrives once and in order. The seed chooses the rows of requests, and the segments.
#[test]
fn rows_of_requests_arrive_in_every_network() {
    for seed in 0..60 {
        let net = Net::over(Transport::Sim(World::new(seed, Conditions::default())));
        let (active, passive) = pair(&net);
        let (mut draws, mut sent) = (seed, [0u64; 2]);
        let mut draw = |below: u64| {
            draws = draws
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (draws >> 33) % below
        };
        let ends = [&active, &passive];
        let mut posted = [0u64; 2];
        for _ in 0..200 {
            let at = usize::from(draw(2) == 0);
            let (end, other) = (ends[at], ends[1 - at]);
            match draw(4) {
                0 => {
                    if end.send(1000 + sent[at], &sent[at].to_be_bytes()).is_ok() {
                        sent[at] += 1;
                    }
                }
                1 => {
                    let from = other.sge(0, 8);
                    let remote = RemoteAddress {
                        stag: from.token,
                        to: from.address,
                    };
                    let sink = Payload::Sges(&[end.sge(2048, 8)]);
                    let _ = end.post(5000, Operation::Read { sink, remote });
                }
                2 if posted[at] < 16 => {
                    end.receive(posted[at], 1024 + 8 * posted[at]);
                    posted[at] += 1;
                }
                _ => {
                    net.world().step();
                }
            }
        }
        for _ in 0..16 {
            for (at, end) in ends.into_iter().enumerate() {
                if posted[at] < sent[1 - at].min(16) {
                    end.receive(posted[at], 1024 + 8 * posted[at]);
                    posted[at] += 1;
                }
            }
        }
        while net.world().step() {}
        for (at, end) in ends.into_iter().enumerate() {
            let received = end
                .ends()
                .iter()
                .filter(|(context, _)| *context < 16)
                .count();
            assert_eq!(received as u64, posted[at].min(sent[1 - at]), "seed {seed}");
            let memory = end.buffer.to_vec();
            for number in 0..received {
                let octets = &memory[1024 + 8 * number..][..8];
                assert_eq!(octets, (number as u64).to_be_bytes(), "seed {seed}");
            }
            assert!(end.ends().iter().all(|end| end.1), "seed {seed}");
        }
    }
}
