//! Responses that pass a Send which waits for a Receive.

use proptest::prelude::*;

use super::*;
use crate::ddp::{Qn, TaggedHeader, UntaggedError, UntaggedHeader};
use crate::mpa::marker;
use crate::rdmap::{Opcode, OperationError, control};
use crate::{AtomicOp, AtomicResponse};

use WqeStatus::Success;

/// A stream whose Sends wait without end.
fn patient(role: Role, crc: bool, markers: bool) -> StreamConfig {
    StreamConfig {
        crc,
        markers: Markers {
            sent: markers,
            received: markers,
        },
        receive_wait: Duration::MAX,
        ..stream(role)
    }
}

fn tagged(opcode: Opcode, (stag, to): (STag, u64), last: bool, payload: &[u8]) -> Vec<u8> {
    let header = TaggedHeader::new(last, control(opcode), stag, to);
    [&header.to_bytes()[..], payload].concat()
}

fn response(to: u64, last: bool, payload: &[u8]) -> Vec<u8> {
    tagged(Opcode::ReadResponse, (SINK, to), last, payload)
}

fn write(to: u64, last: bool, payload: &[u8]) -> Vec<u8> {
    tagged(Opcode::Write, (TARGET, to), last, payload)
}

fn untagged(opcode: Opcode, (qn, msn, mo): (Qn, u32, u32), last: bool, payload: &[u8]) -> Vec<u8> {
    let header = UntaggedHeader::new(last, control(opcode), 0, qn, msn, mo);
    [&header.to_bytes()[..], payload].concat()
}

fn send(msn: u32, mo: u32, last: bool, payload: &[u8]) -> Vec<u8> {
    untagged(Opcode::Send, (Qn::SEND, msn, mo), last, payload)
}

fn atomic_response(msn: u32, id: u32) -> Vec<u8> {
    let answer = AtomicResponse { id, value: 5 };
    let place = (Qn::ATOMIC_RESPONSE, msn, 0);
    untagged(Opcode::AtomicResponse, place, true, &answer.to_bytes())
}

/// The octets of a stream of FPDUs.
fn octets(ulpdus: &[Vec<u8>], crc: bool, markers: bool) -> Vec<u8> {
    let mut stream = Vec::new();
    for ulpdu in ulpdus {
        if markers {
            let position = stream.len() as u64;
            marker::put(&mut stream, ulpdu, crc, position);
        } else {
            fpdu::put(&mut stream, ulpdu, crc);
        }
    }
    stream
}

/// An Initiator whose octets are read past a Send, with two Reads and an Atomic under way: of 100 octets to 0, of none, of a word to 200. The
/// request identifier of the Atomic is 3.
fn asking(crc: bool, markers: bool) -> Raw {
    let mut raw = Raw::with(patient(Role::Initiator, crc, markers)).with_buffers();
    raw.end.passes = true;
    let sge = Sge {
        token: SINK,
        address: 0,
        length: 100,
    };
    raw.end.post(90, read(&[sge], 0x1000)).unwrap();
    raw.end.post(91, read(&[], 0x1000)).unwrap();
    let sink = Sge {
        address: 200,
        length: 8,
        ..sge
    };
    let atomic = Operation::Atomic {
        op: AtomicOp::add(1),
        sink: Payload::Sges(&[sink]),
        remote: remote(TARGET, 0x1000),
    };
    raw.end.post(92, atomic).unwrap();
    raw.transmit();
    raw
}

/// The contexts of the requests that have completed, all with success: of this side, and Receives with their lengths.
fn done(end: &End) -> (Vec<u64>, Vec<(u64, u32)>) {
    let (mut requests, mut receives) = (Vec::new(), Vec::new());
    for done in end.completions() {
        assert_eq!(done.status, Success, "{done:?}");
        match done.kind {
            RequestKind::Receive => receives.push((done.context, done.octets)),
            _ => requests.push(done.context),
        }
    }
    (requests, receives)
}

