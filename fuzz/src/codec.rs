//! Parse, print, encode, parse again: FPDU, DDP and RDMAP. What was parsed once must come out as it went in.

use iwarp::ddp::{Header, Segment, TaggedHeader, UntaggedHeader};
use iwarp::mpa::fpdu::{self, Fpdu};
use iwarp::rdmap::{Describe, Opcode, ReadRequest, Terminate, control};

/// Input: one octet (the lowest bit checks CRCs), then a stream of FPDUs. The octets behind the first are also parsed as
/// one ULPDU.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn codec(data: &[u8]) {
    let Some((mode, stream)) = data.split_first() else {
        return;
    };
    framing(stream, mode & 1 != 0);
    ulpdu(stream);
}

fn framing(mut stream: &[u8], crc: bool) {
    loop {
        match fpdu::parse(stream, crc) {
            Ok(Fpdu::Complete {
                ulpdu: inner,
                consumed,
            }) => {
                assert_eq!(consumed, fpdu::fpdu_len(inner.len()));
                ulpdu(inner);
                framed(inner);
                stream = &stream[consumed..];
            }
            Ok(Fpdu::Incomplete { wanted }) => {
                assert!(wanted > stream.len());
                return;
            }
            Err(error) => {
                assert!(crc && !error.to_string().is_empty());
                return;
            }
        }
    }
}

/// A framed ULPDU comes out again, and not before its last octet.
fn framed(ulpdu: &[u8]) {
    for crc in [false, true] {
        let mut out = Vec::new();
        fpdu::put(&mut out, ulpdu, crc);
        let consumed = out.len();
        assert_eq!(
            fpdu::parse(&out, crc),
            Ok(Fpdu::Complete { ulpdu, consumed })
        );
        out.pop();
        assert_eq!(
            fpdu::parse(&out, crc),
            Ok(Fpdu::Incomplete { wanted: consumed })
        );
    }
}

fn ulpdu(octets: &[u8]) {
    let line = Describe(octets).to_string();
    assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
    if let Ok((header, rest)) = Header::split(octets) {
        let whole = match header {
            Header::Tagged(header) => [&header.to_bytes()[..], rest].concat(),
            Header::Untagged(header) => [&header.to_bytes()[..], rest].concat(),
        };
        assert_eq!(whole, octets);
    }
    let Ok(segment) = Segment::parse(octets) else {
        return;
    };
    assert!(!segment.to_string().is_empty());
    let again = encoded(&segment);
    assert_eq!(Segment::parse(&again), Ok(segment));
    let (ulp, payload) = match segment {
        Segment::Tagged(segment) => (segment.ulp, segment.payload),
        Segment::Untagged(segment) => (segment.ulp, segment.payload),
    };
    if let Ok(opcode) = Opcode::parse(ulp) {
        assert_eq!(Opcode::parse(control(opcode)), Ok(opcode));
        assert_eq!(opcode.is_tagged(), opcode.queue().is_none());
    }
    // The parsers must handle any octets, whatever the opcode.
    read_request(payload);
    terminate(payload);
}

/// The segment as we encode it, without reserved bits.
fn encoded(segment: &Segment<'_>) -> Vec<u8> {
    match segment {
        Segment::Tagged(s) => {
            let header = TaggedHeader::new(s.last, s.ulp, s.stag, s.to);
            [&header.to_bytes()[..], s.payload].concat()
        }
        Segment::Untagged(s) => {
            let header = UntaggedHeader::new(s.last, s.ulp, s.ulp_word, s.qn, s.msn, s.mo);
            [&header.to_bytes()[..], s.payload].concat()
        }
    }
}

fn read_request(payload: &[u8]) {
    match ReadRequest::parse(payload) {
        Some(request) => {
            assert_eq!(request.to_bytes(), payload);
            assert!(!request.to_string().is_empty());
        }
        None => assert_ne!(payload.len(), ReadRequest::LEN),
    }
}

fn terminate(payload: &[u8]) {
    for first in [false, true] {
        let Some(parsed) = Terminate::parse(payload, first) else {
            assert!(payload.len() < 4);
            continue;
        };
        assert!(!parsed.to_string().is_empty());
        let (octets, len) = parsed.to_bytes();
        let again = Terminate::parse(&octets[..len], first).expect("ours is never too short");
        // We write only codes of the RFCs, in one bit order. Without headers the two orders of some codes look alike
        // (PEER-084), and the order of an unassigned code cannot be found out.
        if parsed.code.is_assigned() {
            assert_eq!(
                (again.segment_length, again.ddp),
                (parsed.segment_length, parsed.ddp)
            );
            assert_eq!(again.read, parsed.read);
            assert!(parsed.swapped || parsed.ddp.is_none() || again == parsed);
        }
    }
}
