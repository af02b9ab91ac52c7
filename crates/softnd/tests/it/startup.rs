//! Connection set-up with a raw peer: time limits, revisions, and invalid frames.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use crate::common::raw::{self, server};
use crate::common::{self, Side, connect, end, idle, run};
use iwarp_io::setup::{Enhanced, Frame, FrameKind, TerminateCode, terminate_frame};
use netdirect::{OpFlags, Overlapped, Status};
use softnd::peer::Peer;
use softnd::{Options, Profile};

const SOON: Option<Duration> = Some(Duration::from_millis(20));

fn request(revision: u8) -> Frame {
    let enhanced = (revision > 1).then_some(Enhanced {
        peer_to_peer: true,
        rtr_send: false,
        rtr_write: true,
        rtr_read: true,
        ird: 4,
        ord: 4,
    });
    Frame {
        kind: FrameKind::Request,
        markers: false,
        crc: false,
        rejected: false,
        revision,
        enhanced,
        private_data: b"by hand".to_vec(),
    }
}

fn octets(frame: &Frame) -> Vec<u8> {
    let mut octets = Vec::new();
    frame.encode(&mut octets);
    octets
}

/// A side with a listener, and a connection request of a raw client.
fn offered(
    options: Options,
    frame: &Frame,
) -> (
    Side,
    std::sync::Arc<dyn netdirect::Connector>,
    raw::Peer,
    std::sync::Arc<dyn netdirect::Listener>,
) {
    let side = Side::with(options);
    let (listener, address) = side.listener(0);
    let connector = side.connector();
    let arrives = Overlapped::new();
    let arrival = listener.get_connection_request(&connector, &arrives);
    let mut client = raw::dial(address);
    client.write_all(&octets(frame)).unwrap();
    end(arrival, &arrives).unwrap();
    (side, connector, client, listener)
}

#[test]
fn iw_067_the_ready_message_is_not_held_for_ever() {
    let active = Side::with(Options::default().timeouts(|limits| limits.hold_ready = SOON));
    let passive = Side::new();
    let (listener, address) = passive.listener(0);
    let (here, there) = (active.connector(), passive.connector());
    let (active_qp, passive_qp) = (active.queue_pair(), passive.queue_pair());
    let (arrives, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&there, &arrives);
    let connecting = here.connect(&active_qp, address, 1, 1, b"", &connects);
    end(arrival, &arrives).unwrap();
    let accepting = there.accept(&passive_qp, 1, 1, b"", &accepts);
    end(connecting, &connects).unwrap();
    // The client does not call CompleteConnect yet. The peer's Accept ends, and its Sends wait.
    end(accepting, &accepts).unwrap();
    let sink = active.region(8, common::ALL);
    active_qp.receive(1, &[sink.sge(0, 8)]).unwrap();
    passive_qp
        .send_inline(2, &[b"patience"], OpFlags::empty())
        .unwrap();
    assert_eq!(passive.result().status, Status::SUCCESS);
    let early = active_qp.send(3, &[], OpFlags::empty());
    assert_eq!(common::status(early), Status::CONNECTION_INVALID);
    run(|overlapped| here.complete_connect(overlapped)).unwrap();
    assert_eq!(active.result().bytes_transferred, 8);
}

#[test]
fn mpa_023_a_client_that_sends_no_request_is_closed() {
    let options = Options::default().timeouts(|limits| limits.request = SOON);
    let side = Side::with(options);
    let (listener, address) = side.listener(0);
    for begun in [&b""[..], b"MPA ID Req"] {
        let mut client = raw::dial(address);
        client.write_all(begun).unwrap();
        assert_eq!(client.rest(), b"");
    }
    // The listener continues. An honest client whose Request is too late, because the machine is busy, tries again.
    let active = Side::new();
    let (qp, there) = (active.queue_pair(), side.connector());
    let mut here;
    let (arrives, connects) = (Overlapped::new(), Overlapped::new());
    let _ = listener.get_connection_request(&there, &arrives).unwrap();
    while arrives.poll() == Status::PENDING {
        if connects.poll() != Status::PENDING {
            here = active.connector();
            let _ = here.connect(&qp, address, 1, 1, b"", &connects).unwrap();
        }
        idle();
    }
    assert_eq!(arrives.status(), Status::SUCCESS);
}

