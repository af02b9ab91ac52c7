//! The batch by itself: the rest after every partial write, and the handling of a cut FPDU.

use super::*;
use crate::conn::frame;
use crate::memory::{Memory, Revoked, Span};
use crate::testing::VecMemory;

/// Neither CRC nor markers.
const PLAIN: frame::Framing = frame::Framing {
    crc: false,
    markers: false,
    position: 0,
};

/// In the middle of a buffer.
const FROM: usize = 37;

/// Three FPDUs: one copied, one with payload in two places, one with payload in one.
fn filled(mem: &VecMemory) -> (TxBatch, Vec<u8>) {
    let mut batch = TxBatch::in_buffer(vec![0xee; FROM + 4096], FROM, 8);
    let span = |sge: Sge| mem.check_local(sge, crate::LocalAccess::Read, PD).unwrap();
    let first = span(mem.register(pattern(10, 1), Rights::NONE, PD));
    let second = span(mem.register(pattern(7, 2), Rights::NONE, PD));
    let copied = frame::put_copied(&mut batch, PLAIN, &[1; 18], 3, |buffer, _| {
        buffer.fill(9);
        Ok(())
    });
    assert_eq!(copied, Ok(28));
    let spans = [first, second].into_iter();
    assert_eq!(frame::put_in_place(&mut batch, &[2; 14], 17, spans), 40);
    assert_eq!(
        frame::put_in_place(&mut batch, &[3; 14], 10, [first].into_iter()),
        32
    );
    let octets = flat(&batch, mem);
    assert_eq!(octets.len(), 100);
    (batch, octets)
}

/// The octets that are left to send.
fn flat(batch: &TxBatch, mem: &VecMemory) -> Vec<u8> {
    let mut octets = Vec::new();
    for (piece, _) in batch.pieces() {
        match piece {
            PieceRef::Bytes(bytes) => octets.extend_from_slice(bytes),
            PieceRef::Payload(span) => {
                let start = octets.len();
                octets.resize(start + span.len() as usize, 0);
                mem.fetch(span, &mut octets[start..], None).unwrap();
            }
        }
    }
    octets
}

/// The FPDU that `at` octets cut, and how far it reaches.
fn cut_by(at: usize) -> Option<usize> {
    [28, 68, 100]
        .into_iter()
        .find(|end| at < *end)
        .filter(|_| ![0, 28, 68].contains(&at))
}

#[test]
fn what_is_left_is_the_rest_of_the_stream_after_any_two_writes() {
    for first in 0..=100 {
        for second in 0..=100 - first {
            let mem = VecMemory::new();
            let (mut batch, octets) = filled(&mem);
            for (sent, step) in [(first, first), (first + second, second)] {
                batch.advance(step as u64);
                assert_eq!(batch.remaining(), 100 - sent as u64);
                assert_eq!(batch.is_empty(), sent == 100);
                assert_eq!(batch.head_is_cut(), cut_by(sent).is_some(), "{sent} sent");
                assert_eq!(flat(&batch, &mem), octets[sent..]);
                let ends = batch.pieces().filter(|(_, ends)| *ends).count();
                assert_eq!(
                    ends,
                    [28, 68, 100].iter().filter(|end| **end > sent).count()
                );
                batch
                    .make_head_private(|span, to| mem.fetch(span, to, None))
                    .unwrap();
                assert_eq!(flat(&batch, &mem), octets[sent..], "private");
                assert_eq!(
                    batch.head_is_cut(),
                    cut_by(sent).is_some(),
                    "{sent} sent, private"
                );
            }
        }
    }
}

#[test]
fn a_private_head_needs_its_memory_no_more() {
    for at in 0..100 {
        let mem = VecMemory::new();
        let (mut batch, octets) = filled(&mem);
        batch.advance(at as u64);
        batch
            .make_head_private(|span, to| mem.fetch(span, to, None))
            .unwrap();
        let before = batch.remaining();
        batch.keep_cut_only();
        let dropped = before - batch.remaining();
        for token in [STag(1 << 8 | 0x5a), STag(2 << 8 | 0x5a)] {
            mem.deregister(token);
        }
        let end = cut_by(at).unwrap_or(at);
        assert_eq!(dropped, 100 - end as u64, "{at} sent");
        assert_eq!(batch.remaining(), (end - at) as u64);
        assert_eq!(flat(&batch, &mem), octets[at..end]);
        batch.advance(batch.remaining());
        assert!(batch.is_empty() && !batch.head_is_cut() && batch.pieces().next().is_none());
    }
}

