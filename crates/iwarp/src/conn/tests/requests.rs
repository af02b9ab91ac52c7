//! Requests: order, completion, fences, limits, inline data.

use super::*;
use crate::rdmap::TerminateCode;

#[test]
fn qp_011_nothing_is_posted_before_the_start() {
    let mut conn = Connection::new(SIZES, SCOPE).unwrap();
    let operation = inline(&[b"x"]);
    assert_eq!(
        conn.post_initiator(wqe(1, operation)),
        Err(PostError::NotConnected)
    );
    assert_eq!(conn.post_receive(1, &[]), Ok(()));
    assert!(!conn.wants_transmit() && !conn.write_side_done());
}

#[test]
fn what_is_posted_early_is_sent_after_the_start_or_comes_back() {
    let early = || {
        let mut conn = Connection::new(SIZES, SCOPE).unwrap();
        conn.post_early(wqe(1, inline(&[b"x"]))).unwrap();
        assert!(!conn.wants_transmit());
        conn
    };
    for role in [Role::Initiator, Role::Responder] {
        let mut conn = early();
        conn.start(stream(role));
        // MPA-031
        assert_eq!(conn.wants_transmit(), role == Role::Initiator);
        let late = conn.post_early(wqe(2, inline(&[])));
        assert_eq!(late, Err(PostError::NotConnected));
    }
    for end in [Connection::flush, Connection::disconnect] {
        let mut conn = early();
        end(&mut conn);
        let Some(Event::Completed(completion)) = conn.poll_event() else {
            panic!("no completion");
        };
        assert_eq!(
            (completion.context, completion.status),
            (1, WqeStatus::Flushed)
        );
    }
    let mut conn = early();
    for context in 2..=u64::from(SIZES.initiator_depth) {
        conn.post_early(wqe(context, inline(&[]))).unwrap();
    }
    let full = conn.post_early(wqe(0, inline(&[])));
    assert_eq!(full, Err(PostError::QueueFull));
}

/// Calls that need a started stream, or an Initiator, are refused before the start, or at the other end.
#[test]
#[cfg(debug_assertions)]
fn calls_in_a_wrong_phase_are_errors() {
    let wrong: [fn(&mut Connection); 5] = [
        |conn| {
            conn.handle_bytes(&[], &crate::testing::VecMemory::new(), OwnQueue);
        },
        |conn| conn.handle_stream_end(StreamEnd::Fin, 0),
        |conn| conn.handle_stream_end(StreamEnd::Reset, 0),
        Connection::send_ready,
        |conn| {
            conn.start(stream(Role::Responder));
            conn.send_ready();
        },
    ];
    let twice: fn(&mut Connection) = |conn| {
        conn.start(stream(Role::Initiator));
        conn.start(stream(Role::Initiator));
    };
    for (at, call) in wrong.into_iter().chain([twice]).enumerate() {
        let outcome =
            std::panic::catch_unwind(|| call(&mut Connection::new(SIZES, SCOPE).unwrap()));
        assert!(outcome.is_err(), "call {at}");
    }
    // A connection that was given up before its stream was there is not started any more.
    let mut conn = Connection::new(SIZES, SCOPE).unwrap();
    conn.disconnect();
    conn.start(stream(Role::Initiator));
    assert!(!conn.is_running());
}

