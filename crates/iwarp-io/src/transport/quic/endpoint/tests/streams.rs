//! Floods of streams, and streams that carry anything but iWARP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn_proto::{ConnectionError, Dir, Event, StreamId, VarInt};

use super::rig::{Neighbour, Peer, Rig, SERVER, at};
use crate::progress::readiness::Edges;
use crate::transport::datagrams::Train;
use crate::transport::quic::config::{
    AHEAD, ARRIVING, BACKLOG, FIRST_STREAMS, FIRST_WINDOW, STREAM_WINDOW, STREAMS,
};
use crate::transport::quic::endpoint::{Dial, QuicEndpoint};
use crate::transport::quic::preamble::{ErrorCode, PREAMBLE, TAKEN};
use crate::transport::quic::security::Security;

const ATTACKER: SocketAddr = at([10, 0, 0, 3], 5000);

/// Opens `count` streams of a peer, which a listener takes: their IDs at the peer, and their keys at the endpoint.
pub(super) fn accepted(rig: &mut Rig, peer: &mut Peer, count: u16) -> (Vec<StreamId>, Vec<usize>) {
    let streams: Vec<_> = (0..count)
        .map(|number| peer.open_with_preamble(100 + number).unwrap())
        .collect();
    let mut flows = Vec::new();
    rig.run_to(&mut [peer], |rig, _| {
        flows.extend(rig.state.accept());
        flows.len() == streams.len()
    });
    (streams, flows)
}

/// The application answers the peer's start-up frames.
pub(super) fn use_stream(rig: &mut Rig, flow: usize) {
    rig.act(|state, outside| {
        state.write(flow, b"reply").unwrap();
        state.settle_flow(outside, flow);
    });
}

#[test]
fn streams_without_a_whole_preamble_are_limited_and_do_not_stay() {
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    let mut attacker = Peer::connected(&mut rig, ATTACKER);
    let mut opened = 0;
    for _ in 0..20 {
        while opened % 1000 != 999 && attacker.open(&[1, 0, 0]).is_some() {
            opened += 1;
        }
        opened += 1;
        let peers = &mut [&mut attacker, &mut neighbour.peer];
        rig.run(peers, Duration::from_millis(10));
        assert!(rig.state.flows.len() <= ARRIVING + 1);
    }
    assert!(opened > ARRIVING, "{opened} streams were opened");
    assert!(attacker.stopped().contains(&Some(ErrorCode::Limit)));
    neighbour.assert_is_served(&mut rig);
    // The endpoint does not wait for ever for the rest of a preamble.
    let peers = &mut [&mut attacker, &mut neighbour.peer];
    rig.run(peers, Duration::from_secs(60));
    assert_eq!((rig.state.connections.len(), rig.state.flows.len()), (1, 1));
    neighbour.assert_is_served(&mut rig);
}

/// QUIC needs memory for each stream that is permitted, so an unknown peer is permitted few.
#[test]
fn a_peer_may_open_few_streams_at_first_and_all_as_soon_as_it_has_opened_many() {
    let mut rig = Rig::new();
    let mut peer = Peer::connected(&mut rig, ATTACKER);
    let (mut opened, mut turns) = (0, 0);
    let permitted = |rig: &Rig| {
        let (_, connection) = rig.state.connections.iter().next().unwrap();
        connection.quic.max_concurrent_streams(Dir::Bi)
    };
    assert_eq!(permitted(&rig), u64::from(FIRST_STREAMS));
    while opened < STREAMS {
        // The listener takes all of them before its backlog is full.
        let wanted = opened + u32::try_from(BACKLOG / 2).unwrap();
        while opened < wanted && peer.open_with_preamble(5001).is_some() {
            opened += 1;
        }
        if turns == 0 {
            assert_eq!(opened, FIRST_STREAMS);
        }
        turns += 1;
        assert!(turns < 100, "{opened} streams in {turns} turns");
        rig.run(&mut [&mut peer], Duration::from_millis(10));
        while rig.state.is_somebody_there() {
            rig.accept();
        }
    }
    assert_eq!(permitted(&rig), u64::from(STREAMS));
    assert_eq!(peer.open_with_preamble(5001), None);
    let open = rig.state.flows.len();
    assert_eq!(open, usize::try_from(STREAMS).unwrap());
    assert_eq!(rig.refused("udp.refused_streams"), 0);
}

