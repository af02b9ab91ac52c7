//! AMB-002: Writes that complete when the peer has placed them, because it has answered a Read behind them.

use super::*;
use crate::ddp::TaggedError;
use WqeStatus::{Flushed, LocalAccess, RemoteAccess, Success};

/// With this many Reads either way.
fn config(role: Role, limit: u32) -> StreamConfig {
    StreamConfig {
        limits: ReadLimits {
            ird: limit,
            ord: limit,
        },
        confirmations: Confirmations::EachWrite,
        ..stream(role)
    }
}

/// A pair in full operation of which `a` confirms its Writes; `b` has 64 KiB at 0x1000.
fn confirming(limit: u32, knobs: Knobs) -> Pair {
    let b = StreamConfig {
        confirmations: Confirmations::Off,
        ..config(Role::Responder, limit)
    };
    let mut pair = Pair::with(config(Role::Initiator, limit), b, knobs);
    pair.a.conn.send_ready();
    pair.run();
    pair.b
        .mem
        .register_as(TARGET, 0x1000, vec![0; 1 << 16], Rights::ALL, PD);
    pair
}

fn write<'a>(data: &'a [&'a [u8]], at: u64) -> Operation<Payload<'a>> {
    Operation::Write {
        data: Payload::Inline(data),
        remote: remote(TARGET, at),
    }
}

/// The ULPDUs of `a` on their way to `b`, which does not answer yet.
fn one_way(pair: &mut Pair) -> Vec<Vec<u8>> {
    let knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    pair.a.collect();
    pair.b.receive(&octets);
    frames(&octets, true)
}

/// The kinds of these messages, by their last segments.
fn opcodes(ulpdus: &[Vec<u8>]) -> Vec<u8> {
    let last = ulpdus.iter().filter(|ulpdu| ulpdu[0] & 0x40 != 0);
    last.map(|ulpdu| ulpdu[1] & 0x0f).collect()
}

const WRITE: u8 = 0;
const READ: u8 = 1;
const SEND: u8 = 3;

#[test]
fn amb_002_a_write_ends_when_the_peer_has_placed_it() {
    let mut pair = confirming(4, Knobs::default());
    pair.a.post(1, write(&[b"hello"], 0x1000)).unwrap();
    assert_eq!(opcodes(&one_way(&mut pair)), [WRITE, READ]);
    assert_eq!(pair.a.completions(), [], "the transport has it, no more");
    assert_eq!(&pair.b.mem.bytes(TARGET)[..5], b"hello");
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success]);
    assert_eq!(pair.a.completions()[0].octets, 5);
    assert!(pair.a.conn.is_idle() && !pair.a.conn.wants_transmit());
    assert_eq!(pair.b.completions(), []);
}

#[test]
fn amb_002_the_passive_side_confirms_too() {
    let a = StreamConfig {
        confirmations: Confirmations::Off,
        ..config(Role::Initiator, 1)
    };
    let mut pair = Pair::with(a, config(Role::Responder, 1), Knobs::default());
    pair.a
        .mem
        .register_as(TARGET, 0x1000, vec![0; 64], Rights::ALL, PD);
    pair.b.post(1, write(&[b"hello"], 0x1000)).unwrap();
    pair.run();
    assert_eq!(pair.b.completions(), [], "nothing was sent yet");
    pair.a.conn.send_ready();
    pair.run();
    assert_eq!(outcomes(&pair.b), [Success]);
    assert_eq!(pair.b.conn.counters().sent.read_requests, 1);
}

#[test]
fn amb_002_off_or_without_a_limit_a_write_ends_when_it_is_sent() {
    let each = Confirmations::EachWrite;
    for (confirmations, limit) in [(Confirmations::Off, 4), (each, 0)] {
        let mut raw = Raw::with(StreamConfig {
            confirmations,
            ..config(Role::Initiator, limit)
        });
        raw.end.post(1, write(&[b"hello"], 0x1000)).unwrap();
        let sent = raw.transmit();
        assert_eq!(opcodes(&frames(&sent, true)), [WRITE]);
        assert_eq!(outcomes(&raw.end), [Success]);
        assert_eq!(raw.transmit(), []);
    }
}