#[test]
fn conn_024_a_server_that_does_not_answer_times_out() {
    let side = Side::with(Options::default().timeouts(|limits| limits.reply = SOON));
    let (_server, address) = server(); // accepts in the system's queue, never answers
    let (qp, connector) = (side.queue_pair(), side.connector());
    let failed = run(|overlapped| connector.connect(&qp, address, 0, 0, b"", overlapped));
    assert_eq!(failed, Err(Status::IO_TIMEOUT));
}

#[test]
fn conn_059_a_peer_that_never_completes_times_out() {
    let options = Options::default().timeouts(|limits| limits.ready = SOON);
    let (side, connector, client, _listener) = offered(options, &request(2));
    let qp = side.queue_pair();
    let accepted = run(|overlapped| connector.accept(&qp, 1, 1, b"", overlapped));
    assert_eq!(accepted, Err(Status::IO_TIMEOUT));
    drop(client);
}

#[test]
fn iw_065_disconnect_ends_although_the_peer_does_not() {
    let options = Options::default().timeouts(|limits| limits.disconnect = SOON);
    let (side, connector, mut client, _listener) = offered(options, &request(1));
    let qp = side.queue_pair();
    run(|overlapped| connector.accept(&qp, 0, 0, b"", overlapped)).unwrap();
    client.receive(20);
    run(|overlapped| connector.disconnect(overlapped)).unwrap();
    assert_eq!(client.rest(), b"");
}

#[test]
fn mpa2_010_revision_1_is_tried_once_when_the_peer_closes_on_revision_2() {
    let side = Side::new();
    let (server, address) = server();
    let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
    let connecting = connector.connect(&qp, address, 64, 64, b"", &connects);
    let mut first = server.accept();
    let enhanced = first.receive(24);
    assert_eq!(enhanced[17], 2, "Rev");
    drop(first);
    let mut second = server.accept();
    let plain = second.receive(20);
    assert_eq!((plain[16] & 0x10, plain[17]), (0, 1), "S and Rev");
    let mut reply = request(1);
    reply.kind = FrameKind::Reply;
    second.write_all(&octets(&reply)).unwrap();
    end(connecting, &connects).unwrap();
    assert_eq!(connector.get_private_data().unwrap(), b"by hand");
    assert_eq!(connector.get_read_limits().unwrap().inbound, 32); // IW-069
    run(|overlapped| connector.complete_connect(overlapped)).unwrap();
    let fpdu = second.receive(20);
    assert_eq!(
        fpdu[..4],
        [0, 14, 0xC1, 0x40],
        "a zero-length Write opens the fence"
    );
}

/// Connects with 64 inbound and 48 outbound Reads to a server that sends this Reply. Returns the read limits after it, and the octets
/// that the active side sends then.
fn limits_after(ird: u16, ord: u16) -> (Result<netdirect::ReadLimits, Status>, Vec<u8>) {
    let side = Side::new();
    let (server, address) = server();
    let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
    let connecting = connector.connect(&qp, address, 64, 48, b"", &connects);
    let mut stream = server.accept();
    stream.receive(24);
    let mut reply = request(2);
    reply.kind = FrameKind::Reply;
    let words = reply.enhanced.as_mut().unwrap();
    (words.ird, words.ord, words.rtr_read) = (ird, ord, false);
    stream.write_all(&octets(&reply)).unwrap();
    let connected = end(connecting, &connects);
    let limits = connected.map(|()| connector.get_read_limits().unwrap());
    drop((connector, qp, side));
    (limits, stream.rest())
}

/// IW-069: "not negotiated" in a Reply means 32 Reads, for each direction separately.
#[test]
fn iw_069_limits_that_a_reply_does_not_negotiate_are_32() {
    const NOT_NEGOTIATED: u16 = 0x3FFF;
    let inbound_outbound = |ird, ord| {
        let limits = limits_after(ird, ord).0.unwrap();
        (limits.inbound, limits.outbound)
    };
    assert_eq!(inbound_outbound(NOT_NEGOTIATED, NOT_NEGOTIATED), (32, 32));
    assert_eq!(inbound_outbound(NOT_NEGOTIATED, 40), (40, 32));
    assert_eq!(inbound_outbound(40, NOT_NEGOTIATED), (32, 40));
}

