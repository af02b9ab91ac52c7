//! Unreliable delivery: what cannot be taken is dropped, and the stream goes on; only what breaks the protocol ends it.

use proptest::prelude::*;

use super::*;
use crate::ddp::{Qn, TaggedHeader, UntaggedHeader};
use crate::memory::RemoteRights;
use crate::rdmap::{Opcode, control};
use crate::{AtomicOp, AtomicRequest, ReadRequest, ReceivedImmediate};

use WqeStatus::{Flushed, Success};

/// Both sides take announced Sends, and a Send would wait for a Receive.
fn agreed(role: Role, crc: bool) -> StreamConfig {
    StreamConfig {
        crc,
        recognition: Recognition::Agreed,
        receive_wait: Duration::MAX,
        ..stream(role)
    }
}

fn end(config: StreamConfig) -> End {
    let mut end = End::new(SIZES);
    end.conn.set_delivery(Delivery::Unreliable);
    end.conn.start(config);
    end
}

/// A Responder with the catalogue's buffers.
fn raw() -> Raw {
    raw_with(true)
}

fn raw_with(crc: bool) -> Raw {
    Raw {
        end: end(agreed(Role::Responder, crc)),
        now: Instant::now(),
        knobs: Knobs::default(),
    }
    .with_buffers()
}

fn pair(crc: bool, knobs: Knobs) -> Pair {
    let mut pair = Pair::new(knobs);
    pair.a = end(agreed(Role::Initiator, crc));
    pair.b = end(agreed(Role::Responder, crc));
    pair.a.conn.send_ready();
    pair.run();
    pair
}

fn untagged(opcode: Opcode, (qn, msn, mo): (Qn, u32, u32), last: bool, payload: &[u8]) -> Vec<u8> {
    let header = UntaggedHeader::new(last, control(opcode), 0, qn, msn, mo);
    [&header.to_bytes()[..], payload].concat()
}

/// A segment of a Send.
fn send(msn: u32, mo: u32, last: bool, payload: &[u8]) -> Vec<u8> {
    untagged(Opcode::Send, (Qn::SEND, msn, mo), last, payload)
}

fn number(msn: u32, octet: u8) -> Vec<u8> {
    untagged(Opcode::Immediate, (Qn::SEND, msn, 0), true, &[octet; 8])
}

fn write(stag: STag, to: u64, last: bool, payload: &[u8]) -> Vec<u8> {
    let header = TaggedHeader::new(last, control(Opcode::Write), stag, to);
    [&header.to_bytes()[..], payload].concat()
}

fn fpdu(ulpdu: &[u8], crc: bool) -> Vec<u8> {
    let mut frame = Vec::new();
    fpdu::put(&mut frame, ulpdu, crc);
    frame
}

/// Contexts, lengths and numbers of the Receives that have completed, all of them with success.
fn received(end: &End) -> Vec<(u64, u32, Option<ReceivedImmediate>)> {
    let done = end.completions().into_iter();
    let receives = done.filter(|done| done.kind == RequestKind::Receive);
    receives
        .map(|done| {
            assert_eq!(done.status, Success);
            (done.context, done.octets, done.immediate)
        })
        .collect()
}

fn dropped(end: &End) -> u64 {
    end.conn.counters().dropped_messages
}

/// The stream runs, and nothing waits.
fn runs(raw: &mut Raw) -> bool {
    raw.end.conn.is_running() && !raw.end.conn.is_stalled() && raw.transmit().is_empty()
}

#[test]
fn a_message_without_a_receive_is_dropped_with_all_its_segments() {
    let mut raw = raw();
    raw.ulpdu(&send(1, 0, false, b"gone"));
    let sge = raw.post_receive(1, 16);
    // Too late: a message is received from its first segment on.
    raw.ulpdu(&send(1, 4, false, b"this"));
    raw.ulpdu(&send(1, 8, true, b"too"));
    raw.ulpdu(&number(2, 7));
    raw.ulpdu(&number(3, 8));
    assert_eq!(
        received(&raw.end),
        [(1, 0, Some(ReceivedImmediate::Alone([7; 8])))]
    );
    assert_eq!(raw.end.mem.bytes(sge.token), [0; 16]);
    assert_eq!(dropped(&raw.end), 2);
    assert!(runs(&mut raw));
    assert_eq!(raw.end.conn.counters().stalls, 0);
}