/// Messages of every kind: the first Send waits, and more of them behind it.
fn every_kind() -> Vec<Vec<u8>> {
    vec![
        write(0x1000, true, &pattern(20, 1)),
        send(1, 0, false, &pattern(30, 2)),
        send(1, 30, true, &pattern(30, 3)),
        response(0, false, &pattern(60, 4)),
        response(60, true, &pattern(40, 5)),
        write(0x1100, false, &pattern(50, 6)),
        write(0x1132, true, &pattern(50, 7)),
        send(2, 0, true, &pattern(10, 8)),
        response(0, true, b""),
        untagged(Opcode::Immediate, (Qn::SEND, 3, 0), true, &[9; 8]),
        untagged(
            Opcode::ReadRequest,
            (Qn::READ_REQUEST, 1, 0),
            true,
            &[0; 28],
        ),
        atomic_response(1, 3),
        send(4, 0, true, &pattern(40, 10)),
    ]
}

fn contents(raw: &Raw) -> [Vec<u8>; 2] {
    [TARGET, SINK].map(|stag| raw.end.mem.bytes(stag))
}

#[test]
fn responses_pass_and_everything_else_waits_for_its_turn() {
    for (crc, markers) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut raw = asking(crc, markers);
        let before = contents(&raw);
        raw.receive(&octets(&every_kind(), crc, markers));
        assert!(raw.end.conn.is_stalled());
        assert_eq!(done(&raw.end), (vec![90, 91, 92], vec![]));
        let sink = raw.end.mem.bytes(SINK);
        assert_eq!(sink[..60], pattern(60, 4));
        assert_eq!(sink[60..100], pattern(40, 5));
        assert_eq!(sink[200..208], 5u64.to_ne_bytes());
        let target = raw.end.mem.bytes(TARGET);
        assert_eq!(target[..20], pattern(20, 1));
        assert_eq!(
            target[20..],
            before[0][20..],
            "a Write behind the Send waits"
        );
        assert_eq!(raw.transmit(), [], "a Read behind the Send waits");
        // One Receive at a time: the next Send waits in its turn.
        let posted = [60, 10, 100, 40]; // the Immediate Data is behind a Write of 100 octets
        for (context, length) in (1..).zip(posted) {
            raw.post_receive(context, 64);
            raw.receive(b"");
            let receives = done(&raw.end).1;
            assert_eq!(receives.last(), Some(&(context, length)));
            assert_eq!(receives.len() as u64, context);
        }
        let target = raw.end.mem.bytes(TARGET);
        assert_eq!(target[0x100..0x132], pattern(50, 6));
        assert_eq!(target[0x132..0x164], pattern(50, 7));
        assert!(!raw.transmit().is_empty(), "the Read is answered");
        assert!(raw.end.conn.is_running() && raw.end.staging.is_empty());
        let counted = *raw.end.conn.counters();
        assert_eq!(counted.received.fpdus, 13);
        assert_eq!(counted.received.read_responses, 2);
        assert_eq!(counted.received.atomic_responses, 1);
        let stream = octets(&every_kind(), crc, markers);
        assert_eq!(counted.received.octets, stream.len() as u64);
    }
}

/// Wherever the stream is cut, and whenever the Receives come.
#[test]
fn a_stream_is_handled_alike_wherever_it_is_cut() {
    for (crc, markers) in [(true, false), (false, false), (true, true), (false, true)] {
        let stream = octets(&every_kind(), crc, markers);
        let run = |pieces: &[&[u8]], posts: usize| {
            let mut raw = asking(crc, markers);
            let mut posted = 0;
            let mut post = |raw: &mut Raw, upto: u64| {
                while posted < upto {
                    posted += 1;
                    raw.post_receive(posted, 64);
                    raw.receive(b"");
                }
            };
            for (at, piece) in pieces.iter().enumerate() {
                raw.receive(piece);
                if at % 2 == posts % 2 {
                    post(&mut raw, (posts / 2) as u64);
                }
            }
            assert_eq!(done(&raw.end).0, [90, 91, 92]);
            post(&mut raw, 4);
            assert!(raw.end.conn.is_running() && raw.end.staging.is_empty());
            (done(&raw.end), contents(&raw))
        };
        let whole = run(&[&stream], 8);
        assert_eq!(whole.0.1, [(1, 60), (2, 10), (3, 100), (4, 40)]);
        for at in 1..stream.len() {
            let (front, back) = stream.split_at(at);
            for posts in 0..8 {
                assert_eq!(run(&[front, back], posts), whole, "{at} {posts}");
            }
        }
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        for posts in 0..8 {
            assert_eq!(run(&single, posts), whole, "octet by octet, {posts}");
        }
    }
}