/// A whole FPDU without CRC: Read number `msn`, of no octets.
fn read_request(msn: u8) -> Vec<u8> {
    let mut fpdu = vec![0; 2 + 18 + 28 + 4];
    fpdu[..4].copy_from_slice(&[0, 46, 0x41, 0x41]); // ULPDU length; Last and DDP version 1; RDMAP version 1, Read Request
    fpdu[11] = 1; // queue number
    fpdu[15] = msn;
    fpdu
}

/// MPA2-017, MPA2-019: the Reads of a peer that states no limits are served up to the client's inbound limit, because the peer does not
/// know that it should issue fewer. Some adapters issue more than 32 then.
#[test]
fn mpa2_019_reads_of_a_peer_that_states_no_limits_are_served() {
    const READS: u8 = 64;
    let side = Side::with(Options::default().crc(false));
    let reads: Vec<u8> = (1..=READS).flat_map(read_request).collect();
    let responses = |stream: &mut raw::Peer| {
        let octets = stream.receive(usize::from(READS) * 20);
        assert!(
            octets
                .chunks(20)
                .all(|fpdu| fpdu[..4] == [0, 14, 0xC1, 0x42])
        );
    };

    let (server, address) = server();
    let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
    let most = u32::from(READS);
    let connecting = connector.connect(&qp, address, most, 0, b"", &connects);
    let mut stream = server.accept();
    stream.receive(24);
    let mut reply = request(2);
    reply.kind = FrameKind::Reply;
    let words = reply.enhanced.as_mut().unwrap();
    (words.ird, words.ord, words.rtr_read) = (0x3FFF, 0x3FFF, false);
    stream.write_all(&octets(&reply)).unwrap();
    end(connecting, &connects).unwrap();
    assert_eq!(connector.get_read_limits().unwrap().inbound, 32);
    run(|overlapped| connector.complete_connect(overlapped)).unwrap();
    stream.receive(20);
    stream.write_all(&reads).unwrap();
    responses(&mut stream);

    let mut unstated = request(2);
    let words = unstated.enhanced.as_mut().unwrap();
    (words.ird, words.ord, words.peer_to_peer) = (0x3FFF, 0x3FFF, false);
    (words.rtr_write, words.rtr_read) = (false, false);
    for frame in [request(1), unstated] {
        let (side, connector, mut client, _listener) =
            offered(Options::default().crc(false), &frame);
        assert_eq!(connector.get_read_limits().unwrap().inbound, 32);
        let qp = side.queue_pair();
        run(|overlapped| connector.accept(&qp, most, 0, b"", overlapped)).unwrap();
        let reply = if frame.revision == 1 { 20 } else { 24 };
        client.receive(reply);
        client.write_all(&reads).unwrap();
        responses(&mut client);
    }
}

/// IW-011, MPA2-015, MPA2-016: a Reply may announce more Reads than this side has offered to serve. The connection then has that
/// number as its inbound limit, which the client can query. A number above the adapter's own limit ends the connection.
#[test]
fn iw_011_the_inbound_limit_follows_the_reply() {
    let inbound_outbound = |ird, ord| {
        let limits = limits_after(ird, ord).0.unwrap();
        (limits.inbound, limits.outbound)
    };
    assert_eq!(inbound_outbound(48, 64), (64, 48));
    assert_eq!(inbound_outbound(5, 7), (7, 5));
    assert_eq!(inbound_outbound(100, 128), (128, 48));
    let (refused, sent) = limits_after(48, 129);
    assert_eq!(refused, Err(Status::CONNECTION_REFUSED));
    let code = TerminateCode::new(2, 0, 6);
    assert_eq!(sent, terminate_frame(code, true, false));
}

/// A server that answers a Rev 2 Request with this Reply. Returns the octets that follow from the client.
fn answered_by_hand(options: Options, reply: &Frame) -> (Result<(), Status>, Vec<u8>) {
    let side = Side::with(options);
    let (server, address) = server();
    let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
    let connecting = connector.connect(&qp, address, 1, 1, b"", &connects);
    let mut stream = server.accept();
    let request = stream.receive(24);
    assert_eq!(request[20] & 0x80, 0x80, "A");
    stream.write_all(&octets(reply)).unwrap();
    let connected = end(connecting, &connects);
    if connected.is_ok() {
        run(|overlapped| connector.complete_connect(overlapped)).unwrap();
        drop((connector, qp));
    }
    drop(side);
    (connected, stream.rest())
}