#[test]
fn a_message_longer_than_its_receive_leaves_the_receive_to_the_next_one() {
    let mut raw = raw();
    raw.post_receive(1, 8);
    raw.ulpdu(&send(1, 0, true, &[1; 9]));
    raw.ulpdu(&send(2, 0, false, &[2; 6]));
    raw.ulpdu(&send(2, 6, false, &[2; 3]));
    raw.ulpdu(&send(2, 9, true, &[2; 1]));
    raw.ulpdu(&send(3, 0, false, &[3; 4]));
    raw.ulpdu(&send(3, 4, true, &[3; 1]));
    assert_eq!(received(&raw.end), [(1, 5, None)]);
    assert_eq!(dropped(&raw.end), 2);
    assert!(runs(&mut raw));
}

/// The announcement of a dropped Send goes with it, and so does the number behind a dropped Write.
#[test]
fn numbers_are_dropped_with_their_messages() {
    let announce = |msn| {
        untagged(
            Opcode::Immediate,
            (Qn::SEND, msn, 0),
            true,
            &[9, 9, 9, 9, 0, 0, 0, 1],
        )
    };
    let mut raw = raw();
    raw.ulpdu(&announce(1));
    raw.ulpdu(&send(2, 0, true, b"dropped"));
    for context in 1..5 {
        raw.post_receive(context, 8);
    }
    raw.ulpdu(&send(3, 0, true, b"plain"));
    raw.ulpdu(&write(STag(77), 0, false, b"refused"));
    raw.ulpdu(&write(STag(77), 7, true, b"refused"));
    raw.ulpdu(&number(4, 1));
    raw.ulpdu(&number(5, 2)); // has no Write
    raw.ulpdu(&write(STag(77), 0, true, b"refused"));
    raw.ulpdu(&write(TARGET, 0x1000, true, b"placed"));
    raw.ulpdu(&number(6, 3));
    raw.ulpdu(&announce(7));
    raw.ulpdu(&send(8, 0, true, b"last"));
    let alone = |octet| Some(ReceivedImmediate::Alone([octet; 8]));
    let expected = [
        (1, 5, None),
        (2, 0, alone(2)),
        (3, 6, alone(3)),
        (4, 4, Some(ReceivedImmediate::OfSend([9; 4]))),
    ];
    assert_eq!(received(&raw.end), expected);
    assert_eq!(dropped(&raw.end), 1 + 2 + 1);
    assert!(runs(&mut raw));
}

/// Bounds, rights of the memory, rights of the connection, a wrong STag, memory that goes away, and an STag that may not be invalidated.
#[test]
fn what_is_refused_is_dropped() {
    let mut raw = raw();
    let read_only = Rights {
        remote_write: false,
        ..Rights::ALL
    };
    raw.end
        .mem
        .register_as(STag(5), 0, vec![0; 64], read_only, PD);
    raw.ulpdu(&write(STag(5), 0, true, b"right"));
    raw.ulpdu(&write(STag(6), 0, true, b"unknown"));
    raw.ulpdu(&write(TARGET, 0x0fff, true, b"before"));
    // Octets of a segment that passes are placed before the end of the region is met.
    raw.ulpdu(&write(TARGET, 0x1ffc, false, b"here"));
    raw.ulpdu(&write(TARGET, 0x2000, false, b"beyond"));
    raw.ulpdu(&write(TARGET, 0x2006, true, b"end"));
    assert_eq!(dropped(&raw.end), 4);
    let held = raw.end.mem.bytes(TARGET);
    assert_eq!(held[..4092], pattern(4096, 7)[..4092]);
    assert_eq!(&held[4092..], b"here");
    raw.ulpdu(&write(TARGET, 0x1000, true, b"placed"));
    assert!(raw.end.mem.bytes(TARGET).starts_with(b"placed"));
    raw.end.conn.set_remote_rights(RemoteRights {
        write: false,
        ..RemoteRights::default()
    });
    raw.ulpdu(&write(TARGET, 0x1000, true, b"no more"));
    assert!(raw.end.mem.bytes(TARGET).starts_with(b"placed"));
    assert_eq!(dropped(&raw.end), 5);
    raw.post_receive(1, 8);
    let invalidates =
        UntaggedHeader::new(true, control(Opcode::send(false, true)), 99, Qn::SEND, 1, 0);
    raw.ulpdu(&invalidates.to_bytes());
    raw.ulpdu(&send(2, 0, true, b"next"));
    assert_eq!(received(&raw.end), [(1, 4, None)]);
    assert!(runs(&mut raw));
}