/// TST-074 to TST-076: of Writes in a row the refused one fails itself, those before it were placed, and those behind it
/// are dropped.
#[test]
fn amb_002_a_refused_write_says_so_itself() {
    let beyond = 0x1000 + (1 << 16) - 2; // the last three of its octets
    for (count, refused) in [(1, 0), (3, 0), (3, 1), (3, 2), (14, 9)] {
        let mut pair = confirming(4, Knobs::default());
        pair.b.conn.post_receive(7, &[]).unwrap();
        for at in 0..count {
            let place = if at == refused { beyond } else { 0x1000 + at };
            pair.a.post(at, write(&[b"hello"], place)).unwrap();
        }
        // The transport takes this Send, and the peer never gets it (IW-032).
        pair.a.post(count, inline(&[b"behind"])).unwrap();
        pair.run();
        pair.a.post(count + 1, inline(&[b"late"])).unwrap();
        pair.a.collect();
        let mut expected = vec![Success; usize::try_from(refused).unwrap()];
        expected.push(RemoteAccess);
        expected.resize(usize::try_from(count + 2).unwrap(), Flushed);
        assert_eq!(outcomes(&pair.a), expected, "{refused} of {count}");
        assert_eq!(pair.b.fault(), Some(Fault::Tagged(TaggedError::Bounds)));
        assert_eq!(outcomes(&pair.b), [Flushed], "IW-032");
        let placed = usize::try_from(refused).unwrap();
        let octets = pair.b.mem.bytes(TARGET);
        let far = octets.iter().rposition(|octet| *octet != 0);
        assert_eq!(far, placed.checked_sub(1).map(|last| last + 4));
    }
}

/// OPEN-07: the length in a Terminate is that of the segment, or of its payload alone. Overlapping neighbours are distinguished.
#[test]
fn amb_002_the_write_that_a_terminate_names() {
    use crate::rdmap::{Terminate, TerminateCode};
    let data = [7; 64];
    for (place, length, failed) in [
        (0x1000, 14 + 64, 1),
        (0x1000, 64, 1),
        (0x1020, 14 + 64, 2),
        (0x1020, 14 + 32, 1), // may be either's: the older one
        (0x1060, 14 + 64, 3),
        (0x9999, 14 + 64, 1), // nobody's: the oldest
    ] {
        let mut raw = Raw::with(config(Role::Initiator, 4));
        for (context, at) in [(1, 0x1000), (2, 0x1020), (3, 0x1060)] {
            raw.end.post(context, write(&[&data], at)).unwrap();
        }
        let sent = frames(&raw.transmit(), true);
        assert_eq!(opcodes(&sent), [WRITE, WRITE, WRITE, READ]);
        let mut terminate = Terminate::new(TerminateCode::new(1, 1, 1));
        let mut header = sent[0].clone();
        header[6..14].copy_from_slice(&u64::to_be_bytes(place));
        terminate.ddp = Some(crate::ddp::Header::split(&header).unwrap().0);
        terminate.segment_length = Some(length);
        let (octets, len) = terminate.to_bytes();
        let front = vector("T3");
        raw.ulpdu(&[&front[2..20], &octets[..len]].concat());
        let status = |at| match failed.cmp(&at) {
            core::cmp::Ordering::Greater if place != 0x9999 => Success,
            core::cmp::Ordering::Equal => RemoteAccess,
            _ => Flushed,
        };
        let expected = [1, 2, 3].map(status);
        assert_eq!(outcomes(&raw.end), expected, "{place:#x} {length}");
    }
}

