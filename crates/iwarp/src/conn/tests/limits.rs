//! The memory of a connection is limited and does not grow, and the batch keeps to its capacity.

use super::*;

/// The end of the stream comes after the last FPDU, in whichever call that is handled.
#[test]
fn a_call_handles_no_more_fpdus_than_it_is_told_to() {
    let mut raw = Raw::with(StreamConfig {
        receive_wait: Duration::from_secs(1),
        ..stream(Role::Responder)
    });
    let octets = [vector("D1"), vector("R1").repeat(3)].concat();
    raw.receive(&octets);
    let octets = std::mem::take(&mut raw.end.staging);
    raw.end.conn.handle_stream_end(StreamEnd::Fin, octets.len());
    raw.post_receive(1, 16);
    let mut rest = &octets[..];
    for handled in [2, 4] {
        let taken = (raw.end.conn).handle_fpdus(2, rest, &raw.end.mem, OwnQueue);
        rest = &rest[taken..];
        assert_eq!(raw.end.conn.counters().received.fpdus, handled);
        raw.end.collect();
        assert!(!raw.end.events.contains(&Event::PeerClosed));
    }
    assert_eq!(rest, b"");
    raw.receive(&[]);
    assert_eq!(raw.end.events.last(), Some(&Event::PeerClosed));
    assert_eq!(raw.end.fault(), None);
}

#[test]
fn a_small_connection_costs_a_few_kibibytes() {
    let sizes = QueueSizes {
        initiator_depth: 16,
        receive_depth: 16,
        initiator_sges: 1,
        receive_sges: 1,
        read_sges: 1,
        inline: 0,
        max_transfer: 1 << 30,
    };
    let octets = Connection::new(sizes, SCOPE).unwrap().footprint();
    assert!(octets <= 6 * 1024, "{octets} octets");
    let none = QueueSizes {
        initiator_depth: 0,
        receive_depth: 0,
        ..sizes
    };
    let mut conn = Connection::new(none, SCOPE).unwrap();
    conn.start(stream(Role::Initiator));
    let wqe = InitiatorWqe {
        context: 1,
        operation: inline(&[]),
        silent: false,
        fence: false,
    };
    assert_eq!(conn.post_initiator(wqe), Err(PostError::QueueFull));
    assert_eq!(conn.post_receive(1, &[]), Err(PostError::QueueFull));
    conn.flush();
    assert_eq!(conn.poll_event(), None);
}

/// A connection moves between threads with its queue pair.
#[test]
fn connections_and_batches_may_change_threads() {
    fn moves<T: Send + Sync>() {}
    moves::<Connection>();
    moves::<TxBatch>();
}

/// One round of every kind of message, all of it fetched.
fn round(pair: &mut Pair, source: Sge, sink: Sge, inbox: Sge, reply: Sge) {
    let there = remote(inbox.token, inbox.address);
    for context in 0..4 {
        pair.b.conn.post_receive(context, &[inbox]).unwrap();
        pair.a.conn.post_receive(context, &[reply]).unwrap();
        pair.a
            .post(context, sends(Payload::Sges(&[source])))
            .unwrap();
        let data = Payload::Sges(&[source]);
        pair.a
            .post(
                context,
                Operation::Write {
                    data,
                    remote: there,
                },
            )
            .unwrap();
        pair.a
            .post(
                context,
                Operation::Read {
                    sink: Payload::Sges(&[sink]),
                    remote: there,
                },
            )
            .unwrap();
        pair.b.post(context, inline(&[b"reply"])).unwrap();
    }
    pair.run();
    pair.a.events.clear();
    pair.b.events.clear();
}

#[test]
fn a_warm_loop_grows_no_capacity() {
    for (crc, mulpdu, write) in [
        (true, 1442, usize::MAX),
        (false, 8000, usize::MAX),
        (false, 8000, 3001),
    ] {
        let a = StreamConfig {
            crc,
            ..stream(Role::Initiator)
        };
        let mut knobs = Knobs {
            write,
            ..Knobs::default()
        };
        knobs.limit.mulpdu = mulpdu;
        let mut pair = Pair::with(
            a,
            StreamConfig {
                role: Role::Responder,
                ..a
            },
            knobs,
        );
        pair.a.conn.send_ready();
        let [source, sink] =
            [1, 2].map(|seed| pair.a.mem.register(pattern(20_000, seed), Rights::ALL, PD));
        let inbox = pair.b.mem.register(vec![0; 20_000], Rights::ALL, PD);
        let reply = pair.a.mem.register(vec![0; 16], Rights::ALL, PD);
        let cost = |pair: &Pair| {
            [&pair.a, &pair.b].map(|end| (end.conn.footprint(), end.batch.footprint()))
        };
        round(&mut pair, source, sink, inbox, reply);
        round(&mut pair, source, sink, inbox, reply);
        let warm = cost(&pair);
        for _ in 0..50 {
            round(&mut pair, source, sink, inbox, reply);
        }
        assert_eq!(cost(&pair), warm);
        assert_eq!(pair.a.fault().or(pair.b.fault()), None);
        assert_eq!(pair.a.mem.bytes(sink.token), pattern(20_000, 1));
    }
}

