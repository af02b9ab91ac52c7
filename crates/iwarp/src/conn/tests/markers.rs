//! Streams with markers, RFC 5044 sections 4.2 and 4.3: made, taken, misplaced, and across the wraps of every counter.

use super::*;
use crate::TerminateCode;
use crate::mpa::marker;
use crate::mpa::{self, crc32c};
use crate::testing::marked_frames;

const SENT: Markers = Markers {
    sent: true,
    received: false,
};
const RECEIVED: Markers = Markers {
    sent: false,
    received: true,
};

fn with(role: Role, crc: bool, markers: Markers) -> StreamConfig {
    StreamConfig {
        crc,
        markers,
        ..stream(role)
    }
}

/// A pair whose `a` sends markers, and receives them if `both`.
fn marked_pair(crc: bool, both: bool, octets: u64, msn: u32, knobs: Knobs) -> Pair {
    let mut ends = [Role::Initiator, Role::Responder].map(|role| {
        let conn = Connection::with_counters(SIZES, SCOPE, msn, octets).unwrap();
        let mut end = End::with(conn);
        let markers = Markers {
            sent: both || role == Role::Initiator,
            received: both || role == Role::Responder,
        };
        end.conn.start(with(role, crc, markers));
        end
    });
    ends[0].conn.send_ready();
    let [a, b] = ends;
    let pair = Pair {
        a,
        b,
        now: Instant::now(),
        knobs,
    };
    pair.b
        .mem
        .register_as(TARGET, 0x1000, pattern(1 << 16, 7), Rights::ALL, PD);
    pair
}

/// Every kind of message, sizes around the distance of two markers.
fn all_kinds(pair: &mut Pair) {
    let source = pair.a.mem.register(pattern(6000, 1), Rights::ALL, PD);
    let sink = pair.a.mem.register(vec![0; 6000], Rights::ALL, PD);
    let inbox = pair.b.mem.register(vec![0; 6000], Rights::ALL, PD);
    pair.b.conn.post_receive(1, &[inbox]).unwrap();
    let data = Payload::Sges(&[source]);
    let sinks = [sink];
    let posts = [
        sends(data),
        Operation::Write {
            data,
            remote: remote(TARGET, 0x1100),
        },
        read(&sinks, 0x3000),
    ];
    for (context, operation) in posts.into_iter().enumerate() {
        pair.a.post(context as u64, operation).unwrap();
    }
    pair.run();
    let name = format!("a: {:?}, b: {:?}", pair.a.events, pair.b.events);
    assert_eq!(outcomes(&pair.a), [WqeStatus::Success; 3], "{name}");
    assert_eq!(outcomes(&pair.b), [WqeStatus::Success; 1], "{name}");
    assert_eq!(pair.b.mem.bytes(inbox.token), pattern(6000, 1));
    assert_eq!(pair.b.mem.bytes(TARGET)[0x100..][..6000], pattern(6000, 1));
    let read = &pattern(1 << 16, 7)[0x2000..][..6000];
    assert_eq!(pair.a.mem.bytes(sink.token), read);
}

/// MPA-032, MPA-034: in the direction whose receiver asked, and not in the other.
#[test]
fn mpa_032_markers_in_one_direction_or_both() {
    for crc in [true, false] {
        for both in [true, false] {
            for mulpdu in [128, 500, 1430, 4000] {
                let mut knobs = Knobs::default();
                knobs.limit.mulpdu = mulpdu;
                let mut pair = marked_pair(crc, both, 0, 1, knobs);
                all_kinds(&mut pair);
                assert_eq!(pair.a.sent[..4], [0; 4], "MPA-041");
                let ulpdus = marked_frames(&pair.a.sent, crc, 0);
                let longest = ulpdus.iter().map(Vec::len).max();
                assert!(longest <= Some(mulpdu as usize));
                let answers = if both {
                    marked_frames(&pair.b.sent, crc, 0)
                } else {
                    frames(&pair.b.sent, crc)
                };
                assert!(answers.iter().all(|ulpdu| ulpdu[1] == 0x42), "MPA-034");
            }
        }
    }
}

