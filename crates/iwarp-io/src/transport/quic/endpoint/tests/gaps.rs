//! Peers that leave gaps in their streams.

use std::time::Duration;

use quinn_proto::{ConnectionError, Event, StreamId};

use super::leaving_out::client_that_leaves_out;
use super::rig::{Neighbour, Peer, Rig, at};
use super::streams::{accepted, use_stream};
use crate::transport::quic::account::UndeliveredLimits;
use crate::transport::quic::config::{FIRST_WINDOW, STREAM_WINDOW};
use crate::transport::quic::preamble::PREAMBLE;
use crate::transport::quic::security::Security;

const SOCKET: u64 = 1024 * 1024;
const ADDRESS: u64 = 256 * 1024;

/// More than one batch of datagrams adds before the account is looked at.
const BATCH: u64 = 64 * 1024;

fn limited() -> Rig {
    Rig::limited(
        &Security::default(),
        UndeliveredLimits::new(Some(SOCKET), Some(ADDRESS)),
    )
}

/// A peer that leaves out the first octets of its streams.
fn attacker(rig: &Rig, ip: [u8; 4], port: u16) -> Peer {
    let mut peer = Peer::new(rig, at(ip, port));
    peer.client = client_that_leaves_out(|_, start| start == 0);
    peer.connect();
    peer
}

/// Lets peers of these addresses fill their windows behind gaps. Returns the most memory that was held, and the number of connections that
/// were closed.
fn attack(rig: &mut Rig, neighbour: &mut Neighbour, ips: &[[u8; 4]]) -> (u64, u64) {
    let mut most = 0;
    let mut attackers: Vec<_> = ips
        .iter()
        .zip(6000..)
        .map(|(ip, port)| attacker(rig, *ip, port))
        .collect();
    for turn in 0..20 {
        if turn == 5 {
            for attacker in &mut attackers {
                attacker.open(&[0; FIRST_WINDOW as usize]).unwrap();
            }
        }
        let mut peers: Vec<_> = attackers.iter_mut().collect();
        peers.push(&mut neighbour.peer);
        for _ in 0..10 {
            rig.run(&mut peers, Duration::from_millis(1));
            most = most.max(rig.state.account.all());
        }
    }
    let mut losses = 0;
    for attacker in &attackers {
        // A stateless reset may overtake the end, or follow it.
        let is_lost = |event: &Event| {
            matches!(
                event,
                Event::ConnectionLost {
                    reason: ConnectionError::ApplicationClosed(_) | ConnectionError::Reset
                }
            )
        };
        losses += u64::from(attacker.events.iter().any(is_lost));
    }
    assert_eq!(rig.refused("udp.closed_for_undelivered_octets"), losses);
    let held = rig.state.connections.iter();
    let held: u64 = held
        .map(|(_, connection)| connection.undelivered.held())
        .sum();
    assert_eq!(held, rig.state.account.all());
    (most, losses)
}

#[test]
fn gaps_of_all_connections_of_an_address_are_held_within_its_share() {
    let ips = [[10, 0, 0, 3]; 40];
    let mut rig = limited();
    let mut neighbour = Neighbour::new(&mut rig);
    let mut same_address = Neighbour::at(&mut rig, at([10, 0, 0, 3], 5000));
    let (most, closed) = attack(&mut rig, &mut neighbour, &ips);
    assert!(most <= ADDRESS + BATCH, "{most} octets were held");
    let rest = 40 - closed;
    assert!((1..10).contains(&rest), "{rest} connections are left");
    assert!(rig.state.account.all() > ADDRESS / 2);
    neighbour.assert_is_served(&mut rig);
    same_address.assert_is_served(&mut rig);
    // A newcomer of the same address is served.
    let newcomer = &mut Neighbour::at(&mut rig, at([10, 0, 0, 3], 5001));
    newcomer.assert_is_served(&mut rig);

    // Without the limit, all of this would be held.
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    let (most, closed) = attack(&mut rig, &mut neighbour, &ips);
    assert_eq!(closed, 0);
    assert!(most > 40 * 60 * 1024, "{most} octets were held");
}

#[cfg(planted_bugs)]
#[test]
fn planted_bugs_are_found() {
    let test = gaps_of_all_connections_of_an_address_are_held_within_its_share;
    assert!(crate::planted::is_found_by(
        crate::planted::Bug::ShareOfGapsForgotten,
        test
    ));
}

#[test]
fn gaps_of_many_addresses_are_held_within_the_limit_of_the_socket() {
    let ips: Vec<_> = (0..40).map(|number| [10, 1, number, 1]).collect();
    let mut rig = limited();
    let mut neighbour = Neighbour::new(&mut rig);
    let (most, closed) = attack(&mut rig, &mut neighbour, &ips);
    assert!(most <= SOCKET + BATCH, "{most} octets were held");
    let rest = 40 - closed;
    assert!((10..17).contains(&rest), "{rest} connections are left");
    neighbour.assert_is_served(&mut rig);
}

/// Streams of a peer that are in use, and whose frames from this offset on are left out.
fn with_gaps(rig: &mut Rig, count: u16, from: u64) -> (Peer, Vec<StreamId>, Vec<usize>) {
    let mut peer = Peer::new(rig, at([10, 0, 0, 3], 5000));
    let frame = 1000;
    peer.client = client_that_leaves_out(move |_, start| (from..from + frame).contains(&start));
    peer.connect();
    rig.run_to(&mut [&mut peer], |_, peers| peers[0].is_connected());
    let (streams, flows) = accepted(rig, &mut peer, count);
    for flow in &flows {
        use_stream(rig, *flow);
    }
    (peer, streams, flows)
}