#[test]
fn a_batch_is_never_filled_beyond_its_capacity() {
    for (bytes, fpdus) in [(0, 0), (256, 1), (300, 2), (4096, 3), (70_000, 64)] {
        for (crc, mulpdu) in [(true, 64_768), (false, 64_768), (true, 128), (false, 1442)] {
            let a = StreamConfig {
                crc,
                ..stream(Role::Initiator)
            };
            let mut knobs = Knobs::default();
            knobs.limit.mulpdu = mulpdu;
            let mut pair = Pair::with(
                a,
                StreamConfig {
                    role: Role::Responder,
                    ..a
                },
                knobs,
            );
            pair.a.batch = TxBatch::with_capacity(bytes, fpdus);
            pair.b.batch = TxBatch::with_capacity(bytes, fpdus);
            let cost = pair.a.batch.footprint();
            let target = pair.b.mem.register(vec![0; 200_000], Rights::ALL, PD);
            let source = pair.a.mem.register(pattern(200_000, 1), Rights::ALL, PD);
            let sink = pair.a.mem.register(vec![0; 200_000], Rights::ALL, PD);
            let cuts = [0u32, 50_000, 50_001].map(|at| Sge {
                address: source.address + u64::from(at),
                length: if at == 0 {
                    50_000
                } else if at == 50_000 {
                    1
                } else {
                    149_999
                },
                ..source
            });
            let there = remote(target.token, target.address);
            let data = Payload::Sges(&cuts);
            pair.a
                .post(
                    1,
                    Operation::Write {
                        data,
                        remote: there,
                    },
                )
                .unwrap();
            pair.a
                .post(
                    2,
                    Operation::Read {
                        sink: Payload::Sges(&[sink]),
                        remote: there,
                    },
                )
                .unwrap();
            pair.run();
            assert_eq!(
                pair.a.mem.bytes(sink.token),
                pattern(200_000, 1),
                "{bytes} {fpdus} {crc} {mulpdu}"
            );
            assert_eq!(pair.a.batch.footprint(), cost);
            assert_eq!(pair.b.batch.footprint(), cost);
        }
    }
}

#[test]
fn one_call_keeps_to_its_limit() {
    let mut raw = Raw::initiator();
    let source = raw.end.mem.register(vec![1; 100_000], Rights::NONE, PD);
    raw.end.post(1, sends(Payload::Sges(&[source]))).unwrap();
    let mut call = |octets, fpdus, mulpdu| {
        let limit = TxLimit {
            octets,
            fpdus,
            mulpdu,
        };
        let made = raw
            .end
            .conn
            .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch);
        let total = raw.end.batch.remaining();
        raw.end.batch.advance(total);
        raw.end.conn.handle_transmitted(&mut raw.end.batch);
        (made, total)
    };
    assert_eq!(call(usize::MAX, 0, 1442), (0, 0));
    assert_eq!(call(0, 10, 1442), (1, 1448)); // the first one always
    assert_eq!(call(2895, 10, 1442), (1, 1448));
    assert_eq!(call(2896, 10, 1442), (2, 2896));
    assert_eq!(call(usize::MAX, 3, 1442), (3, 4344));
    assert_eq!(call(usize::MAX, 1, 128), (1, 136));
}

#[test]
fn small_payload_is_copied_and_large_payload_is_not() {
    for (crc, copied, in_place) in [
        (false, CopiedPayload::None, true),
        (true, CopiedPayload::None, false),
        (false, CopiedPayload::All, false),
    ] {
        let config = StreamConfig {
            crc,
            copied,
            ..stream(Role::Initiator)
        };
        let mut raw = Raw::with(config);
        raw.knobs.limit.mulpdu = 10_000;
        let source = raw.end.mem.register(vec![1; 4096], Rights::NONE, PD);
        raw.end.post(1, sends(Payload::Sges(&[source]))).unwrap();
        let short = [Sge {
            length: 4095,
            ..source
        }];
        raw.end.post(2, sends(Payload::Sges(&short))).unwrap();
        let limit = raw.knobs.limit;
        raw.end
            .conn
            .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch);
        let pieces: Vec<(bool, bool)> = raw
            .end
            .batch
            .pieces()
            .map(|(piece, ends)| (matches!(piece, PieceRef::Payload(_)), ends))
            .collect();
        if in_place {
            let expected = [(false, false), (true, false), (false, true), (false, true)];
            assert_eq!(pieces, expected);
        } else {
            assert_eq!(pieces, [(false, true); 2]);
        }
    }
}