/// M1 is what a stream with markers begins with when it begins with that Send.
#[test]
fn m1_is_made_and_taken() {
    let m1 = hex(
        "00000000 002a4143 00000000 00000000 00000001 00000000 00000000 00000000 \
                  00000000 00000000 00000000 00000000 52239983",
    );
    let mut raw = Raw::with(with(Role::Initiator, true, SENT));
    raw.end.post(1, inline(&[&[0; 24]])).unwrap();
    assert_eq!(raw.transmit(), m1);
    let mut raw = Raw::with(with(Role::Responder, true, RECEIVED));
    let inbox = raw.post_receive(1, 24);
    for octet in &m1 {
        assert_eq!(raw.end.completions().len(), 0);
        raw.receive(&[*octet]);
    }
    assert_eq!(outcomes(&raw.end), [WqeStatus::Success]);
    assert_eq!(raw.end.mem.bytes(inbox.token), [0; 24]);
}

/// Positions past 2^32 and 2^64, and message numbers past 2^32, from just before: section 15, advice.
#[test]
fn mpa_063_positions_and_message_numbers_wrap() {
    for both in [true, false] {
        for start in [(1 << 32) - 4096, (1 << 32) - 700, (1 << 32) - 4] {
            let mut pair = marked_pair(true, both, start, u32::MAX - 1, Knobs::default());
            all_kinds(&mut pair);
            pair.a.events.clear();
            pair.b.events.clear();
            all_kinds(&mut pair);
            assert!(pair.a.sent.len() as u64 + start > 1 << 32);
            assert!(!marked_frames(&pair.a.sent, true, start).is_empty());
            if both {
                assert!(!marked_frames(&pair.b.sent, true, start).is_empty());
            }
        }
    }
}

/// MPA-072: split at every octet, trickled, and with FPDUs withdrawn from a batch that the transport did not take.
#[test]
fn mpa_072_marked_streams_split_at_every_octet() {
    for crc in [true, false] {
        let mut knobs = Knobs::default();
        knobs.limit.mulpdu = 300;
        for (write, read) in [(1, usize::MAX), (usize::MAX, 1), (7, 3), (509, 131)] {
            let knobs = Knobs {
                write,
                read,
                ..knobs
            };
            all_kinds(&mut marked_pair(crc, true, 0, 1, knobs));
        }
    }
    let mut raw = Raw::with(with(Role::Initiator, true, SENT));
    for message in 0..3 {
        raw.end.post(message, inline(&[&[7; 50]])).unwrap();
    }
    raw.end.post(3, sends(Payload::Sges(&[]))).unwrap();
    raw.knobs.limit.mulpdu = 700;
    let stream = raw.transmit();
    let run = |cut: usize| {
        let mut raw = Raw::with(with(Role::Responder, true, RECEIVED));
        for context in 0..4 {
            raw.post_receive(context, 50);
        }
        raw.receive(&stream[..cut]);
        raw.receive(&stream[cut..]);
        raw.end.events
    };
    for cut in 0..stream.len() {
        assert_eq!(run(cut), run(0), "cut at {cut}");
    }
}

/// MPA-064, MPA-065, MPA-068: with a good CRC and without any, T 2/0/03 and nothing placed.
#[test]
fn mpa_068_a_marker_that_disagrees_ends_the_stream() {
    let mut raw = Raw::with(with(Role::Initiator, true, SENT));
    raw.end.post(1, inline(&[&[7; 60]])).unwrap();
    let good = raw.transmit();
    for (crc, at, fault) in [
        (true, 3, mpa::Error::Marker),
        (false, 3, mpa::Error::Marker),
        (true, 2, mpa::Error::Marker),
    ] {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        if crc {
            let end = bad.len() - 4;
            let sum = crc32c(&bad[..end]).to_le_bytes();
            bad[end..].copy_from_slice(&sum);
        }
        let mut raw = Raw::with(with(Role::Responder, crc, RECEIVED));
        raw.post_receive(1, 100);
        raw.receive(&bad);
        assert_eq!(raw.end.fault(), Some(Fault::Mpa(fault)));
        assert_eq!(raw.end.mem.placed(), 0);
        let ulpdus = frames(&raw.transmit(), crc);
        assert_eq!(ulpdus.len(), 1);
        assert_eq!(
            ulpdus[0][18..],
            [0x20, 0x03, 0, 0],
            "T 2/0/03 without headers"
        );
    }
}