/// Each side has sent a Send for which the other has no Receive, and posts its own when its Read is done.
fn two_sides_that_wait(passes: bool) -> Pair {
    let mut pair = Pair::with(
        patient(Role::Initiator, true, false),
        patient(Role::Responder, true, false),
        Knobs::default(),
    );
    pair.a.conn.send_ready();
    pair.run();
    for end in [&mut pair.a, &mut pair.b] {
        end.passes = passes;
        end.mem
            .register_as(TARGET, 0x1000, pattern(256, 7), Rights::ALL, PD);
        end.mem.register_as(SINK, 0, vec![0; 256], Rights::ALL, PD);
        let sge = Sge {
            token: SINK,
            address: 0,
            length: 256,
        };
        end.post(1, read(&[sge], 0x1000)).unwrap();
        end.post(2, inline(&[b"waits"])).unwrap();
    }
    // The Sends cross, so that each Response comes behind one.
    let knobs = pair.knobs;
    let crossing = [&mut pair.a, &mut pair.b].map(|end| end.transmit(&knobs));
    pair.b.receive(&crossing[0]);
    pair.a.receive(&crossing[1]);
    pair.run();
    pair
}

#[test]
fn two_sides_block_each_other_unless_responses_pass() {
    let pair = two_sides_that_wait(false);
    for end in [&pair.a, &pair.b] {
        assert!(end.conn.is_stalled());
        assert_eq!(end.completions(), [], "its Read is never done");
    }
    let mut pair = two_sides_that_wait(true);
    for end in [&mut pair.a, &mut pair.b] {
        assert!(end.conn.is_stalled());
        assert_eq!(done(end).0, [1, 2]);
        assert_eq!(end.mem.bytes(SINK), pattern(256, 7));
        let sge = end.mem.register(vec![0; 8], Rights::ALL, PD);
        end.conn.post_receive(3, &[sge]).unwrap();
    }
    pair.run();
    for end in [&pair.a, &pair.b] {
        assert_eq!(done(end).1, [(3, 5)]);
    }
}

/// Writes are confirmed by Reads of no octets, whose Responses pass as well.
#[test]
fn writes_are_confirmed_past_a_send() {
    for (passes, expected) in [(false, vec![]), (true, vec![1])] {
        let confirmed = |role| StreamConfig {
            confirmations: Confirmations::OnDemand { apart: false },
            ..patient(role, true, false)
        };
        let (a, b) = (confirmed(Role::Initiator), confirmed(Role::Responder));
        let mut pair = Pair::with(a, b, Knobs::default());
        pair.a.conn.send_ready();
        pair.run();
        pair.a.passes = passes;
        let mem = &pair.b.mem;
        mem.register_as(TARGET, 0x1000, vec![0; 64], Rights::ALL, PD);
        pair.b.post(1, inline(&[b"waits"])).unwrap();
        pair.run();
        let write = Operation::Write {
            data: Payload::Inline(&[b"octets"]),
            remote: remote(TARGET, 0x1000),
        };
        pair.a.post(1, write).unwrap();
        pair.run();
        assert_eq!(done(&pair.a).0, expected);
    }
}

