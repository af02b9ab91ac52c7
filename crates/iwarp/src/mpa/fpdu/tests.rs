//! Framing: the vectors of sections 14.3 and 14.7 that MPA alone can judge, sizes, and cuts at every octet.

use super::*;
use crate::mpa::testing::hex;
use proptest::prelude::*;

/// Section 14.3, R1: zero-length Write, STag 1, TO 0.
const R1: &str = "000ec140 00000001 00000000 00000000 ebd34c5f";
/// R2: zero-length Read Request, MSN 1, sink STag 1, source STag 1.
const R2: &str = "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000000 00000000 00000001 00000000
                  00000000 27dbd7e7";
/// R3: the answer to R2.
const R3: &str = "000ec142 00000001 00000000 00000000 21a3e83e";
/// R4: zero-length Send, MSN 1.
const R4: &str = "00124143 00000000 00000000 00000001 00000000 587be8c4";
/// X2: three octets of PAD.
const X2: &str = "00174043 00000000 00000000 00000001 00000000 68656c6c 6f000000 b6141f21";

fn complete(input: &[u8], crc: bool) -> (&[u8], usize) {
    match parse(input, crc) {
        Ok(Fpdu::Complete { ulpdu, consumed }) => (ulpdu, consumed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn vectors_r1_to_r4_and_x2_are_decoded_and_encoded() {
    for (name, octets, ulpdu_len) in [
        ("R1", R1, 14),
        ("R2", R2, 46),
        ("R3", R3, 14),
        ("R4", R4, 18),
        ("X2", X2, 23),
    ] {
        let octets = hex(octets);
        let (ulpdu, consumed) = complete(&octets, true);
        assert_eq!((ulpdu.len(), consumed), (ulpdu_len, octets.len()), "{name}");
        let mut out = Vec::new();
        put(&mut out, ulpdu, true);
        assert_eq!(out, octets, "{name}");
    }
}

/// X1, MPA-060: any single changed octet of any vector is found.
#[test]
fn x1_a_changed_octet_is_a_crc_error_and_yields_nothing() {
    for octets in [R1, R2, R3, R4, X2] {
        let good = hex(octets);
        // The length itself is left alone: a longer one is an incomplete FPDU, see below.
        for at in HEADER_LEN..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(parse(&bad, true), Err(Error::Crc), "octet {at}");
        }
    }
}

/// MPA-036: with CRC off any content of the field is valid; PEER-009: it is sent as zero.
#[test]
fn with_crc_off_the_field_is_zero_and_not_looked_at() {
    let mut octets = hex(X2);
    let ulpdu = complete(&octets, true).0.to_vec();
    let end = octets.len();
    octets[end - 4..].copy_from_slice(&[9; 4]);
    assert_eq!(complete(&octets, false), (&ulpdu[..], end));
    let mut out = Vec::new();
    put(&mut out, &ulpdu, false);
    octets[end - 4..].fill(0);
    assert_eq!(out, octets);
}

/// MPA-054: PAD is summed, its content is not judged.
#[test]
fn a_non_zero_pad_with_a_matching_crc_is_accepted() {
    let mut octets = hex(X2);
    let end = octets.len();
    octets[end - 6] = 0x55;
    assert_eq!(parse(&octets, true), Err(Error::Crc));
    let crc = crc::wire(crc32c(&octets[..end - 4]));
    octets[end - 4..].copy_from_slice(&crc);
    assert_eq!(complete(&octets, true).0.len(), 23);
}

/// MPA-071, MPA-072: cut anywhere, an FPDU is incomplete and says how much it lacks; what follows it is left alone.
#[test]
fn an_fpdu_cut_anywhere_is_incomplete() {
    let octets = hex(R2);
    for cut in 0..octets.len() {
        let wanted = if cut < HEADER_LEN {
            MIN_LEN
        } else {
            octets.len()
        };
        assert_eq!(
            parse(&octets[..cut], true),
            Ok(Fpdu::Incomplete { wanted }),
            "cut at {cut}"
        );
        assert!(wanted > cut);
    }
    let mut two = octets.clone();
    two.extend(hex(R3));
    let (_, consumed) = complete(&two, true);
    assert_eq!(consumed, octets.len());
    assert_eq!(complete(&two[consumed..], true).1, hex(R3).len());
}

/// MPA-076, MPA-077: lengths no sender should use are framed like all others.
#[test]
fn lengths_0_and_65535_are_framed() {
    let mut octets = vec![0; MIN_LEN];
    assert_eq!(complete(&octets, false), (&[][..], 8));
    assert_eq!(MIN_LEN, 8);
    octets = vec![0xff, 0xff];
    assert_eq!(
        parse(&octets, false),
        Ok(Fpdu::Incomplete { wanted: MAX_LEN })
    );
    octets.resize(MAX_LEN + 5, 7);
    let (ulpdu, consumed) = complete(&octets, false);
    assert_eq!((ulpdu.len(), consumed), (65535, MAX_LEN));
}

/// MPA-052: an FPDU is a multiple of four octets, with at most three of PAD.
#[test]
fn pad_rounds_to_a_multiple_of_four() {
    assert_eq!([0, 1, 2, 3, 4].map(pad), [2, 1, 0, 3, 2]);
    for len in 0..=usize::from(u16::MAX) {
        assert!(pad(len) < 4);
        assert_eq!(fpdu_len(len) % 4, 0);
        assert_eq!(fpdu_len(len), HEADER_LEN + len + pad(len) + 4);
    }
}

/// MPA-081, MPA-082 and the examples of section 3.5.
#[test]
fn mulpdu_follows_the_formula_within_its_range() {
    for (emss, expected) in [
        (1460, 1454),
        (1448, 1442),
        (8948, 8942),
        (536, 530),
        (537, 530),
        (539, 530),
        (134, 128),
        (88, 128),
        (0, 128),
        (5, 128),
        (64_774, 64_766),
        (64_776, 64_768),
        (65_484, 64_768),
        (u32::MAX, 64_768),
    ] {
        assert_eq!(mulpdu(emss), expected, "EMSS {emss}");
    }
    for emss in 136..66_000 {
        let ulpdu = mulpdu(emss);
        assert!(fpdu_len(ulpdu as usize) <= emss as usize, "EMSS {emss}");
        let next = fpdu_len(ulpdu as usize + 1);
        assert!(
            ulpdu == 64_768 || next > (emss & !3) as usize,
            "EMSS {emss}"
        );
    }
}

proptest! {
    #[test]
    fn what_is_put_is_parsed(ulpdu in proptest::collection::vec(any::<u8>(), 0..600), crc in any::<bool>(), tail in any::<[u8; 3]>()) {
        let mut octets = Vec::new();
        put(&mut octets, &ulpdu, crc);
        prop_assert_eq!(octets.len(), fpdu_len(ulpdu.len()));
        octets.extend_from_slice(&tail);
        prop_assert_eq!(parse(&octets, crc), Ok(Fpdu::Complete { ulpdu: &ulpdu, consumed: octets.len() - 3 }));
    }

    #[test]
    fn a_sum_taken_in_parts_gives_the_same_trailer(head in proptest::collection::vec(any::<u8>(), 0..50), body in proptest::collection::vec(any::<u8>(), 0..50)) {
        let len = u16::try_from(head.len() + body.len()).unwrap();
        let mut octets = Vec::new();
        put_header(&mut octets, len);
        octets.extend_from_slice(&head);
        let mut sum = Crc::new();
        sum.update(&octets);
        sum.update(&body);
        octets.extend_from_slice(&body);
        put_trailer(&mut octets, len, Some(sum));
        let mut whole = Vec::new();
        put(&mut whole, &[head, body].concat(), true);
        prop_assert_eq!(octets, whole);
    }

    #[test]
    fn arbitrary_octets_never_yield_more_than_was_given(input in proptest::collection::vec(any::<u8>(), 0..300), crc in any::<bool>()) {
        match parse(&input, crc) {
            Ok(Fpdu::Complete { ulpdu, consumed }) => {
                prop_assert!(consumed <= input.len());
                prop_assert_eq!(consumed, fpdu_len(ulpdu.len()));
            }
            Ok(Fpdu::Incomplete { wanted }) => prop_assert!(wanted > input.len()),
            Err(error) => prop_assert!(crc && error == Error::Crc),
        }
    }
}
