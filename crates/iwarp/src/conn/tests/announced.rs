//! Sends that Immediate Data announces, and how two sides find out that both have them.

use proptest::prelude::*;

use super::*;
use crate::ddp::{Qn, UntaggedHeader};
use crate::rdmap::{Opcode, control};
use crate::{RECOGNIZED_WITHIN, ReceivedImmediate, Recognition, TerminateCode};

/// The ready-to-receive Write of an Initiator that takes announced Sends, and the first Write of a Responder.
const MARK: &str = "c140 00000001 736f66746e645349";
const ANSWER: &str = "c140 00000001 736f66746e645352";

fn by_writes(role: Role) -> StreamConfig {
    StreamConfig {
        recognition: Recognition::ByWrites,
        ..stream(role)
    }
}

fn agreed(role: Role) -> StreamConfig {
    StreamConfig {
        recognition: Recognition::Agreed,
        ..stream(role)
    }
}

fn announced<'a>(number: u8, data: &'a [&'a [u8]]) -> Operation<Payload<'a>> {
    Operation::SendImmediate {
        data: Payload::Inline(data),
        number: [number; 4],
        solicited: false,
    }
}

/// An Initiator that has sent its ready-to-receive message, and the ULPDU of that message.
fn initiator(config: StreamConfig) -> (Raw, Vec<u8>) {
    let mut raw = Raw::with(config).with_buffers();
    raw.end.conn.send_ready();
    let mut sent = frames(&raw.transmit(), true);
    assert_eq!(sent.len(), 1);
    (raw, sent.remove(0))
}

/// A Send of the peer, as a whole ULPDU.
fn send_of_peer(msn: u32) -> Vec<u8> {
    let header = UntaggedHeader::new(true, control(Opcode::Send), 0, Qn::SEND, msn, 0);
    header.to_bytes().to_vec()
}

fn immediate_of_peer(msn: u32, data: [u8; 8]) -> Vec<u8> {
    let ulp = control(Opcode::Immediate);
    let header = UntaggedHeader::new(true, ulp, 0, Qn::SEND, msn, 0);
    [&header.to_bytes()[..], &data].concat()
}

#[test]
fn two_sides_recognize_each_other_by_writes_that_place_nothing() {
    let (mut a, mark) = initiator(by_writes(Role::Initiator));
    assert_eq!(mark, hex(MARK));
    let mut b = Raw::with(by_writes(Role::Responder));
    assert_eq!(b.transmit(), [], "a Responder waits");
    assert_eq!(
        (a.end.conn.recognized(), b.end.conn.recognized()),
        (None, None)
    );
    // What the Responder has posted before stands behind its answer.
    b.end.post(1, inline(&[b"x"])).unwrap();
    b.ulpdu(&mark);
    assert_eq!(b.end.conn.recognized(), Some(true));
    let answer = frames(&b.transmit(), true);
    assert_eq!(answer[0], hex(ANSWER));
    assert_eq!(answer.len(), 2);
    a.ulpdu(&answer[0]);
    assert_eq!(a.end.conn.recognized(), Some(true));
    assert_eq!(a.transmit(), [], "the answer is not answered");
    assert_eq!(a.end.completions().len() + b.end.completions().len(), 1);
}

/// From both ends, with what was posted before the first FPDU; the announcement takes no Receive.
#[test]
fn an_announced_send_takes_one_receive_and_brings_its_number() {
    for (config, write, read) in [
        (
            by_writes as fn(Role) -> StreamConfig,
            usize::MAX,
            usize::MAX,
        ),
        (by_writes, 7, 5),
        (agreed, usize::MAX, usize::MAX),
        (agreed, 3, 50),
    ] {
        let knobs = Knobs {
            write,
            read,
            ..Knobs::default()
        };
        let mut pair = Pair::with(config(Role::Initiator), config(Role::Responder), knobs);
        let long = pattern(5000, 3);
        let mut sinks = Vec::new();
        for end in [&mut pair.a, &mut pair.b] {
            let source = end.mem.register(long.clone(), Rights::ALL, PD);
            let list = [part(source, 0, 100), part(source, 100, 4900)];
            let sink = end.mem.register(vec![0; 5000], Rights::ALL, PD);
            sinks.push(sink);
            end.conn.post_receive(1, &[]).unwrap();
            end.conn.post_receive(2, &[sink]).unwrap();
            end.conn.post_receive(3, &[sink]).unwrap();
            end.post(1, announced(7, &[])).unwrap();
            let long = Operation::SendImmediate {
                data: Payload::Sges(&list),
                number: [8; 4],
                solicited: true,
            };
            end.post(2, long).unwrap();
            end.post(3, inline(&[b"plain"])).unwrap();
        }
        pair.a.conn.send_ready();
        pair.run();
        for (end, sink) in [&pair.a, &pair.b].into_iter().zip(sinks) {
            assert_eq!(statuses(end, RequestKind::Send), [WqeStatus::Success; 3]);
            let done = end.completions();
            let received = done.iter().filter(|done| done.kind == RequestKind::Receive);
            let received: Vec<_> = received
                .map(|done| (done.context, done.octets, done.solicited, done.immediate))
                .collect();
            let of_send = |number| Some(ReceivedImmediate::OfSend([number; 4]));
            let expected = [
                (1, 0, false, of_send(7)),
                (2, 5000, true, of_send(8)),
                (3, 5, false, None),
            ];
            assert_eq!(received, expected);
            let placed = end.mem.bytes(sink.token);
            assert_eq!((&placed[..5], &placed[5..]), (&b"plain"[..], &long[5..]));
            let counters = end.conn.counters();
            assert_eq!(
                (counters.sent.immediates, counters.received.immediates),
                (2, 2)
            );
        }
    }
}

/// An announced Send waits for the first FPDU of the Responder with what is behind it, and all else goes on.
#[test]
fn an_announced_send_waits_until_the_peer_is_known() {
    let (mut raw, _) = initiator(by_writes(Role::Initiator));
    raw.end.post(1, inline(&[b"before"])).unwrap();
    raw.end.post(2, announced(1, &[b"x"])).unwrap();
    raw.end.post(3, inline(&[b"behind"])).unwrap();
    let sent = frames(&raw.transmit(), true);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].ends_with(b"before"));
    assert_eq!(outcomes(&raw.end), [WqeStatus::Success]);
    raw.ulpdu(&hex(ANSWER));
    let sent = frames(&raw.transmit(), true);
    let announcement = immediate_of_peer(2, [1, 1, 1, 1, 0, 0, 0, 1]);
    assert_eq!(sent[0], announcement);
    assert!(sent[1].ends_with(b"x") && sent[2].ends_with(b"behind"));
    assert_eq!(outcomes(&raw.end), [WqeStatus::Success; 3]);
}

