//! Markers: the vectors of section 14.6, another way to put them in octet by octet, and every octet of one changed.

use super::*;
use crate::mpa::testing::hex;
use proptest::prelude::*;

/// An untagged Send with this payload.
fn send(msn: u8, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = hex("4143 00000000 00000000 000000");
    ulpdu.push(msn);
    ulpdu.extend([0; 4]);
    ulpdu.extend(payload);
    ulpdu
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| at.to_le_bytes()[0]).collect()
}

/// A stream of these ULPDUs from `position`.
fn stream(ulpdus: &[Vec<u8>], position: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for ulpdu in ulpdus {
        let at = position.wrapping_add(out.len() as u64);
        put(&mut out, ulpdu, true, at);
    }
    out
}

fn marker(distance: u64) -> [u8; 4] {
    u32::try_from(distance)
        .expect("within an FPDU")
        .to_be_bytes()
}

/// Section 4.3 as it reads: octet by octet, with a marker wherever the position says so.
fn slowly(ulpdus: &[Vec<u8>], crc: bool, position: u64) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut at = position;
    for ulpdu in ulpdus {
        let mut plain = Vec::new();
        fpdu::put(&mut plain, ulpdu, false);
        let body = plain.len() - crc::LEN;
        let begin = out.len();
        let mut front = None;
        for octet in &plain[..body] {
            if at.is_multiple_of(512) {
                out.extend(marker(front.map_or(0, |front: u64| at - front)));
                at += 4;
            }
            front.get_or_insert(at);
            out.push(*octet);
            at += 1;
        }
        if at.is_multiple_of(512) {
            out.extend(marker(front.map_or(0, |front| at - front)));
            at += 4;
        }
        let field = if crc {
            crc::wire(crc32c(&out[begin..]))
        } else {
            [0; 4]
        };
        out.extend(field);
        at += 4;
    }
    out
}

/// Takes a stream apart again.
fn ulpdus(mut octets: &[u8], crc: bool, mut position: u64) -> Result<Vec<Vec<u8>>, Error> {
    let (mut out, mut unmarked) = (Vec::new(), Vec::new());
    while !octets.is_empty() {
        match parse(octets, crc, position, &mut unmarked)? {
            Fpdu::Complete { ulpdu, consumed } => {
                out.push(ulpdu.to_vec());
                octets = &octets[consumed..];
                position = position.wrapping_add(consumed as u64);
            }
            Fpdu::Incomplete { wanted } => panic!("{wanted} wanted of {}", octets.len()),
        }
    }
    Ok(out)
}

/// MPA-041, MPA-055, MPA-058: the first example of RFC 5044 §4.4.
#[test]
fn m1_the_first_fpdu_begins_with_a_marker() {
    let ulpdu = send(1, &[0; 24]);
    let octets = hex(
        "00000000 002a4143 00000000 00000000 00000001 00000000 00000000 00000000 \
                      00000000 00000000 00000000 00000000 52239983",
    );
    assert_eq!(stream(std::slice::from_ref(&ulpdu), 0), octets);
    assert_eq!(ulpdus(&octets, true, 0), Ok(vec![ulpdu]));
}

/// MPA-057, MPA-064: the second example of RFC 5044 §4.4.
#[test]
fn m2_a_marker_inside_points_back_at_its_length() {
    let ulpdu = send(2, &[0; 24]);
    let octets = hex(
        "002a4143 00000000 00000000 00000002 00000000 00000014 00000000 00000000 \
                      00000000 00000000 00000000 00000000 84925898",
    );
    assert_eq!(stream(std::slice::from_ref(&ulpdu), 0x1ec), octets);
    assert_eq!(ulpdus(&octets, true, 0x1ec), Ok(vec![ulpdu]));
}

/// MPA-058, MPA-059, MPA-063, MPA-065: between two FPDUs, between PAD and CRC, and several in one.
#[test]
fn m3_m4_m5_markers_in_every_place() {
    let mut write = hex("c140 12345678 0000000000000000");
    write.extend(pattern(1500));
    let hello = |msn| send(msn, b"hello");
    type Case<'a> = (
        &'a str,
        Vec<Vec<u8>>,
        usize,
        &'a [(usize, u16)],
        &'a [&'a str],
    );
    let cases: [Case<'_>; 3] = [
        (
            "M3",
            vec![send(1, &pattern(484)), hello(2)],
            548,
            &[(0, 0), (512, 0)],
            &["8d49863e", "d5299f20"],
        ),
        (
            "M4",
            vec![send(1, &pattern(488)), hello(2)],
            552,
            &[(0, 0), (512, 0x1fc)],
            &["68a8c2e0", "16d8c75d"],
        ),
        (
            "M5",
            vec![write],
            1532,
            &[(0, 0), (512, 0x1fc), (1024, 0x3fc)],
            &["462924a7"],
        ),
    ];
    for (name, messages, len, markers, crcs) in cases {
        let octets = stream(&messages, 0);
        assert_eq!(octets.len(), len, "{name}");
        for (at, pointer) in markers {
            let [high, low] = pointer.to_be_bytes();
            assert_eq!(octets[*at..at + 4], [0, 0, high, low], "{name} at {at}");
        }
        let first = fpdu_len(messages[0].len(), 0);
        for (end, crc) in [first, len].into_iter().zip(crcs) {
            assert_eq!(octets[end - 4..end], hex(crc), "{name} up to {end}");
        }
        assert_eq!(ulpdus(&octets, true, 0), Ok(messages), "{name}");
    }
}