#[test]
fn qp_002_a_refused_post_changes_nothing() {
    let mut raw = Raw::initiator();
    let sge = |length| Sge {
        token: STag(1),
        address: 0,
        length,
    };
    let four = [sge(1); 4];
    let long = [sge(1 << 20), sge(1)];
    let huge = [sge(u32::MAX); 3];
    let target = remote(TARGET, 0);
    let conn = &mut raw.end.conn;
    for (operation, error) in [
        (sends(Payload::Sges(&four)), PostError::TooManySges),
        (sends(Payload::Sges(&long)), PostError::TooLong),
        (sends(Payload::Sges(&huge)), PostError::TooLong),
        (
            Operation::Read {
                sink: Payload::Sges(&four),
                remote: target,
            },
            PostError::TooManySges,
        ),
        (
            Operation::Read {
                sink: Payload::Sges(&long),
                remote: target,
            },
            PostError::TooLong,
        ),
        (inline(&[&[0; 40], &[0; 25]]), PostError::TooLong),
        (
            Operation::Read {
                sink: Payload::Inline(&[&[0]]),
                remote: target,
            },
            PostError::TooLong,
        ),
    ] {
        assert_eq!(conn.post_initiator(wqe(1, operation)), Err(error));
    }
    assert_eq!(conn.post_receive(1, &four), Err(PostError::TooManySges));
    assert_eq!(conn.post_receive(1, &long), Err(PostError::TooLong));
    for context in 0..16 {
        conn.post_initiator(wqe(context, inline(&[]))).unwrap();
        conn.post_receive(context, &[]).unwrap();
    }
    assert_eq!(
        conn.post_initiator(wqe(1, inline(&[]))),
        Err(PostError::QueueFull)
    );
    assert_eq!(conn.post_receive(1, &[]), Err(PostError::QueueFull));
    assert!(!conn.wants_transmit() || conn.poll_event().is_none());
}

#[test]
fn data_moves_by_send_write_and_read_with_and_without_crc() {
    for (crc, copied, mulpdu) in [
        (true, CopiedPayload::None, 1442),
        (false, CopiedPayload::None, 1442),
        (false, CopiedPayload::All, 1442),
        (false, CopiedPayload::None, 16_000),
        (false, CopiedPayload::AtSlowPlaces, 64_768),
        (true, CopiedPayload::AtSlowPlaces, 64_768),
        (false, CopiedPayload::All, 65_535),
        (true, CopiedPayload::None, 0),
    ] {
        let a = StreamConfig {
            crc,
            copied,
            ..stream(Role::Initiator)
        };
        let b = StreamConfig {
            role: Role::Responder,
            ..a
        };
        let mut knobs = Knobs::default();
        knobs.limit.mulpdu = mulpdu;
        let mut pair = Pair::with(a, b, knobs);
        pair.a.conn.send_ready();
        let data = pattern(100_001, 3);
        let source = pair.a.mem.register(data.clone(), Rights::ALL, PD);
        let sink = pair.a.mem.register(vec![0; 100_001], Rights::ALL, PD);
        let target = pair.b.mem.register(vec![0; 200_000], Rights::ALL, PD);
        let inbox = pair.b.mem.register(vec![0; 100_001], Rights::ALL, PD);
        let cuts = [
            part(inbox, 0, 1),
            part(inbox, 1, 0),
            part(inbox, 1, 100_000),
        ];
        pair.b.conn.post_receive(7, &cuts).unwrap();
        let list = [
            part(source, 0, 33),
            part(source, 33, 66_000),
            part(source, 66_033, 33_968),
        ];
        let there = remote(target.token, target.address + 11);
        pair.a
            .post(
                1,
                Operation::Write {
                    data: Payload::Sges(&list),
                    remote: there,
                },
            )
            .unwrap();
        let list = [part(sink, 0, 5), part(sink, 5, 0), part(sink, 5, 99_996)];
        pair.a
            .post(
                2,
                Operation::Read {
                    sink: Payload::Sges(&list),
                    remote: there,
                },
            )
            .unwrap();
        pair.a.post(3, sends(Payload::Sges(&[source]))).unwrap();
        pair.run();
        assert_eq!(
            pair.b.mem.bytes(target.token)[11..100_012],
            data,
            "crc {crc}"
        );
        assert_eq!(pair.a.mem.bytes(sink.token), data);
        assert_eq!(pair.b.mem.bytes(inbox.token), data);
        let done: Vec<_> = pair
            .a
            .completions()
            .iter()
            .map(|done| (done.context, done.status, done.octets))
            .collect();
        let ok = |context| (context, WqeStatus::Success, 100_001);
        assert_eq!(done, [ok(1), ok(2), ok(3)]); // CQ-042
        assert_eq!(pair.b.completions()[0].octets, 100_001);
        assert!(pair.a.conn.is_idle() && pair.b.conn.is_idle());
        let (sent, received) = (pair.a.conn.counters().sent, pair.b.conn.counters().received);
        assert_eq!(sent, received);
        assert_eq!(pair.b.conn.counters().sent, pair.a.conn.counters().received);
        assert_eq!((sent.writes, sent.sends, sent.read_requests), (2, 1, 2)); // IW-047
    }
}

