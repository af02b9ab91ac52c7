//! Connections whose Receives stay posted when the peer ends the stream.

use super::*;

use WqeStatus::{Flushed, PeerEnded, Success};

/// A Responder whose Receives stay, with two of them, one of which the peer has taken.
fn raw() -> Raw {
    let mut raw = Raw::responder();
    raw.end.conn.keep_receives();
    raw.post_receive(1, 16);
    raw.post_receive(2, 16);
    raw.receive(&vector("D1"));
    raw
}

type EndsStream = fn(&mut Raw);

/// The ways in which a peer ends a stream: in order, within an FPDU, by a reset.
fn ends() -> [(&'static str, EndsStream); 3] {
    [
        ("in order", |raw| {
            raw.end.conn.handle_stream_end(StreamEnd::Fin, 0);
        }),
        ("within an FPDU", |raw| {
            raw.end.conn.handle_stream_end(StreamEnd::Fin, 3);
        }),
        ("by a reset", |raw| {
            raw.end.conn.handle_stream_end(StreamEnd::Reset, 0);
        }),
    ]
}

fn receives(raw: &mut Raw) -> Vec<WqeStatus> {
    raw.end.collect();
    statuses(&raw.end, RequestKind::Receive)
}

#[test]
fn receives_stay_and_more_can_be_posted_until_this_side_disconnects() {
    for (how, end) in ends() {
        let mut raw = raw();
        end(&mut raw);
        raw.post_receive(3, 16);
        assert_eq!(receives(&mut raw), [Success], "{how}");
        assert!(
            raw.end.conn.write_side_done(),
            "{how}: nothing is left to send"
        );
        assert_eq!(raw.transmit(), [], "{how}: no Terminate");
        raw.end.conn.disconnect();
        assert_eq!(receives(&mut raw), [Success, Flushed, Flushed], "{how}");
        raw.post_receive(4, 16);
        assert_eq!(receives(&mut raw).len(), 4, "{how}: it comes back at once");
        assert!(!raw.end.events.contains(&Event::GaveUp), "{how}");
    }
}

#[test]
fn a_request_behind_the_end_fails_and_everything_else_is_flushed() {
    for (how, end) in ends() {
        let mut raw = raw();
        end(&mut raw);
        raw.end.post(5, inline(&[b"late"])).unwrap();
        raw.end.post(6, inline(&[b"later"])).unwrap();
        raw.end.collect();
        let sends = statuses(&raw.end, RequestKind::Send);
        assert_eq!(sends, [PeerEnded, Flushed], "{how}");
        assert_eq!(receives(&mut raw), [Success, Flushed], "{how}");
        assert_eq!(raw.transmit(), [], "{how}");
        let gave_up = |event: &&Event| **event == Event::GaveUp;
        assert_eq!(raw.end.events.iter().filter(gave_up).count(), 1, "{how}");
    }
}

/// A Read fails that the peer will not answer, and a Write whose confirmation is missing.
#[test]
fn requests_without_an_answer_fail_with_the_end() {
    for (how, end) in ends() {
        let on_demand = Confirmations::OnDemand { apart: false };
        for confirmations in [Confirmations::Off, Confirmations::EachWrite, on_demand] {
            let confirms = confirmations != Confirmations::Off;
            let mut raw = Raw::with(StreamConfig {
                confirmations,
                ..stream(Role::Initiator)
            });
            raw.end.conn.keep_receives();
            raw.post_receive(1, 16);
            let sink = raw.end.mem.register(vec![0; 4], Rights::ALL, PD);
            let write = Operation::Write {
                data: Payload::Inline(&[b"octets"]),
                remote: remote(TARGET, 0x1000),
            };
            raw.end.post(2, inline(&[b"sent"])).unwrap();
            raw.end.post(3, write).unwrap();
            raw.end.post(4, read(&[sink], 0x1000)).unwrap();
            raw.end.post(5, inline(&[b"behind"])).unwrap();
            let knobs = raw.knobs;
            raw.end.transmit(&knobs);
            end(&mut raw);
            raw.end.collect();
            let of_write = if confirms { PeerEnded } else { Success };
            let of_read = if confirms { Flushed } else { PeerEnded };
            // The transport has taken the last one, which waits on demand for the Write before it.
            let of_last = match confirmations {
                Confirmations::OnDemand { .. } => Flushed,
                _ => Success,
            };
            let expected = [Success, of_write, of_read, of_last];
            let sends: Vec<_> = raw.end.completions();
            let sends = sends.iter().filter(|one| one.kind != RequestKind::Receive);
            let sends: Vec<_> = sends.map(|one| one.status).collect();
            assert_eq!(sends, expected, "{how}, {confirmations:?}");
            assert_eq!(receives(&mut raw), [Flushed], "{how}, {confirmations:?}");
        }
    }
}

/// A fault of the peer, or one that the peer has found, is no mere end.
#[test]
fn a_terminate_flushes_receives_as_ever() {
    let mut raw = raw();
    raw.receive(&vector("T1"));
    assert_eq!(receives(&mut raw), [Success, Flushed]);
}

#[cfg(planted_bugs)]
#[test]
fn planted_bugs_are_found() {
    use crate::planted::{Bug, is_found_by};
    assert!(is_found_by(
        Bug::ReceivesFlushedByPeer,
        receives_stay_and_more_can_be_posted_until_this_side_disconnects
    ));
}