#[test]
fn amb_002_writes_in_a_row_share_a_read() {
    let mut pair = confirming(4, Knobs::default());
    for context in 0..16 {
        pair.a.post(context, write(&[b"hello"], 0x1000)).unwrap();
    }
    let mut expected = vec![WRITE; 16];
    expected.push(READ);
    assert_eq!(opcodes(&one_way(&mut pair)), expected);
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success; 16]);
    // A longer row is confirmed in parts.
    let sizes = QueueSizes {
        initiator_depth: 64,
        ..SIZES
    };
    let mut end = End::new(sizes);
    end.conn.start(config(Role::Initiator, 4));
    for context in 0..40 {
        end.post(context, write(&[b"hello"], 0x1000)).unwrap();
    }
    let sent = end.transmit(&Knobs::default());
    let kinds = opcodes(&frames(&sent, true));
    let reads: Vec<_> = (0..kinds.len()).filter(|at| kinds[*at] == READ).collect();
    assert_eq!(reads, [16, 33, 42]);
    assert_eq!(kinds.len(), 43);
}

/// A Read or an Atomic of the client behind the Writes is answered no sooner than they are placed.
#[test]
fn amb_002_a_read_of_the_client_confirms_what_is_before_it() {
    for atomic in [false, true] {
        let mut pair = confirming(4, Knobs::default());
        let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
        pair.a.post(1, write(&[b"hello wo"], 0x1000)).unwrap();
        let sinks = [sink];
        let operation = if atomic {
            Operation::Atomic {
                op: crate::AtomicOp::add(1),
                sink: Payload::Sges(&sinks),
                remote: remote(TARGET, 0x1000),
            }
        } else {
            read(&sinks, 0x1000)
        };
        pair.a.post(2, operation).unwrap();
        let kinds = opcodes(&one_way(&mut pair));
        assert_eq!(kinds, [WRITE, if atomic { 10 } else { READ }]);
        assert_eq!(pair.a.completions(), []);
        pair.run();
        assert_eq!(outcomes(&pair.a), [Success, Success]);
        assert_eq!(pair.a.mem.bytes(sink.token), b"hello wo");
        assert_eq!(
            pair.a.conn.counters().sent.read_requests,
            u64::from(!atomic)
        );
    }
}

/// RDMAP-047: the Reads that confirm count against the limit. With one, everything takes its turn.
#[test]
fn amb_002_confirmations_keep_to_the_outbound_limit() {
    for limit in [1, 2] {
        let mut pair = confirming(limit, Knobs::default());
        let sink = pair.a.mem.register(vec![0; 12], Rights::ALL, PD);
        for context in 0..4 {
            let at = u32::try_from(context).unwrap() * 3;
            pair.b.conn.post_receive(context, &[]).unwrap();
            let octets = [u8::try_from(context).unwrap() + 1; 3];
            let place = 0x1000 + u64::from(at);
            pair.a.post(context, write(&[&octets], place)).unwrap();
            pair.a.post(context, inline(&[])).unwrap();
            let parts = [part(sink, at, 1), part(sink, at + 1, 2)];
            pair.a.post(context, read(&parts, place)).unwrap();
        }
        let mut outstanding = 0;
        while pair.step() {
            let (sent, received) = (pair.a.conn.counters().sent, pair.a.conn.counters().received);
            outstanding = outstanding.max(sent.read_requests - received.read_responses);
        }
        assert_eq!(outcomes(&pair.a), [Success; 12], "limit {limit}");
        assert!(outstanding <= u64::from(limit), "limit {limit}");
        assert_eq!(pair.b.fault(), None, "RDMAP-049");
        assert_eq!(
            pair.a.mem.bytes(sink.token),
            [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
        );
    }
}

/// With a limit of 1 the answer to the ready-to-receive Read has to come first (PEER-033).
#[test]
fn amb_002_a_confirmation_waits_for_the_ready_read() {
    let a = StreamConfig {
        ready: Some(Ready::Read),
        ..config(Role::Initiator, 1)
    };
    let b = StreamConfig {
        role: Role::Responder,
        confirmations: Confirmations::Off,
        ..a
    };
    let mut pair = Pair::with(a, b, Knobs::default());
    pair.b
        .mem
        .register_as(TARGET, 0x1000, vec![0; 64], Rights::ALL, PD);
    pair.a.conn.send_ready();
    pair.a.post(1, write(&[b"hello"], 0x1000)).unwrap();
    assert_eq!(opcodes(&one_way(&mut pair)), [READ, WRITE]);
    assert!(!pair.a.conn.wants_transmit());
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success]);
    assert_eq!(pair.b.fault(), None);
}