/// Fails its announced Send and everything behind it, and sends no octet of it.
#[track_caller]
fn gives_up(raw: &mut Raw) {
    let sent = frames(&raw.transmit(), true);
    let codes: Vec<_> = sent.iter().map(|ulpdu| ulpdu[1] & 0x0f).collect();
    assert_eq!(codes, [7], "a Terminate alone");
    let expected = [WqeStatus::InvalidRequest, WqeStatus::Flushed];
    assert_eq!(statuses(&raw.end, RequestKind::Send), expected);
    assert_eq!(raw.end.fault(), Some(Fault::Local));
}

fn a_peer_that_begins_with(ulpdus: &[Vec<u8>]) {
    let (mut raw, _) = initiator(by_writes(Role::Initiator));
    for context in 8..10 {
        raw.end.conn.post_receive(context, &[]).unwrap();
    }
    raw.end.post(1, announced(1, &[b"x"])).unwrap();
    raw.end.post(2, inline(&[b"behind"])).unwrap();
    for ulpdu in ulpdus {
        raw.ulpdu(ulpdu);
    }
    assert_eq!(raw.end.conn.recognized(), Some(false));
    let late = raw.end.post(3, announced(1, &[b"x"]));
    assert_eq!(late, Err(PostError::NotRecognized));
    gives_up(&mut raw);
    // After the end requests come back flushed.
    raw.end.post(4, announced(1, &[b"x"])).unwrap();
    raw.end.collect();
    assert_eq!(outcomes(&raw.end).last(), Some(&WqeStatus::Flushed));
}

/// The value of this side is not an answer.
fn an_echo_is_no_answer() {
    a_peer_that_begins_with(&[hex(MARK)]);
    a_peer_that_begins_with(&[hex(MARK), hex(ANSWER)]);
}