#[test]
fn a_failed_fetch_is_reported() {
    let mem = VecMemory::new();
    let (mut batch, _) = filled(&mem);
    let refuse = |_: Span, _: &mut [u8]| Err(Revoked);
    assert_eq!(batch.make_head_private(refuse), Ok(()), "nothing is cut");
    batch.advance(30);
    assert_eq!(batch.make_head_private(refuse), Err(Revoked));
}

#[test]
fn an_fpdu_that_could_not_be_copied_leaves_nothing_behind() {
    let mut batch = TxBatch::with_capacity(256, 1);
    let before = batch.mark();
    let refused = frame::put_copied(
        &mut batch,
        frame::Framing { crc: true, ..PLAIN },
        &[1; 18],
        100,
        |_, _| Err(Revoked),
    );
    assert_eq!(refused, Err(Revoked));
    assert_eq!(batch.mark(), before);
    assert!(batch.is_empty() && batch.pieces().next().is_none());
}

#[test]
fn mpa_053_pad_is_zero_in_a_batch_that_was_used_before() {
    let mut batch = TxBatch::with_capacity(256, 1);
    for (octet, len) in [(0xff, 120), (1, 5)] {
        batch.advance(batch.remaining());
        let fill = |buffer: &mut [u8], _: Option<&mut crate::Crc>| {
            buffer.fill(octet);
            Ok(())
        };
        frame::put_copied(&mut batch, PLAIN, &[1; 18], len, fill).unwrap();
    }
    let octets = flat(&batch, &VecMemory::new());
    assert_eq!(octets[25..], [0; 7]);
}

#[test]
#[should_panic(expected = "more octets sent than were there")]
fn more_than_everything_cannot_be_sent() {
    filled(&VecMemory::new()).0.advance(101);
}

#[test]
fn a_span_is_cut_inside_itself_only() {
    let span = Span::new(7, 1, 2, 100, 10);
    let part = span.slice(3, 7);
    assert_eq!(
        (
            part.slot(),
            part.key(),
            part.epoch(),
            part.offset(),
            part.len()
        ),
        (7, 1, 2, 103, 7)
    );
    assert!(span.slice(10, 0).is_empty());
    for (from, len) in [(11, 0), (0, 11), (10, 1), (1, u32::MAX), (u32::MAX, 1)] {
        assert!(
            std::panic::catch_unwind(|| span.slice(from, len)).is_err(),
            "{from} {len}"
        );
    }
}

#[test]
fn octets_are_given_as_one_run_only_where_nothing_is_registered_memory() {
    let mem = VecMemory::new();
    let (batch, _) = filled(&mem);
    assert_eq!(batch.octets(), None);
    let mut batch = TxBatch::in_buffer(vec![0xee; FROM + 4096], FROM, 8);
    assert_eq!(batch.octets(), None);
    for len in [3u32, 8, 40] {
        let fill = |buffer: &mut [u8], _: Option<&mut crate::Crc>| {
            buffer.fill(7);
            Ok(())
        };
        frame::put_copied(&mut batch, PLAIN, &[1; 18], len, fill).unwrap();
    }
    let all = flat(&batch, &mem);
    for sent in 0..all.len() {
        assert_eq!(batch.octets(), Some(&all[sent..]), "{sent} octets sent");
        batch.advance(1);
    }
    assert_eq!(batch.octets(), None);
}

#[test]
fn octets_end_where_what_is_kept_ends() {
    let mem = VecMemory::new();
    let mut batch = TxBatch::with_capacity(4096, 8);
    for _ in 0..2 {
        let fill = |_: &mut [u8], _: Option<&mut crate::Crc>| Ok(());
        frame::put_copied(&mut batch, PLAIN, &[1; 18], 8, fill).unwrap();
    }
    batch.advance(5);
    batch.keep_cut_only();
    let rest = flat(&batch, &mem);
    assert!(batch.octets().is_none_or(|octets| octets == rest));
}

#[test]
fn a_batch_begins_where_its_owner_says_and_again_when_it_is_empty() {
    let bytes = vec![0xee; FROM + 300];
    let begin = bytes.as_ptr().addr() + FROM;
    let mut batch = TxBatch::in_buffer(bytes, FROM, 8);
    let plain = TxBatch::with_capacity(300, 8);
    assert_eq!((batch.address(), batch.capacity()), (begin, 300));
    assert_eq!(batch.bytes_left(), plain.bytes_left());
    assert_eq!(batch.longest_ulpdu(), plain.longest_ulpdu());
    for emptied in [TxBatch::revoke, |batch: &mut TxBatch| batch.advance(52)] {
        let fill = |buffer: &mut [u8], _: Option<&mut crate::Crc>| {
            buffer.fill(7);
            Ok(())
        };
        frame::put_copied(&mut batch, PLAIN, &[1; 18], 28, fill).unwrap();
        let octets = batch.octets().expect("nothing is registered memory");
        assert_eq!((octets.as_ptr().addr(), octets.len()), (begin, 52));
        emptied(&mut batch);
        assert!(batch.is_empty());
        assert_eq!(batch.bytes_left(), 300);
    }
}