/// All segments behind a refused one are dropped, also if they would pass by now.
#[test]
fn a_write_is_dropped_to_its_end() {
    let mut raw = raw();
    raw.post_receive(1, 8);
    raw.ulpdu(&write(STag(9), 0, false, b"refused"));
    raw.end
        .mem
        .register_as(STag(9), 0, vec![0; 16], Rights::ALL, PD);
    raw.ulpdu(&write(STag(9), 7, true, b"behind"));
    raw.ulpdu(&number(1, 1));
    assert_eq!(raw.end.mem.bytes(STag(9)), [0; 16]);
    assert_eq!((received(&raw.end), dropped(&raw.end)), (vec![], 2));
    raw.ulpdu(&write(STag(9), 0, true, b"placed"));
    assert!(raw.end.mem.bytes(STag(9)).starts_with(b"placed"));
    assert!(runs(&mut raw));
}

#[test]
fn reads_and_atomics_are_dropped_without_an_answer() {
    let mut raw = raw();
    raw.post_receive(1, 8);
    for msn in 0..20 {
        let read = ReadRequest {
            sink: remote(SINK, 0),
            size: 4,
            source: remote(if msn % 2 == 0 { TARGET } else { STag(99) }, 0x1000),
        };
        let place = (Qn::READ_REQUEST, 2 * msn + 1, 0);
        raw.ulpdu(&untagged(
            Opcode::ReadRequest,
            place,
            true,
            &read.to_bytes(),
        ));
        let atomic = AtomicRequest {
            id: msn,
            op: AtomicOp::FetchAdd { add: 1, mask: 0 },
            target: remote(TARGET, 0x1000),
        };
        let place = (Qn::READ_REQUEST, 2 * msn + 2, 0);
        raw.ulpdu(&untagged(
            Opcode::AtomicRequest,
            place,
            true,
            &atomic.to_bytes(),
        ));
    }
    raw.ulpdu(&send(1, 0, true, b"behind"));
    assert_eq!(received(&raw.end), [(1, 6, None)]);
    assert_eq!(dropped(&raw.end), 40);
    assert_eq!(raw.end.mem.bytes(TARGET), pattern(4096, 7));
    assert!(runs(&mut raw));
}

