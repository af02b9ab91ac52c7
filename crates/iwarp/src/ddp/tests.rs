use super::*;
use crate::types::STag;

#[test]
fn ddp_control_octets_of_section_4_1() {
    let tagged = |last| TaggedHeader::new(last, 0x40, STag(1), 0).control();
    let untagged = |last| UntaggedHeader::new(last, 0x43, 0, Qn::SEND, 1, 0).control();
    assert_eq!((tagged(true), tagged(false)), (0xc1, 0x81));
    assert_eq!((untagged(true), untagged(false)), (0x41, 0x01));
}

#[test]
fn ddp_023_reserved_bits_are_ignored() {
    let mut ulpdu = TaggedHeader::new(true, 0x40, STag(7), 9).to_bytes();
    ulpdu[0] |= 0x3c;
    let Ok(Segment::Tagged(segment)) = Segment::parse(&ulpdu) else {
        panic!("tagged")
    };
    assert_eq!((segment.stag, segment.to, segment.last), (STag(7), 9, true));
}

#[test]
fn ddp_024_only_version_1_is_a_segment() {
    for version in [0, 2, 3] {
        let mut tagged = TaggedHeader::new(true, 0x40, STag(7), 9).to_bytes();
        tagged[0] = tagged[0] & !VERSION_MASK | version;
        assert_eq!(
            Segment::parse(&tagged),
            Err(Error::Tagged(TaggedError::Version))
        );
        let mut untagged = UntaggedHeader::new(true, 0x43, 0, Qn::SEND, 1, 0).to_bytes();
        untagged[0] = untagged[0] & !VERSION_MASK | version;
        assert_eq!(
            Segment::parse(&untagged),
            Err(Error::Untagged(UntaggedError::Version))
        );
    }
}

#[test]
fn mpa_076_a_short_ulpdu_is_never_read_past() {
    let tagged = TaggedHeader::new(true, 0x40, STag(7), 9).to_bytes();
    let untagged = UntaggedHeader::new(true, 0x43, 0, Qn::SEND, 1, 0).to_bytes();
    for whole in [&tagged[..], &untagged[..]] {
        for len in 0..whole.len() {
            assert_eq!(
                Segment::parse(&whole[..len]),
                Err(Error::Truncated),
                "{len} octets"
            );
        }
        assert!(Segment::parse(whole).is_ok());
    }
}