/// Only the first FPDU of the Responder counts.
fn an_answer_behind_the_first_fpdu_is_none() {
    a_peer_that_begins_with(&[send_of_peer(1), hex(ANSWER)]);
    a_peer_that_begins_with(&[hex("c140 00000001 0000000000000000"), hex(ANSWER)]);
}

#[test]
fn another_peer_is_sent_no_announced_send() {
    an_echo_is_no_answer();
    an_answer_behind_the_first_fpdu_is_none();
    a_peer_that_begins_with(&[send_of_peer(1)]);
    // Another STag, another value, and a Write that does not end.
    a_peer_that_begins_with(&[hex("c140 00000002 736f66746e645352")]);
    a_peer_that_begins_with(&[hex("c140 00000001 736f66746e645353")]);
    a_peer_that_begins_with(&[hex("8140 00000001 736f66746e645352")]);
}

#[cfg(planted_bugs)]
#[test]
fn planted_bugs_are_found() {
    use crate::planted::{Bug, is_found_by};

    assert!(is_found_by(Bug::EchoIsAnswer, an_echo_is_no_answer));
    assert!(is_found_by(
        Bug::AnswerBehindFirst,
        an_answer_behind_the_first_fpdu_is_none
    ));
}

#[test]
fn an_announced_send_waits_ten_seconds_for_a_silent_peer() {
    let (mut raw, _) = initiator(by_writes(Role::Initiator));
    let start = raw.now;
    assert_eq!(raw.end.conn.recognition_deadline(start), None);
    raw.end.post(1, announced(1, &[b"x"])).unwrap();
    raw.end.post(2, inline(&[b"behind"])).unwrap();
    let deadline = raw.end.conn.recognition_deadline(start);
    assert_eq!(deadline, Some(start + RECOGNIZED_WITHIN));
    let before = start + RECOGNIZED_WITHIN - Duration::from_millis(1);
    assert_eq!(raw.end.conn.recognition_deadline(before), deadline);
    raw.end.conn.handle_timeout(before);
    assert_eq!(raw.transmit(), []);
    raw.end.conn.handle_timeout(start + RECOGNIZED_WITHIN);
    gives_up(&mut raw);
    assert_eq!(raw.end.conn.recognition_deadline(before), None);
}

/// The time is that of an announced Send that waits, and a Responder waits for the Initiator without a limit.
#[test]
fn nothing_else_waits_for_the_recognition() {
    let (mut raw, _) = initiator(by_writes(Role::Initiator));
    raw.end.post(1, inline(&[b"x"])).unwrap();
    assert_eq!(raw.end.conn.recognition_deadline(raw.now), None);
    raw.end.conn.handle_timeout(raw.now + 2 * RECOGNIZED_WITHIN);
    assert_eq!(raw.end.conn.recognized(), None);
    let mut raw = Raw::with(by_writes(Role::Responder));
    raw.end.post(1, announced(1, &[b"x"])).unwrap();
    assert_eq!(raw.end.conn.recognition_deadline(raw.now), None);
}

/// A Responder answers only an Initiator that has asked, and knows its peer before it may send anything.
#[test]
fn a_responder_answers_only_the_value_in_the_first_fpdu() {
    for first in [
        hex("c140 00000001 0000000000000000"),
        hex(ANSWER),
        hex("c140 00000001 736f66746e645348"),
        send_of_peer(1),
    ] {
        let mut raw = Raw::with(by_writes(Role::Responder));
        raw.end.conn.post_receive(9, &[]).unwrap();
        raw.end.post(1, announced(1, &[b"x"])).unwrap();
        raw.end.post(2, inline(&[b"behind"])).unwrap();
        raw.ulpdu(&first);
        raw.ulpdu(&hex(MARK)); // too late
        assert_eq!(raw.end.conn.recognized(), Some(false));
        gives_up(&mut raw);
    }
}