/// Reads everything that can be read, and returns the number of octets.
fn read(rig: &mut Rig, flow: usize) -> usize {
    let (mut got, mut buffer) = (0, vec![0; 64 * 1024]);
    rig.act(|state, outside| {
        while let Ok(count @ 1..) = state.read(flow, &mut buffer) {
            got += count;
        }
        state.settle_read(outside, flow);
    });
    got
}

#[test]
fn gaps_of_all_accepted_streams_of_a_connection_are_held_within_the_share_of_its_address() {
    const BEFORE: usize = 512 * 1024;
    let unlimited = UndeliveredLimits::new(Some(u64::MAX), None);
    let unlimited = Rig::limited(&Security::default(), unlimited);
    for (mut rig, most_held) in [(limited(), ADDRESS + BATCH), (unlimited, u64::MAX)] {
        let mut neighbour = Neighbour::new(&mut rig);
        let from = (PREAMBLE + BEFORE) as u64;
        let (mut peer, streams, flows) = with_gaps(&mut rig, 30, from);
        let (mut written, mut most, mut got) = (vec![0; 30], 0, vec![0; 30]);
        for _ in 0..600 {
            for (written, stream) in written.iter_mut().zip(&streams) {
                // The frame that is left out begins at a certain offset.
                let len = match *written {
                    before if before < BEFORE => (BEFORE - before).min(64 * 1024),
                    BEFORE => 1000,
                    _ => 64 * 1024,
                };
                if let Some(connection) = peer.connections.values_mut().next() {
                    let mut stream = connection.send_stream(*stream);
                    *written += stream.write(&vec![0; len]).unwrap_or(0);
                }
            }
            rig.run(
                &mut [&mut peer, &mut neighbour.peer],
                Duration::from_millis(2),
            );
            for (got, flow) in got.iter_mut().zip(&flows) {
                *got += read(&mut rig, *flow);
            }
            most = most.max(rig.state.account.all());
        }
        assert!(most <= most_held, "{most} octets were held");
        let closed = rig.refused("udp.closed_for_undelivered_octets");
        if most_held == u64::MAX {
            // Without the limit, more would be held.
            assert!(most > 4 * ADDRESS, "{most} octets were held");
            assert_eq!(closed, 0);
            assert!(got.iter().all(|got| *got == BEFORE), "{got:?}");
        } else {
            assert_eq!((closed, rig.state.account.all()), (1, 0));
            let mut buffer = [0; 10];
            let broken = |flow: &usize| rig.state.read(*flow, &mut buffer).is_err();
            assert!(flows.iter().all(broken));
        }
        neighbour.assert_is_served(&mut rig);
    }
}

/// The window of a connection begins small, grows with what is read, and does not grow with what waits behind a gap.
#[test]
fn a_window_grows_with_what_is_read() {
    let mut rig = Rig::new();
    let mut peer = Peer::connected(&mut rig, at([10, 0, 0, 3], 5000));
    let (streams, flows) = accepted(&mut rig, &mut peer, 1);
    let fill = |rig: &mut Rig, peer: &mut Peer| {
        let mut sent = 0;
        for _ in 0..40 {
            let octets = [0; 256 * 1024];
            sent += (peer.connection().send_stream(streams[0]))
                .write(&octets)
                .unwrap_or(0);
            rig.run(&mut [&mut *peer], Duration::from_millis(2));
        }
        sent
    };
    let first = FIRST_WINDOW as usize;
    assert_eq!(fill(&mut rig, &mut peer) + PREAMBLE, first);
    use_stream(&mut rig, flows[0]);
    let mut last = fill(&mut rig, &mut peer);
    assert!(
        last + PREAMBLE + first > 3 * first / 2,
        "{last} octets more"
    );
    // What waits in order takes no room.
    for _ in 0..4 {
        assert!(read(&mut rig, flows[0]) > 0);
        last = fill(&mut rig, &mut peer);
    }
    assert!(last > STREAM_WINDOW as usize / 2, "{last} octets at a time");
    assert_eq!(rig.state.account.all(), 0);
}

#[test]
fn octets_that_were_lost_and_are_sent_again_leave_nothing_in_the_account() {
    let mut rig = limited();
    let mut neighbour = Neighbour::new(&mut rig);
    let mut peer = Peer::connected(&mut rig, at([10, 0, 0, 3], 5000));
    let (streams, flows) = accepted(&mut rig, &mut peer, 4);
    for flow in &flows {
        use_stream(&mut rig, *flow);
    }
    let (mut number, mut held, mut got) = (0, 0, 0);
    for _ in 0..200 {
        for stream in &streams {
            let _ = (peer.connection().send_stream(*stream)).write(&[0; 5000]);
        }
        let now = rig.world.now();
        for datagram in peer.next_datagrams(now) {
            number += 1;
            if number % 7 != 3 {
                let _ = peer.socket.send_to(super::rig::SERVER, 0, &datagram);
            }
        }
        rig.run(
            &mut [&mut peer, &mut neighbour.peer],
            Duration::from_micros(700),
        );
        held = held.max(rig.state.account.all());
        got += flows
            .iter()
            .map(|flow| read(&mut rig, *flow))
            .sum::<usize>();
    }
    rig.run(
        &mut [&mut peer, &mut neighbour.peer],
        Duration::from_secs(1),
    );
    got += flows
        .iter()
        .map(|flow| read(&mut rig, *flow))
        .sum::<usize>();
    assert!(held > 0, "datagrams were lost");
    assert_eq!(rig.state.account.all(), 0);
    assert!(got > 500_000, "{got} octets have arrived");
    assert_eq!(rig.refused("udp.closed_for_undelivered_octets"), 0);
    neighbour.assert_is_served(&mut rig);
}
