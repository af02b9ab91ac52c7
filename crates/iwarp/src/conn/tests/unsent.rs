//! A peer that answers a request before its last octet has left has not been asked (RDMAP-050, RDMAPX-007).

use super::*;
use crate::ddp::{Qn, TaggedHeader, UntaggedError, UntaggedHeader};
use crate::rdmap::{AtomicResponse, Opcode, OperationError, control};
use crate::{AtomicOp, Ready};

/// How a peer that was not asked fails the stream: by a Read Response, or by an Atomic Response.
const NO_READ: Fault = Fault::Operation(OperationError::UnexpectedOpcode);
const NO_ATOMIC: Fault = Fault::Untagged(UntaggedError::NoBuffer);

/// An Initiator that has made all FPDUs of these requests, of which the transport has taken `taken` octets.
fn made(config: StreamConfig, post: impl Fn(&mut End), taken: usize) -> Raw {
    let mut raw = Raw::with(config).with_buffers();
    post(&mut raw.end);
    raw.knobs.write = taken;
    assert_eq!(raw.transmit().len(), taken);
    assert!(!raw.end.conn.wants_transmit(), "all is made");
    raw
}

/// `answer` comes after each number of octets that the transport can have taken. It fails the stream unless all were taken,
/// and nothing completes as done. Behind the last octet it is the answer.
fn counts_only_behind_the_last_octet(
    config: StreamConfig,
    post: impl Fn(&mut End),
    answer: &[u8],
    fault: Fault,
) {
    let mut whole = Raw::with(config).with_buffers();
    post(&mut whole.end);
    let octets = whole.transmit().len();
    for taken in 0..octets {
        let mut raw = made(config, &post, taken);
        let before = outcomes(&raw.end);
        raw.receive(answer);
        assert_eq!(raw.end.fault(), Some(fault), "{taken} octets taken");
        assert_eq!(raw.end.mem.placed(), 0, "{taken} octets taken");
        let after = outcomes(&raw.end);
        let flushed = after[before.len()..].iter();
        assert!(
            flushed.clone().all(|status| *status == WqeStatus::Flushed),
            "{taken} octets taken: {after:?}"
        );
    }
    whole.receive(answer);
    assert_eq!(whole.end.fault(), None);
    assert!(whole.end.conn.is_idle());
    let done = outcomes(&whole.end);
    assert!(done.iter().all(|status| *status == WqeStatus::Success));
}

fn framed(ulpdu: &[u8], crc: bool) -> Vec<u8> {
    let mut frame = Vec::new();
    fpdu::put(&mut frame, ulpdu, crc);
    frame
}

/// As [`vector`] `D4`, with this many octets.
fn read_response(len: usize) -> Vec<u8> {
    let header = TaggedHeader::new(true, control(Opcode::ReadResponse), SINK, 0);
    [&header.to_bytes()[..], &vec![0x5a; len]].concat()
}

#[test]
fn an_answer_to_a_read_that_has_not_left() {
    let post = |end: &mut End| end.post(1, read(&[SINK_OF_4], 0x1000)).unwrap();
    let config = stream(Role::Initiator);
    counts_only_behind_the_last_octet(config, post, &vector("D4"), NO_READ);
}

#[cfg(planted_bugs)]
#[test]
fn planted_bugs_are_found() {
    assert!(crate::planted::is_found_by(
        crate::planted::Bug::UnsentIsAnswered,
        an_answer_to_a_read_that_has_not_left
    ));
}

/// Without a CRC a long response is looked at when its header is here.
#[test]
fn a_long_answer_to_a_read_that_has_not_left() {
    let sink = Sge {
        length: 4096,
        ..SINK_OF_4
    };
    let post = move |end: &mut End| end.post(1, read(&[sink], 0x1000)).unwrap();
    let config = StreamConfig {
        crc: false,
        ..stream(Role::Initiator)
    };
    let answer = framed(&read_response(4096), false);
    counts_only_behind_the_last_octet(config, post, &answer, NO_READ);
}

/// The first of two Reads has left and is answered. The answer to the second one comes before that Read has left.
#[test]
fn an_answer_to_the_second_of_two_reads() {
    let post = |end: &mut End| {
        for context in 0..2 {
            end.post(context, read(&[SINK_OF_4], 0x1000)).unwrap();
        }
    };
    let mut raw = made(stream(Role::Initiator), post, 52);
    raw.receive(&vector("D4"));
    assert_eq!(outcomes(&raw.end), [WqeStatus::Success]);
    raw.receive(&vector("D4"));
    assert_eq!(raw.end.fault(), Some(NO_READ));
    assert_eq!(outcomes(&raw.end), [WqeStatus::Success, WqeStatus::Flushed]);
}

/// AMB-002: the Read behind the Writes confirms them only if it has left.
#[test]
fn an_answer_to_a_confirming_read_that_has_not_left() {
    let post = |end: &mut End| {
        let operation = Operation::Write {
            data: Payload::Inline(&[b"hello"]),
            remote: remote(TARGET, 0x1000),
        };
        end.post(1, operation).unwrap();
    };
    let config = StreamConfig {
        confirmations: Confirmations::EachWrite,
        ..stream(Role::Initiator)
    };
    counts_only_behind_the_last_octet(config, post, &vector("R3"), NO_READ);
}

/// RFC 6581 section 9.2: a Read of no octets as the ready-to-receive message.
#[test]
fn an_answer_to_a_ready_read_that_has_not_left() {
    let config = StreamConfig {
        ready: Some(Ready::Read),
        ..stream(Role::Initiator)
    };
    let post = |end: &mut End| end.conn.send_ready();
    counts_only_behind_the_last_octet(config, post, &vector("R3"), NO_READ);
}

#[test]
fn an_answer_to_an_atomic_that_has_not_left() {
    let sink = Sge {
        length: 8,
        ..SINK_OF_4
    };
    let post = move |end: &mut End| {
        let operation = Operation::Atomic {
            op: AtomicOp::add(1),
            sink: Payload::Sges(&[sink]),
            remote: remote(TARGET, 0x1000),
        };
        end.post(1, operation).unwrap();
    };
    let response = AtomicResponse { id: 1, value: 7 };
    let header = UntaggedHeader::new(
        true,
        control(Opcode::AtomicResponse),
        0,
        Qn::ATOMIC_RESPONSE,
        1,
        0,
    );
    let answer = [&header.to_bytes()[..], &response.to_bytes()].concat();
    let config = stream(Role::Initiator);
    counts_only_behind_the_last_octet(config, post, &framed(&answer, true), NO_ATOMIC);
}