#[test]
fn mpa_084_ulpdus_are_as_large_as_they_may_be() {
    for (mulpdu, most) in [(1442, 1442), (0, 128), (8_942, 8_942)] {
        let mut raw = Raw::initiator();
        raw.knobs.limit.mulpdu = mulpdu;
        let source = raw.end.mem.register(vec![1; 200_000], Rights::NONE, PD);
        raw.end.post(1, sends(Payload::Sges(&[source]))).unwrap();
        let mut sent = Vec::new();
        while raw.end.conn.wants_transmit() {
            sent.extend(raw.transmit());
        }
        let ulpdus = frames(&sent, true);
        let (_, whole) = ulpdus.split_last().unwrap();
        assert!(
            whole.iter().all(|ulpdu| ulpdu.len() == most),
            "MULPDU {mulpdu}"
        );
    }
}

#[test]
fn rdmap_093_sends_complete_when_the_transport_took_their_last_octet() {
    let mut raw = Raw::initiator();
    raw.end.post(1, inline(&[b"hello"])).unwrap();
    raw.end.post(2, inline(&[b"hello"])).unwrap();
    raw.knobs.write = 31;
    raw.transmit();
    assert_eq!(raw.end.completions(), []);
    raw.knobs.write = 1;
    raw.transmit();
    assert_eq!(raw.end.completions().len(), 1);
    raw.knobs.write = 31;
    raw.transmit();
    assert_eq!(raw.end.completions().len(), 1);
    raw.transmit();
    assert_eq!(raw.end.completions().len(), 2);
}

#[test]
fn cq_042_results_keep_posting_order_across_a_slow_read() {
    let mut pair = pair(Knobs::default());
    let sink = pair.a.mem.register(vec![0; 64], Rights::ALL, PD);
    pair.b.conn.post_receive(1, &[]).unwrap();
    pair.a.post(1, read(&[sink], 0x1000)).unwrap();
    pair.a.post(2, inline(&[])).unwrap();
    let knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    pair.a.collect();
    assert_eq!(pair.a.completions(), []); // IW-035: sent, not reported
    pair.b.receive(&octets);
    assert_eq!(
        statuses(&pair.b, RequestKind::Receive),
        [WqeStatus::Success]
    );
    pair.run();
    let order: Vec<u64> = pair
        .a
        .completions()
        .iter()
        .map(|done| done.context)
        .collect();
    assert_eq!(order, [1, 2]);
}

#[test]
fn iw_034_a_fence_holds_the_request_and_all_behind_it() {
    let mut pair = pair(Knobs::default());
    let sink = pair.a.mem.register(vec![0; 64], Rights::ALL, PD);
    for context in 1..=2 {
        pair.b.conn.post_receive(context, &[]).unwrap();
    }
    let sinks = [sink];
    let read = read(&sinks, 0x1000);
    pair.a.post(1, read).unwrap();
    pair.a
        .conn
        .post_initiator(InitiatorWqe {
            fence: true,
            ..wqe(2, inline(&[]))
        })
        .unwrap();
    pair.a.post(3, inline(&[])).unwrap();
    let knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    assert_eq!(frames(&octets, true).len(), 1);
    assert!(!pair.a.conn.wants_transmit());
    pair.b.receive(&octets);
    pair.run();
    assert_eq!(
        statuses(&pair.a, RequestKind::Send),
        [WqeStatus::Success; 2]
    );
}