/// MPA-032, MPA-034: a stream with markers where there should be none, and the reverse.
#[test]
fn mpa_034_markers_nobody_asked_for_are_errors() {
    let made = |markers| {
        let mut raw = Raw::with(with(Role::Initiator, true, markers));
        raw.end.post(1, inline(&[&[7; 60]])).unwrap();
        raw.transmit()
    };
    for (sent, expected) in [(SENT, Markers::NONE), (Markers::NONE, RECEIVED)] {
        let mut raw = Raw::with(with(Role::Responder, true, expected));
        raw.post_receive(1, 100);
        raw.receive(&made(sent));
        assert_eq!(raw.end.fault(), Some(Fault::Mpa(mpa::Error::Crc)));
        assert_eq!(raw.end.mem.placed(), 0);
    }
}

/// A marker that is due may come before the FPDU it belongs to, and an end behind it is in order; one octet less is not.
#[test]
fn a_lone_marker_before_the_end_is_no_cut_fpdu() {
    for (octets, fault) in [
        (0, None),
        (3, Some(Fault::Mpa(mpa::Error::Closed))),
        (4, None),
        (5, Some(Fault::Mpa(mpa::Error::Closed))),
    ] {
        let mut raw = Raw::with(with(Role::Responder, true, RECEIVED));
        raw.receive(&[0; 8][..octets]);
        let unread = raw.end.staging.len();
        assert_eq!(unread, octets);
        raw.end.conn.handle_stream_end(StreamEnd::Fin, unread);
        raw.end.collect();
        assert_eq!(raw.end.fault(), fault, "{octets} octets");
    }
}

/// MPA2-037: a Terminate behind withdrawn FPDUs has its markers where the stream really goes on.
#[test]
fn markers_follow_what_was_sent_not_what_was_made() {
    let mut raw = Raw::with(with(Role::Initiator, true, SENT));
    for context in 0..8 {
        raw.end.post(context, inline(&[&[7; 60]])).unwrap();
    }
    let knobs = raw.knobs;
    let cut = raw.end.transmit(&Knobs {
        write: 130,
        ..knobs
    });
    assert_eq!(cut.len(), 130);
    // The peer sends what is no FPDU: the Terminate follows the one that was cut.
    raw.receive(&[0; 64]);
    raw.end.batch.keep_cut_only();
    raw.end.conn.handle_transmitted(&mut raw.end.batch);
    raw.transmit();
    raw.transmit();
    let ulpdus = marked_frames(&raw.end.sent, true, 0);
    let opcodes: Vec<u8> = ulpdus.iter().map(|ulpdu| ulpdu[1]).collect();
    assert_eq!(opcodes, [0x43, 0x43, 0x47]);
}

/// The Terminate of an Initiator that cannot live with a Reply is the first FPDU of its stream (MPA2-037).
#[test]
fn mpa2_037_the_only_fpdu_has_its_marker() {
    let plain = terminate_frame(TerminateCode::new(2, 0, 7), true, false);
    let marked = terminate_frame(TerminateCode::new(2, 0, 7), true, true);
    assert_eq!(marked[..4], [0; 4]);
    assert_eq!(marked[4..marked.len() - 4], plain[..plain.len() - 4]);
    let mut unmarked = Vec::new();
    assert!(marker::parse(&marked, true, 0, &mut unmarked).is_ok());
}

#[test]
fn a_call_handles_no_more_fpdus_with_markers_than_it_is_told_to() {
    let mut pair = marked_pair(true, false, 0, 1, Knobs::default());
    pair.run();
    let sge = pair.b.mem.register(vec![0; 16], Rights::ALL, PD);
    for context in 0..4 {
        pair.b.conn.post_receive(context, &[sge]).unwrap();
        pair.a.post(context, inline(&[b"hello"])).unwrap();
    }
    let octets = pair.a.transmit(&pair.knobs);
    let taken = (pair.b.conn).handle_fpdus(3, &octets, &pair.b.mem, OwnQueue);
    assert_eq!(pair.b.conn.counters().received.sends, 3);
    let taken = taken + (pair.b.conn).handle_fpdus(3, &octets[taken..], &pair.b.mem, OwnQueue);
    assert_eq!(pair.b.conn.counters().received.sends, 4);
    assert_eq!(taken, octets.len());
}
