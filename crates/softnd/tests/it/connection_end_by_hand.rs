//! The reason why a connection ended, with peers made by hand.

use std::io::Write as _;
use std::time::Duration;

use iwarp_io::setup::{TerminateCode, terminate_frame};
use netdirect::{ConnectionEnd, EndReason, EndedBy, Overlapped, Status};
use softnd::Options;

use crate::common::ending::{offered_by, silent};
use crate::common::raw::Peer;
use crate::common::{Side, end, run};

/// The end of a connection with a peer that does this.
fn end_by(act: impl FnOnce(Peer)) -> ConnectionEnd {
    let (_side, qp, connector, client) = silent();
    act(client);
    run(|overlapped| connector.notify_disconnect(overlapped)).unwrap();
    let end = connector.connection_end().expect("a reason");
    assert_eq!(qp.connection_end().as_ref(), Some(&end));
    end
}

#[test]
fn each_terminate_of_the_peer_is_a_reason() {
    let mut codes = 0;
    for (layer, etype) in [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 0),
        (7, 7),
    ] {
        for code in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xff] {
            let sent = TerminateCode::new(layer, etype, code);
            // As an Initiator's first FPDU, 0/2/05 to 0/2/07 mean 2/0/05 to 2/0/07 (PEER-084).
            let is_ambiguous = (layer, etype) == (0, 2) && (5..=7).contains(&code);
            if is_ambiguous || !sent.is_assigned() && layer != 7 {
                continue;
            }
            let end = end_by(|mut client| {
                client.receive(20);
                client
                    .write_all(&terminate_frame(sent, true, false))
                    .unwrap();
            });
            assert_eq!(
                (end.by(), end.reason()),
                (EndedBy::Peer, EndReason::Terminate),
                "{sent}: {end}"
            );
            let got = end.terminate_code().expect("a code");
            assert_eq!((got.layer, got.etype, got.code), (layer, etype, code));
            assert!(end.what().contains(sent.name()), "{end}");
            codes += 1;
        }
    }
    assert!(codes > 40, "{codes}");
}

#[test]
fn a_reset_of_the_peer_is_a_reason() {
    let end = end_by(|mut client| {
        client.receive(20);
        client.reset();
    });
    assert_eq!((end.by(), end.reason()), (EndedBy::Peer, EndReason::Reset));
    assert_eq!(end.terminate_code(), None);
}

#[test]
fn octets_that_are_no_fpdu_are_a_reason() {
    let end = end_by(|mut client| {
        client.receive(20);
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        client.write_all(&[0; 1 << 16]).unwrap();
    });
    assert_eq!(
        (end.by(), end.reason()),
        (EndedBy::ThisSide, EndReason::Terminate)
    );
    assert!(end.terminate_code().is_some(), "{end:?}");
}

#[test]
fn a_stream_that_ends_within_an_fpdu_was_ended_by_the_peer() {
    let end = end_by(|mut client| {
        client.receive(20);
        client.write_all(&[0, 100, 1, 2]).unwrap();
        client.shutdown().unwrap();
    });
    assert_eq!(
        (end.by(), end.reason()),
        (EndedBy::Peer, EndReason::Terminate)
    );
    assert!(end.what().contains("in the middle of an FPDU"), "{end}");
}

#[test]
fn a_peer_that_does_not_complete_is_a_reason() {
    let short = Options::default().timeouts(|times| times.ready = Some(Duration::from_millis(1)));
    let (side, connector, _client) = offered_by(Side::with(short), true);
    let (qp, accepts) = (side.queue_pair(), Overlapped::new());
    let accepting = connector.accept(&qp, 0, 0, b"", &accepts);
    assert_eq!(end(accepting, &accepts), Err(Status::IO_TIMEOUT));
    let end = connector.connection_end().expect("a reason");
    assert_eq!(
        (end.by(), end.reason()),
        (EndedBy::ThisSide, EndReason::TimeLimit)
    );
}