/// What breaks the protocol ends the stream with a Terminate, in messages that are dropped too. The queue pair stays usable.
#[test]
fn what_breaks_the_protocol_ends_the_stream() {
    let first = send(1, 0, false, b"dropped");
    let begun = write(STag(77), 0, false, b"refused");
    let read = |msn| {
        untagged(
            Opcode::ReadRequest,
            (Qn::READ_REQUEST, msn, 0),
            true,
            &[0; 28],
        )
    };
    let cases: &[(&str, &[Vec<u8>])] = &[
        ("a number that is not next", &[send(2, 0, true, b"")]),
        (
            "a gap in a dropped Send",
            &[first.clone(), send(1, 8, true, b"")],
        ),
        ("a dropped Send sent again", &[first.clone(), first.clone()]),
        (
            "another opcode in a dropped Send",
            &[
                first.clone(),
                untagged(Opcode::SendSolicited, (Qn::SEND, 1, 7), true, b""),
            ],
        ),
        (
            "a gap in a dropped Write",
            &[begun.clone(), write(STag(77), 8, true, b"")],
        ),
        (
            "another STag in a dropped Write",
            &[begun.clone(), write(TARGET, 7, true, b"")],
        ),
        ("a Read Request twice", &[read(1), read(1), read(1)]),
        ("a Read inside a dropped Send", &[first.clone(), read(1)]),
        ("a short header", &[vec![0x41, 0x43, 0]]),
        (
            "long Immediate Data",
            &[untagged(Opcode::Immediate, (Qn::SEND, 1, 0), true, &[0; 9])],
        ),
    ];
    for (name, ulpdus) in cases {
        let mut raw = raw();
        raw.post_receive(1, 2);
        raw.ulpdu(&write(TARGET, 0x1000, true, b"ready"));
        for ulpdu in *ulpdus {
            raw.ulpdu(ulpdu);
        }
        assert!(raw.end.fault().is_some(), "{name}");
        assert!(!raw.end.conn.write_side_done(), "{name}");
        assert!(raw.last_terminate().is_some(), "{name}");
        assert!(raw.end.conn.write_side_done(), "{name}");
        is_usable_without_a_peer(&mut raw.end, name);
        raw.end.conn.handle_stream_end(StreamEnd::Fin, 0);
        raw.end.collect();
        assert_eq!(raw.end.events.last(), Some(&Event::Ended), "{name}");
    }
}

/// Requests succeed and are dropped, Receives stay until this side disconnects, and then everything comes back flushed.
fn is_usable_without_a_peer(end: &mut End, name: &str) {
    let before = end.completions().len();
    let posted = end.conn.counters().dropped_requests;
    let sge = end.mem.register(vec![0; 8], Rights::ALL, PD);
    end.conn.post_receive(50, &[sge]).unwrap();
    end.post(51, inline(&[b"dropped"])).unwrap();
    end.conn
        .post_initiator(InitiatorWqe {
            silent: true,
            ..wqe(52, inline(&[b"dropped"]))
        })
        .unwrap();
    end.post(53, inline(&[b"dropped"])).unwrap();
    end.collect();
    let done = end.completions().split_off(before);
    let done: Vec<_> = done
        .iter()
        .map(|done| (done.context, done.status))
        .collect();
    assert_eq!(done, [(51, Success), (53, Success)], "{name}");
    assert_eq!(end.conn.counters().dropped_requests, posted + 3, "{name}");
    assert!(
        !end.conn.has_failed() && !end.conn.flushes_receives(),
        "{name}"
    );
}

type EndsStream = fn(&mut Raw);

#[test]
fn the_end_of_the_peer_drops_requests_with_success() {
    let ends: [(&str, EndsStream); 5] = [
        ("in order", |raw| {
            raw.end.conn.handle_stream_end(StreamEnd::Fin, 0)
        }),
        ("within an FPDU", |raw| {
            raw.end.conn.handle_stream_end(StreamEnd::Fin, 3)
        }),
        ("by a reset", |raw| {
            raw.end.conn.handle_stream_end(StreamEnd::Reset, 0)
        }),
        ("by a Terminate", |raw| raw.receive(&vector("T1"))),
        ("by an error", |raw| raw.receive(&[0; 64])),
    ];
    for (name, ends) in ends {
        for is_heard in [true, false] {
            let mut raw = raw();
            raw.post_receive(1, 8);
            if is_heard {
                raw.ulpdu(&write(TARGET, 0x1000, true, b"ready"));
            }
            raw.end.post(2, inline(&[b"one"])).unwrap();
            raw.end.post(3, inline(&[b"two"])).unwrap();
            let knobs = Knobs {
                write: 3,
                ..raw.knobs
            };
            raw.end.transmit(&knobs);
            ends(&mut raw);
            raw.transmit();
            raw.end.collect();
            assert_eq!(outcomes(&raw.end), [Success; 2], "{name} {is_heard}");
            is_usable_without_a_peer(&mut raw.end, name);
            raw.end.disconnect();
            raw.end.collect();
            let receives = statuses(&raw.end, RequestKind::Receive);
            assert_eq!(receives, [Flushed; 2], "{name} {is_heard}");
        }
    }
}