/// MPA-064, MPA-065, MPA-068: a marker that says anything else is found, with CRC and without; MPA-066, MPA-067: what
/// is reserved is not looked at, but summed.
#[test]
fn mpa_068_markers_that_disagree() {
    let message = [send(1, &pattern(1100))];
    for position in [0, 4, 100, 508] {
        for crc in [true, false] {
            let good = slowly(&message, crc, position);
            let markers: Vec<usize> = (0..good.len())
                .filter(|at| (position + *at as u64).is_multiple_of(512))
                .collect();
            assert!(markers.len() >= 2);
            for marker in markers {
                for bit in 0..32usize {
                    let mut bad = good.clone();
                    bad[marker + bit / 8] ^= 0x80 >> (bit % 8);
                    if crc {
                        assert_eq!(ulpdus(&bad, true, position), Err(Error::Crc)); // MPA-057
                        let end = bad.len() - crc::LEN;
                        let sum = crc::wire(crc32c(&bad[..end]));
                        bad[end..].copy_from_slice(&sum);
                    }
                    let expected = if (16..30).contains(&bit) {
                        Err(Error::Marker)
                    } else {
                        Ok(message.to_vec())
                    };
                    let case = format!("bit {bit} of the marker at {marker}, position {position}");
                    assert_eq!(ulpdus(&bad, crc, position), expected, "{case}");
                }
            }
        }
    }
}

/// MPA-072: an FPDU cut anywhere is incomplete, and what is wanted next is neither too much nor nothing new.
#[test]
fn a_marked_fpdu_cut_anywhere_is_incomplete() {
    let message = [send(1, &pattern(1100))];
    for position in (0..512).step_by(4) {
        let octets = stream(&message, position);
        for cut in 0..octets.len() {
            let mut unmarked = Vec::new();
            match parse(&octets[..cut], true, position, &mut unmarked) {
                Ok(Fpdu::Incomplete { wanted }) => {
                    assert!(
                        cut < wanted && wanted <= octets.len(),
                        "{cut} at {position}"
                    );
                }
                other => panic!("{other:?} of {cut} octets at {position}"),
            }
        }
    }
}

/// MPA-082: the examples of section 3.5, and the range.
#[test]
fn mpa_082_mulpdu_with_markers() {
    assert_eq!((mulpdu(1460), mulpdu(1448)), (1442, 1430));
    assert_eq!(
        (mulpdu(0), mulpdu(130), mulpdu(u32::MAX)),
        (128, 128, 64_768)
    );
    // One FPDU of it fits its segment wherever the markers fall.
    for emss in 150..5000 {
        let ulpdu = mulpdu(emss) as usize;
        let longest = (0..512).step_by(4).map(|at| fpdu_len(ulpdu, at)).max();
        assert!(longest <= Some(emss as usize), "EMSS {emss}");
    }
}

/// MPA-083: the longest ULPDU that is allowed, and MPA-077: the longest that a length can encode, at every place of the markers.
#[test]
fn the_longest_fpdus_pass() {
    for len in [64_768, 65_535] {
        for position in [0, 4, 256, 508] {
            let message = [pattern(len)];
            let octets = stream(&message, position);
            assert_eq!(octets.len(), fpdu_len(len, position));
            assert_eq!(ulpdus(&octets, true, position), Ok(message.to_vec()));
        }
    }
}

proptest! {
    /// Against the slow way, from any position, the wrap of all counters included.
    #[test]
    fn markers_stand_where_the_slow_way_puts_them(
        lengths in prop::collection::vec(0usize..2200, 1..6),
        words in any::<u64>(),
        near in prop::option::of(0u64..3000),
        crc in any::<bool>(),
    ) {
        // FPDUs begin on whole words; near the wrap of the sequence number the slow way may not overflow.
        let position = near.map_or(words >> 1, |octets| (1 << 32) - octets) & !3;
        let messages: Vec<Vec<u8>> = lengths.iter().map(|len| pattern(*len)).collect();
        let mut made = Vec::new();
        for message in &messages {
            let at = position + made.len() as u64;
            let before = made.len();
            put(&mut made, message, crc, at);
            prop_assert_eq!(made.len() - before, fpdu_len(message.len(), at));
            prop_assert!(made.len() - before <= fpdu::fpdu_len(message.len()) + most(message.len()));
        }
        prop_assert_eq!(&made, &slowly(&messages, crc, position));
        prop_assert_eq!(ulpdus(&made, crc, position), Ok(messages));
    }

    /// Whatever comes: no panic, and never more consumed than there is.
    #[test]
    fn anything_is_parsed_or_refused(
        octets in prop::collection::vec(any::<u8>(), 0..1500),
        position in any::<u64>(),
        crc in any::<bool>(),
    ) {
        let mut unmarked = Vec::new();
        if let Ok(Fpdu::Complete { ulpdu, consumed }) =
            parse(&octets, crc, position & !3, &mut unmarked)
        {
            prop_assert!(ulpdu.len() < consumed && consumed <= octets.len());
        }
    }
}