#[test]
#[should_panic(expected = "256 octets at least")]
fn a_buffer_with_less_than_the_smallest_fpdu_makes_no_batch() {
    let _ = TxBatch::in_buffer(vec![0; FROM + 255], FROM, 1);
}

/// An Initiator with two Sends in its batch, of 52 octets each.
fn two_sends() -> Raw {
    let mut raw = Raw::initiator();
    for context in 1..=2 {
        raw.end.post(context, inline(&[&[7; 28]])).unwrap();
    }
    made(&mut raw);
    assert_eq!(raw.end.batch.remaining(), 104);
    raw
}

/// The number of FPDUs that a call of `poll_transmit` makes.
fn made(raw: &mut Raw) -> usize {
    let limit = raw.knobs.limit;
    raw.end
        .conn
        .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch)
}

#[test]
fn the_connection_hears_of_its_batch_once_by_whichever_call_comes_first() {
    for reported_alone in [false, true] {
        let mut raw = two_sends();
        raw.end.batch.advance(52);
        raw.end.batch.advance(20);
        raw.end.collect();
        assert_eq!(raw.end.completions(), []);
        if reported_alone {
            raw.end.conn.handle_transmitted(&mut raw.end.batch);
        }
        assert_eq!(made(&mut raw), 0);
        raw.end.conn.handle_transmitted(&mut raw.end.batch);
        raw.end.collect();
        assert_eq!(outcomes(&raw.end), [WqeStatus::Success]);
        assert_eq!(raw.end.conn.counters().sent.octets, 72);
        assert!(!raw.end.batch.is_settled());
        raw.end.batch.advance(32);
        assert!(raw.end.batch.is_empty() && !raw.end.batch.is_settled());
        raw.end.conn.handle_transmitted(&mut raw.end.batch);
        assert!(raw.end.batch.is_settled() && raw.end.conn.is_idle());
    }
}

/// One call may report both: requests that were sent complete, and requests that lost their memory fail.
#[test]
fn what_was_sent_before_a_revocation_is_complete() {
    let mut raw = two_sends();
    raw.end.batch.advance(52);
    raw.end.batch.revoke();
    raw.end.conn.handle_transmitted(&mut raw.end.batch);
    raw.end.collect();
    let expected = [WqeStatus::Success, WqeStatus::LocalAccess];
    assert_eq!(outcomes(&raw.end), expected);
    assert_eq!(raw.end.conn.counters().withdrawn_octets, 52);
}

#[test]
#[should_panic(expected = "an FPDU that was begun is given up")]
fn an_fpdu_that_was_begun_cannot_be_revoked() {
    let mut raw = two_sends();
    raw.end.batch.advance(20);
    raw.end.batch.revoke();
}

