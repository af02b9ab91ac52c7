//! Events of streams, and their effects.

use iwarp_io::transport::quic::preamble::{ErrorCode, Preamble};
use netdirect::{OpFlags, Overlapped, Status};

use crate::common::{Side, network, status};
use crate::ends::{Call, Ends, active, frame, over, passive, there};
use crate::peer::{End, Peer, Read};
use iwarp_io::setup::FrameKind;

const ABORTED: u64 = ErrorCode::Aborted as u64;

/// Runs a test in both roles.
fn both(test: impl Fn(Ends)) {
    test(active());
    test(passive());
}

#[test]
fn a_reset_of_the_peers_direction_is_a_reset_of_both() {
    both(|mut ends| {
        ends.is_reset_by(|peer, stream| peer.reset(stream, ErrorCode::Aborted));
        let Ends { peer, stream, .. } = &mut ends;
        assert_eq!(peer.read_to_end(*stream).end, Some(End::Reset(ABORTED)));
    });
}

#[test]
fn a_peer_that_reads_no_more_has_reset_the_connection() {
    for error in [ErrorCode::Aborted, ErrorCode::Limit] {
        both(|mut ends| {
            ends.is_reset_by(|peer, stream| peer.stop(stream, error));
            let Ends { peer, stream, .. } = &mut ends;
            let stopped = peer.until(|peer| peer.stopped(*stream));
            assert_eq!(stopped, ABORTED);
        });
    }
}

#[test]
fn a_peer_that_closes_in_good_order_ends_the_connection_with_fin() {
    both(|mut ends| {
        let notice = Overlapped::new();
        let _ = ends.connector.notify_disconnect(&notice).unwrap();
        ends.peer.finish(ends.stream);
        assert_eq!(over(&mut ends.peer, &notice), Status::SUCCESS);
        let disconnects = Overlapped::new();
        let _ = ends.connector.disconnect(&disconnects).unwrap();
        assert_eq!(over(&mut ends.peer, &disconnects), Status::SUCCESS);
        let Ends { peer, stream, .. } = &mut ends;
        assert_eq!(peer.read_to_end(*stream).end, Some(End::Fin));
        assert_eq!(peer.stopped(*stream), None);
    });
}

/// A Write to memory that is not registered.
const ASTRAY: [u8; 24] = [
    0x00, 0x12, // ULPDU_Length
    0xC1, 0x40, // tagged, last, DDP version 1; RDMAP version 1, Write
    0xDE, 0xAD, 0xBE, 0xEF, // STag
    0, 0, 0, 0, 0, 0, 0, 0, // tagged offset
    1, 2, 3, 4, // payload
    0, 0, 0, 0, // CRC field
];

/// The adapter's answer to [`ASTRAY`]: a Terminate that names the layer DDP, a tagged buffer, and an invalid STag.
fn terminate_of(ends: &mut Ends) -> Read {
    let notice = Overlapped::new();
    ends.qp.receive(1, &[]).unwrap();
    let _ = ends.connector.notify_disconnect(&notice).unwrap();
    ends.peer.write(ends.stream, &ASTRAY);
    assert_eq!(over(&mut ends.peer, &notice), Status::SUCCESS);
    assert_eq!(ends.side.result().status, Status::CANCELED);
    ends.peer.read_to_end(ends.stream)
}

#[test]
fn rdmap_074_alt_025_a_terminate_is_followed_by_fin_and_not_by_a_reset() {
    // The passive side may not send before the active side has: after an FPDU of the active side it may.
    both(|mut ends| {
        let Read { octets, end } = terminate_of(&mut ends);
        assert_eq!(octets[2..4], [0x41, 0x47], "an untagged Terminate");
        assert_eq!(octets[20..22], [0x11, 0x00], "DDP, tagged, invalid STag");
        assert_eq!(end, Some(End::Fin));
        assert_eq!(ends.peer.stopped(ends.stream), None);
        // The peer ends its direction, too, and no other event follows.
        ends.peer.finish(ends.stream);
        network().pass(std::time::Duration::from_secs(20));
        ends.peer.drive();
        assert_eq!(ends.peer.stopped(ends.stream), None);
    });
}

#[test]
fn alt_025_iw_065_a_peer_that_does_not_end_its_direction_after_a_terminate_is_reset_later() {
    both(|mut ends| {
        assert_eq!(terminate_of(&mut ends).end, Some(End::Fin));
        let begun = network().time();
        let Ends { peer, stream, .. } = &mut ends;
        assert_eq!(peer.until(|peer| peer.stopped(*stream)), ABORTED);
        assert!(network().time() - begun > std::time::Duration::from_secs(9));
    });
}

