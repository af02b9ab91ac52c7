//! TCP may cut a stream anywhere, so every exchange runs with the stream split at every octet, merged, and octet by octet.

use super::*;

/// One exchange with every kind of message, and what is left of it.
fn exchange(
    a: StreamConfig,
    knobs: Knobs,
    arrange: impl Fn(&mut Pair),
) -> (Vec<Event>, Vec<Event>, Vec<u8>) {
    let b = StreamConfig {
        role: Role::Responder,
        ..a
    };
    let mut pair = Pair::with(a, b, knobs);
    pair.a.conn.send_ready();
    pair.b
        .mem
        .register_as(TARGET, 0x1000, pattern(2048, 7), Rights::ALL, PD);
    let source = pair.a.mem.register(pattern(700, 1), Rights::ALL, PD);
    let sink = pair.a.mem.register(vec![0; 700], Rights::ALL, PD);
    let inbox = pair.b.mem.register(vec![0; 1000], Rights::ALL, PD);
    let reply = pair.a.mem.register(vec![0; 100], Rights::ALL, PD);
    let short = Sge {
        length: 300,
        ..inbox
    };
    let rest = Sge {
        address: inbox.address + 300,
        length: 700,
        ..inbox
    };
    pair.b.conn.post_receive(1, &[short, rest]).unwrap();
    pair.b.conn.post_receive(2, &[short]).unwrap();
    pair.a.conn.post_receive(3, &[reply]).unwrap();
    let there = remote(TARGET, 0x1000 + 900);
    pair.a.post(1, sends(Payload::Sges(&[source]))).unwrap();
    pair.a
        .post(
            2,
            Operation::Write {
                data: Payload::Sges(&[source]),
                remote: there,
            },
        )
        .unwrap();
    pair.a.post(3, read(&[sink], 0x1000)).unwrap();
    pair.a.post(4, inline(&[b"hello"])).unwrap();
    pair.b.post(5, inline(&[b"reply"])).unwrap();
    arrange(&mut pair);
    pair.run();
    let content = [
        pair.b.mem.bytes(TARGET),
        pair.a.mem.bytes(sink.token),
        pair.b.mem.bytes(inbox.token),
    ];
    (pair.a.events, pair.b.events, content.concat())
}

fn small() -> Knobs {
    let mut knobs = Knobs::default();
    knobs.limit.mulpdu = 128;
    knobs
}

#[test]
fn mpa_072_one_octet_at_a_time() {
    for (crc, markers) in [(true, false), (false, false), (true, true), (false, true)] {
        let config = StreamConfig {
            crc,
            markers: Markers {
                sent: markers,
                received: markers,
            },
            ..stream(Role::Initiator)
        };
        let whole = exchange(config, small(), |_| {});
        assert_eq!(whole.0.len(), 5, "{:?}", whole.0);
        for (write, read) in [(1, usize::MAX), (usize::MAX, 1), (1, 1), (7, 3), (129, 131)] {
            let cut = exchange(
                config,
                Knobs {
                    write,
                    read,
                    ..small()
                },
                |_| {},
            );
            assert_eq!(cut.2, whole.2, "write {write} read {read}");
            assert_eq!(
                sorted(cut.0),
                sorted(whole.0.clone()),
                "write {write} read {read}"
            );
            assert_eq!(
                sorted(cut.1),
                sorted(whole.1.clone()),
                "write {write} read {read}"
            );
        }
    }
}

/// Completions and notices in an order that does not depend on which side was faster.
fn sorted(events: Vec<Event>) -> Vec<String> {
    let mut lines: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
    lines.sort();
    lines
}

/// A whole outbound stream of an Initiator, replayed into Responders in two pieces.
#[test]
fn mpa_072_every_vector_split_at_every_octet() {
    let script = ["R2", "D1", "D2", "D9a", "D9b"];
    let stream: Vec<u8> = script.into_iter().flat_map(vector).collect();
    let run = |pieces: &[&[u8]]| {
        let mut raw = Raw::responder().with_buffers();
        let sge = raw.post_receive(1, 16);
        let mut sent = Vec::new();
        for piece in pieces {
            raw.receive(piece);
            assert!(raw.end.conn.wanted() > raw.end.staging.len());
            sent.extend(raw.transmit());
        }
        let content = [raw.end.mem.bytes(TARGET), raw.end.mem.bytes(sge.token)].concat();
        (raw.end.events, sent, content)
    };
    let whole = run(&[&stream]);
    assert_eq!(whole.1, vector("R3"));
    for at in 0..=stream.len() {
        let (front, back) = stream.split_at(at);
        assert_eq!(run(&[front, back]), whole, "cut at {at}");
    }
    let octets: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(run(&octets), whole);
}

