//! RFC 7306: Atomics and Immediate Data, both ends, the vectors D10 to D14, and every error of section 8.6.

use super::*;
use crate::rdmap::{AtomicRequest, AtomicResponse, OperationError, ProtectionError, control};
use crate::{AtomicOp, ReceivedImmediate, RemoteRights, TerminateCode};

fn immediate(data: u64, solicited: bool) -> Operation<Payload<'static>> {
    Operation::Immediate {
        data: data.to_be_bytes(),
        solicited,
    }
}

fn atomic(op: AtomicOp, sink: &Sge, at: u64) -> Operation<Payload<'_>> {
    Operation::Atomic {
        op,
        sink: Payload::Sges(std::slice::from_ref(sink)),
        remote: remote(TARGET, at),
    }
}

/// The word of a region at an offset.
fn word(end: &End, stag: STag, at: usize) -> u64 {
    u64::from_ne_bytes(end.mem.bytes(stag)[at..at + 8].try_into().unwrap())
}

/// An untagged ULPDU of one segment.
fn untagged(opcode: crate::rdmap::Opcode, (qn, msn): (u32, u32), payload: &[u8]) -> Vec<u8> {
    let header =
        crate::ddp::UntaggedHeader::new(true, control(opcode), 0, crate::ddp::Qn(qn), msn, 0);
    let mut ulpdu = header.to_bytes().to_vec();
    ulpdu.extend_from_slice(payload);
    ulpdu
}

fn request(msn: u32, op: AtomicOp, to: u64) -> Vec<u8> {
    let header = AtomicRequest {
        id: msn,
        op,
        target: remote(TARGET, to),
    };
    let opcode = crate::rdmap::Opcode::AtomicRequest;
    untagged(opcode, (1, msn), &header.to_bytes())
}

