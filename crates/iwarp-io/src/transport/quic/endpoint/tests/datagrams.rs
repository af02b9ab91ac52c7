//! Datagrams of any content.

use std::time::Duration;

use super::rig::{Neighbour, Peer, Rig, SERVER, at};
use crate::simulation::World;
use crate::transport::sim::DatagramSocket;

/// Octets that follow from the world's seed.
fn octets(world: &World, len: usize) -> Vec<u8> {
    let mut octets: Vec<u8> = Vec::with_capacity(len + 8);
    while octets.len() < len {
        octets.extend(world.random().to_be_bytes());
    }
    octets.truncate(len);
    octets
}

#[test]
fn datagrams_of_any_content_leave_nothing_behind() {
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    let before = rig.refused("udp.strange_datagrams");
    let seen = neighbour.peer.seen.clone();
    let stranger = DatagramSocket::bind(&rig.world, at([10, 0, 9, 9], 9)).unwrap();
    for round in 0..3000 {
        let random = usize::try_from(rig.world.random() % 0xFFFF).unwrap();
        let datagram = match round % 3 {
            // Random octets of any length, including none.
            0 => octets(
                &rig.world,
                [0, 1, 20, 1200, 1500, random][round % 6].min(65_507),
            ),
            // A datagram that the neighbour has sent or received, changed or cut.
            1 => {
                let mut datagram = seen[random % seen.len()].clone();
                let at = random % datagram.len();
                datagram[at] ^= 1 << (round % 8);
                datagram
            }
            _ => {
                let datagram = &seen[random % seen.len()];
                datagram[..random % datagram.len()].to_vec()
            }
        };
        stranger.send_to(SERVER, 0, &datagram).unwrap();
        if round % 50 == 0 {
            rig.run(&mut [&mut neighbour.peer], Duration::from_millis(1));
        }
    }
    neighbour.assert_is_served(&mut rig);
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(40));
    assert!(rig.refused("udp.strange_datagrams") > before + 500);
    assert_eq!(rig.state.connections.len(), 1);
    assert_eq!(
        (rig.state.flows.len(), rig.state.admission.handshakes()),
        (1, 0)
    );
    neighbour.assert_is_served(&mut rig);
}

#[test]
fn answers_to_strangers_are_not_kept_while_the_socket_is_full() {
    let mut rig = Rig::new();
    rig.act(|state, outside| state.stop_listening(outside));
    let mut stranger = Peer::new(&rig, at([10, 0, 9, 9], 9));
    rig.fill_socket();
    for _ in 0..100 {
        stranger.connect();
    }
    rig.run(&mut [&mut stranger], Duration::from_millis(1));
    assert_eq!(rig.state.blocked.len(), 1);
    assert_eq!(rig.refused("udp.refused_connections"), 100);
}
