//! Floods of first packets, and handshakes that never complete.

use std::time::Duration;

use quinn_proto::Event;

use super::rig::{Neighbour, Peer, Rig, SERVER, at};
use crate::transport::quic::config::HANDSHAKES;
use crate::transport::quic::security::{Credentials, Security, Trust};
use crate::transport::sim::DatagramSocket;

/// First packets of `count` connections, one from each address, none of which ever gets an answer.
fn flood(rig: &mut Rig, count: u16, mut each: impl FnMut(&mut Rig)) {
    let mut forger = Peer::new(rig, at([10, 7, 7, 7], 7));
    for number in 0..count {
        forger.connect();
        let now = rig.world.now();
        let [high, low] = number.to_be_bytes();
        let false_address = DatagramSocket::bind(&rig.world, at([10, 66, high, low], 99)).unwrap();
        for datagram in forger.next_datagrams(now) {
            false_address.send_to(SERVER, 0, &datagram).unwrap();
        }
        forger.connections.clear();
        if number % 64 == 63 {
            each(rig);
        }
    }
}

#[test]
fn a_flood_of_first_packets_from_false_addresses_is_asked_for_the_address() {
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    let mut most = 0;
    flood(&mut rig, 800, |rig| {
        rig.run(&mut [&mut neighbour.peer], Duration::from_millis(1));
        most = most.max(rig.state.connections.len());
    });
    assert!(
        rig.state.admission.handshakes() >= HANDSHAKES / 2,
        "it is a flood"
    );
    assert!(most <= HANDSHAKES / 2 + 1, "{most} connections are held");
    assert!(rig.refused("udp.retries") > 100);
    neighbour.assert_is_served(&mut rig);
    // A peer with a true address gets in.
    let newcomer = Peer::connected(&mut rig, at([10, 0, 0, 3], 5000));
    assert!(newcomer.is_connected());
    drop(newcomer);
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(60));
    assert_eq!(
        (
            rig.state.connections.len(),
            rig.state.admission.handshakes()
        ),
        (1, 0)
    );
    neighbour.assert_is_served(&mut rig);
}

/// A client that proves its address gets in at once, during a flood of first packets that name its address.
#[test]
fn first_packets_that_name_an_address_do_not_count_against_it() {
    let mut rig = Rig::new();
    let named = [10, 0, 0, 3];
    let mut forger = Peer::new(&rig, at([10, 7, 7, 7], 7));
    let forged = DatagramSocket::bind(&rig.world, at(named, 99)).unwrap();
    for second in 0..30 {
        // As many as take half of all places, and some more.
        let mut more = 64;
        while more > 0 {
            more -= usize::from(rig.state.admission.handshakes() >= HANDSHAKES / 2);
            forger.connect();
            for datagram in forger.next_datagrams(rig.world.now()) {
                forged.send_to(SERVER, 0, &datagram).unwrap();
            }
            forger.connections.clear();
            rig.run(&mut [], Duration::from_millis(1));
        }
        let held = rig.state.admission.handshakes();
        assert!(held >= HANDSHAKES / 2, "{held} in second {second}");
        let begun = rig.world.now();
        let mut honest = Peer::new(&rig, at(named, 5000 + second));
        honest.connect();
        rig.run_to(&mut [&mut honest], |_, peers| peers[0].is_connected());
        let took = rig.world.now() - begun;
        assert!(
            took < Duration::from_millis(100),
            "second {second}: {took:?}"
        );
        rig.run(&mut [&mut honest], Duration::from_millis(900));
    }
}

#[test]
fn a_handshake_has_a_time_limit_whatever_the_peer_sends() {
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    let mut slow = Peer::new(&rig, at([10, 0, 0, 3], 5000));
    slow.connect();
    let now = rig.world.now();
    for datagram in slow.next_datagrams(now) {
        slow.socket.send_to(SERVER, 0, &datagram).unwrap();
    }
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(1));
    assert_eq!(rig.state.admission.handshakes(), 1);
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(15));
    assert_eq!(
        (
            rig.state.connections.len(),
            rig.state.admission.handshakes()
        ),
        (1, 0)
    );
}