#[test]
fn streams_of_other_protocols_are_refused() {
    let mut rig = Rig::new();
    let mut attacker = Peer::connected(&mut rig, ATTACKER);
    for octets in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"MPA ID Req Frame\x50\x02\0\0",
        &[2, 0, 0, 1, 0, 1, 0, 0],
        &[1, 1, 0, 1, 0, 1, 0, 0],
        &[1, 0, 0, 0, 0, 1, 0, 0],
        &[1, 0, 0, 1, 0, 1, 0, 1],
    ] {
        attacker.open(octets).unwrap();
    }
    let ended = attacker.open(&[1, 0]).unwrap();
    attacker.connection().send_stream(ended).finish().unwrap();
    let reset = attacker.open(&[1, 0]).unwrap();
    rig.run(&mut [&mut attacker], Duration::from_secs(1));
    attacker.reset(reset);
    rig.run(&mut [&mut attacker], Duration::from_secs(1));
    let (version, preamble) = (Some(ErrorCode::Version), Some(ErrorCode::BadPreamble));
    let stopped = attacker.stopped();
    let count = |code| stopped.iter().filter(|known| **known == code).count();
    assert_eq!((count(version), count(preamble)), (3, 3));
    assert_eq!(rig.refused("udp.refused_streams"), 7);
    assert!(!rig.state.is_somebody_there());
    assert_eq!(rig.state.flows.len(), 0);
    let (_, connection) = rig.state.connections.iter().next().unwrap();
    assert_eq!(connection.arriving, 0);
}

#[test]
fn streams_that_are_reset_and_opened_anew_do_not_pile_up() {
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    let mut attacker = Peer::connected(&mut rig, ATTACKER);
    for round in 0..300 {
        let streams: Vec<_> = (0..100)
            .map_while(|number| match number % 3 {
                0 => attacker.open(&[1, 0, 0]),
                1 => attacker.open_with_preamble(100),
                _ => attacker.open(b"anything else"),
            })
            .collect();
        if round % 2 == 0 {
            let peers = &mut [&mut attacker, &mut neighbour.peer];
            rig.run(peers, Duration::from_micros(200));
        }
        for stream in streams {
            attacker.reset(stream);
        }
        let peers = &mut [&mut attacker, &mut neighbour.peer];
        rig.run(peers, Duration::from_millis(1));
        assert!(rig.state.flows.len() <= BACKLOG + ARRIVING + 1);
    }
    neighbour.assert_is_served(&mut rig);
    // A caller that takes them finds that they are gone.
    while rig.state.is_somebody_there() {
        if let Ok(flow) = rig.state.accept() {
            rig.act(|state, outside| state.let_go(outside, flow));
        }
    }
    assert_eq!(rig.state.flows.len(), 1);
}

#[test]
fn a_stream_that_the_peer_has_stopped_is_not_received_for_nobody() {
    let mut rig = Rig::new();
    let mut attacker = Peer::connected(&mut rig, ATTACKER);
    let stream = attacker.open_with_preamble(100).unwrap();
    rig.run_to(&mut [&mut attacker], |rig, _| rig.state.is_somebody_there());
    let flow = rig.accept();
    let code = VarInt::from_u32(ErrorCode::Aborted.number());
    attacker
        .connection()
        .recv_stream(stream)
        .stop(code)
        .unwrap();
    rig.run(&mut [&mut attacker], Duration::from_secs(1));
    rig.act(|state, outside| state.let_go(outside, flow));
    rig.run(&mut [&mut attacker], Duration::from_secs(1));
    assert_eq!(attacker.stopped().len(), 1, "the peer is told to stop");
    assert_eq!(rig.state.flows.len(), 0);
}

#[test]
fn streams_that_come_with_the_end_of_their_connection_do_not_stay() {
    let mut rig = Rig::new();
    let mut attacker = Peer::connected(&mut rig, ATTACKER);
    rig.run(&mut [&mut attacker], Duration::from_secs(1));
    for _ in 0..10 {
        attacker.open(&[1, 0]).unwrap();
    }
    let datagrams = attacker.next_datagrams(rig.world.now());
    let train = |datagram: &[u8]| Train {
        from: ATTACKER,
        len: datagram.len(),
        stride: datagram.len(),
        ecn: None,
    };
    rig.act(|state, outside| {
        for datagram in &datagrams {
            state.received(outside, &train(datagram), datagram);
        }
        assert!(!state.touched.is_empty());
        state.close_all(outside);
        state.take_in(outside);
    });
    rig.run(&mut [], Duration::from_secs(60));
    assert_eq!((rig.state.connections.len(), rig.state.flows.len()), (0, 0));
    assert_eq!(rig.state.deadlines.len(), 0);
}