/// What is wrong behind the Send is judged when its turn comes, with what came before it delivered. A Response behind it does not pass.
#[test]
fn what_is_wrong_waits_for_its_turn() {
    let mut broken = octets(&[write(0x1000, true, b"crc")], true, false);
    *broken.last_mut().unwrap() ^= 1;
    let of = |ulpdus: &[Vec<u8>]| octets(ulpdus, true, false);
    let cases: Vec<(&str, Vec<u8>, Fault)> = vec![
        ("a CRC", broken, Fault::Mpa(crate::mpa::Error::Crc)),
        (
            "a Response to no Read",
            of(&[response(4, true, b"wrong")]),
            crate::ddp::TaggedError::Bounds.into(),
        ),
        (
            "a number",
            of(&[send(7, 0, true, b"")]),
            UntaggedError::MsnRange.into(),
        ),
        (
            "a Response inside a Write",
            of(&[write(0x1000, false, b"begun"), response(0, true, &[1; 100])]),
            OperationError::UnexpectedOpcode.into(),
        ),
        (
            "a Write inside a Response",
            of(&[response(0, false, &[1; 50]), write(0x1000, true, b"")]),
            OperationError::UnexpectedOpcode.into(),
        ),
        (
            "an Atomic Response inside a Send",
            of(&[
                response(0, true, &[1; 100]),
                response(0, true, b""),
                send(2, 0, false, b"begun"),
                atomic_response(1, 3),
            ]),
            UntaggedError::InvalidQn.into(),
        ),
    ];
    for (name, wrong, fault) in cases {
        let mut raw = asking(true, false);
        raw.receive(&of(&[send(1, 0, true, b"waits")]));
        raw.receive(&wrong);
        raw.receive(&of(&[send(2, 0, true, b"never")]));
        assert!(raw.end.conn.is_stalled(), "{name}");
        assert_eq!(raw.end.fault(), None, "{name}");
        raw.post_receive(1, 8);
        raw.post_receive(2, 8);
        raw.receive(b"");
        assert_eq!(raw.end.fault(), Some(fault), "{name}");
        let delivered = statuses(&raw.end, RequestKind::Receive);
        assert_eq!(delivered, [Success, WqeStatus::Flushed], "{name}");
        assert!(raw.end.staging.is_empty(), "{name}");
    }
}

/// A fault that the connection has found ends the look ahead, so that the caller need not read any further.
#[test]
fn the_caller_is_told_when_to_read_no_further() {
    let mut raw = asking(true, false);
    assert_eq!(raw.end.conn.looked_ahead(), None);
    let waits = octets(&[send(1, 0, true, b"waits")], true, false);
    raw.receive(&waits);
    assert_eq!(raw.end.conn.looked_ahead(), Some(waits.len()));
    raw.receive(&octets(&[response(0, true, &[1; 100])], true, false)[..40]);
    assert_eq!(raw.end.conn.looked_ahead(), Some(waits.len()));
    raw.receive(&octets(&[response(0, true, &[1; 100])], true, false)[40..]);
    assert_eq!(raw.end.conn.looked_ahead(), Some(raw.end.staging.len()));
    raw.receive(&[0; 8]);
    assert_eq!(raw.end.conn.looked_ahead(), None);
}

/// A Read that is refused behind another one waits until that is answered. Everything behind it is dropped, also what was kept.
#[test]
fn a_refused_read_drops_the_rest_of_the_kept_octets() {
    let mut raw = asking(true, false);
    let asks = |msn, stag| {
        let read = crate::ReadRequest {
            sink: remote(SINK, 0),
            size: 4,
            source: remote(stag, 0x1000),
        };
        let place = (Qn::READ_REQUEST, msn, 0);
        untagged(Opcode::ReadRequest, place, true, &read.to_bytes())
    };
    let stream = [
        send(1, 0, true, b"waits"),
        asks(1, TARGET),
        asks(2, STag(99)),
        response(0, true, &[1; 100]),
        send(2, 0, true, b"dropped"),
    ];
    raw.receive(&octets(&stream, true, false));
    assert_eq!(done(&raw.end), (vec![90], vec![]));
    raw.post_receive(1, 8);
    raw.post_receive(2, 8);
    raw.receive(b"");
    assert!(raw.end.staging.is_empty());
    assert_eq!(done(&raw.end).1, [(1, 5)]);
    let terminate = raw.last_terminate().expect("the Read is refused");
    assert_eq!((terminate.code.layer, terminate.code.etype), (0, 1));
}