/// MPA2-022: the strict profile refuses an answer without A with the Terminate 2/0/07 (T6 of the catalogue). The default profile
/// sends the ready-to-receive message nevertheless.
#[test]
fn mpa2_022_the_strict_profile_wants_its_a_back() {
    for markers in [false, true] {
        let mut reply = request(2);
        reply.kind = FrameKind::Reply;
        reply.crc = true;
        reply.markers = markers;
        let words = reply.enhanced.as_mut().unwrap();
        (words.peer_to_peer, words.rtr_write, words.rtr_read) = (false, false, false);
        let strict = Options::default().profile(Profile::Strict);
        let (refused, sent) = answered_by_hand(strict, &reply);
        assert_eq!(refused, Err(Status::CONNECTION_REFUSED));
        let code = TerminateCode::new(2, 0, 7);
        assert_eq!(sent, terminate_frame(code, true, markers)); // MPA2-037
        let (taken, sent) = answered_by_hand(Options::default(), &reply);
        assert_eq!(taken, Ok(()));
        let lead = if markers { 4 } else { 0 };
        assert_eq!(sent[lead..lead + 4], [0, 14, 0xC1, 0x40]);
    }
}

/// AMB-040: by default the passive side may send as soon as it has accepted; strictly, when it has received.
#[test]
fn amb_040_the_passive_side_sends_first() {
    for strict in [false, true] {
        let options = if strict {
            Options::default().profile(Profile::Strict)
        } else {
            Options::default()
        };
        let pair = common::pair_with(Options::default(), options);
        let inbox = pair.active.region(8, common::ALL);
        let outbox = pair.passive.region(8, common::ALL);
        pair.active_qp.receive(1, &[inbox.sge(0, 8)]).unwrap();
        pair.active_qp.receive(2, &[inbox.sge(0, 8)]).unwrap();
        pair.passive_qp.receive(3, &[outbox.sge(0, 8)]).unwrap();
        let speak = |context| {
            pair.passive_qp
                .send_inline(context, &[b"hi"], OpFlags::empty())
        };
        let first = common::status(speak(4));
        if strict {
            assert_eq!(first, Status::CONNECTION_INVALID);
        } else {
            assert_eq!(first, Status::SUCCESS);
            assert_eq!(pair.active.result().request_context, 1);
            assert_eq!(pair.passive.result().request_context, 4);
        }
        let flags = OpFlags::SILENT_SUCCESS;
        pair.active_qp.send_inline(5, &[b"first"], flags).unwrap();
        assert_eq!(pair.passive.result().request_context, 3);
        speak(6).unwrap();
        assert_eq!(pair.passive.result().request_context, 6);
        assert_eq!(pair.active.result().status, Status::SUCCESS);
    }
}

/// The Request that softnd sends to a peer, as a raw server receives it.
fn request_towards(options: Options) -> Vec<u8> {
    let side = Side::with(options);
    let (server, address) = server();
    let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
    let connecting = connector.connect(&qp, address, 1, 1, b"", &connects);
    let mut stream = server.accept();
    let request = stream.receive(24);
    let mut reply = request_by_hand_rejected();
    reply.private_data.clear();
    stream.write_all(&octets(&reply)).unwrap();
    let failed = end(connecting, &connects);
    assert_eq!(failed, Err(Status::CONNECTION_REFUSED));
    request
}

fn request_by_hand_rejected() -> Frame {
    Frame {
        kind: FrameKind::Reply,
        rejected: true,
        ..request(2)
    }
}

