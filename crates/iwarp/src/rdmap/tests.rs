use super::*;
use crate::ddp;
use crate::mpa::testing::hex;
use crate::types::{RemoteAddress, STag};

#[test]
fn rdmap_002_reserved_bits_are_ignored() {
    assert_eq!(Opcode::parse(0x73), Ok(Opcode::Send));
}

#[test]
fn rdmap_003_unknown_opcodes_are_refused() {
    for opcode in 0xc..=0xf {
        assert_eq!(
            Opcode::parse(0x40 | opcode),
            Err(OperationError::UnexpectedOpcode)
        );
    }
}

#[test]
fn rdmap_079_an_advanced_request_names_the_rest() {
    let at = |to| RemoteAddress { stag: STag(1), to };
    let request = ReadRequest {
        sink: at(10),
        size: 100,
        source: at(u64::MAX),
    };
    let rest = ReadRequest {
        sink: at(40),
        size: 70,
        source: at(29),
    };
    assert_eq!(request.advanced(30), rest);
    assert_eq!(ReadRequest::parse(&rest.to_bytes()), Some(rest));
}

/// Reads the octets behind the 18 octets of the DDP header.
fn terminate(octets: &str, first: bool) -> Terminate {
    Terminate::parse(&hex(octets), first).expect("a control word")
}

#[test]
fn peer_084_terminates_of_little_endian_hosts_are_undone() {
    for (octets, code) in [
        ("02020000", TerminateCode::new(2, 0, 2)),
        ("21030300", TerminateCode::new(1, 2, 3)),
        ("20070300", TerminateCode::new(0, 2, 7)),
        ("21060000", TerminateCode::new(1, 2, 6)),
        ("20060000", TerminateCode::new(0, 2, 6)),
    ] {
        let seen = terminate(octets, false);
        assert_eq!((seen.code, seen.swapped), (code, true), "{octets}");
    }
    for (octets, code) in [
        ("20020000", TerminateCode::new(2, 0, 2)),
        ("02060000", TerminateCode::new(0, 2, 6)),
        ("1201c000", TerminateCode::new(1, 2, 1)),
    ] {
        let seen = terminate(octets, false);
        assert_eq!((seen.code, seen.swapped), (code, false), "{octets}");
    }
    // The Initiator's first FPDU.
    assert_eq!(
        terminate("20060000", true).code,
        TerminateCode::new(2, 0, 6)
    );
    assert_eq!(
        terminate("02070000", true).code,
        TerminateCode::new(2, 0, 7)
    );
}

#[test]
fn peer_024_headers_count_by_octets_not_by_flags() {
    let ddp = "0012c140123456780000000000001000";
    let seen = terminate(&format!("0100e000{ddp}"), false);
    assert!(seen.ddp.is_some() && seen.read.is_none());
    assert_eq!(seen.segment_length, Some(0x12));
    let cut = terminate("0100e0000012c140", false);
    assert!(cut.ddp.is_none() && cut.segment_length.is_none());
    assert!(Terminate::parse(&hex("010000"), false).is_none());
}

#[test]
fn rdmap_087_unassigned_codes_are_reported_as_they_are() {
    let seen = terminate("f9aa0000", false);
    assert_eq!(
        (seen.code.layer, seen.code.etype, seen.code.code),
        (0xf, 9, 0xaa)
    );
    assert_eq!(seen.code.class(), Class::Other);
}

#[test]
fn a_terminate_survives_the_wire() {
    let header = ddp::UntaggedHeader::new(true, 0x41, 0, ddp::Qn::READ_REQUEST, 9, 0);
    let at = |to| RemoteAddress {
        stag: STag(0x0102_0304),
        to,
    };
    let whole = Terminate {
        code: TerminateCode::new(0, 1, 1),
        segment_length: Some(46),
        ddp: Some(ddp::Header::Untagged(header)),
        read: Some(ReadRequest {
            sink: at(5),
            size: 6,
            source: at(7),
        }),
        swapped: false,
    };
    let tagged = ddp::TaggedHeader::new(false, 0x40, STag(3), 4);
    for sent in [
        whole,
        Terminate {
            read: None,
            ..whole
        },
        Terminate {
            segment_length: None,
            read: None,
            ..whole
        },
        Terminate {
            ddp: Some(ddp::Header::Tagged(tagged)),
            read: None,
            ..whole
        },
        Terminate::new(TerminateCode::LOCAL_CATASTROPHIC),
    ] {
        let (octets, len) = sent.to_bytes();
        assert_eq!(Terminate::parse(&octets[..len], false), Some(sent));
    }
}

#[test]
fn every_segment_prints_as_one_line() {
    let read = hex(
        "4141000000000000000100000001000000001122334400000000000000000000100012345678000000\
         0000001000",
    );
    assert_eq!(
        Describe(&read).to_string(),
        "Read Request: untagged qn 1 msn 1 mo 0 len 28 last reads 4096 from 0x12345678 to 0x1000 \
         into 0x11223344 to 0x0"
    );
    let write = hex("c140123456780000000000001000deadbeef");
    assert_eq!(
        Describe(&write).to_string(),
        "Write: tagged stag 0x12345678 to 0x1000 len 4 last"
    );
    let terminate = hex("414700000000000000020000000100000000 20020000");
    assert_eq!(
        Describe(&terminate).to_string(),
        "Terminate: untagged qn 2 msn 1 mo 0 len 4 last 2/0/02 (MPA: CRC error)"
    );
    for (_, octets) in [("nothing", &[][..]), ("short", &[0xc1, 0x40][..])] {
        assert!(!Describe(octets).to_string().contains('\n'));
    }
}