/// The sink of a Read is gone: an error of this side, which is found at once.
#[test]
fn a_sink_that_is_gone_fails_the_connection() {
    let mut raw = asking(true, false);
    raw.end.mem.deregister(SINK);
    let stream = [send(1, 0, true, b"waits"), response(0, true, &[1; 100])];
    raw.receive(&octets(&stream, true, false));
    raw.receive(b"");
    let requests = raw.end.completions();
    assert_eq!(requests[0].status, WqeStatus::LocalAccess);
    assert!(raw.end.conn.has_failed() && raw.end.staging.is_empty());
}

/// The end of the stream waits behind the Send, as ever.
#[test]
fn the_end_of_the_stream_waits_for_its_turn() {
    for (end, cut) in [
        (StreamEnd::Fin, 0),
        (StreamEnd::Fin, 3),
        (StreamEnd::Reset, 0),
    ] {
        let mut raw = asking(true, false);
        let mut stream = octets(&[send(1, 0, true, b"waits")], true, false);
        for _ in 0..2 {
            stream.extend(octets(&[send(2, 0, true, b"too")], true, false));
        }
        let second = stream.len() / 2;
        stream.truncate(second + cut);
        raw.receive(&stream);
        raw.end.conn.handle_stream_end(end, stream.len());
        raw.receive(b"");
        let is_reset = end == StreamEnd::Reset;
        assert_eq!(raw.end.conn.is_running(), !is_reset);
        assert!(!raw.end.events.contains(&Event::PeerClosed));
        if !is_reset {
            raw.post_receive(1, 8);
            raw.post_receive(2, 8);
            raw.receive(b"");
            let receives = statuses(&raw.end, RequestKind::Receive);
            assert_eq!(receives[0], Success);
            let is_whole = raw.end.events.contains(&Event::PeerClosed);
            assert_eq!(is_whole, raw.end.fault().is_none());
            assert!(!raw.end.conn.is_running() || is_whole);
        }
    }
}

/// What a side posts in the property test.
#[derive(Clone, Copy, Debug)]
enum What {
    Send(u16),
    Write(u16),
    Read(u16),
    Atomic,
    Number,
}

fn what() -> impl Strategy<Value = What> {
    let length = || prop_oneof![Just(0u16), 1..60u16, 60..600u16];
    prop_oneof![
        2 => length().prop_map(What::Send),
        2 => length().prop_map(What::Write),
        3 => length().prop_map(What::Read),
        1 => Just(What::Atomic),
        1 => Just(What::Number),
    ]
}