/// The Terminate names a Write, behind which other requests have succeeded.
#[test]
fn a_terminate_fails_no_request() {
    let mut raw = raw();
    raw.ulpdu(&write(TARGET, 0x1000, true, b"ready"));
    let remote = remote(STag(77), 0);
    for context in 1..4 {
        let data = Payload::Inline(&[b"refused"]);
        raw.end
            .post(context, Operation::Write { data, remote })
            .unwrap();
    }
    let knobs = raw.knobs;
    raw.end.transmit(&knobs);
    let mut peer = Raw::initiator();
    peer.ulpdu(&write(STag(77), 0, true, b"refused"));
    let terminate = frames(&peer.transmit(), true).remove(0);
    raw.ulpdu(&terminate);
    assert!(matches!(raw.end.events.first(), Some(Event::Ready)));
    assert!(raw.end.terminated().is_some());
    assert_eq!(outcomes(&raw.end), [Success; 3]);
    is_usable_without_a_peer(&mut raw.end, "after a Terminate");
}

/// An error of this side is its own, as with reliable delivery.
#[test]
fn an_error_of_this_side_fails_the_connection() {
    let mut raw = raw();
    raw.post_receive(1, 8);
    raw.ulpdu(&write(TARGET, 0x1000, true, b"ready"));
    raw.end.post(2, sends(Payload::Sges(&[NOWHERE]))).unwrap();
    raw.transmit();
    assert_eq!(outcomes(&raw.end), [WqeStatus::LocalAccess, Flushed]);
    assert!(raw.end.conn.has_failed());
}

#[test]
fn what_is_posted_before_the_start_waits_or_is_dropped() {
    let mut end = End::new(SIZES);
    end.conn.set_delivery(Delivery::Unreliable);
    let post = |end: &mut End, context| {
        let posted = end.conn.post_early(wqe(context, inline(&[b"early"])));
        posted.unwrap();
        end.collect();
    };
    post(&mut end, 1);
    assert_eq!(outcomes(&end), [], "it waits");
    end.conn.abandon();
    end.collect();
    assert_eq!(outcomes(&end), [Success]);
    assert_eq!(end.conn.counters().dropped_requests, 1);
    // A later stream carries what is posted from now on.
    post(&mut end, 2);
    end.conn.start(agreed(Role::Initiator, true));
    let sent = end.transmit(&Knobs::default());
    end.collect();
    assert_eq!(frames(&sent, true), [send(1, 0, true, b"early")]);
    assert_eq!(outcomes(&end), [Success; 2]);
}

/// Without CRCs payload is placed while it arrives. A Write whose memory goes away meanwhile is dropped from there on.
#[test]
fn a_write_is_dropped_in_the_middle_of_an_fpdu() {
    for (is_last, is_read_directly) in [(true, false), (false, false), (true, true), (false, true)]
    {
        let mut raw = raw_with(false);
        let mem = &raw.end.mem;
        mem.register_as(STag(9), 0, vec![0; 256], Rights::ALL, PD);
        raw.post_receive(1, 8);
        raw.receive(&fpdu(&write(TARGET, 0x1000, true, b"ready"), false));
        let stream = fpdu(&write(STag(9), 0, is_last, &[3; 100]), false);
        raw.receive(&stream[..50]);
        assert!(raw.end.conn.next_place().is_some());
        raw.end.mem.deregister(STag(9));
        if is_read_directly {
            raw.end.conn.direct_placement().unwrap().refused();
        }
        raw.receive(&stream[50..70]);
        assert_eq!(raw.end.conn.next_place(), None);
        raw.receive(&stream[70..]);
        if !is_last {
            raw.receive(&fpdu(&write(STag(9), 100, true, b"more"), false));
        }
        raw.receive(&fpdu(&number(1, 1), false));
        raw.receive(&fpdu(&send(2, 0, true, b"behind"), false));
        assert_eq!(received(&raw.end), [(1, 6, None)]);
        assert_eq!(dropped(&raw.end), 2);
        assert!(runs(&mut raw));
    }
}