#[test]
fn wanted_is_what_handle_bytes_needs() {
    let frame = vector("D1");
    let mut raw = Raw::responder();
    raw.post_receive(1, 16);
    let mut given = 0;
    while given < frame.len() {
        let wanted = raw.end.conn.wanted();
        assert!(wanted <= frame.len());
        let more = wanted - raw.end.staging.len();
        raw.receive(&frame[given..given + more]);
        given += more;
    }
    assert_eq!(
        statuses(&raw.end, RequestKind::Receive),
        [WqeStatus::Success]
    );
}

/// RDMAP-114: the stream ends at any octet; every request comes back exactly once and nothing panics.
#[test]
fn rdmap_114_a_stream_that_ends_anywhere() {
    let script = ["R1", "D1", "D3", "D2", "T1"];
    let octets: Vec<u8> = script.into_iter().flat_map(vector).collect();
    for end in [StreamEnd::Fin, StreamEnd::Reset] {
        for at in 0..octets.len() {
            let mut raw = Raw::responder().with_buffers();
            raw.post_receive(1, 16);
            raw.post_receive(2, 16);
            raw.receive(&octets[..at]);
            raw.end.post(3, inline(&[b"x"])).unwrap();
            let unread = raw.end.staging.len();
            raw.end.conn.handle_stream_end(end, unread);
            raw.transmit();
            raw.transmit();
            let mut contexts: Vec<u64> = raw
                .end
                .completions()
                .iter()
                .map(|done| done.context)
                .collect();
            contexts.sort_unstable();
            assert_eq!(contexts, [1, 2, 3], "{end:?} at {at}");
            assert!(raw.end.conn.write_side_done(), "{end:?} at {at}");
        }
    }
}

/// A disconnect, and a memory taken away, at every octet the transport has taken.
#[test]
fn every_partial_write_can_be_the_last() {
    let total = {
        let mut length = 0;
        exchange(stream(Role::Initiator), small(), |_| {});
        for crc in [true, false] {
            length = length.max(one_way(crc, usize::MAX, |_| {}));
        }
        length
    };
    for crc in [true, false] {
        for at in (0..total).step_by(7).chain([1, 2, 3, total - 1]) {
            one_way(crc, at, End::disconnect);
            one_way(crc, at, |end| end.conn.flush());
            one_way(crc, at, |end| {
                for token in 1..=2u32 {
                    end.mem.deregister(STag(token << 8 | 0x5a));
                }
            });
        }
    }
}

/// Sends two messages, the transport stopping after `at` octets for `then`; returns the octets sent.
fn one_way(crc: bool, at: usize, then: impl FnOnce(&mut End)) -> usize {
    let mut knobs = Knobs::default();
    knobs.limit.mulpdu = 4500;
    let a = StreamConfig {
        crc,
        ..stream(Role::Initiator)
    };
    let mut pair = Pair::with(
        a,
        StreamConfig {
            role: Role::Responder,
            ..a
        },
        knobs,
    );
    pair.b
        .mem
        .register_as(TARGET, 0, vec![0; 20_000], Rights::ALL, PD);
    let source = pair.a.mem.register(pattern(9000, 1), Rights::ALL, PD);
    let second = pair.a.mem.register(pattern(100, 2), Rights::ALL, PD);
    for (context, sge) in [(1, source), (2, second)] {
        let data = Payload::Sges(&[sge]);
        pair.a
            .post(
                context,
                Operation::Write {
                    data,
                    remote: remote(TARGET, 0),
                },
            )
            .unwrap();
    }
    let octets = pair.a.transmit(&Knobs { write: at, ..knobs });
    pair.b.receive(&octets);
    pair.a.collect();
    then(&mut pair.a);
    pair.run();
    // All octets sent are whole FPDUs with good CRCs, whatever happened.
    let ulpdus = frames(&pair.a.sent, crc);
    assert!(
        ulpdus
            .iter()
            .all(|ulpdu| ulpdu[1] == 0x40 || ulpdu[1] == 0x47)
    );
    assert!(
        ulpdus.iter().rev().skip(1).all(|ulpdu| ulpdu[1] == 0x40),
        "RDMAP-071"
    );
    assert_eq!(pair.b.fault(), None);
    assert_eq!(
        pair.a.completions().len(),
        2,
        "crc {crc} at {at}: {:?}",
        pair.a.events
    );
    pair.a.sent.len()
}