/// Without a Write as ready-to-receive message, and where it is switched off, nothing is sent, and the request is refused at once.
#[test]
fn without_a_ready_to_receive_write_no_side_is_recognized() {
    let never = |role, ready| StreamConfig {
        ready,
        ..stream(role)
    };
    let wrong = |role, ready| StreamConfig {
        ready,
        ..by_writes(role)
    };
    for (config, ready) in [
        (
            never as fn(Role, Option<Ready>) -> StreamConfig,
            Some(Ready::Write),
        ),
        (never, None),
        (wrong, None),
        (wrong, Some(Ready::Send)),
        (wrong, Some(Ready::Read)),
    ] {
        let (mut raw, first) = initiator(config(Role::Initiator, ready));
        if first[1] & 0x0f == 0 {
            assert_eq!(first, hex("c140 00000001 0000000000000000"));
        }
        let refused = raw.end.post(1, announced(1, &[b"x"]));
        assert_eq!(refused, Err(PostError::NotRecognized));
        let mut raw = Raw::with(config(Role::Responder, ready));
        let refused = raw.end.post(1, announced(1, &[b"x"]));
        assert_eq!(refused, Err(PostError::NotRecognized));
        raw.ulpdu(&hex(MARK));
        assert_eq!(raw.transmit(), [], "not answered");
    }
}

/// The peer would take them for the announcement of the next Send, and the Receive would be that Send's.
#[test]
fn immediate_data_that_seems_to_announce_is_not_sent() {
    let data = [9, 9, 9, 9, 0, 0, 0, 1];
    let alone = Operation::Immediate {
        data,
        solicited: false,
    };
    let of_write = Operation::WriteImmediate {
        data: Payload::Inline(&[]),
        remote: remote(STag(1), 0),
        immediate: data,
        solicited: false,
    };
    for operation in [alone, of_write] {
        for config in [agreed, by_writes] {
            let (mut raw, _) = initiator(config(Role::Initiator));
            raw.end.post(1, operation).unwrap();
            raw.end.post(2, inline(&[b"behind"])).unwrap();
            let sent = frames(&raw.transmit(), true);
            let codes: Vec<_> = sent.iter().map(|ulpdu| ulpdu[1] & 0x0f).collect();
            assert_eq!(codes, [7], "a Terminate alone");
            let expected = [WqeStatus::InvalidRequest, WqeStatus::Flushed];
            assert_eq!(outcomes(&raw.end), expected);
        }
        let (mut raw, _) = initiator(stream(Role::Initiator));
        raw.end.post(1, operation).unwrap();
        let sent = frames(&raw.transmit(), true);
        assert!(sent.last().unwrap().ends_with(&data));
        assert_eq!(outcomes(&raw.end), [WqeStatus::Success]);
    }
}

/// Posted before the start, it fails if the peer turns out to be another, and is carried out otherwise.
#[test]
fn an_announced_send_may_be_posted_early() {
    for (config, status) in [
        (agreed(Role::Initiator), WqeStatus::Success),
        (stream(Role::Initiator), WqeStatus::InvalidRequest),
    ] {
        let mut end = End::new(SIZES);
        end.conn.post_early(wqe(1, announced(1, &[b"x"]))).unwrap();
        end.conn.start(config);
        end.transmit(&Knobs::default());
        end.collect();
        assert_eq!(outcomes(&end), [status]);
    }
}

/// The Send follows its announcement, and nothing else of that queue comes between.
#[test]
fn an_announcement_without_its_send_ends_the_stream() {
    let announcement = immediate_of_peer(1, [1, 2, 3, 4, 0, 0, 0, 1]);
    let mut invalidating = send_of_peer(2);
    invalidating[1] = control(Opcode::SendInvalidate);
    let unexpected = TerminateCode::new(0, 2, 0x06);
    for (next, code) in [
        (immediate_of_peer(2, [1, 2, 3, 4, 0, 0, 0, 1]), unexpected),
        (immediate_of_peer(2, [1, 2, 3, 4, 0, 0, 0, 0]), unexpected),
        (invalidating, unexpected),
        (send_of_peer(1), TerminateCode::new(1, 2, 0x03)),
    ] {
        let mut raw = Raw::with(agreed(Role::Responder));
        for context in 0..3 {
            raw.end.conn.post_receive(context, &[]).unwrap();
        }
        raw.ulpdu(&announcement);
        assert_eq!(raw.end.completions().len(), 0);
        raw.ulpdu(&next);
        assert_eq!(raw.last_terminate().map(|last| last.code), Some(code));
        assert_eq!(outcomes(&raw.end), [WqeStatus::Flushed; 3]);
    }
}

