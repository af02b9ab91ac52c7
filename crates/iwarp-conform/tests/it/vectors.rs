//! Tests the suite's own encoder and decoder against frames of the RFCs and of the requirement catalogue.

use iwarp_conform::wire::{
    AtomicRequest, AtomicResponse, Code, Enhanced, Fpdu, Markers, ReadRequest, Segment, StartFrame,
    Terminate, flag, opcode, queue,
};

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn fpdu(segment: &Segment) -> Vec<u8> {
    let ulpdu = segment.encode();
    assert_eq!(Segment::decode(&ulpdu).as_ref(), Some(segment));
    Fpdu::new(ulpdu).encode(None)
}

const LIMITS: Enhanced = Enhanced {
    a: true,
    b: false,
    c: true,
    d: true,
    ird: 16,
    ord: 16,
};

#[test]
fn s1_s4_s5_and_s7_startup_frames() {
    let key = "4d504120494420526571204672616d65";
    let plain = StartFrame::plain(StartFrame::REQUEST, flag::CRC, &[]);
    assert_eq!(plain.encode(), octets(&format!("{key} 40010000")));
    let enhanced = StartFrame::enhanced(StartFrame::REQUEST, flag::CRC, LIMITS, &[]);
    let s4 = octets(&format!("{key} 50020004 8010c010"));
    assert_eq!(enhanced.encode(), s4);
    assert_eq!(Enhanced::from_bytes([0x80, 0x10, 0xC0, 0x10]), LIMITS);
    let read = Enhanced { c: false, ..LIMITS };
    let reply = StartFrame::enhanced(StartFrame::REPLY, flag::CRC, read, b"");
    assert_eq!(
        reply.encode(),
        octets("4d504120494420526570204672616d65 50020004 80104010")
    );
    let none = Enhanced {
        ird: 0x3FFF,
        ord: 0x3FFF,
        ..read
    };
    assert_eq!(none.to_bytes(), [0xBF, 0xFF, 0x7F, 0xFF]);
    let header = s4.first_chunk().unwrap();
    let decoded = StartFrame::decode(header, &s4[20..]);
    assert_eq!((decoded.limits(), decoded.data()), (Some(LIMITS), &[][..]));
}

#[test]
fn r1_to_r4_ready_to_receive_messages() {
    let nothing = ReadRequest {
        sink_stag: 1,
        source_stag: 1,
        ..ReadRequest::default()
    };
    for (segment, hex) in [
        (
            Segment::write(1, 0, &[]),
            "000ec140000000010000000000000000 ebd34c5f",
        ),
        (
            Segment::read_request(1, nothing),
            "002e4141000000000000000100000001 00000000000000010000000000000000
             00000000000000010000000000000000 27dbd7e7",
        ),
        (
            Segment::read_response(1, 0, &[]),
            "000ec142000000010000000000000000 21a3e83e",
        ),
        (
            Segment::send(1, &[]),
            "00124143000000000000000000000001 00000000587be8c4",
        ),
    ] {
        assert_eq!(fpdu(&segment), octets(hex), "{}", segment.describe());
    }
}

#[test]
fn d1_to_d14_data_messages() {
    let invalidate = Segment {
        opcode: opcode::SEND_INVALIDATE,
        stag: 0x1234_5678,
        ..Segment::send(2, b"hello")
    };
    let first = Segment {
        last: false,
        ..Segment::send(5, b"ABCDEFGH")
    };
    let add = AtomicRequest {
        identifier: 0xA0A0_A0A0,
        stag: 0x1234_5678,
        to: 0x1000,
        data: 1,
        compare_mask: u64::MAX,
        ..AtomicRequest::default()
    };
    let response = AtomicResponse {
        identifier: 0xA0A0_A0A0,
        value: 41,
    };
    assert_eq!(AtomicRequest::parse(&add.to_bytes()), Some(add));
    assert_eq!(AtomicResponse::parse(&response.to_bytes()), Some(response));
    for (segment, hex) in [
        (
            Segment::send(1, b"hello"),
            "00174143000000000000000000000001 0000000068656c6c6f000000b990b10c",
        ),
        (
            Segment::write(0x1234_5678, 0x1000, &[0xDE, 0xAD, 0xBE, 0xEF]),
            "0012c140123456780000000000001000 deadbeefadc06961",
        ),
        (
            invalidate,
            "00174144123456780000000000000002 0000000068656c6c6f000000fae1aa70",
        ),
        (
            first,
            "001a0143000000000000000000000005 000000004142434445464748fc83cc01",
        ),
        (
            Segment::atomic_request(1, add),
            "0046414a000000000000000100000001 0000000000000000a0a0a0a012345678
             00000000000010000000000000000001 00000000000000000000000000000000
             ffffffffffffffff3ebd01e0",
        ),
        (
            Segment::untagged(
                opcode::ATOMIC_RESPONSE,
                queue::ATOMIC_RESPONSE,
                1,
                &response.to_bytes(),
            ),
            "001e414b000000000000000300000001 00000000a0a0a0a00000000000000029 ddba49a0",
        ),
    ] {
        assert_eq!(fpdu(&segment), octets(hex), "{}", segment.describe());
    }
}