/// IW-034: a fence is for the client's Reads. It does not wait for Writes to be confirmed, nor they for it.
#[test]
fn amb_002_a_read_fence_does_not_wait_for_confirmations() {
    let mut pair = confirming(4, Knobs::default());
    let sink = pair.a.mem.register(vec![0; 5], Rights::ALL, PD);
    pair.b.conn.post_receive(1, &[]).unwrap();
    let fenced = |context, operation| InitiatorWqe {
        fence: true,
        ..wqe(context, operation)
    };
    pair.a.post(1, write(&[b"hello"], 0x1000)).unwrap();
    pair.a.conn.post_initiator(fenced(2, inline(&[]))).unwrap();
    assert_eq!(opcodes(&one_way(&mut pair)), [WRITE, READ, SEND]);
    // Behind a Read of the client's the fence holds, and the Write before it is confirmed meanwhile.
    pair.run();
    pair.b.conn.post_receive(2, &[]).unwrap();
    pair.a.post(3, read(&[sink], 0x1000)).unwrap();
    pair.a.post(4, write(&[b"again"], 0x2000)).unwrap();
    pair.a.conn.post_initiator(fenced(5, inline(&[]))).unwrap();
    assert_eq!(opcodes(&one_way(&mut pair)), [READ, WRITE, READ]);
    assert!(!pair.a.conn.wants_transmit());
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success; 5]);
    assert_eq!(pair.a.mem.bytes(sink.token), b"hello");
}

/// CQ-042: a request behind a Write is sent without waiting, and its result comes behind that of the Write.
#[test]
fn amb_002_results_keep_posting_order() {
    let mut pair = confirming(4, Knobs::default());
    pair.b.conn.post_receive(1, &[]).unwrap();
    let empty = Operation::Write {
        data: Payload::Inline(&[]),
        remote: remote(TARGET, 0x1000),
    };
    pair.a.post(1, empty).unwrap();
    pair.a.post(2, write(&[b"hello"], 0x1000)).unwrap();
    pair.a.post(3, empty).unwrap();
    pair.a.post(4, inline(&[])).unwrap();
    let kinds = opcodes(&one_way(&mut pair));
    assert_eq!(kinds, [WRITE, WRITE, WRITE, READ, SEND]);
    // Of no octets there is nothing to be placed (IW-048).
    let completions: Vec<_> = pair.a.completions();
    assert_eq!(
        completions
            .iter()
            .map(|done| done.context)
            .collect::<Vec<_>>(),
        [1]
    );
    assert_eq!(outcomes(&pair.b), [Success], "the Send has arrived");
    pair.run();
    let completions = pair.a.completions();
    let order: Vec<_> = completions.iter().map(|done| done.context).collect();
    assert_eq!(order, [1, 2, 3, 4]);
    assert_eq!(outcomes(&pair.a), [Success; 4]);
}

/// QP-019, QP-073: a silent Write holds its place until it is confirmed, and has a completion only when it fails.
#[test]
fn amb_002_silent_writes() {
    let silent = |context, operation| InitiatorWqe {
        silent: true,
        ..wqe(context, operation)
    };
    let mut pair = confirming(4, Knobs::default());
    for context in 0..16 {
        let request = silent(context, write(&[b"hello"], 0x1000));
        pair.a.conn.post_initiator(request).unwrap();
    }
    one_way(&mut pair);
    let one_more = silent(16, write(&[b"hello"], 0x1000));
    assert_eq!(
        pair.a.conn.post_initiator(one_more),
        Err(PostError::QueueFull)
    );
    pair.run();
    assert_eq!(pair.a.completions(), []);
    assert!(pair.a.conn.is_idle());
    let refused = silent(17, write(&[b"hello"], 0));
    pair.a.conn.post_initiator(one_more).unwrap();
    pair.a.conn.post_initiator(refused).unwrap();
    pair.run();
    let completions = pair.a.completions();
    assert_eq!(completions.len(), 1);
    assert_eq!(
        (completions[0].context, completions[0].status),
        (17, RemoteAccess)
    );
}