/// The pieces of one message of `len` octets at `base`, in FPDUs of at most `mulpdu`: whether each is read in place, and its
/// length.
fn pieces_of(base: u64, len: usize, mulpdu: u32, copied: CopiedPayload) -> Vec<(bool, usize)> {
    let config = StreamConfig {
        crc: false,
        copied,
        ..stream(Role::Initiator)
    };
    let mut raw = Raw::with(config);
    raw.knobs.limit.mulpdu = mulpdu;
    let token = STag(77);
    let data = pattern(len, 5);
    raw.end
        .mem
        .register_as(token, base, data.clone(), Rights::NONE, PD);
    let source = Sge {
        token,
        address: base,
        length: u32::try_from(len).unwrap(),
    };
    raw.end.post(1, sends(Payload::Sges(&[source]))).unwrap();
    let limit = raw.knobs.limit;
    raw.end
        .conn
        .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch);
    // Whatever the way, the same payload is sent.
    let (mut pieces, mut payload) = (Vec::new(), Vec::new());
    let mut rest: &[u8] = &data;
    for (piece, ends) in raw.end.batch.pieces() {
        match piece {
            PieceRef::Payload(span) => {
                let (here, behind) = rest.split_at(span.len() as usize);
                (payload, rest) = ([payload, here.to_vec()].concat(), behind);
                pieces.push((true, here.len()));
            }
            PieceRef::Bytes(octets) if octets.len() > 24 && ends => {
                let (here, behind) = rest.split_at(octets.len() - 24);
                assert_eq!(octets[20..][..here.len()], *here);
                (payload, rest) = ([payload, here.to_vec()].concat(), behind);
                pieces.push((false, here.len()));
            }
            PieceRef::Bytes(_) => {}
        }
    }
    assert_eq!(payload, data);
    pieces
}

#[test]
fn payload_at_a_slow_place_is_copied_where_that_was_asked_for() {
    // One FPDU: its payload begins behind 20 octets of header, and so is slow from 0 to 20 of a page, and from 4,053 on.
    for (at, slow) in [
        (0, true),
        (16, true),
        (20, true),
        (21, false),
        (1024, false),
        (4052, false),
        (4053, true),
        (4080, true),
    ] {
        for base in [at, at + 4096, at + (1 << 40)] {
            for len in [4096, 8192, 9980] {
                assert_eq!(
                    pieces_of(base, len, 10_000, CopiedPayload::AtSlowPlaces),
                    [(!slow, len)],
                    "{base}"
                );
                assert_eq!(
                    pieces_of(base, len, 10_000, CopiedPayload::None),
                    [(true, len)],
                    "{base}"
                );
            }
            // Short payload is always copied.
            assert_eq!(
                pieces_of(base, 4092, 10_000, CopiedPayload::AtSlowPlaces),
                [(false, 4092)]
            );
        }
    }
    // Each FPDU moves the place by the 24 octets around its payload, so that the third one is far enough from the source.
    let len = 8212 - 20;
    let of_three = |base| pieces_of(base, 3 * len, 8210, CopiedPayload::AtSlowPlaces);
    assert_eq!(of_three(0), [(false, len), (false, len), (true, len)]);
    assert_eq!(of_three(40), [(true, len), (false, len), (false, len)]);
    assert_eq!(of_three(1024), [(true, len); 3]);
}

#[test]
fn reads_grow_with_the_limit_and_no_further() {
    let limits = ReadLimits { ird: 128, ord: 128 };
    let config = StreamConfig {
        limits,
        ..stream(Role::Responder)
    };
    let mut raw = Raw::with(config).with_buffers();
    raw.receive(&vector("R1"));
    let before = raw.end.conn.footprint();
    for msn in 1..=128u32 {
        let mut request = ulpdu("D3");
        request[10..14].copy_from_slice(&msn.to_be_bytes());
        raw.ulpdu(&request);
    }
    assert_eq!(raw.end.fault(), None);
    let grown = raw.end.conn.footprint() - before;
    assert!(grown <= 128 * 160, "{grown} octets");
}
