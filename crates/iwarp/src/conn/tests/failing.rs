//! Requests that fail because the memory that their SGEs name does not exist, was deregistered meanwhile, or lacks a right.

use super::*;
use crate::ddp::TaggedError;
use crate::rdmap::TerminateCode;

#[test]
fn sges_are_checked_when_the_request_is_reached() {
    let mut raw = Raw::initiator();
    let source = raw.end.mem.register(b"hello".to_vec(), Rights::NONE, PD);
    raw.end.post(1, sends(Payload::Sges(&[source]))).unwrap();
    raw.end.mem.deregister(source.token);
    raw.end.post(2, inline(&[])).unwrap();
    raw.post_receive(3, 1);
    let terminate = raw.last_terminate().unwrap();
    assert_eq!(terminate.code, TerminateCode::LOCAL_CATASTROPHIC);
    assert_eq!((terminate.ddp, terminate.segment_length), (None, None)); // RDMAP-081
    let done = outcomes(&raw.end);
    assert_eq!(
        done,
        [
            WqeStatus::LocalAccess,
            WqeStatus::Flushed,
            WqeStatus::Flushed
        ]
    );
}

#[test]
fn amb_015_a_read_sink_needs_its_right() {
    let mut raw = Raw::initiator();
    let sink = raw.end.mem.register(vec![0; 8], Rights::NONE, PD);
    raw.end.post(1, read(&[sink], 0)).unwrap();
    assert!(raw.last_terminate().is_some());
    assert_eq!(
        statuses(&raw.end, RequestKind::Read),
        [WqeStatus::LocalAccess]
    );
}

#[test]
fn a_failing_request_waits_for_what_stands_before_it() {
    let mut pair = pair(Knobs::default());
    let sink = pair.a.mem.register(vec![0; 64], Rights::ALL, PD);
    let bad = [NOWHERE];
    pair.a.post(1, read(&[sink], 0x1000)).unwrap();
    pair.a.post(2, sends(Payload::Sges(&bad))).unwrap();
    pair.run();
    use WqeStatus::{LocalAccess, Success};
    let done = outcomes(&pair.a);
    assert_eq!(done, [Success, LocalAccess]);
    assert_eq!(
        pair.b.terminated().unwrap().code,
        TerminateCode::LOCAL_CATASTROPHIC
    );
    assert_eq!(pair.a.mem.bytes(sink.token), pattern(64, 7));
}

#[test]
fn a_source_deregistered_in_the_middle_of_a_message() {
    for crc in [true, false] {
        let mut raw = Raw::with(StreamConfig {
            crc,
            ..stream(Role::Initiator)
        });
        raw.knobs.limit.fpdus = 1;
        raw.knobs.limit.mulpdu = 5018;
        let source = raw.end.mem.register(vec![1; 20_000], Rights::NONE, PD);
        raw.end.post(1, inline(&[b"before"])).unwrap();
        raw.end.post(2, sends(Payload::Sges(&[source]))).unwrap();
        raw.end.post(3, inline(&[b"behind"])).unwrap();
        let mut sent = raw.transmit();
        sent.extend(raw.transmit());
        raw.end.mem.deregister(source.token);
        for _ in 0..3 {
            sent.extend(raw.transmit());
        }
        let ulpdus = frames(&sent, crc);
        assert_eq!(
            ulpdus.len(),
            3,
            "the first, a part of the second, the Terminate"
        );
        assert_eq!(ulpdus[2][18..], hex("00000000"));
        let done = outcomes(&raw.end);
        assert_eq!(
            done,
            [
                WqeStatus::Success,
                WqeStatus::LocalAccess,
                WqeStatus::Flushed
            ]
        );
    }
}

#[test]
fn what_was_made_before_a_message_was_cut_short_goes_out_first() {
    let mut raw = Raw::initiator();
    let source = raw.end.mem.register(vec![1; 20_000], Rights::NONE, PD);
    raw.end.post(1, inline(&[b"before"])).unwrap();
    raw.end.post(2, sends(Payload::Sges(&[source]))).unwrap();
    let make = |raw: &mut Raw, fpdus| {
        let limit = TxLimit {
            fpdus,
            ..raw.knobs.limit
        };
        raw.end
            .conn
            .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch)
    };
    assert_eq!(make(&mut raw, 3), 3);
    raw.end.mem.deregister(source.token);
    assert_eq!(make(&mut raw, 3), 0);
    raw.end.collect();
    assert_eq!(raw.end.events, []);
    raw.transmit();
    let done = outcomes(&raw.end);
    assert_eq!(done, [WqeStatus::Success, WqeStatus::LocalAccess]);
    assert!(raw.last_terminate().is_some());
}

#[test]
fn a_message_not_begun_on_the_wire_fails_like_one_never_reached() {
    let mut raw = Raw::initiator().with_buffers();
    raw.knobs.limit.fpdus = 1;
    let source = raw.end.mem.register(vec![1; 100], Rights::NONE, PD);
    let sink = SINK_OF_4;
    raw.end.post(1, read(&[sink], 0)).unwrap();
    raw.end.post(2, sends(Payload::Sges(&[source]))).unwrap();
    raw.transmit(); // the Read; the Send has been reached and found no room
    raw.end.mem.deregister(source.token);
    assert_eq!(raw.transmit(), []);
    raw.receive(&vector("D4"));
    let done = outcomes(&raw.end);
    assert_eq!(done, [WqeStatus::Success, WqeStatus::LocalAccess]);
    assert!(raw.last_terminate().is_some());
}

#[test]
fn a_sink_deregistered_under_its_read() {
    let mut raw = Raw::initiator().with_buffers();
    let sink = SINK_OF_4;
    raw.end.post(1, read(&[sink], 0)).unwrap();
    raw.transmit();
    raw.end.mem.deregister(SINK);
    raw.receive(&vector("D4"));
    assert_eq!(
        raw.end.fault(),
        Some(Fault::Tagged(TaggedError::InvalidSTag))
    );
    assert_eq!(
        statuses(&raw.end, RequestKind::Read),
        [WqeStatus::LocalAccess]
    );
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::new(1, 1, 0)
    );
}

#[test]
fn a_receive_whose_buffer_is_gone() {
    let mut raw = Raw::responder();
    let sge = raw.post_receive(1, 16);
    raw.post_receive(2, 16);
    raw.receive(&vector("R1"));
    raw.end.mem.deregister(sge.token);
    raw.receive(&vector("D1"));
    let expected = [WqeStatus::LocalAccess, WqeStatus::Flushed];
    assert_eq!(statuses(&raw.end, RequestKind::Receive), expected);
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::LOCAL_CATASTROPHIC
    );
}