/// Writes that are unconfirmed when the stream ends come back flushed: it is not known whether they were placed.
#[test]
fn amb_002_the_end_before_the_confirmation() {
    type End = fn(&mut Pair);
    let ends: [(&str, End); 5] = [
        ("peer's FIN", |pair| {
            pair.a.conn.handle_stream_end(StreamEnd::Fin, 0);
        }),
        ("reset", |pair| {
            pair.a.conn.handle_stream_end(StreamEnd::Reset, 0);
        }),
        ("disconnect", |pair| pair.a.disconnect()),
        ("flush", |pair| pair.a.conn.flush()),
        ("local fault", |pair| {
            let mut frame = vector("D1");
            *frame.last_mut().unwrap() ^= 1; // X1
            pair.a.receive(&frame);
        }),
    ];
    for (name, end) in ends {
        for sent in [false, true] {
            let mut pair = confirming(4, Knobs::default());
            pair.a.post(1, write(&[b"hello"], 0x1000)).unwrap();
            pair.a.post(2, inline(&[])).unwrap();
            if sent {
                one_way(&mut pair);
            }
            end(&mut pair);
            let knobs = pair.knobs;
            pair.a.transmit(&knobs);
            pair.a.transmit(&knobs);
            pair.a.collect();
            let behind = if sent { Success } else { Flushed }; // RDMAP-093
            let expected = [Flushed, behind];
            assert_eq!(outcomes(&pair.a), expected, "{name}, sent: {sent}");
            assert!(pair.a.conn.write_side_done(), "{name}, sent: {sent}");
            assert!(!pair.a.conn.wants_transmit(), "{name}, sent: {sent}");
        }
    }
}

/// QP-003: a request that cannot be started fails when all requests before it have ended, for a Write by its confirmation.
#[test]
fn amb_002_a_failing_request_waits_for_the_confirmation() {
    let mut pair = confirming(1, Knobs::default());
    pair.a.post(1, write(&[b"hello"], 0x1000)).unwrap();
    pair.a.post(2, sends(Payload::Sges(&[NOWHERE]))).unwrap();
    assert_eq!(opcodes(&one_way(&mut pair)), [WRITE, READ]);
    assert_eq!(pair.a.completions(), []);
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success, LocalAccess]);
}

/// The source of a Write that waits in the batch goes away: the Write is at fault, though it would not have ended there.
#[test]
fn amb_002_a_revoked_source_fails_its_write() {
    let mut raw = Raw::with(StreamConfig {
        crc: false,
        ..config(Role::Initiator, 4)
    });
    let source = raw.end.mem.register(vec![1; 9000], Rights::ALL, PD);
    let data = Payload::Sges(&[source]);
    let operation = Operation::Write {
        data,
        remote: remote(TARGET, 0x1000),
    };
    raw.knobs.limit.mulpdu = 16_000;
    raw.end.post(1, operation).unwrap();
    raw.end.post(2, inline(&[])).unwrap();
    let knobs = raw.knobs;
    raw.end
        .conn
        .poll_transmit(&raw.end.mem, knobs.limit, &mut raw.end.batch);
    raw.end.conn.handle_transmitted(&mut raw.end.batch);
    raw.end.mem.deregister(source.token);
    raw.transmit();
    raw.transmit();
    assert_eq!(outcomes(&raw.end), [LocalAccess, Flushed]);
}