/// A long message is placed while it arrives, and dropped when all of a segment is here.
#[test]
fn a_stream_is_handled_alike_wherever_it_is_cut() {
    for crc in [true, false] {
        let ulpdus = [
            write(TARGET, 0x1000, true, b"ready"),
            send(1, 0, false, &pattern(90, 1)),
            send(1, 90, true, &pattern(90, 2)),
            send(2, 0, false, &pattern(40, 3)),
            send(2, 40, true, &pattern(20, 4)),
            write(STag(77), 0, false, &pattern(80, 5)),
            write(STag(77), 80, true, &pattern(80, 6)),
            number(3, 1),
            write(TARGET, 0x1100, true, &pattern(80, 7)),
            number(4, 2),
            untagged(
                Opcode::ReadRequest,
                (Qn::READ_REQUEST, 1, 0),
                true,
                &[0; 28],
            ),
            send(5, 0, true, &pattern(60, 8)),
            send(6, 0, true, &pattern(60, 9)),
        ];
        let stream: Vec<u8> = ulpdus.iter().flat_map(|ulpdu| fpdu(ulpdu, crc)).collect();
        let run = |pieces: &[&[u8]]| {
            let mut raw = raw_with(crc);
            let sges = [1, 2, 3].map(|context| raw.post_receive(context, 100));
            for piece in pieces {
                raw.receive(piece);
            }
            assert!(runs(&mut raw), "{pieces:x?}");
            let content = sges.map(|sge| raw.end.mem.bytes(sge.token));
            let memory = raw.end.mem.bytes(TARGET);
            (received(&raw.end), dropped(&raw.end), content, memory)
        };
        let whole = run(&[&stream]);
        let lengths: Vec<_> = whole.0.iter().map(|(_, octets, _)| *octets).collect();
        assert_eq!(lengths, [60, 80, 60]);
        assert_eq!(whole.1, 1 + 2 + 1 + 1);
        for at in 1..stream.len() {
            let (front, back) = stream.split_at(at);
            assert_eq!(run(&[front, back]), whole, "cut at {at}, CRC {crc}");
        }
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(run(&single), whole, "octet by octet, CRC {crc}");
    }
}

/// What happens in the property test.
#[derive(Clone, Copy, Debug)]
enum Action {
    Receive(u16),
    Send {
        length: u16,
        number: bool,
    },
    Write {
        target: Target,
        length: u16,
        number: bool,
    },
}

/// Where a Write goes.
#[derive(Clone, Copy, Debug)]
enum Target {
    Good,
    Unknown,
    WithoutRight,
    Beyond,
}