/// PEER-006, PEER-038, PEER-050, PEER-090: stating a peer's stack changes the octets sent to this peer, and to no other peer.
#[test]
fn a_peer_that_is_known_gets_what_it_needs() {
    let loopback = [127, 0, 0, 0].into();
    let options = || Options::default().markers(true).peer_to_peer(false);
    let frame = request_towards(options());
    assert_eq!((frame[16] & 0x80, frame[20] & 0x80), (0x80, 0), "M and A");
    let frame = request_towards(options().peer_at(loopback, 8, Peer::Siw));
    assert_eq!((frame[16] & 0x80, frame[20] & 0x80), (0, 0), "PEER-006");
    let frame = request_towards(options().peer_to_peer(true).peer(Peer::Siw));
    assert_eq!(frame[20] & 0x80, 0, "PEER-090");
    let frame = request_towards(options().peer(Peer::Irdma));
    assert_eq!(
        (frame[16] & 0x80, frame[20] & 0x80),
        (0x80, 0x80),
        "PEER-050"
    );

    let long = Options::default().private_data_limit(508);
    let side = Side::with(long.peer_at(loopback, 8, Peer::Cxgb4));
    let (qp, connector) = (side.queue_pair(), side.connector());
    let (_server, address) = server();
    let overlapped = Overlapped::new();
    let refused = connector.connect(&qp, address, 0, 0, &[7; 252], &overlapped);
    assert_eq!(common::status(refused), Status::INVALID_BUFFER_SIZE);
}

#[test]
fn conn_023_a_peer_that_closes_twice_refuses() {
    let side = Side::new();
    let (server, address) = server();
    let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
    let connecting = connector.connect(&qp, address, 0, 0, b"", &connects);
    for _ in 0..2 {
        server.accept().receive(20);
    }
    let failed = end(connecting, &connects);
    assert_eq!(failed, Err(Status::CONNECTION_REFUSED));
}

#[test]
fn iw_004_without_revision_2_the_passive_side_waits_for_the_first_fpdu() {
    let (side, connector, mut client, _listener) =
        offered(Options::default().crc(false), &request(1));
    assert_eq!(connector.get_private_data().unwrap(), b"by hand");
    let qp = side.queue_pair();
    run(|overlapped| connector.accept(&qp, 0, 0, b"yes", overlapped)).unwrap(); // IW-005
    let reply = client.receive(23);
    assert_eq!(
        (reply[16], reply[17], reply[19]),
        (0, 1, 3),
        "flags, Rev, PD_Length"
    ); // MPA2-036
    qp.send_inline(1, &[b"held"], OpFlags::empty()).unwrap();
    let nothing = client.try_read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    // R1 of the catalogue. The CRC field is 0, because no CRC was agreed on.
    let ready = [
        0, 14, 0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    client.write_all(&ready).unwrap();
    let send = client.receive(28);
    assert_eq!(
        (&send[..4], &send[20..24]),
        (&[0, 22, 0x41, 0x43][..], &b"held"[..])
    );
}

#[test]
fn x16_to_x20_bad_requests_are_closed_without_a_reply() {
    let side = Side::new();
    let (listener, address) = side.listener(0);
    let good = octets(&request(1));
    let edited = |edit: fn(&mut Vec<u8>)| {
        let mut octets = good.clone();
        edit(&mut octets);
        octets
    };
    let bad = [
        ("X15", edited(|octets| octets[3] ^= 1)),
        ("X16", edited(|octets| octets[17] = 255)),
        (
            "X17",
            edited(|octets| {
                octets[18..20].copy_from_slice(&513u16.to_be_bytes());
                octets.resize(20 + 513, 7);
            }),
        ),
        (
            "X18",
            edited(|octets| {
                octets[16..20].copy_from_slice(&[0x10, 2, 0, 0]);
                octets.truncate(20);
            }),
        ),
        ("X19", edited(|octets| octets.extend([0; 32]))),
        ("X20", edited(|octets| octets[9] = b'p')),
    ];
    for (name, octets) in bad {
        let mut client = raw::dial(address);
        let _ = client.write_all(&octets); // the server may close before all is written
        let _ = client.shutdown();
        assert_eq!(client.rest(), b"", "{name}");
    }
    drop((connect(Side::new(), side, 1), listener));
}

#[test]
fn conn_055_a_request_whose_peer_has_gone_cannot_be_accepted() {
    let (side, connector, client, _listener) = offered(Options::default(), &request(2));
    drop(client);
    let qp = side.queue_pair();
    // The peer's end may arrive only after the Reply was sent. Accept then ends with a refusal (AMB-004).
    let accepted = run(|overlapped| connector.accept(&qp, 1, 1, b"", overlapped));
    assert!(
        [
            Err(Status::CONNECTION_ABORTED),
            Err(Status::CONNECTION_REFUSED)
        ]
        .contains(&accepted),
        "{accepted:?}"
    );
}