#[test]
fn iw_013_reads_beyond_the_limit_wait_in_order() {
    let limits = ReadLimits { ird: 2, ord: 2 };
    let a = StreamConfig {
        limits,
        ..stream(Role::Initiator)
    };
    let mut pair = Pair::with(
        a,
        StreamConfig {
            role: Role::Responder,
            ..a
        },
        Knobs::default(),
    );
    pair.a.conn.send_ready();
    pair.b
        .mem
        .register_as(TARGET, 0x1000, pattern(1 << 16, 7), Rights::ALL, PD);
    let sink = pair.a.mem.register(vec![0; 3000], Rights::ALL, PD);
    pair.b.conn.post_receive(1, &[]).unwrap();
    for context in 0..5 {
        let at = u32::try_from(context).unwrap() * 600;
        let list = [
            part(sink, at, 200),
            part(sink, at + 200, 200),
            part(sink, at + 400, 200),
        ];
        let from = remote(TARGET, 0x1000 + u64::from(at));
        pair.a
            .post(
                context,
                Operation::Read {
                    sink: Payload::Sges(&list),
                    remote: from,
                },
            )
            .unwrap();
    }
    pair.a.post(5, inline(&[])).unwrap();
    let knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    assert_eq!(frames(&octets, true).len(), 1 + 2); // RDMAP-047
    pair.b.receive(&octets);
    pair.run();
    assert_eq!(pair.a.mem.bytes(sink.token), pattern(1 << 16, 7)[..3000]);
    assert_eq!(
        statuses(&pair.a, RequestKind::Read),
        [WqeStatus::Success; 5]
    );
    assert_eq!(statuses(&pair.a, RequestKind::Send), [WqeStatus::Success]);
    assert_eq!(pair.a.conn.counters().sent.read_requests, 15);
}

#[test]
fn amb_045_a_read_with_limit_0_is_an_invalid_request() {
    for length in [0, 16] {
        let mut raw = Raw::with(StreamConfig {
            limits: NO_READS,
            ..stream(Role::Initiator)
        });
        let sink = raw.end.mem.register(vec![0; 16], Rights::ALL, PD);
        raw.end.post(1, inline(&[b"first"])).unwrap();
        let list = [part(sink, 0, length)];
        raw.end
            .post(
                2,
                Operation::Read {
                    sink: Payload::Sges(&list),
                    remote: remote(TARGET, 0),
                },
            )
            .unwrap();
        raw.end.post(3, inline(&[b"last"])).unwrap();
        raw.post_receive(4, 16);
        // The request before it completes as usual.
        assert_eq!(frames(&raw.transmit(), true).len(), 1);
        let terminate = raw.last_terminate().unwrap();
        assert_eq!(terminate.code, TerminateCode::LOCAL_CATASTROPHIC);
        let done = outcomes(&raw.end);
        use WqeStatus::{Flushed, InvalidRequest, Success};
        assert_eq!(done, [Success, InvalidRequest, Flushed, Flushed]);
        assert_eq!(raw.end.fault(), Some(Fault::Local));
    }
}

#[test]
fn a_ready_read_stands_before_the_first_read_of_a_peer_that_takes_one() {
    for (ord, made) in [(1, 1), (2, 2)] {
        let limits = ReadLimits { ird: 0, ord };
        let ready = Some(Ready::Read);
        let mut raw = Raw::with(StreamConfig {
            ready,
            limits,
            ..stream(Role::Initiator)
        });
        let sink = raw.end.mem.register(vec![0; 4], Rights::ALL, PD);
        raw.end.conn.send_ready();
        raw.end.post(1, read(&[sink], 0)).unwrap();
        assert_eq!(frames(&raw.transmit(), true).len(), made);
        raw.receive(&vector("R3"));
        assert_eq!(frames(&raw.transmit(), true).len(), 2 - made);
        assert_eq!(raw.end.conn.counters().sent.read_requests, 2);
    }
}

#[test]
fn iw_048_empty_requests() {
    let mut pair = pair(Knobs::default());
    pair.b.conn.post_receive(1, &[]).unwrap();
    let nowhere = remote(STag(0), 0);
    // Zero-length SGEs are not looked at either.
    let nothing = [Sge {
        token: STag(77),
        address: 1,
        length: 0,
    }];
    pair.a
        .post(
            1,
            Operation::Write {
                data: Payload::Sges(&[]),
                remote: nowhere,
            },
        )
        .unwrap();
    pair.a
        .post(
            2,
            Operation::Read {
                sink: Payload::Sges(&[]),
                remote: nowhere,
            },
        )
        .unwrap();
    pair.a
        .post(
            3,
            Operation::Read {
                sink: Payload::Sges(&nothing),
                remote: nowhere,
            },
        )
        .unwrap();
    pair.a.post(4, sends(Payload::Sges(&nothing))).unwrap();
    pair.run();
    let done: Vec<_> = pair
        .a
        .completions()
        .iter()
        .map(|done| (done.context, done.status))
        .collect();
    assert_eq!(
        done,
        [1, 2, 3, 4].map(|context| (context, WqeStatus::Success))
    );
    assert_eq!(
        statuses(&pair.b, RequestKind::Receive),
        [WqeStatus::Success]
    );
    let ulpdus = frames(&pair.a.sent, true);
    // PEER-035: never STag 0 as a sink.
    assert_eq!(ulpdus[2][18..30], hex("00000001 0000000000000000"));
}