#[test]
fn one_address_does_not_take_all_places() {
    let mut rig = Rig::new();
    let mut greedy = Peer::new(&rig, at([10, 0, 0, 3], 5000));
    // The peer has a true address, and answers when it is asked for it, but completes no handshake.
    for _ in 0..HANDSHAKES + 100 {
        greedy.connect();
        let now = rig.world.now();
        for datagram in greedy.next_datagrams(now) {
            greedy.socket.send_to(SERVER, 0, &datagram).unwrap();
        }
        rig.run(&mut [], Duration::from_micros(100));
        let mut buffer = [0; 2000];
        while let Ok(received) = greedy.socket.recv_from(&mut buffer) {
            let mut answer = Vec::new();
            let from = received.from;
            let event = greedy.endpoint.handle(
                rig.world.now(),
                from,
                None,
                None,
                buffer[..received.len].into(),
                &mut answer,
            );
            // A Retry packet.
            if buffer[0] >> 4 == 0xF
                && let Some(quinn_proto::DatagramEvent::ConnectionEvent(handle, event)) = event
            {
                let connection = greedy.connections.get_mut(&handle).unwrap();
                connection.handle_event(event);
                for datagram in greedy.next_datagrams(rig.world.now()) {
                    greedy.socket.send_to(SERVER, 0, &datagram).unwrap();
                }
            }
        }
        greedy.connections.clear();
        greedy.endpoint = Peer::new(&rig, at([10, 0, 0, 4], 0)).endpoint;
    }
    let newcomer = Peer::connected(&mut rig, at([10, 0, 0, 5], 5000));
    assert!(newcomer.is_connected());
}

#[test]
fn whoever_is_not_trusted_leaves_nothing_behind() {
    let security = Security::default().demand_client_certificate(Trust::own_process());
    let mut rig = Rig::with_security(&security);
    let mut neighbour = Neighbour::new(&mut rig);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/transport/quic/security/tests/openssl");
    let certificate = folder.join("certificate.pem");
    let others = Credentials::from_files(certificate, folder.join("key.pem")).unwrap();
    let security = Security::default().credentials(others);
    for _ in 0..20 {
        let mut stranger = Peer::with_security(&rig, at([10, 0, 0, 3], 5000), &security);
        stranger.connect();
        let peers = &mut [&mut stranger, &mut neighbour.peer];
        rig.run(peers, Duration::from_millis(50));
        assert!(stranger.is_connected(), "as far as the stranger knows");
        if !stranger.connections.is_empty() {
            stranger.open_with_preamble(100);
        }
        let peers = &mut [&mut stranger, &mut neighbour.peer];
        rig.run(peers, Duration::from_secs(1));
        let lost = |event: &Event| matches!(event, Event::ConnectionLost { .. });
        assert!(stranger.events.iter().any(lost));
        assert!(!rig.state.is_somebody_there());
    }
    assert_eq!(rig.refused("udp.refused_connections"), 20);
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(10));
    assert_eq!(rig.state.connections.len(), 1);
    assert_eq!(
        (rig.state.flows.len(), rig.state.admission.handshakes()),
        (1, 0)
    );
    neighbour.assert_is_served(&mut rig);
}

#[test]
fn a_connection_without_streams_is_not_kept_for_ever() {
    let mut rig = Rig::new();
    let mut idle = Peer::connected(&mut rig, at([10, 0, 0, 3], 5000));
    // The idle peer keeps sending keep-alive packets.
    rig.run(&mut [&mut idle], Duration::from_secs(120));
    assert_eq!(rig.state.connections.len(), 0);
}

#[test]
fn a_forged_retry_packet_does_not_end_a_handshake() {
    let mut rig = Rig::new();
    let mut peer = Peer::new(&rig, at([10, 0, 0, 3], 5000));
    peer.connect();
    for datagram in peer.next_datagrams(rig.world.now()) {
        peer.socket.send_to(SERVER, 0, &datagram).unwrap();
    }
    rig.world.pass(Duration::from_millis(100));
    rig.visit();
    rig.world.pass(Duration::from_millis(100));
    // The answer is lost to the peer.
    let mut answer = [0; 1500];
    let len = peer.socket.recv_from(&mut answer).unwrap().len;
    let answer = &answer[..len];
    let ours = 6 + usize::from(answer[5]);
    let id = &answer[ours..=ours + usize::from(answer[ours])];
    let retry = [&[0xF0, 0, 0, 0, 1][..], id, &[0], &[7; 40]].concat();
    let before = rig.refused("udp.strange_datagrams");
    peer.socket.send_to(SERVER, 0, &retry).unwrap();
    rig.run_to(&mut [&mut peer], |_, peers| peers[0].is_connected());
    assert_eq!(rig.refused("udp.strange_datagrams"), before + 1);
}