/// A peer may not answer twice for the same Writes, nor without a Read.
#[test]
fn amb_002_only_the_answer_that_is_due_confirms() {
    let mut raw = Raw::with(config(Role::Initiator, 4));
    raw.end.post(1, write(&[b"hello"], 0x1000)).unwrap();
    raw.transmit();
    raw.receive(&vector("R3"));
    assert_eq!(outcomes(&raw.end), [Success]);
    raw.receive(&vector("R3"));
    assert!(raw.end.fault().is_some(), "OPEN-02");
    // One with data is no answer to a Read of none.
    let mut raw = Raw::with(config(Role::Initiator, 4)).with_buffers();
    raw.end.post(1, write(&[b"hello"], 0x1000)).unwrap();
    raw.transmit();
    raw.receive(&vector("D4"));
    assert_eq!(raw.end.fault(), Some(Fault::Tagged(TaggedError::Bounds)));
    assert_eq!(outcomes(&raw.end), [Flushed]);
}

/// On TCP the adversary is the cut: the same results in the same order however the two streams are split.
#[test]
fn amb_002_streams_cut_at_every_octet() {
    let run = |knobs: Knobs, crc: bool, refused: bool| {
        let a = StreamConfig {
            crc,
            ..config(Role::Initiator, 2)
        };
        let b = StreamConfig {
            role: Role::Responder,
            ..a
        };
        let mut pair = Pair::with(a, b, knobs);
        pair.a.conn.send_ready();
        for end in [&pair.a, &pair.b] {
            end.mem
                .register_as(TARGET, 0x1000, vec![0; 1000], Rights::ALL, PD);
        }
        let source = pair.a.mem.register(pattern(700, 1), Rights::ALL, PD);
        let sink = pair.a.mem.register(vec![0; 700], Rights::ALL, PD);
        pair.b.conn.post_receive(1, &[]).unwrap();
        let whole = Operation::Write {
            data: Payload::Sges(&[source]),
            remote: remote(TARGET, 0x1000),
        };
        pair.a.post(1, whole).unwrap();
        pair.a.post(2, write(&[b"hello"], 0x1000 + 995)).unwrap();
        pair.a.post(3, inline(&[])).unwrap();
        let beyond = if refused { 996 } else { 800 };
        pair.a.post(4, write(&[b"last!"], 0x1000 + beyond)).unwrap();
        pair.a.post(5, read(&[sink], 0x1000)).unwrap();
        pair.b.post(6, write(&[b"back"], 0x1000)).unwrap();
        pair.run();
        let results = [&pair.a, &pair.b].map(|end| {
            let done = end.completions().into_iter();
            done.map(|done| (done.context, done.kind, done.status))
                .collect::<Vec<_>>()
        });
        let content = [&pair.b.mem, &pair.a.mem].map(|mem| mem.bytes(TARGET));
        (results, content, pair.a.mem.bytes(sink.token))
    };
    let mut small = Knobs::default();
    small.limit.mulpdu = 128;
    for refused in [false, true] {
        for crc in [true, false] {
            let whole = run(small, crc, refused);
            let ([a, _], ..) = &whole;
            let last = if refused {
                [RemoteAccess, Flushed]
            } else {
                [Success; 2]
            };
            let statuses: Vec<_> = a.iter().map(|done| done.2).collect();
            assert_eq!(statuses, [&[Success; 3][..], &last].concat());
            let cuts = (1..40).map(|at| (at, usize::MAX));
            let cuts = cuts.chain((1..40).map(|at| (usize::MAX, at)));
            for (write, read) in cuts.chain([(1, 1), (7, 3), (129, 131)]) {
                let knobs = Knobs {
                    write,
                    read,
                    ..small
                };
                let (results, content, sink) = run(knobs, crc, refused);
                assert_eq!(results[0], whole.0[0], "write {write} read {read}");
                // When a side ends, what the other one had under way may have ended before or not.
                if !refused {
                    assert_eq!(results[1], whole.0[1], "write {write} read {read}");
                    assert_eq!(content, whole.1, "write {write} read {read}");
                }
                assert_eq!(sink, whole.2, "write {write} read {read}");
            }
        }
    }
}