#[test]
fn streams_that_do_not_begin_with_a_preamble_are_refused() {
    let side = Side::new();
    let (listener, address) = side.listener(0);
    let connector = side.connector();
    let arrives = Overlapped::new();
    let _ = listener
        .get_connection_request(&connector, &arrives)
        .unwrap();
    let good = Preamble {
        source: 0xC001,
        destination: address.port(),
    };
    let with = |at: usize, octet| {
        let mut octets = good.encode();
        octets[at] = octet;
        octets.to_vec()
    };
    let without_source = [&[1, 0, 0, 0][..], &good.encode()[4..]].concat();
    let mut peer = Peer::client(&network(), there(0), address);
    for (octets, error) in [
        (with(0, 2), ErrorCode::Version),
        (with(0, 0), ErrorCode::Version),
        (with(1, 1), ErrorCode::BadPreamble),
        (with(7, 1), ErrorCode::BadPreamble),
        (without_source, ErrorCode::BadPreamble),
    ] {
        let stream = peer.open(&octets);
        let error = u64::from(error.number());
        let read = peer.read_to_end(stream);
        assert_eq!((read.octets, read.end), (vec![], Some(End::Reset(error))));
        assert_eq!(peer.until(|peer| peer.stopped(stream)), error);
    }
    // An end before the preamble is whole.
    let stream = peer.open(&good.encode()[..7]);
    peer.finish(stream);
    let error = u64::from(ErrorCode::BadPreamble.number());
    assert_eq!(peer.read_to_end(stream).end, Some(End::Reset(error)));
    // The connection continues.
    let stream = peer.open_with_preamble(0xC001, address.port());
    peer.write(stream, &frame(FrameKind::Request));
    assert!(arrives.is_pending());
    assert_eq!(over(&mut peer, &arrives), Status::SUCCESS);
    assert_eq!(connector.get_peer_address().unwrap(), there(0xC001));
    assert_eq!(connector.get_local_address().unwrap(), address);
}

#[test]
fn conn_023_whatever_refuses_a_stream_refuses_connect() {
    for error in [
        ErrorCode::Closed,
        ErrorCode::Aborted,
        ErrorCode::NoListener,
        ErrorCode::Busy,
        ErrorCode::BadPreamble,
        ErrorCode::Version,
        ErrorCode::Limit,
    ] {
        let mut peer = Peer::server(&network(), there(0));
        let call = Call::new(&Side::new(), peer.socket.local());
        let (_, stream) = peer.accept();
        peer.stop(stream, error);
        peer.reset(stream, error);
        assert_eq!(call.end(&mut peer), Status::CONNECTION_REFUSED, "{error}");
    }
}

#[test]
fn conn_023_another_answer_or_an_end_instead_of_it_refuses_connect() {
    for (answer, ends) in [
        (&[2, 0, 0, 0][..], false),
        (&[1, 0, 0, 1], false),
        (b"HTTP", false),
        (&[1, 0], true),
        (&[], true),
    ] {
        let mut peer = Peer::server(&network(), there(0));
        let call = Call::new(&Side::new(), peer.socket.local());
        let (_, stream) = peer.accept();
        peer.read_exact(stream, 8);
        peer.write(stream, answer);
        if ends {
            peer.finish(stream);
        }
        assert_eq!(call.end(&mut peer), Status::CONNECTION_REFUSED);
        assert_eq!(peer.read_to_end(stream).end, Some(End::Reset(ABORTED)));
        if !ends {
            assert_eq!(peer.until(|peer| peer.stopped(stream)), ABORTED);
        }
    }
}

#[test]
fn the_request_follows_the_answer() {
    let mut peer = Peer::server(&network(), there(0));
    let call = Call::new(&Side::new(), peer.socket.local());
    let (_, stream) = peer.accept();
    let preamble = Preamble {
        source: call.connector.get_local_address().unwrap().port(),
        destination: peer.socket.local().port(),
    };
    assert_eq!(peer.read_exact(stream, 8), preamble.encode());
    for _ in 0..100 {
        network().pass(std::time::Duration::from_millis(1));
        peer.drive();
    }
    assert_eq!(peer.read(stream, 1), Read::default());
}

#[test]
fn what_follows_the_preamble_at_once_is_taken() {
    let side = Side::new();
    let (listener, address) = side.listener(0);
    let (connector, arrives) = (side.connector(), Overlapped::new());
    let _ = listener
        .get_connection_request(&connector, &arrives)
        .unwrap();
    let mut peer = Peer::client(&network(), there(0), address);
    let preamble = Preamble {
        source: 1,
        destination: 1,
    };
    let request = frame(FrameKind::Request);
    peer.open(&[&preamble.encode()[..], &request].concat());
    assert_eq!(over(&mut peer, &arrives), Status::SUCCESS);
    assert_eq!(connector.get_peer_address().unwrap(), there(1));
}

/// The other streams of a connection are not disturbed by one that breaks a rule.
#[test]
fn a_stream_ends_alone() {
    let mut ends = passive();
    ends.qp.receive(1, &[]).unwrap();
    let bad = ends.peer.open(b"GET / HTTP/1.1\r\n\r\n");
    let read = ends.peer.read_to_end(bad);
    let error = u64::from(ErrorCode::Version.number());
    assert_eq!(read.end, Some(End::Reset(error)));
    // A Send of no octets.
    let send = [
        &[0x00, 0x12, 0x41, 0x43][..],
        &[0; 4],
        &[0; 4],
        &[0, 0, 0, 1],
        &[0; 4],
        &[0; 4],
    ];
    ends.peer.write(ends.stream, &send.concat());
    let mut results = [netdirect::CompletionResult::default()];
    let cq = ends.side.cq.clone();
    ends.peer.until_true(|_| cq.get_results(&mut results) == 1);
    assert_eq!(results[0].status, Status::SUCCESS);
    let sent = ends.qp.send(2, &[], OpFlags::empty());
    assert_eq!(status(sent), Status::SUCCESS);
    ends.peer.read_exact(ends.stream, 24);
}