fn action() -> impl Strategy<Value = Action> {
    let length = || prop_oneof![Just(0u16), 1..60u16, 60..600u16];
    let target = prop_oneof![
        3 => Just(Target::Good),
        1 => Just(Target::Unknown),
        1 => Just(Target::WithoutRight),
        1 => Just(Target::Beyond),
    ];
    prop_oneof![
        2 => (1..700u16).prop_map(Action::Receive),
        2 => (length(), any::<bool>()).prop_map(|(length, number)| Action::Send { length, number }),
        2 => (target, length(), any::<bool>())
            .prop_map(|(target, length, number)| Action::Write { target, length, number }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Messages in rows, and Receives between the rows, against a queue of lengths.
    #[test]
    fn a_plain_queue_decides_as_the_connection_does(
        rows in prop::collection::vec(prop::collection::vec(action(), 1..8), 1..6),
        (crc, mulpdu) in (any::<bool>(), prop_oneof![Just(64u32), Just(128), Just(1442)]),
        (write, read) in (1..900usize, 1..900usize),
    ) {
        let mut knobs = Knobs { write, read, ..Knobs::default() };
        knobs.limit.mulpdu = mulpdu;
        let mut pair = pair(crc, knobs);
        let mem = &pair.b.mem;
        mem.register_as(TARGET, 0, vec![0; 1 << 12], Rights::ALL, PD);
        let read_only = Rights { remote_write: false, ..Rights::ALL };
        mem.register_as(STag(5), 0, vec![0; 1 << 12], read_only, PD);
        let source = pair.a.mem.register(vec![0; 1 << 10], Rights::ALL, PD);

        let mut receives: std::collections::VecDeque<(u64, u16)> = Default::default();
        let mut expected = Vec::new();
        let mut memory = vec![0; 1 << 12];
        let (mut context, mut drops, mut posts) = (0u64, 0u64, 0usize);
        for row in rows {
            // Receives come first, because the row is posted as a whole.
            for action in &row {
                if let Action::Receive(length) = *action && receives.len() < 16 {
                    context += 1;
                    let sge = pair.b.mem.register(vec![0; length.into()], Rights::ALL, PD);
                    pair.b.conn.post_receive(context, &[sge]).unwrap();
                    receives.push_back((context, length));
                }
            }
            let mut seed = 0;
            for action in &row {
                seed += 1;
                let take = |receives: &mut std::collections::VecDeque<(u64, u16)>, length: u16| {
                    let fits = receives.front().is_some_and(|(_, room)| *room >= length);
                    if fits { receives.pop_front().map(|(context, _)| context) } else { None }
                };
                match *action {
                    Action::Receive(_) => {}
                    Action::Send { length, number } => {
                        let data = Payload::Sges(&[part(source, 0, length.into())]);
                        let operation = if number {
                            Operation::SendImmediate { data, number: [seed; 4], solicited: false }
                        } else {
                            sends(data)
                        };
                        pair.a.post(0, operation).unwrap();
                        posts += 1;
                        match take(&mut receives, length) {
                            Some(context) => expected.push((
                                context,
                                u32::from(length),
                                number.then_some(ReceivedImmediate::OfSend([seed; 4])),
                            )),
                            None => drops += 1,
                        }
                    }
                    Action::Write { target, length, number } => {
                        let length = length.max(1);
                        let (stag, to) = match target {
                            Target::Good => (TARGET, 8),
                            Target::Unknown => (STag(77), 0),
                            Target::WithoutRight => (STag(5), 0),
                            Target::Beyond => (TARGET, (1 << 12) - u64::from(length) + 1),
                        };
                        let data = pattern(length.into(), seed);
                        let sge = pair.a.mem.register(data.clone(), Rights::ALL, PD);
                        let (remote, data_of) = (remote(stag, to), Payload::Sges(&[sge]));
                        let operation = if number {
                            let immediate = [seed; 8];
                            Operation::WriteImmediate { data: data_of, remote, immediate, solicited: false }
                        } else {
                            Operation::Write { data: data_of, remote }
                        };
                        pair.a.post(0, operation).unwrap();
                        posts += 1;
                        let is_good = matches!(target, Target::Good);
                        if is_good {
                            memory[8..][..data.len()].copy_from_slice(&data);
                        } else {
                            drops += 1 + u64::from(number);
                        }
                        if number && is_good {
                            match take(&mut receives, 0) {
                                Some(context) => expected.push((
                                    context,
                                    u32::from(length),
                                    Some(ReceivedImmediate::Alone([seed; 8])),
                                )),
                                None => drops += 1,
                            }
                        }
                    }
                }
            }
            pair.run();
            prop_assert_eq!(&received(&pair.b), &expected);
            prop_assert_eq!(dropped(&pair.b), drops);
            // The end of the region has what fits of Writes that go beyond.
            let held = pair.b.mem.bytes(TARGET);
            prop_assert_eq!(&held[..1 << 11], &memory[..1 << 11]);
            prop_assert_eq!(outcomes(&pair.a), vec![Success; posts]);
        }
        prop_assert!(pair.a.conn.is_running() && pair.b.conn.is_running());
    }
}
