//! Peers whose address changes, as behind a NAT that has forgotten them.

use std::net::SocketAddr;
use std::time::Duration;

use super::rig::{Neighbour, Rig, at};

const ELSEWHERE: SocketAddr = at([10, 0, 0, 2], 6000);

/// The state when the first octet comes from the new address.
#[derive(Clone, Copy)]
struct Moment {
    /// The time limit of packets sent to the last address has passed.
    time_is_over: bool,
    socket_is_full: bool,
}

/// The listener's side sends something that does not arrive, because the peer moves and sends an octet from its new address.
fn lose_and_move(rig: &mut Rig, neighbour: &mut Neighbour, moment: Moment) {
    // Nothing is in flight, and no packets wait to be sent.
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(1));
    let flow = neighbour.flow;
    rig.act(|state, outside| {
        assert_eq!(state.write(flow, b"lost").unwrap(), 4);
        state.settle_flow(outside, flow);
    });
    let time_limit = rig.state.next_deadline().expect("something is in flight");
    if moment.socket_is_full {
        rig.fill_socket();
    }
    neighbour.peer.move_to(ELSEWHERE);
    let stream = neighbour.stream;
    let sent = neighbour.peer.connection().send_stream(stream).write(b".");
    assert_eq!(sent, Ok(1));
    neighbour.peer.drive(rig.world.now());
    let limit = time_limit - rig.world.now();
    rig.world.pass(if moment.time_is_over {
        limit
    } else {
        limit / 2
    });
    rig.visit();
    assert_eq!(seen_at(rig), ELSEWHERE);
}

/// The address that the listener's side sends to.
fn seen_at(rig: &Rig) -> SocketAddr {
    let connection = rig.state.connections.iter().next();
    connection.expect("a connection").1.quic.remote_address()
}

/// Both get the octets that the other one has sent meanwhile.
fn assert_goes_on(rig: &mut Rig, neighbour: &mut Neighbour) {
    let (flow, stream) = (neighbour.flow, neighbour.stream);
    let (mut there, mut here) = (Vec::new(), Vec::new());
    rig.run_to(&mut [&mut neighbour.peer], |rig, peers| {
        there.extend(peers[0].read(stream));
        let mut octets = [0; 16];
        if let Ok(count) = rig.act(|state, _| state.read(flow, &mut octets)) {
            here.extend_from_slice(&octets[..count]);
        }
        there == b"lost" && here == b"."
    });
    neighbour.assert_is_served(rig);
}

#[test]
fn octets_from_a_new_address_come_at_the_moment_of_a_time_limit() {
    for socket_is_full in [false, true] {
        let mut rig = Rig::new();
        let mut neighbour = Neighbour::new(&mut rig);
        let moment = Moment {
            time_is_over: true,
            socket_is_full,
        };
        lose_and_move(&mut rig, &mut neighbour, moment);
        assert_eq!(rig.state.blocked.len(), usize::from(socket_is_full));
        rig.state.blocked.clear();
        assert_goes_on(&mut rig, &mut neighbour);
    }
}

#[test]
fn a_new_address_does_not_answer() {
    for socket_is_full in [false, true] {
        let mut rig = Rig::new();
        let mut neighbour = Neighbour::new(&mut rig);
        let address = neighbour.peer.socket.local();
        let moment = Moment {
            time_is_over: false,
            socket_is_full,
        };
        lose_and_move(&mut rig, &mut neighbour, moment);
        // The listener's side looks for the peer at its last address again.
        rig.run_to(&mut [], |rig, _| seen_at(rig) == address);
        rig.run(&mut [], Duration::from_secs(1));
        rig.state.blocked.clear();
        assert_goes_on(&mut rig, &mut neighbour);
    }
}