/// One action: of side a or b.
#[derive(Clone, Copy, Debug)]
enum Action {
    Post(bool, What),
    Receive(bool),
    Turns(u8),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Reads and Atomics complete whether or not there are Receives. Everything completes once and in order, and memory is that of a plain
    /// model.
    #[test]
    fn requests_complete_as_without_passing(
        actions in prop::collection::vec(prop_oneof![
            3 => (any::<bool>(), what()).prop_map(|(by_a, what)| Action::Post(by_a, what)),
            1 => any::<bool>().prop_map(Action::Receive),
            2 => (1..4u8).prop_map(Action::Turns),
        ], 1..40),
        (crc, markers) in (any::<bool>(), any::<bool>()),
        mulpdu in prop_oneof![Just(128u32), Just(1442)],
        (to_write, to_read) in (1..900usize, 1..900usize),
    ) {
        let mut knobs = Knobs { write: to_write, read: to_read, ..Knobs::default() };
        knobs.limit.mulpdu = mulpdu;
        let (a, b) = (Role::Initiator, Role::Responder);
        let mut pair = Pair::with(patient(a, crc, markers), patient(b, crc, markers), knobs);
        pair.a.conn.send_ready();
        pair.run();
        const INBOX: STag = STag(700);
        for end in [&mut pair.a, &mut pair.b] {
            end.passes = true;
            let mem = &end.mem;
            mem.register_as(TARGET, 0x1000, pattern(1024, 7), Rights::ALL, PD);
            mem.register_as(SINK, 0, vec![0; 1 << 15], Rights::ALL, PD);
            mem.register_as(INBOX, 0, vec![0; 1 << 15], Rights::ALL, PD);
            mem.register_as(STag(701), 0, vec![0; 1024], Rights::ALL, PD);
            mem.register_as(STag(702), 0, vec![0; 8], Rights::ALL, PD);
        }
        let mut posted = [Vec::new(), Vec::new()];
        let mut reads = [Vec::new(), Vec::new()];
        let mut messages = [Vec::new(), Vec::new()];
        let (mut received, mut atomics) = ([0u64; 2], [0u64; 2]);
        let mut written = [vec![0; 1024], vec![0; 1024]];
        let receive = |end: &mut End, count: &mut u64| {
            let sge = Sge { token: INBOX, address: *count * 600, length: 600 };
            if *count < 50 && end.conn.post_receive(*count, &[sge]).is_ok() {
                *count += 1;
            }
        };
        let mut context = 0u64;
        for action in actions {
            match action {
                Action::Turns(turns) => {
                    for _ in 0..turns {
                        pair.step();
                    }
                }
                Action::Receive(by_a) => {
                    let end = if by_a { &mut pair.a } else { &mut pair.b };
                    receive(end, &mut received[usize::from(by_a)]);
                }
                Action::Post(by_a, what) => {
                    let end = if by_a { &mut pair.a } else { &mut pair.b };
                    let (own, other) = (usize::from(by_a), usize::from(!by_a));
                    context += 1;
                    let seed = context.to_le_bytes()[0];
                    let data = |length: u16| pattern(length.into(), seed);
                    let source = |length: u16| end.mem.register(data(length), Rights::ALL, PD);
                    let sink = |length: u16| Sge {
                        token: SINK,
                        address: 600 * reads[own].len() as u64,
                        length: length.into(),
                    };
                    let is_posted = match what {
                        What::Send(length) => {
                            let sge = source(length);
                            end.post(context, sends(Payload::Sges(&[sge])))
                        }
                        What::Number => end.post(context, Operation::Immediate { data: [seed; 8], solicited: false }),
                        What::Write(length) => {
                            let sge = source(length);
                            let remote = remote(STag(701), 0);
                            end.post(context, Operation::Write { data: Payload::Sges(&[sge]), remote })
                        }
                        What::Read(length) => {
                            let sge = sink(length);
                            end.post(context, read(&[sge], 0x1000))
                        }
                        What::Atomic => {
                            let sge = sink(8);
                            let remote = remote(STag(702), 0);
                            end.post(context, Operation::Atomic { op: AtomicOp::add(1), sink: Payload::Sges(&[sge]), remote })
                        }
                    };
                    if is_posted.is_ok() {
                        posted[own].push(context);
                        match what {
                            What::Send(length) => messages[other].push(data(length)),
                            What::Number => messages[other].push(Vec::new()),
                            What::Write(length) => written[other][..length.into()].copy_from_slice(&data(length)),
                            What::Read(length) => reads[own].push(pattern(1024, 7)[..length.into()].to_vec()),
                            What::Atomic => {
                                reads[own].push(atomics[own].to_ne_bytes().to_vec());
 atomics[own] += 1;
                            }
                        }
                    }
                }
            }
        }
        pair.run();
        for _ in 0..50 {
            receive(&mut pair.a, &mut received[1]);
            receive(&mut pair.b, &mut received[0]);
            pair.a.receive(b"");
            pair.b.receive(b"");
            pair.run();
        }
        for (own, end) in [(1, &pair.a), (0, &pair.b)] {
            prop_assert!(end.conn.is_running() && end.staging.is_empty());
            let (requests, receives) = done(end);
            prop_assert_eq!(&requests, &posted[own]);
            prop_assert_eq!(receives.len(), messages[own].len());
            let inbox = end.mem.bytes(INBOX);
            for (at, message) in messages[own].iter().enumerate() {
                prop_assert_eq!(&inbox[600 * at..][..message.len()], &message[..]);
            }
            let sink = end.mem.bytes(SINK);
            for (at, read) in reads[own].iter().enumerate() {
                prop_assert_eq!(&sink[600 * at..][..read.len()], &read[..]);
            }
            prop_assert_eq!(end.mem.bytes(STag(701)), written[own].clone());
        }
    }
}