/// RDMAPX-022, RDMAPX-025.
#[test]
fn d10_d11_immediate_data_both_ways() {
    let mut raw = Raw::initiator();
    raw.end
        .post(1, immediate(0x0102_0304_0506_0708, false))
        .unwrap();
    raw.end
        .post(2, immediate(0x0102_0304_0506_0708, true))
        .unwrap();
    assert_eq!(raw.transmit(), [vector("D10"), vector("D11")].concat());
    assert_eq!(
        statuses(&raw.end, RequestKind::Immediate),
        [WqeStatus::Success; 2]
    );

    let mut raw = Raw::responder();
    let sge = raw.post_receive(7, 16);
    raw.end.conn.post_receive(8, &[]).unwrap(); // no room is needed
    raw.receive(&vector("D10"));
    raw.receive(&vector("D11"));
    let done = raw.end.completions();
    for (at, done) in done.iter().enumerate() {
        assert_eq!(
            (done.kind, done.status),
            (RequestKind::Receive, WqeStatus::Success)
        );
        assert_eq!((done.context, done.octets), (7 + at as u64, 0));
        let data = ReceivedImmediate::Alone([1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(done.immediate, Some(data));
        assert_eq!(done.solicited, at == 1);
    }
    assert_eq!(done.len(), 2);
    assert_eq!(raw.end.mem.bytes(sge.token), [0; 16], "nothing is placed");
    assert!(raw.end.events.contains(&Event::Ready));
}

/// RFC 7306 section 6: one request and one completion at each end; the Write is placed when the Receive completes.
#[test]
fn a_write_with_immediate_data_is_one_request() {
    for (length, inline) in [
        (0, false),
        (1, false),
        (9, true),
        (100, false),
        (40_000, false),
    ] {
        let b = StreamConfig {
            role: Role::Responder,
            ..stream(Role::Initiator)
        };
        let mut pair = Pair::with(stream(Role::Initiator), b, Knobs::default());
        pair.a.conn.send_ready();
        let rights = Rights::ALL;
        let octets = pattern(length, 7);
        pair.b
            .mem
            .register_as(TARGET, 0x1000, vec![0; length + 1], rights, PD);
        let source = pair.a.mem.register(octets.clone(), rights, PD);
        let (pieces, list) = ([&*octets], [source]);
        for context in 0..2 {
            pair.b.conn.post_receive(context, &[]).unwrap();
            let both = Operation::WriteImmediate {
                data: match inline {
                    true => Payload::Inline(&pieces),
                    false => Payload::Sges(&list),
                },
                remote: remote(TARGET, 0x1000),
                immediate: [1, 2, 3, 4, 5, 6, 7, 8],
                solicited: context == 1,
            };
            pair.a.post(context, both).unwrap();
        }
        pair.run();
        assert_eq!(
            statuses(&pair.a, RequestKind::Write),
            [WqeStatus::Success; 2]
        );
        let done = pair.b.completions();
        assert_eq!(done.len(), 2);
        for (done, context) in done.iter().zip(0..) {
            assert_eq!((done.context, done.solicited), (context, context == 1));
            let data = ReceivedImmediate::Alone([1, 2, 3, 4, 5, 6, 7, 8]);
            assert_eq!(done.immediate, Some(data));
            assert_eq!(done.octets as usize, length);
        }
        let placed = pair.b.mem.bytes(TARGET);
        assert_eq!(placed, [&*octets, &[0]].concat());
        let sent = pair.a.conn.counters().sent;
        // The first Write is the ready-to-receive message.
        assert_eq!((sent.writes, sent.immediates), (3, 2));
    }
}

/// A Receive that Immediate Data takes has the length of the Write in front of it, and of no earlier one.
#[test]
fn immediate_data_has_the_length_of_the_write_in_front() {
    for (crc, early) in [(true, usize::MAX), (false, usize::MAX), (false, 64)] {
        let a = StreamConfig {
            crc,
            ..stream(Role::Initiator)
        };
        let b = StreamConfig {
            role: Role::Responder,
            early,
            ..a
        };
        let knobs = Knobs {
            read: 100,
            ..Knobs::default()
        };
        let mut pair = Pair::with(a, b, knobs);
        pair.a.conn.send_ready();
        pair.b
            .mem
            .register_as(TARGET, 0x1000, vec![0; 9000], Rights::ALL, PD);
        let source = pair.a.mem.register(vec![1; 9000], Rights::ALL, PD);
        for context in 0..7 {
            pair.b.conn.post_receive(context, &[]).unwrap();
        }
        let mut context = 0;
        let mut post = |operation: Operation<Payload<'_>>, pair: &mut Pair| {
            context += 1;
            pair.a.post(context, operation).unwrap();
        };
        let target = remote(TARGET, 0x1000);
        let list = |length| [part(source, 0, length)];
        let [long, short, none] = [list(9000), list(7), list(0)];
        let write = |list| Operation::Write {
            data: Payload::Sges(list),
            remote: target,
        };
        let both = |list| Operation::WriteImmediate {
            data: Payload::Sges(list),
            remote: target,
            immediate: [0; 8],
            solicited: false,
        };
        let send = Operation::Send {
            data: Payload::Inline(&[]),
            solicited: false,
            invalidate: None,
        };
        post(write(&long), &mut pair);
        post(both(&short), &mut pair);
        post(write(&long), &mut pair);
        post(both(&none), &mut pair);
        post(immediate(1, false), &mut pair);
        post(write(&short), &mut pair);
        post(write(&long), &mut pair);
        post(immediate(1, false), &mut pair); // as a peer sends that knows no such request
        post(write(&short), &mut pair);
        post(send, &mut pair);
        post(both(&long), &mut pair);
        post(immediate(1, false), &mut pair);
        pair.run();
        let done = pair.b.completions();
        let octets: Vec<_> = done.iter().map(|done| done.octets).collect();
        assert_eq!(octets, [7, 0, 0, 9000, 0, 9000, 0], "{done:?}");
    }
}

/// The peer has no room for the Immediate Data, or refuses the Write: the request fails, and once.
#[test]
fn a_write_with_immediate_data_fails_as_one() {
    for stag in [TARGET, STag(0xdead)] {
        let mut pair = pair(Knobs::default());
        let source = pair.a.mem.register(vec![1; 8], Rights::ALL, PD);
        pair.b.conn.post_receive(1, &[]).unwrap();
        let both = |context, pair: &mut Pair| {
            let list = [source];
            let both = Operation::WriteImmediate {
                data: Payload::Sges(&list),
                remote: remote(stag, 0x1000),
                immediate: [0; 8],
                solicited: false,
            };
            pair.a.post(context, both).unwrap();
        };
        both(1, &mut pair);
        both(2, &mut pair);
        pair.run();
        let outcomes = outcomes(&pair.a);
        assert_eq!(outcomes.len(), 2, "{outcomes:?}");
        let received = pair.b.completions();
        let expected = match stag {
            TARGET => WqeStatus::Success,
            _ => WqeStatus::Flushed,
        };
        assert_eq!(received[0].status, expected);
        assert_eq!(received.len(), 1);
    }
}

/// RDMAPX-004, RDMAPX-008, RDMAPX-012: D12 alone is answered by D14, D13 by another.
#[test]
fn d12_d13_d14_atomics_at_the_responder() {
    let mut raw = Raw::responder().with_buffers();
    raw.end.mem.write(TARGET, 0, &41u64.to_ne_bytes());
    raw.end.mem.write(TARGET, 8, &7u64.to_ne_bytes());
    raw.receive(&vector("D12"));
    assert_eq!(raw.transmit(), vector("D14"));
    assert_eq!(word(&raw.end, TARGET, 0), 42);
    raw.receive(&vector("D13"));
    let answer = AtomicResponse {
        id: 0xa0a0_a0a1,
        value: 7,
    };
    let opcode = crate::rdmap::Opcode::AtomicResponse;
    let answer = untagged(opcode, (3, 2), &answer.to_bytes());
    assert_eq!(frames(&raw.transmit(), true), [answer]);
    assert_eq!(word(&raw.end, TARGET, 8), 0x1122_3344_5566_7788);
    assert_eq!(raw.end.completions().len(), 0);
}

/// RDMAPX-012, RDMAPX-014, RDMAPX-017, RDMAPX-020.
#[test]
fn atomics_do_what_they_say_over_a_pair() {
    for crc in [true, false] {
        let a = StreamConfig {
            crc,
            ..stream(Role::Initiator)
        };
        let b = StreamConfig {
            role: Role::Responder,
            ..a
        };
        let mut pair = Pair::with(a, b, Knobs::default());
        pair.a.conn.send_ready();
        let mem = &pair.b.mem;
        mem.register_as(TARGET, 0x1000, vec![0; 64], Rights::ALL, PD);
        mem.write(TARGET, 8, &0x00ff_00ff_00ff_00ffu64.to_ne_bytes());
        let sink = pair.a.mem.register(vec![0; 64], Rights::ALL, PD);
        let fields = 0x8000_8000_8000_8000;
        let ops = [
            (AtomicOp::add(5), 0),
            (AtomicOp::add(u64::MAX), 0),
            (AtomicOp::compare_swap(4, 100), 0),
            (AtomicOp::compare_swap(4, 200), 0), // does not match any more
            (
                AtomicOp::FetchAdd {
                    add: 0xff01_ff01_ff01_ff01,
                    mask: fields,
                },
                8,
            ),
            (
                AtomicOp::CompareSwap {
                    compare: 0,
                    compare_mask: 0xffff,
                    swap: 0x1234_5678,
                    swap_mask: 0xffff_0000,
                },
                8,
            ),
        ];
        for (at, (op, offset)) in ops.into_iter().enumerate() {
            let part = part(sink, 8 * u32::try_from(at).unwrap(), 8);
            pair.a
                .post(at as u64, atomic(op, &part, 0x1000 + offset))
                .unwrap();
        }
        pair.run();
        let done = pair.a.completions();
        let kinds = ops.map(|(op, _)| match op {
            AtomicOp::FetchAdd { .. } => (RequestKind::FetchAdd, 8),
            AtomicOp::CompareSwap { .. } => (RequestKind::CompareSwap, 8),
        });
        let reported: Vec<_> = done.iter().map(|done| (done.kind, done.octets)).collect();
        assert_eq!(reported, kinds);
        assert_eq!(outcomes(&pair.a), [WqeStatus::Success; 6]);
        let before: Vec<u64> = (0..6).map(|at| word(&pair.a, sink.token, 8 * at)).collect();
        assert_eq!(
            before,
            [0, 5, 4, 100, 0x00ff_00ff_00ff_00ff, 0],
            "crc {crc}"
        );
        assert_eq!(word(&pair.b, TARGET, 0), 100);
        assert_eq!(word(&pair.b, TARGET, 8), 0x1234_0000);
        assert_eq!(pair.b.conn.counters().sent.atomic_responses, 6);
        assert_eq!(pair.a.conn.counters().received.atomic_responses, 6);
    }
}

/// RDMAPX-013: requests of both kinds are answered in the order they came, and a Read that came before an Atomic sees
/// the word as it was.
#[test]
fn rdmapx_013_reads_and_atomics_are_answered_in_order() {
    let mut pair = pair(Knobs::default());
    pair.b.mem.write(TARGET, 0, &[0; 8]);
    let sink = pair.a.mem.register(vec![0xff; 64], Rights::ALL, PD);
    for round in 0..4u32 {
        let (old, seen) = (part(sink, 16 * round, 8), part(sink, 16 * round + 8, 8));
        pair.a
            .post(2 * u64::from(round), read(&[seen], 0x1000))
            .unwrap();
        let add = atomic(AtomicOp::add(1), &old, 0x1000);
        pair.a.post(2 * u64::from(round) + 1, add).unwrap();
    }
    // The limit counts both kinds together (RDMAPX-006).
    let made = pair.a.transmit(&Knobs::default());
    assert_eq!(frames(&made, true).len(), 4);
    pair.b.receive(&made);
    let answers = pair.b.transmit(&Knobs::default());
    let opcodes: Vec<u8> = frames(&answers, true)
        .iter()
        .map(|ulpdu| ulpdu[1])
        .collect();
    assert_eq!(opcodes, [0x42, 0x4b, 0x42, 0x4b]);
    pair.a.receive(&answers);
    pair.run();
    assert_eq!(outcomes(&pair.a), [WqeStatus::Success; 8]);
    for round in 0..4 {
        assert_eq!(word(&pair.a, sink.token, 16 * round), round as u64);
        assert_eq!(word(&pair.a, sink.token, 16 * round + 8), round as u64);
    }
}

/// IW-034, RDMAPX-006: a fence waits for Atomics, and an outbound limit of 0 leaves none.
#[test]
fn atomics_count_for_fences_and_limits() {
    let mut pair = pair(Knobs::default());
    let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
    pair.a
        .post(1, atomic(AtomicOp::add(1), &sink, 0x1000))
        .unwrap();
    pair.b.conn.post_receive(9, &[]).unwrap();
    let fenced = InitiatorWqe {
        fence: true,
        ..wqe(2, immediate(1, false))
    };
    pair.a.conn.post_initiator(fenced).unwrap();
    let made = pair.a.transmit(&Knobs::default());
    assert_eq!(frames(&made, true).len(), 1, "the fence holds");
    pair.b.receive(&made);
    pair.run();
    assert_eq!(outcomes(&pair.a), [WqeStatus::Success; 2]);

    let mut raw = Raw::with(StreamConfig {
        limits: NO_READS,
        ..stream(Role::Initiator)
    });
    let sink = raw.end.mem.register(vec![0; 8], Rights::ALL, PD);
    raw.end.post(1, atomic(AtomicOp::add(1), &sink, 0)).unwrap();
    raw.transmit();
    assert_eq!(outcomes(&raw.end), [WqeStatus::InvalidRequest]); // AMB-045
}

/// QP-002: a sink that is not 8 octets, or none allowed, is refused at once.
#[test]
fn atomics_with_another_sink_are_not_taken() {
    let mut raw = Raw::initiator().with_buffers();
    for length in [0, 4, 7, 9, 16, u32::MAX] {
        let sink = Sge {
            length,
            ..SINK_OF_4
        };
        let refused = raw.end.post(1, atomic(AtomicOp::add(1), &sink, 0x1000));
        assert_eq!(refused, Err(PostError::WrongLength));
    }
    for (sink, error) in [
        (Payload::Sges(&[SINK_OF_4; 2]), PostError::TooManySges),
        (Payload::Inline(&[&[0; 8]]), PostError::TooLong),
        (Payload::Inline(&[]), PostError::WrongLength),
    ] {
        let op = AtomicOp::add(1);
        let remote = remote(TARGET, 0x1000);
        let refused = raw.end.post(1, Operation::Atomic { op, sink, remote });
        assert_eq!(refused, Err(error));
    }
    let sizes = QueueSizes {
        read_sges: 0,
        ..SIZES
    };
    let mut end = End::new(sizes);
    end.conn.start(stream(Role::Initiator));
    let refused = end.post(1, atomic(AtomicOp::add(1), &NOWHERE, 0));
    assert_eq!(refused, Err(PostError::TooManySges));
}

/// The fault and the Terminate of a Responder with the catalogue's buffers that gets these ULPDUs.
fn refused(rights: Rights, ulpdus: &[Vec<u8>]) -> (Fault, crate::rdmap::Terminate) {
    let mut raw = Raw::responder();
    let mem = &raw.end.mem;
    mem.register_as(TARGET, 0x1000, vec![0x55; 64], rights, PD);
    mem.register_as(SINK, 0x1000, vec![0x55; 64], Rights::ALL, Pd(2));
    raw.post_receive(1, 16);
    for ulpdu in ulpdus {
        raw.ulpdu(ulpdu);
    }
    let terminate = raw.last_terminate().expect("a Terminate");
    assert_eq!(raw.end.mem.bytes(TARGET), [0x55; 64], "untouched");
    (raw.end.fault().expect("a fault"), terminate)
}

/// RDMAPX-010, RDMAPX-011, RDMAPX-026: every refusal of an Atomic, with the DDP header and without an RDMA header.
#[test]
fn rdmapx_011_atomics_need_their_right_and_a_place() {
    let all_but_atomics = Rights {
        remote_atomic: false,
        ..Rights::ALL
    };
    let add = |to| request(1, AtomicOp::add(1), to);
    let mut other_domain = add(0x1000);
    other_domain[26..30].copy_from_slice(&SINK.0.to_be_bytes());
    let mut unknown = add(0x1000);
    unknown[26..30].copy_from_slice(&[9; 4]);
    let cases = [
        (Rights::ALL, unknown, (0, 1, 0x00)),
        (Rights::ALL, add(0x1000 + 57), (0, 1, 0x01)),
        (Rights::ALL, add(0x0ff8), (0, 1, 0x01)),
        (all_but_atomics, add(0x1000), (0, 1, 0x02)),
        (Rights::ALL, other_domain, (0, 1, 0x03)),
        (Rights::ALL, add(u64::MAX - 3), (0, 1, 0x04)),
        (Rights::ALL, add(0x1004), (0, 2, 0x07)),
        (Rights::ALL, add(0x1001), (0, 2, 0x07)),
    ];
    for (rights, ulpdu, (layer, etype, code)) in cases {
        let (_, terminate) = refused(rights, std::slice::from_ref(&ulpdu));
        assert_eq!(terminate.code, TerminateCode::new(layer, etype, code));
        assert_eq!(terminate.segment_length, Some(70));
        assert_eq!(terminate.ddp.unwrap().as_bytes(), &ulpdu[..18]);
        assert_eq!(terminate.read, None, "RDMAPX-026");
    }
}

/// The right to read and the right to write together are not the right to Atomics, neither on a connection nor of memory.
#[test]
fn atomics_are_a_right_apart_of_the_connection_too() {
    for atomic in [false, true] {
        let mut raw = Raw::responder();
        let mem = &raw.end.mem;
        let only_atomics = Rights {
            remote_atomic: true,
            ..Rights::NONE
        };
        mem.register_as(TARGET, 0x1000, vec![0; 64], only_atomics, PD);
        raw.end.conn.set_remote_rights(RemoteRights {
            read: !atomic,
            write: !atomic,
            atomic,
        });
        raw.ulpdu(&request(1, AtomicOp::add(1), 0x1000));
        raw.transmit();
        assert_eq!(raw.end.fault().is_none(), atomic);
        assert_eq!(raw.end.mem.bytes(TARGET) != [0; 64], atomic);
    }
}

/// RDMAPX-004, RDMAPX-005, RDMAPX-009, RDMAPX-023: headers that are not what they have to be.
#[test]
fn rdmapx_009_malformed_extensions_are_refused() {
    use crate::rdmap::Opcode::{AtomicResponse as Answer, Immediate, ImmediateSolicited};
    let add = |msn| request(msn, AtomicOp::add(1), 0x1000);
    let edited = |mut ulpdu: Vec<u8>, edit: fn(&mut Vec<u8>)| {
        edit(&mut ulpdu);
        ulpdu
    };
    let cases = [
        (
            "RDMAPX-009",
            edited(add(1), |ulpdu| ulpdu[21] = 1),
            (0, 2, 0x06),
        ),
        (
            "RDMAPX-009",
            edited(add(1), |ulpdu| ulpdu[21] = 15),
            (0, 2, 0x06),
        ),
        (
            "short",
            edited(add(1), |ulpdu| ulpdu.truncate(69)),
            (0, 2, 0x06),
        ),
        ("long", edited(add(1), |ulpdu| ulpdu.push(0)), (1, 2, 0x05)),
        ("RV", edited(add(1), |ulpdu| ulpdu[1] = 0x0a), (0, 2, 0x05)),
        ("QN 0", edited(add(1), |ulpdu| ulpdu[9] = 0), (1, 2, 0x01)),
        ("QN 3", edited(add(1), |ulpdu| ulpdu[9] = 3), (1, 2, 0x01)),
        ("MSN", add(2), (1, 2, 0x03)),
        ("MO", edited(add(1), |ulpdu| ulpdu[17] = 8), (1, 2, 0x04)),
        (
            "L = 0",
            edited(add(1), |ulpdu| ulpdu[0] = 0x01),
            (1, 2, 0x04),
        ),
        ("DV", edited(add(1), |ulpdu| ulpdu[0] = 0x42), (1, 2, 0x06)),
        (
            "T = 1",
            edited(add(1), |ulpdu| ulpdu[0] = 0xc1),
            (0, 2, 0x06),
        ),
        ("QN 1", untagged(Immediate, (1, 1), &[0; 8]), (1, 2, 0x01)),
        ("MSN 2", untagged(Immediate, (0, 2), &[0; 8]), (1, 2, 0x03)),
        (
            "RDMAPX-023",
            untagged(Immediate, (0, 1), &[0; 9]),
            (1, 2, 0x05),
        ),
        (
            "RDMAPX-023",
            untagged(Immediate, (0, 1), &[0; 7]),
            (0, 2, 0xff),
        ),
        (
            "RDMAPX-023",
            untagged(ImmediateSolicited, (0, 1), &[]),
            (0, 2, 0xff),
        ),
        (
            "L = 0",
            edited(untagged(Immediate, (0, 1), &[0; 8]), |ulpdu| {
                ulpdu[0] = 0x01
            }),
            (0, 2, 0xff),
        ),
        (
            "RDMAPX-007",
            untagged(Answer, (3, 1), &[0; 12]),
            (1, 2, 0x02),
        ),
        (
            "RDMAPX-005",
            untagged(Answer, (0, 1), &[0; 12]),
            (1, 2, 0x01),
        ),
        (
            "RDMAPX-005",
            untagged(Answer, (3, 7), &[0; 12]),
            (1, 2, 0x03),
        ),
        ("OPEN-15", untagged(Answer, (3, 1), &[0; 32]), (1, 2, 0x05)),
        ("short", untagged(Answer, (3, 1), &[0; 11]), (0, 2, 0x06)),
    ];
    for (name, ulpdu, (layer, etype, code)) in cases {
        let (_, terminate) = refused(Rights::ALL, &[ulpdu]);
        let expected = TerminateCode::new(layer, etype, code);
        assert_eq!(terminate.code, expected, "{name}");
        assert!(terminate.read.is_none(), "{name}: RDMAPX-026");
    }
}

/// RDMAPX-006: as many as the limit, which is 4, and one more.
#[test]
fn rdmapx_006_one_atomic_more_than_the_limit() {
    let five: Vec<_> = (1..=5)
        .map(|msn| request(msn, AtomicOp::add(1), 0x1000))
        .collect();
    let mut raw = Raw::responder().with_buffers();
    for ulpdu in &five {
        raw.ulpdu(ulpdu);
    }
    assert_eq!(
        raw.end.fault(),
        Some(Fault::Untagged(crate::ddp::UntaggedError::NoBuffer))
    );
}

/// RDMAPX-022: without a Receive, at once.
#[test]
fn rdmapx_022_immediate_data_without_a_receive() {
    let mut raw = Raw::responder();
    raw.receive(&vector("D10"));
    let terminate = raw.last_terminate().unwrap();
    assert_eq!(terminate.code, TerminateCode::new(1, 2, 2));
}

/// OPEN-10, DDP-025, DDP-030: no message is inside another one of its class.
#[test]
fn extensions_do_not_interrupt_a_send() {
    use crate::rdmap::Opcode::{Immediate, Send};
    let mut begun = untagged(Send, (0, 1), b"beginning");
    begun[0] = 0x01;
    let mut inside = untagged(Immediate, (0, 1), &[0; 8]);
    inside[17] = 9; // where the Send goes on
    for (ulpdu, fault) in [
        (inside, Fault::Operation(OperationError::UnexpectedOpcode)),
        (
            request(1, AtomicOp::add(1), 0x1000),
            Fault::Untagged(crate::ddp::UntaggedError::InvalidQn),
        ),
    ] {
        let mut raw = Raw::responder().with_buffers();
        raw.post_receive(1, 64);
        raw.ulpdu(&begun);
        raw.ulpdu(&ulpdu);
        assert_eq!(raw.end.fault(), Some(fault));
    }
}

/// AMB-008, RDMAPX-022: Immediate Data waits for a Receive as a Send does.
#[test]
fn immediate_data_waits_for_a_receive() {
    let mut raw = Raw::with(StreamConfig {
        receive_wait: Duration::from_secs(1),
        ..stream(Role::Responder)
    });
    raw.receive(&[vector("D10"), vector("D11")].concat());
    assert!(raw.end.conn.is_stalled());
    raw.end.conn.post_receive(1, &[]).unwrap();
    raw.receive(&[]);
    assert_eq!(outcomes(&raw.end), [WqeStatus::Success]);
    assert!(raw.end.conn.is_stalled(), "the second still waits");
    raw.end.conn.poll_timeout(raw.now);
    raw.now += Duration::from_secs(2);
    raw.end.conn.handle_timeout(raw.now);
    let terminate = raw.last_terminate().unwrap();
    assert_eq!(terminate.code, TerminateCode::new(1, 2, 2));
}

/// RDMAPX-012, RDMAPX-014: answers that are not the one that is due.
#[test]
fn rdmapx_012_answers_have_to_fit_their_request() {
    use crate::rdmap::Opcode::AtomicResponse as Answer;
    let answer = |msn, id| {
        let header = AtomicResponse { id, value: 9 };
        untagged(Answer, (3, msn), &header.to_bytes())
    };
    let read_response = ulpdu("D4");
    let cases = [
        (answer(1, 1), None),
        (
            answer(1, 77),
            Some(Fault::Operation(OperationError::Unspecified)),
        ),
        (
            answer(2, 1),
            Some(Fault::Untagged(crate::ddp::UntaggedError::MsnRange)),
        ),
        (
            read_response,
            Some(Fault::Operation(OperationError::UnexpectedOpcode)),
        ),
    ];
    for (ulpdu, fault) in cases {
        let mut raw = Raw::initiator().with_buffers();
        let sink = Sge {
            length: 8,
            ..SINK_OF_4
        };
        raw.end
            .post(1, atomic(AtomicOp::add(1), &sink, 0x1000))
            .unwrap();
        raw.transmit();
        raw.ulpdu(&ulpdu);
        assert_eq!(raw.end.fault(), fault);
        if fault.is_none() {
            assert_eq!(word(&raw.end, SINK, 0), 9);
            assert_eq!(outcomes(&raw.end), [WqeStatus::Success]);
        } else {
            assert_eq!(raw.end.mem.bytes(SINK), vec![0; 4096]);
            assert_eq!(outcomes(&raw.end), [WqeStatus::Flushed]);
        }
    }
    // A Read is due, an Atomic is answered.
    let mut raw = Raw::initiator().with_buffers();
    raw.end.post(1, read(&[SINK_OF_4], 0x1000)).unwrap();
    raw.transmit();
    raw.ulpdu(&answer(1, 1));
    let fault = Fault::Operation(OperationError::UnexpectedOpcode);
    assert_eq!(raw.end.fault(), Some(fault));
}

/// RDMAP-066: the word's memory goes between the request and its answer, and the sink's before the answer comes.
#[test]
fn atomics_on_memory_that_has_gone() {
    let mut raw = Raw::responder().with_buffers();
    raw.receive(&vector("D12"));
    raw.end.mem.deregister(TARGET);
    let terminate = raw.last_terminate().unwrap();
    assert_eq!(terminate.code, TerminateCode::new(0, 1, 0));
    assert_eq!(terminate.ddp.unwrap().as_bytes(), &ulpdu("D12")[..18]);
    assert_eq!(
        raw.end.fault(),
        Some(Fault::Protection(ProtectionError::InvalidSTag))
    );

    let mut pair = pair(Knobs::default());
    let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
    pair.a
        .post(1, atomic(AtomicOp::add(1), &sink, 0x1000))
        .unwrap();
    let knobs = pair.knobs;
    let made = pair.a.transmit(&knobs);
    pair.a.mem.deregister(sink.token);
    pair.b.receive(&made);
    pair.run();
    assert_eq!(outcomes(&pair.a), [WqeStatus::LocalAccess]);
    assert_eq!(pair.a.fault(), Some(Fault::Local));
    assert!(pair.b.terminated().is_some());
}

/// AMB-002: the requester of a refused Atomic learns of the refusal, with headers and without.
#[test]
fn a_refused_atomic_fails_with_its_status() {
    for (at, status) in [
        (0x1000 + (1 << 16), WqeStatus::RemoteAccess),
        (0x1004, WqeStatus::RemoteInvalidRequest),
    ] {
        let mut pair = pair(Knobs::default());
        let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
        pair.a
            .post(1, atomic(AtomicOp::add(1), &sink, 0x1000))
            .unwrap();
        pair.a.post(2, atomic(AtomicOp::add(1), &sink, at)).unwrap();
        pair.run();
        assert_eq!(outcomes(&pair.a), [WqeStatus::Success, status]);
    }
    let mut raw = Raw::initiator().with_buffers();
    let sink = Sge {
        length: 8,
        ..SINK_OF_4
    };
    raw.end
        .post(1, atomic(AtomicOp::add(1), &sink, 0x1000))
        .unwrap();
    raw.transmit();
    let code = TerminateCode::new(0, 1, 1);
    raw.receive(&terminate_frame(code, true, false));
    assert_eq!(outcomes(&raw.end), [WqeStatus::RemoteAccess]);
}

/// RDMAPX-001: a peer without Atomics reports the opcode of the request, and the request says so. Other errors are told apart.
#[test]
fn an_atomic_that_the_peer_does_not_have_is_an_invalid_request() {
    for (layer, etype, number, status) in [
        (0, 2, 0x06, WqeStatus::RemoteInvalidRequest),
        (0, 2, 0x07, WqeStatus::RemoteInvalidRequest),
        (0, 1, 0x02, WqeStatus::RemoteAccess),
        (1, 2, 0x02, WqeStatus::RemoteError),
        (0, 0, 0x00, WqeStatus::RemoteError),
    ] {
        let mut raw = Raw::initiator().with_buffers();
        let sink = Sge {
            length: 8,
            ..SINK_OF_4
        };
        let swap = atomic(AtomicOp::compare_swap(1, 2), &sink, 0x1000);
        raw.end.post(1, swap).unwrap();
        raw.transmit();
        let (header, _) = crate::ddp::Header::split(&ulpdu("D12")).unwrap();
        let mut terminate = crate::rdmap::Terminate::new(TerminateCode::new(layer, etype, number));
        terminate.ddp = Some(header);
        terminate.segment_length = Some(70);
        let (octets, len) = terminate.to_bytes();
        let mut message = vector("T3")[2..20].to_vec(); // the DDP header of any Terminate
        message.extend_from_slice(&octets[..len]);
        raw.ulpdu(&message);
        let case = format!("{layer}/{etype}/{number:02x}");
        assert_eq!(outcomes(&raw.end), [status], "{case}");
    }
}

/// MPA-072: a stream of all that is new, split at every octet, with small batches.
#[test]
fn extensions_split_at_every_octet() {
    let script = ["D12", "D10", "D13", "D11"];
    let mut octets = Vec::new();
    for name in script {
        octets.extend(vector(name));
    }
    let run = |cut: usize| {
        let mut raw = Raw::responder().with_buffers();
        raw.end.mem.write(TARGET, 0, &41u64.to_ne_bytes());
        raw.end.mem.write(TARGET, 8, &7u64.to_ne_bytes());
        raw.knobs.limit.fpdus = 1;
        raw.post_receive(1, 8);
        raw.post_receive(2, 8);
        raw.receive(&octets[..cut]);
        let mut sent = raw.transmit();
        raw.receive(&octets[cut..]);
        sent.extend(raw.transmit());
        sent.extend(raw.transmit());
        (sent, raw.end.mem.bytes(TARGET), raw.end.completions())
    };
    let whole = run(0);
    assert_eq!(whole.0[..36], vector("D14"));
    for cut in 0..=octets.len() {
        assert_eq!(run(cut), whole, "cut at {cut}");
    }
}

/// DDP-032: the message numbers of QN 3 wrap as all others do.
#[test]
fn atomic_message_numbers_wrap() {
    let ends = [Role::Initiator, Role::Responder].map(|role| {
        let mut end = End::with(Connection::with_first_msn(SIZES, SCOPE, u32::MAX - 1).unwrap());
        end.conn.start(stream(role));
        end
    });
    let [a, b] = ends;
    let mut pair = Pair {
        a,
        b,
        now: Instant::now(),
        knobs: Knobs::default(),
    };
    pair.b
        .mem
        .register_as(TARGET, 0x1000, vec![0; 64], Rights::ALL, PD);
    let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
    for context in 0..5 {
        pair.a
            .post(context, atomic(AtomicOp::add(1), &sink, 0x1000))
            .unwrap();
    }
    pair.run();
    assert_eq!(outcomes(&pair.a), [WqeStatus::Success; 5]);
    assert_eq!(word(&pair.b, TARGET, 0), 5);
    let msns: Vec<u32> = frames(&pair.b.sent, true)
        .iter()
        .map(|ulpdu| u32::from_be_bytes(ulpdu[10..14].try_into().unwrap()))
        .collect();
    assert_eq!(msns, [u32::MAX - 1, u32::MAX, 0, 1, 2]);
}