#[test]
fn qp_073_silent_successes_hold_their_slot_and_yield_nothing() {
    let mut raw = Raw::initiator();
    for context in 0..16 {
        let quiet = InitiatorWqe {
            silent: true,
            ..wqe(context, inline(&[b"x"]))
        };
        raw.end.conn.post_initiator(quiet).unwrap();
    }
    let refused = raw.end.conn.post_initiator(wqe(16, inline(&[])));
    assert_eq!(refused, Err(PostError::QueueFull));
    let knobs = raw.knobs;
    raw.end.transmit(&knobs);
    // Their processing has freed the slots, without a fetch.
    raw.end.conn.post_initiator(wqe(16, inline(&[]))).unwrap();
    raw.transmit();
    let done = raw.end.completions();
    assert_eq!((done.len(), done[0].context), (1, 16));
}

/// Ends requests.
type EndsRequests = fn(&mut Raw);

/// The ways in which requests complete: the peer takes them, this side or the peer ends the stream, or there never is one.
const ENDS: [(&str, EndsRequests); 5] = [
    ("sent", |raw| drop(raw.end.transmit(&Knobs::default()))),
    ("flushed", |raw| raw.end.conn.flush()),
    ("disconnected", |raw| raw.end.conn.disconnect()),
    ("reset", |raw| {
        raw.end.conn.handle_stream_end(StreamEnd::Reset, 0);
    }),
    ("closed by the peer", |raw| {
        raw.end.transmit(&Knobs::default());
        raw.end.conn.handle_stream_end(StreamEnd::Fin, 0);
    }),
];

/// Takes all completions from the engine, and none to the client.
fn fetch(conn: &mut Connection) -> usize {
    std::iter::from_fn(|| conn.poll_event())
        .filter(|event| matches!(event, Event::Completed(_)))
        .count()
}

#[test]
fn slots_are_used_until_the_client_has_taken_the_completions_whatever_the_state() {
    for (how, end) in ENDS {
        let mut raw = Raw::initiator();
        let post = |raw: &mut Raw, context| {
            let conn = &mut raw.end.conn;
            match conn.is_disconnected() {
                true => conn.post_flushed(wqe(context, inline(&[]))),
                false => conn.post_initiator(wqe(context, inline(&[]))),
            }
        };
        for context in 0..16 {
            post(&mut raw, context).unwrap();
        }
        end(&mut raw);
        fetch(&mut raw.end.conn);
        // As many completions as requests, at most: nothing is taken, and nothing more is accepted.
        let full = Err(PostError::QueueFull);
        for context in 0..3000 {
            assert_eq!(post(&mut raw, context), full, "{how}");
        }
        assert_eq!(fetch(&mut raw.end.conn), 0, "{how}");
        raw.end.conn.free_initiator_slots(2);
        for context in 0..2 {
            post(&mut raw, context).unwrap();
        }
        assert_eq!(post(&mut raw, 2), full, "{how}");
    }
}