/// Between sides that do not know each other all Immediate Data takes a Receive, whatever it contains.
#[test]
fn other_immediate_data_announces_nothing() {
    for (config, data) in [
        (stream(Role::Responder), [1, 2, 3, 4, 0, 0, 0, 1]),
        (by_writes(Role::Responder), [1, 2, 3, 4, 0, 0, 0, 1]),
        (agreed(Role::Responder), [1, 2, 3, 4, 0, 0, 0, 2]),
        (agreed(Role::Responder), [1, 2, 3, 4, 0, 0, 0, 0]),
    ] {
        let mut raw = Raw::with(config);
        raw.end.conn.post_receive(1, &[]).unwrap();
        raw.ulpdu(&immediate_of_peer(1, data));
        let done = raw.end.completions();
        assert_eq!(done[0].immediate, Some(ReceivedImmediate::Alone(data)));
    }
}

/// A peer without a Receive, and one whose Receive is too short, fail the request once.
#[test]
fn a_refused_announced_send_fails_once() {
    for (receive, code) in [(None, 0x02), (Some(1), 0x05)] {
        let mut pair = Pair::with(
            agreed(Role::Initiator),
            agreed(Role::Responder),
            Knobs::default(),
        );
        if let Some(length) = receive {
            let sink = pair.b.mem.register(vec![0; length], Rights::ALL, PD);
            pair.b.conn.post_receive(1, &[sink]).unwrap();
        }
        pair.a.conn.send_ready();
        pair.run();
        pair.a.post(1, announced(1, &[b"xy"])).unwrap();
        pair.a.post(2, inline(&[b"behind"])).unwrap();
        pair.run();
        assert_eq!(outcomes(&pair.a).len(), 2);
        let told = pair.a.terminated().map(|terminate| terminate.code);
        assert_eq!(told, Some(TerminateCode::new(1, 2, code)));
    }
    // The peer names the announcement, or the Send.
    for msn in [1, 2] {
        let (mut raw, _) = initiator(agreed(Role::Initiator));
        raw.end.post(1, announced(1, &[b"xy"])).unwrap();
        raw.end
            .conn
            .poll_transmit(&raw.end.mem, raw.knobs.limit, &mut raw.end.batch);
        let mut terminate = crate::rdmap::Terminate::new(TerminateCode::new(1, 2, 0x02));
        let named = match msn {
            1 => immediate_of_peer(1, [0; 8]),
            _ => send_of_peer(2),
        };
        let (header, _) = crate::ddp::Header::split(&named).unwrap();
        terminate.ddp = Some(header);
        terminate.segment_length = Some(26);
        let (octets, len) = terminate.to_bytes();
        let mut message = vector("T3")[2..20].to_vec(); // the DDP header of any Terminate
        message.extend_from_slice(&octets[..len]);
        // Nothing of the request has left, as far as this side knows.
        raw.ulpdu(&message);
        assert_eq!(outcomes(&raw.end).len(), 1);
    }
}

/// Memory that is not there fails the request before its announcement leaves.
#[test]
fn an_announced_send_from_nowhere_announces_nothing() {
    let (mut raw, _) = initiator(agreed(Role::Initiator));
    let operation = Operation::SendImmediate {
        data: Payload::Sges(&[NOWHERE]),
        number: [1; 4],
        solicited: false,
    };
    raw.end.post(1, operation).unwrap();
    let sent = frames(&raw.transmit(), true);
    assert_eq!(sent.len(), 1, "a Terminate alone");
    assert_eq!(outcomes(&raw.end), [WqeStatus::LocalAccess]);
}

#[derive(Clone, Copy, Debug)]
enum What {
    Send,
    Announced,
    Write,
    WriteImmediate,
    Immediate,
    Read,
}