/// A read finds the last octets and the end of the connection by one visit of the socket. It returns the octets, and a set reports the end.
#[test]
fn the_end_that_comes_with_the_last_octets_is_reported() {
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    let (flow, stream, peer) = (neighbour.flow, neighbour.stream, &mut neighbour.peer);
    let now = rig.world.now();
    let written = peer.connection().send_stream(stream).write(b"last");
    assert_eq!(written, Ok(4));
    let mut datagrams = peer.next_datagrams(now);
    let code = VarInt::from_u32(ErrorCode::Closed.number());
    peer.connection().close(now, code, Bytes::new());
    datagrams.extend(peer.next_datagrams(now));
    let from = at([10, 0, 0, 2], 5000);
    rig.raised.clear();
    let source = Arc::clone(&rig.state.flow(flow).source);
    rig.act(|state, outside| {
        for datagram in &datagrams {
            let train = Train {
                from,
                len: datagram.len(),
                stride: datagram.len(),
                ecn: None,
            };
            state.received(outside, &train, datagram);
        }
        state.take_in(outside);
        state.not_raised(&source, Edges::READ);
        assert_eq!(state.read(flow, &mut [0; 16]).unwrap(), 4);
    });
    let raised = rig.raised.iter();
    let raised = raised.filter(|(stream, _)| Arc::ptr_eq(stream, &source));
    let edges = raised.fold(Edges::empty(), |all, (_, edges)| all | *edges);
    assert!(edges.contains(Edges::HANGUP | Edges::READ), "{edges:?}");
    assert!(rig.state.read(flow, &mut [0; 16]).is_err());
}

#[test]
fn streams_of_a_connection_that_has_gone_are_opened_anew_on_one_connection() {
    let mut rig = Rig::new();
    let remote = at([10, 0, 0, 8], 1);
    let config = Security::default().client_config().unwrap();
    rig.act(|state, outside| {
        let dial = || Dial {
            config: config.clone(),
            name: remote.ip().to_string(),
            probe: None,
        };
        for port in [1, 2] {
            let local = SocketAddr::new(SERVER.ip(), port);
            let source = (outside.source)();
            let flow = state.dial(outside, source, (local, remote), dial());
            state.set_stale(outside, flow.unwrap());
        }
        let key = state.dialed[&remote];
        state.forget(key);
        while let Some((flow, _)) = state.take_stale() {
            state.dial_anew(outside, flow, dial());
        }
        assert_eq!(state.connections.len(), 1);
    });
}

#[test]
fn what_nobody_has_accepted_is_held_within_a_limit() {
    let mut rig = Rig::new();
    let mut attacker = Peer::connected(&mut rig, ATTACKER);
    let mut sent = 0;
    let mut streams = Vec::new();
    for number in 0..64 {
        streams.extend(attacker.open_with_preamble(100 + number));
    }
    for _ in 0..200 {
        for stream in &streams {
            let connection = attacker.connection();
            if let Ok(count) = connection.send_stream(*stream).write(&[0; 65_536]) {
                sent += count;
            }
        }
        rig.run(&mut [&mut attacker], Duration::from_millis(5));
    }
    let blocked = attacker.connection().stats().frame_tx.data_blocked;
    assert!(blocked > 0, "the attacker is told to wait");
    let (_, connection) = rig.state.connections.iter_mut().next().unwrap();
    let arrived = connection.quic.stats().udp_rx.bytes;
    assert!(arrived < 128 * 1024, "{arrived} octets were taken");
    let most = FIRST_WINDOW as usize + 64 * AHEAD;
    assert!(sent + 64 * PREAMBLE <= most, "{sent} octets");
}

#[test]
fn accepted_streams_that_nobody_reads_leave_the_others_their_room() {
    let mut rig = Rig::new();
    let mut peer = Peer::connected(&mut rig, ATTACKER);
    let (streams, flows) = accepted(&mut rig, &mut peer, 12);
    for flow in &flows {
        use_stream(&mut rig, *flow);
    }
    // As many octets as each stream has room for.
    let write = |peer: &mut Peer, stream| {
        let mut sending = peer.connection().send_stream(stream);
        sending.write(&[0; 256 * 1024]).unwrap_or(0)
    };
    let mut sent = [0; 12];
    for _ in 0..1000 {
        for (stream, sent) in streams[1..].iter().zip(&mut sent) {
            *sent += write(&mut peer, *stream);
        }
        rig.run(&mut [&mut peer], Duration::from_millis(5));
    }
    assert!(
        sent[..11]
            .iter()
            .all(|sent| *sent + PREAMBLE == STREAM_WINDOW as usize),
        "{sent:?}"
    );
    let mut got = 0;
    let mut buffer = vec![0; 256 * 1024];
    rig.run_to(&mut [&mut peer], |rig, peers| {
        write(peers[0], streams[0]);
        rig.act(|state, outside| {
            got += state.read(flows[0], &mut buffer).unwrap_or(0);
            state.settle_flow(outside, flows[0]);
        });
        got > 16 * 1024 * 1024
    });
}