#[test]
fn slots_of_receives_are_used_until_the_client_has_taken_the_completions_whatever_the_state() {
    let before: (&str, EndsRequests) = ("not started", |raw| {
        raw.end = End::new(SIZES);
        for context in 0..16 {
            raw.end.conn.post_receive(context, &[]).unwrap();
        }
        raw.end.conn.flush();
    });
    for (how, end) in ENDS.into_iter().chain([before]) {
        let mut raw = Raw::initiator();
        for context in 0..16 {
            raw.end.conn.post_receive(context, &[]).unwrap();
        }
        end(&mut raw);
        fetch(&mut raw.end.conn);
        let full = Err(PostError::QueueFull);
        for context in 0..3000 {
            let posted = raw.end.conn.post_receive(context, &[]);
            assert_eq!(posted, full, "{how}");
        }
        assert_eq!(fetch(&mut raw.end.conn), 0, "{how}");
        if how == "sent" {
            continue; // all are open
        }
        raw.end.conn.free_receive_slots(2);
        for context in 0..2 {
            raw.end.conn.post_receive(context, &[]).unwrap();
        }
        assert_eq!(raw.end.conn.post_receive(2, &[]), full, "{how}");
    }
}

/// QP-073: silent requests need no completion to be taken, and leave the slots of others alone.
#[test]
fn qp_073_a_silent_success_frees_its_own_slot_only() {
    let mut raw = Raw::initiator();
    for context in 0..16 {
        let request = InitiatorWqe {
            silent: context % 2 == 1,
            ..wqe(context, inline(&[]))
        };
        raw.end.conn.post_initiator(request).unwrap();
    }
    let knobs = raw.knobs;
    raw.end.transmit(&knobs);
    assert_eq!(fetch(&mut raw.end.conn), 8);
    for context in 16..24 {
        (raw.end.conn.post_initiator(wqe(context, inline(&[])))).unwrap();
    }
    let full = raw.end.conn.post_initiator(wqe(24, inline(&[])));
    assert_eq!(full, Err(PostError::QueueFull));
}

#[test]
fn iw_036_a_silent_failure_is_reported() {
    let mut raw = Raw::initiator();
    let bad = [NOWHERE];
    let quiet = InitiatorWqe {
        silent: true,
        ..wqe(1, sends(Payload::Sges(&bad)))
    };
    raw.end.conn.post_initiator(quiet).unwrap();
    raw.end
        .conn
        .post_initiator(InitiatorWqe {
            context: 2,
            ..quiet
        })
        .unwrap();
    raw.transmit();
    assert_eq!(
        statuses(&raw.end, RequestKind::Send),
        [WqeStatus::LocalAccess, WqeStatus::Flushed]
    );
}

#[test]
fn qp_023_inline_data_is_copied_when_posted() {
    let mut raw = Raw::initiator();
    let mut data = *b"hello";
    raw.end.post(1, inline(&[&data[..2], &data[2..]])).unwrap();
    data.fill(0);
    assert_eq!(raw.transmit(), vector("D1"));
}

#[test]
fn iw_004_the_responder_holds_its_requests_and_runs_local_ones() {
    let mut raw = Raw::responder();
    let region = raw.end.mem.register(vec![0; 64], Rights::ALL, PD);
    let window = raw.end.mem.window(PD);
    let bind = raw.end.mem.prepare(window, region, true, true);
    raw.end.post(1, Operation::Bind(bind)).unwrap();
    raw.end.post(2, inline(&[b"held"])).unwrap();
    raw.end.post(3, Operation::Invalidate(window)).unwrap();
    assert_eq!(raw.transmit(), []); // MPA-031
    assert_eq!(raw.end.completions().len(), 1);
    assert!(!raw.end.conn.wants_transmit());
    raw.receive(&vector("R1"));
    assert_eq!(frames(&raw.transmit(), true).len(), 1);
    let kinds: Vec<_> = raw.end.completions().iter().map(|done| done.kind).collect();
    assert_eq!(
        kinds,
        [
            RequestKind::Bind,
            RequestKind::Send,
            RequestKind::Invalidate
        ]
    );
}