/// An FPDU that was begun can be abandoned. Its request fails, and the one before it is complete.
#[test]
fn an_fpdu_that_was_begun_can_be_abandoned() {
    for sent in [1, 20, 51, 52, 53, 80] {
        let mut raw = two_sends();
        raw.end.batch.advance(sent);
        raw.end.batch.abandon();
        raw.end.conn.handle_transmitted(&mut raw.end.batch);
        assert!(raw.end.batch.is_settled());
        raw.end.conn.handle_stream_end(StreamEnd::Reset, 0);
        raw.end.collect();
        let expected = if sent < 52 {
            [WqeStatus::LocalAccess, WqeStatus::Flushed]
        } else {
            [WqeStatus::Success, WqeStatus::LocalAccess]
        };
        assert_eq!(outcomes(&raw.end), expected, "{sent}");
        assert_eq!(raw.end.conn.counters().withdrawn_octets, 104 - sent);
        assert!(
            !raw.end.conn.wants_transmit(),
            "a reset stream takes no more"
        );
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the batch of another connection")]
fn the_batch_of_another_connection_is_noticed() {
    let mut raw = two_sends();
    raw.end.conn = Raw::initiator().end.conn;
    made(&mut raw);
}

/// The length of a tagged FPDU.
fn fpdu_octets(payload: u32) -> usize {
    (2 + 14 + payload as usize).next_multiple_of(4) + 4
}

/// Copied FPDUs with payload of `payloads` octets.
fn of_payloads(payloads: impl IntoIterator<Item = u32>) -> TxBatch {
    let mut batch = TxBatch::with_capacity(64 << 20, 1024);
    for payload in payloads {
        let put = frame::put_copied(&mut batch, PLAIN, &[1; 14], payload, |buffer, _| {
            buffer.fill(9);
            Ok(())
        });
        assert_eq!(put, Ok(fpdu_octets(payload)));
    }
    batch
}

/// Where TCP begins segments of a stream that is written in this way: behind each write, and after each `segment` octets of a write.
/// Each write takes what `whole_crcs` gives. Also returns the number of writes.
fn segments(batch: &mut TxBatch, segment: u32) -> (Vec<u64>, usize) {
    let (mut at, mut begins, mut writes) = (0, vec![], 0);
    while !batch.is_empty() {
        let write = batch.whole_crcs(segment);
        assert!(write > 0 && write <= batch.remaining());
        begins.extend((at..at + write).step_by(segment as usize));
        at += write;
        writes += 1;
        batch.advance(write);
        assert!(!batch.head_is_cut());
    }
    (begins, writes)
}

/// MPA-085, as far as peers need it.
#[test]
fn no_segment_begins_inside_a_crc_field() {
    for segment in [88, 100, 147, 536, 1398, 1448, 16 * 1024, 65_483] {
        let numbers = (segment..).map(|number: u32| number.wrapping_mul(2_654_435_761) >> 7);
        let longest = segment / 4 * 4 - 20;
        let payloads: Vec<_> = numbers
            .take(1000)
            .map(|number| match number % 3 {
                // A third of the payloads fills a segment, a third has any length, and a third is short.
                0 => longest,
                1 => number % longest,
                _ => number % 68,
            })
            .collect();
        let ends: Vec<_> = payloads
            .iter()
            .scan(0, |end, payload| {
                *end += fpdu_octets(*payload) as u64;
                Some(*end)
            })
            .collect();
        let cut_by = |begin: &u64| {
            let fpdu = ends.partition_point(|end| end <= begin);
            let trailer = (2 + 14 + u64::from(payloads[fpdu])).next_multiple_of(4);
            let padding = trailer - 16 - u64::from(payloads[fpdu]);
            *begin > ends[fpdu] - 4 - padding
        };
        let mut batch = of_payloads(payloads.iter().copied());
        let all = batch.remaining();
        let (begins, writes) = segments(&mut batch, segment);
        assert!(!begins.iter().any(cut_by), "segments of {segment}");
        // A single write would have cut some, and few writes more are enough.
        let cut = (0..all).step_by(segment as usize).filter(cut_by).count();
        assert!(cut > 0 || segment > 1448, "segments of {segment}");
        assert!(writes < 200, "segments of {segment}: {writes}");
    }
}

/// Three messages that siw refused: the tenth segment of 65,483 octets, at 589,347, begins between the two octets of padding of an FPDU
/// whose ULPDU ends at 589,346.
#[test]
fn messages_that_siw_refused_end_a_write_in_front_of_the_fpdu() {
    let message = [64_754, 64_754, 64_752, 33_990, 33_930];
    let mut batch = of_payloads([message, message, message].concat());
    let octets: usize = message.map(fpdu_octets).iter().sum();
    assert_eq!(2 * octets + fpdu_octets(64_754), 589_352);
    let before = batch.whole_crcs(65_483);
    assert_eq!(before, 2 * octets as u64);
    batch.advance(before);
    assert_eq!(batch.whole_crcs(65_483), octets as u64);
}

/// FPDUs that fill their segments go out in one write, so that the system hands them down together.
#[test]
fn a_row_of_full_segments_is_one_write() {
    let batch = of_payloads([1428, 1428, 1428, 100, 1428]);
    assert_eq!(batch.whole_crcs(1448), batch.remaining());
}

/// Octets that TCP has taken of a cut FPDU are a segment. The rest begins another one.
#[test]
fn a_write_behind_a_cut_begins_inside_the_fpdu() {
    let mut batch = of_payloads([80, 80, 80]);
    // 100 octets each: segments begin at 98, inside the first CRC field, and at 196, inside the second one.
    assert_eq!(batch.whole_crcs(300), 300);
    assert_eq!(batch.whole_crcs(196), 100);
    batch.advance(4);
    // Now at 196 of the stream from 4 on.
    assert_eq!(batch.whole_crcs(192), 96);
    assert_eq!(batch.whole_crcs(180), 296);
    // An FPDU that is longer than a segment is sent nevertheless.
    assert_eq!(batch.whole_crcs(94), 296);
}