#[test]
fn the_last_octets_of_a_stream_do_not_wait_for_ever() {
    let mut rig = Rig::new();
    let mut attacker = Peer::connected(&mut rig, ATTACKER);
    attacker.open_with_preamble(100).unwrap();
    rig.run_to(&mut [&mut attacker], |rig, _| rig.state.is_somebody_there());
    let flow = rig.accept();
    // The peer reads nothing.
    rig.act(|state, outside| {
        state.flows[flow].unsent = vec![0; 2 * STREAM_WINDOW as usize].into();
        state.let_go(outside, flow);
    });
    rig.run(&mut [&mut attacker], Duration::from_secs(10));
    assert_eq!(rig.state.flows.len(), 1, "there is time for them");
    rig.run(&mut [&mut attacker], Duration::from_secs(60));
    assert_eq!(rig.state.flows.len(), 0);
    rig.run(&mut [&mut attacker], Duration::from_secs(60));
    assert_eq!(rig.state.connections.len(), 0);
}

#[test]
fn all_streams_learn_of_room_that_a_connection_has_again() {
    const ROOM: usize = 100_000;
    let mut rig = Rig::new();
    let mut peer = Peer::connected(&mut rig, ATTACKER);
    let (_, flows) = accepted(&mut rig, &mut peer, 4);
    rig.run(&mut [&mut peer], Duration::from_millis(10));
    let (_, connection) = rig.state.connections.iter_mut().next().unwrap();
    connection.quic.set_send_window(ROOM as u64);
    // The first stream leaves room for a part of what the second one has, and for nothing of the others.
    let octets = [1; ROOM * 3 / 4];
    let write = |rig: &mut Rig, flow| rig.act(|state, _| state.write(flow, &octets));
    assert_eq!(write(&mut rig, flows[0]).unwrap(), octets.len());
    assert_eq!(write(&mut rig, flows[1]).unwrap(), ROOM - octets.len());
    for flow in &flows[2..] {
        assert!(write(&mut rig, *flow).is_err());
    }
    rig.raised.clear();
    rig.act(|state, outside| state.settle_flow(outside, flows[0]));
    rig.run(&mut [&mut peer], Duration::from_secs(1));
    for flow in &flows[1..] {
        let source = &rig.state.flow(*flow).source;
        let mut raised = rig.raised.iter();
        let writable =
            raised.any(|(known, edges)| Arc::ptr_eq(known, source) && edges.contains(Edges::WRITE));
        assert!(writable, "stream {flow}");
    }
}

#[test]
fn a_stream_is_answered_as_soon_as_the_connection_has_room_for_the_answer() {
    let mut rig = Rig::new();
    let mut peer = Peer::connected(&mut rig, ATTACKER);
    let room = |rig: &mut Rig, octets| {
        let (_, connection) = rig.state.connections.iter_mut().next().unwrap();
        connection.quic.set_send_window(octets);
    };
    room(&mut rig, 0);
    let stream = peer.open_with_preamble(100).unwrap();
    rig.run_to(&mut [&mut peer], |rig, _| rig.state.is_somebody_there());
    rig.run(&mut [&mut peer], Duration::from_secs(1));
    assert_eq!(peer.read(stream), []);
    room(&mut rig, 1);
    let mut answer = Vec::new();
    rig.run_to(&mut [&mut peer], |rig, peers| {
        let key = rig.state.connections.iter().next().unwrap().0;
        rig.act(|state, outside| state.settle(outside, key));
        answer.extend(peers[0].read(stream));
        answer == TAKEN
    });
}

/// The peer of a bulk transfer learns that the connection was closed, even if the congestion window is full.
#[test]
fn a_connection_that_is_closed_says_so_whatever_is_in_flight() {
    for host in [SERVER.ip(), at([10, 0, 0, 2], 0).ip()] {
        let mut rig = Rig::new();
        let mut neighbour = Neighbour::at(&mut rig, SocketAddr::new(host, 5000));
        let flow = neighbour.flow;
        rig.act(|state, outside| {
            state.write(flow, &vec![0; 4 << 20]).unwrap();
            state.settle_flow(outside, flow);
        });
        rig.act(QuicEndpoint::close_all);
        rig.world.pass(Duration::from_millis(100));
        neighbour.peer.drive(rig.world.now());
        let lost = neighbour.peer.events.iter().find_map(|event| match event {
            Event::ConnectionLost { reason } => Some(reason),
            _ => None,
        });
        match lost {
            Some(ConnectionError::ApplicationClosed(close)) => {
                let code = ErrorCode::from_number(close.error_code.into_inner());
                assert_eq!(code, Some(ErrorCode::Closed));
            }
            other => panic!("{host}: {other:?}"),
        }
    }
}