fn what() -> impl Strategy<Value = (bool, What, usize)> {
    let kinds = prop_oneof![
        Just(What::Send),
        Just(What::Announced),
        Just(What::Announced),
        Just(What::Write),
        Just(What::WriteImmediate),
        Just(What::Immediate),
        Just(What::Read),
    ];
    let length = prop_oneof![Just(0), 1..64_usize, 1..5000_usize];
    (any::<bool>(), kinds, length)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// All kinds of requests in any order from both ends, over a stream that is cut anywhere: each Receive gets what was sent.
    #[test]
    fn announced_sends_among_others_bring_what_was_sent(
        requests in prop::collection::vec(what(), 1..30),
        has_agreed in any::<bool>(),
        crc in any::<bool>(),
        write in 1..3000_usize,
        read in 1..3000_usize,
        before in 0..30_usize,
    ) {
        let config = |role| StreamConfig {
            crc,
            receive_wait: Duration::MAX,
            recognition: if has_agreed { Recognition::Agreed } else { Recognition::ByWrites },
            ..stream(role)
        };
        let knobs = Knobs { write, read, ..Knobs::default() };
        let mut pair = Pair::with(config(Role::Initiator), config(Role::Responder), knobs);
        let mut regions = Vec::new();
        for end in [&mut pair.a, &mut pair.b] {
            end.mem.register_as(TARGET, 0x1000, vec![0; 5000], Rights::ALL, PD);
            let source = end.mem.register(pattern(5000, 3), Rights::ALL, PD);
            let sink = end.mem.register(vec![0; 5000], Rights::ALL, PD);
            regions.push((source, sink));
        }
        pair.a.conn.send_ready();
        let mut expected = [Vec::new(), Vec::new()];
        let mut posted = [0; 2];
        let mut inboxes = [Vec::new(), Vec::new()];
        for (at, (from_a, what, length)) in requests.iter().enumerate() {
            if at >= before || pair.a.conn.is_initiator_full() || pair.b.conn.is_initiator_full() {
                pair.run();
            }
            let index = usize::from(!from_a);
            let (from, to) = match from_a {
                true => (&mut pair.a, &mut pair.b),
                false => (&mut pair.b, &mut pair.a),
            };
            let (source, sink) = regions[index];
            let length32 = u32::try_from(*length).unwrap();
            let list = [part(source, 0, length32)];
            let number = u8::try_from(at).unwrap();
            let data = Payload::Sges(&list);
            let remote = remote(TARGET, 0x1000);
            let (operation, arrives) = match what {
                What::Send => (sends(data), Some((*length, *length, None))),
                What::Announced => {
                    let operation = Operation::SendImmediate { data, number: [number; 4], solicited: false };
                    (operation, Some((*length, *length, Some(ReceivedImmediate::OfSend([number; 4])))))
                }
                What::Write => (Operation::Write { data, remote }, None),
                What::WriteImmediate => {
                    let immediate = [number; 8];
                    let operation = Operation::WriteImmediate { data, remote, immediate, solicited: false };
                    (operation, Some((*length, 0, Some(ReceivedImmediate::Alone(immediate)))))
                }
                What::Immediate => {
                    let operation = Operation::Immediate { data: [0xEE; 8], solicited: false };
                    // Its length is that of a Write before, if there was one: not compared.
                    (operation, Some((usize::MAX, 0, Some(ReceivedImmediate::Alone([0xEE; 8])))))
                }
                What::Read => {
                    (Operation::Read { sink: Payload::Sges(&[part(sink, 0, length32)]), remote }, None)
                }
            };
            if let Some((octets, placed, immediate)) = arrives {
                let inbox = to.mem.register(vec![0; 5000], Rights::ALL, PD);
                to.conn.post_receive(expected[index].len() as u64, &[inbox]).unwrap();
                expected[index].push((octets, immediate));
                inboxes[index].push((inbox, placed));
            }
            from.post(posted[index], operation).unwrap();
            posted[index] += 1;
        }
        pair.run();
        for (index, (from, to)) in [(&pair.a, &pair.b), (&pair.b, &pair.a)].into_iter().enumerate() {
            prop_assert_eq!(from.fault(), None);
            let done = from.completions();
            let own: Vec<_> = done.iter().filter(|done| done.kind != RequestKind::Receive).collect();
            prop_assert_eq!(own.len() as u64, posted[index]);
            prop_assert!(own.iter().all(|done| done.status == WqeStatus::Success));
            let done = to.completions();
            let received = done.iter().filter(|done| done.kind == RequestKind::Receive);
            let received: Vec<_> = received.zip(&expected[index]).map(|(done, (octets, _))| {
                let skips = *octets == usize::MAX;
                (if skips { usize::MAX } else { done.octets as usize }, done.immediate)
            }).collect();
            prop_assert_eq!(&received, &expected[index]);
            for (inbox, placed) in &inboxes[index] {
                let octets = to.mem.bytes(inbox.token);
                prop_assert_eq!(&octets[..*placed], &pattern(5000, 3)[..*placed]);
                prop_assert!(octets[*placed..].iter().all(|octet| *octet == 0));
            }
        }
    }
}