#[test]
fn sec_037_answers_and_own_messages_take_turns() {
    let mut knobs = Knobs::default();
    knobs.limit.octets = 10_000;
    let mut pair = pair(knobs);
    let sink = pair.a.mem.register(vec![0; 40_000], Rights::ALL, PD);
    for context in 0..4 {
        let list = [part(sink, context * 10_000, 10_000)];
        let from = remote(TARGET, 0x1000);
        pair.a
            .post(
                u64::from(context),
                Operation::Read {
                    sink: Payload::Sges(&list),
                    remote: from,
                },
            )
            .unwrap();
        pair.a.conn.post_receive(u64::from(context), &[]).unwrap();
    }
    let octets = pair.a.transmit(&knobs);
    pair.b.receive(&octets);
    for context in 0..4 {
        pair.b.post(context, inline(&[])).unwrap();
    }
    let turn = pair.b.transmit(&knobs);
    assert!(turn.len() <= 10_000);
    let mut sent = turn;
    while pair.b.conn.wants_transmit() {
        sent.extend(pair.b.transmit(&knobs));
    }
    let lasts: Vec<u8> = frames(&sent, true)
        .iter()
        .filter(|ulpdu| ulpdu[0] & 0x40 != 0)
        .map(|ulpdu| ulpdu[1])
        .collect();
    assert_eq!(lasts, [0x43, 0x42, 0x43, 0x42, 0x43, 0x42, 0x43, 0x42]);
}

#[test]
fn message_end_is_told_once_for_each_message() {
    let mut pair = pair(Knobs::default());
    let source = pair.a.mem.register(pattern(5000, 1), Rights::ALL, PD);
    let sink = pair.a.mem.register(vec![0; 5000], Rights::ALL, PD);
    let inbox = pair.b.mem.register(vec![0; 5000], Rights::ALL, PD);
    // The last segment crosses into the last two.
    let cuts = [
        part(inbox, 0, 4500),
        part(inbox, 4500, 499),
        part(inbox, 4999, 1),
    ];
    pair.b.conn.post_receive(1, &cuts).unwrap();
    pair.a.post(1, sends(Payload::Sges(&[source]))).unwrap();
    let data = Payload::Sges(&[source]);
    pair.a
        .post(
            2,
            Operation::Write {
                data,
                remote: remote(TARGET, 0x1000),
            },
        )
        .unwrap();
    let parts = [part(sink, 0, 2000), part(sink, 2000, 3000)];
    pair.a
        .post(
            3,
            Operation::Read {
                sink: Payload::Sges(&parts),
                remote: remote(TARGET, 0x1000),
            },
        )
        .unwrap();
    pair.run();
    assert_eq!(pair.b.mem.messages(), 2);
    assert_eq!(pair.a.mem.messages(), 2);
    assert_eq!(pair.b.mem.bytes(inbox.token), pattern(5000, 1));
}

#[test]
fn ddp_032_message_numbers_wrap() {
    let mut ends = [Role::Initiator, Role::Responder].map(|role| {
        let mut end = End::with(Connection::with_first_msn(SIZES, SCOPE, u32::MAX - 1).unwrap());
        end.conn.start(stream(role));
        end
    });
    ends[0].conn.send_ready();
    let [a, b] = ends;
    let mut pair = Pair {
        a,
        b,
        now: Instant::now(),
        knobs: Knobs::default(),
    };
    pair.b
        .mem
        .register_as(TARGET, 0x1000, pattern(64, 7), Rights::ALL, PD);
    let sink = pair.a.mem.register(vec![0; 64], Rights::ALL, PD);
    for context in 0..4 {
        pair.b.conn.post_receive(context, &[]).unwrap();
        pair.a.conn.post_receive(context, &[]).unwrap();
        pair.a.post(context, inline(&[])).unwrap();
        pair.a.post(context, read(&[sink], 0x1000)).unwrap();
        pair.b.post(context, inline(&[])).unwrap();
    }
    pair.run();
    let msns: Vec<u32> = frames(&pair.b.sent, true)
        .iter()
        .filter(|ulpdu| ulpdu[1] == 0x43)
        .map(|ulpdu| u32::from_be_bytes(ulpdu[10..14].try_into().unwrap()))
        .collect();
    assert_eq!(msns, [u32::MAX - 1, u32::MAX, 0, 1]);
    for end in [&pair.a, &pair.b] {
        assert_eq!(end.fault(), None);
        assert_eq!(statuses(end, RequestKind::Send), [WqeStatus::Success; 4]);
    }
    assert_eq!(
        statuses(&pair.a, RequestKind::Read),
        [WqeStatus::Success; 4]
    );
}