#[test]
fn t1_and_t2_are_read_with_their_headers_and_siw_s_bit_order_is_undone() {
    let t1 = octets("1101c000 0012 c140123456780000000000001000");
    let terminate = Terminate::parse(&t1, false).unwrap();
    assert_eq!(terminate.code, Code(1, 1, 1));
    assert_eq!(terminate.header.as_deref(), Some(&t1[6..]));
    assert!(terminate.whole && !terminate.swapped && terminate.read.is_none());

    let t2 = octets(
        "0101e000 002e 414100000000000000010000000100000000
         112233440000000000000000 00001000 123456780000000000001000",
    );
    let terminate = Terminate::parse(&t2, false).unwrap();
    let read = terminate.read.unwrap();
    assert_eq!((terminate.code, read.size), (Code(0, 1, 1), 4096));
    assert_eq!((read.sink_stag, read.source_to), (0x1122_3344, 0x1000));

    for (hex, first, code) in [
        ("02020000", false, Code(2, 0, 2)),
        ("21030300", false, Code(1, 2, 3)),
        ("20070300", false, Code(0, 2, 7)),
        ("20060000", true, Code(2, 0, 6)),
        ("20060000", false, Code(0, 2, 6)),
        ("20020000", false, Code(2, 0, 2)),
        ("02060000", false, Code(0, 2, 6)),
    ] {
        let terminate = Terminate::parse(&octets(hex), first).unwrap();
        assert_eq!(terminate.code, code, "{hex}");
    }
    assert_eq!(Terminate::parse(&[0x11, 0, 0], false), None);
}

#[test]
fn m1_to_m5_markers_and_what_their_crcs_cover() {
    let mut markers = Markers::default();
    let m1 = Fpdu::new(Segment::send(1, &[0; 24]).encode()).encode(Some(&mut markers));
    assert_eq!(m1.len(), 52);
    assert_eq!(
        (&m1[..4], &m1[48..]),
        (&[0; 4][..], &octets("52239983")[..])
    );

    let mut markers = Markers {
        position: 0x1EC,
        ..Markers::default()
    };
    let m2 = Fpdu::new(Segment::send(2, &[0; 24]).encode()).encode(Some(&mut markers));
    assert_eq!(m2[20..24], octets("00000014"));
    assert_eq!(m2[48..], octets("84925898"));

    let counting = |length: usize| (0..length).map(|i| i.to_le_bytes()[0]).collect::<Vec<u8>>();
    for (length, marker, crcs) in [
        (484, "00000000", ["8d49863e", "d5299f20"]),
        (488, "000001fc", ["68a8c2e0", "16d8c75d"]),
    ] {
        let mut markers = Markers::default();
        let segments = [
            Segment::send(1, &counting(length)),
            Segment::send(2, b"hello"),
        ];
        let [first, second] =
            segments.map(|segment| Fpdu::new(segment.encode()).encode(Some(&mut markers)));
        let stream = [&first[..], &second].concat();
        assert_eq!(stream[512..516], octets(marker), "{length}");
        assert_eq!(first[first.len() - 4..], octets(crcs[0]), "{length}");
        assert_eq!(second[second.len() - 4..], octets(crcs[1]), "{length}");
    }

    let mut markers = Markers::default();
    let write = Segment::write(0x1234_5678, 0, &counting(1500));
    let m5 = Fpdu::new(write.encode()).encode(Some(&mut markers));
    assert_eq!(m5.len(), 1532);
    assert_eq!(
        (&m5[512..516], &m5[1024..1028], &m5[1528..]),
        (
            &octets("000001fc")[..],
            &octets("000003fc")[..],
            &octets("462924a7")[..]
        )
    );
}
