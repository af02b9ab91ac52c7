//! The reactions to wrong segments: the frames of section 14.7 by name, and one test for every other row that ends in a
//! Terminate.

use super::*;
use crate::RemoteRights;
use crate::ddp::{Qn, TaggedHeader, UntaggedHeader};
use crate::rdmap::{ReadRequest, Terminate, TerminateCode};

/// The ULPDU of D1 with one field changed.
fn d1(at: usize, octets: &[u8]) -> Vec<u8> {
    changed("D1", at, octets)
}

fn changed(name: &str, at: usize, octets: &[u8]) -> Vec<u8> {
    let mut ulpdu = ulpdu(name);
    ulpdu[at..at + octets.len()].copy_from_slice(octets);
    ulpdu
}

/// A Responder with the catalogue's buffers and one Receive of 16 octets, which has seen a good FPDU or not.
fn subject(seen: bool) -> Raw {
    let mut raw = Raw::responder().with_buffers();
    raw.post_receive(1, 16);
    if seen {
        raw.receive(&vector("R1"));
    }
    raw
}

/// Checks that only the fault's Terminate was sent, nothing was placed, all requests came back flushed, and further octets
/// are dropped.
fn refused(name: &str, ulpdu: &[u8], code: (u8, u8, u8)) -> Terminate {
    let mut first = None;
    for seen in [false, true] {
        // SEC-033: the first FPDU takes the same path as later ones.
        let mut raw = subject(seen);
        let before = raw.end.mem.placed();
        raw.ulpdu(ulpdu);
        raw.receive(&vector("D1")); // DDP-071
        assert_eq!(raw.end.mem.placed(), before, "{name}: nothing is placed");
        assert!(raw.end.fault().is_some(), "{name}");
        let terminate = raw.last_terminate().expect(name);
        let (layer, etype, code) = code;
        assert_eq!(
            terminate.code,
            TerminateCode::new(layer, etype, code),
            "{name}"
        );
        assert_eq!(statuses(&raw.end, RequestKind::Receive).len(), 1, "{name}");
        assert_eq!(raw.transmit(), [], "{name}: RDMAP-071");
        assert!(
            raw.end.conn.write_side_done() && raw.end.conn.has_failed(),
            "{name}"
        );
        first = Some(terminate);
    }
    first.unwrap()
}

/// As [`refused`]; the Terminate carries the DDP header and the length of the whole segment (RDMAP-076, OPEN-07).
fn refused_about(name: &str, ulpdu: &[u8], code: (u8, u8, u8)) {
    let terminate = refused(name, ulpdu, code);
    let header = terminate.ddp.expect(name);
    let octets = header.as_bytes();
    assert_eq!(octets, &ulpdu[..octets.len()], "{name}");
    assert_eq!(
        terminate.segment_length.map(usize::from),
        Some(ulpdu.len()),
        "{name}"
    );
}

#[test]
fn x1_crc_error() {
    let mut raw = subject(false);
    let mut frame = vector("D1");
    *frame.last_mut().unwrap() ^= 1;
    raw.receive(&frame);
    assert_eq!(raw.transmit(), vector("T3"));
    assert_eq!(raw.end.fault(), Some(Fault::Mpa(crate::mpa::Error::Crc)));
}

#[test]
fn x2_to_x8_and_x11_complete_frames() {
    for (name, frame, code) in [
        (
            "X2",
            "001740430000000000000000000000010000000068656c6c6f000000b6141f21",
            (1, 2, 6),
        ),
        (
            "X3",
            "0012c240123456780000000000001000deadbeefd0c6d270",
            (1, 1, 4),
        ),
        (
            "X4a",
            "001741030000000000000000000000010000000068656c6c6f000000625bd4a0",
            (0, 2, 5),
        ),
        (
            "X4b",
            "001741830000000000000000000000010000000068656c6c6f00000025baf3fd",
            (0, 2, 5),
        ),
        (
            "X5",
            "0017414c0000000000000000000000010000000068656c6c6f00000073c875b2",
            (0, 2, 6),
        ),
        (
            "X6",
            "001741430000000000000005000000010000000068656c6c6f0000006b4b2a29",
            (1, 2, 1),
        ),
        (
            "X7",
            "001741430000000000000000000000070000000068656c6c6f000000e7015dae",
            (1, 2, 3),
        ),
        (
            "X8",
            "001741430000000000000000000000010000100068656c6c6f000000a5460481",
            (1, 2, 4),
        ),
        (
            "X11",
            "0012c14012345678fffffffffffffffedeadbeefe8983c3e",
            (1, 1, 3),
        ),
    ] {
        let frame = hex(frame);
        let ulpdu = frames(&frame, true).remove(0);
        refused_about(name, &ulpdu, code);
    }
}

#[test]
fn x9_an_stag_never_advertised() {
    refused_about("X9", &changed("D2", 2, &[0xab, 0xcd, 0, 1]), (1, 1, 0));
}

#[test]
fn x10_the_end_of_the_buffer_minus_3() {
    let to = (0x1000u64 + 4096 - 3).to_be_bytes();
    refused_about("X10", &changed("D2", 6, &to), (1, 1, 1));
}

#[test]
fn x12_an_unknown_source_stag() {
    let ulpdu = changed("D3", 18 + 16, &[0xab, 0xcd, 0, 1]);
    let terminate = refused("X12", &ulpdu, (0, 1, 0));
    assert_eq!(terminate.read, ReadRequest::parse(&ulpdu[18..])); // R = 1
}

#[test]
fn x13_one_read_more_than_the_limit() {
    let mut raw = subject(true);
    for msn in 1..=5u32 {
        assert_eq!(raw.end.fault(), None, "Read {msn}");
        raw.ulpdu(&changed("D3", 10, &msn.to_be_bytes()));
    }
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::new(1, 2, 2)
    );
}

#[test]
fn rdmap_049_only_the_first_fpdu_is_outside_the_limit() {
    let config = StreamConfig {
        limits: NO_READS,
        ..stream(Role::Responder)
    };
    let mut raw = Raw::with(config);
    raw.receive(&vector("R2"));
    raw.ulpdu(&changed("R2", 10, &2u32.to_be_bytes()));
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::new(1, 2, 2)
    );
    // Nor is an Initiator's peer ever outside it.
    let mut raw = Raw::with(StreamConfig {
        limits: NO_READS,
        ..stream(Role::Initiator)
    });
    raw.receive(&vector("R2"));
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::new(1, 2, 2)
    );
}

#[test]
fn x14_a_read_response_nobody_asked_for() {
    refused_about("X14", &ulpdu("D4"), (0, 2, 6));
}

#[test]
fn rdmap_004_t_has_to_fit_the_opcode() {
    // A Send in a tagged segment, a Write and a Read Response in untagged ones.
    refused_about("tagged Send", &changed("D2", 1, &[0x43]), (0, 2, 6));
    refused_about("tagged Read Request", &changed("D2", 1, &[0x41]), (0, 2, 6));
    refused_about("untagged Write", &d1(1, &[0x40]), (0, 2, 6));
    refused_about("untagged Read Response", &d1(1, &[0x42]), (0, 2, 6));
}

#[test]
fn rdmap_005_and_006_queues_have_to_fit_the_opcode() {
    refused_about("Send on QN 1", &d1(6, &1u32.to_be_bytes()), (1, 2, 1));
    refused_about(
        "Read Request on QN 0",
        &changed("D3", 6, &[0; 4]),
        (1, 2, 1),
    );
    // OPEN-19: empty ones as well.
    let empty = UntaggedHeader::new(true, 0x43, 0, Qn(9), 1, 0).to_bytes();
    refused_about("empty Send on QN 9", &empty, (1, 2, 1));
}

#[test]
fn rdmap_011_nothing_follows_a_read_request() {
    // The buffer that RDMAP has for the message is too short for it (RFC 5041 section 7.1, check 4; DDP-063).
    for octets in [1, 8, 1000] {
        let mut long = ulpdu("D3");
        long.resize(long.len() + octets, 0xEE);
        refused_about("Read Request with payload", &long, (1, 2, 5));
    }
    // It fits its buffer, and RDMAP finds no request in it.
    let short = &ulpdu("D3")[..45];
    refused_about("Read Request cut short", short, (0, 2, 6));
}

#[test]
fn rdmap_032_a_read_request_is_one_segment() {
    refused_about(
        "Read Request without L",
        &changed("D3", 0, &[0x01]),
        (1, 2, 4),
    );
    refused_about(
        "Read Request with MO",
        &changed("D3", 14, &4u32.to_be_bytes()),
        (1, 2, 4),
    );
    refused_about(
        "Read Request MSN 2",
        &changed("D3", 10, &2u32.to_be_bytes()),
        (1, 2, 3),
    );
}

#[test]
fn rdmap_041_to_046_read_sources() {
    let at = |to: u64, size: u32| {
        let mut ulpdu = changed("D3", 18 + 20, &to.to_be_bytes());
        ulpdu[18 + 12..18 + 16].copy_from_slice(&size.to_be_bytes());
        ulpdu
    };
    for (name, ulpdu, code) in [
        ("before the buffer", at(0xfff, 16), (0, 1, 1)),
        ("behind it", at(0x2000, 1), (0, 1, 1)),
        ("over its end", at(0x1001, 4096), (0, 1, 1)),
        ("wrapping", at(u64::MAX, 2), (0, 1, 4)),
    ] {
        let terminate = refused(name, &ulpdu, code);
        assert_eq!(terminate.read, ReadRequest::parse(&ulpdu[18..]), "{name}");
    }
    // RDMAP-042, RDMAP-043, SEC-001, SEC-006
    let elsewhere = STag(0x0700_0001);
    let write_only = STag(0x0700_0002);
    let rights = Rights {
        remote_read: false,
        ..Rights::ALL
    };
    for (stag, code) in [(elsewhere, (0, 1, 3)), (write_only, (0, 1, 2))] {
        let mut raw = subject(true);
        raw.end
            .mem
            .register_as(elsewhere, 0x1000, vec![0; 4096], Rights::ALL, Pd(2));
        raw.end
            .mem
            .register_as(write_only, 0x1000, vec![0; 4096], rights, PD);
        raw.ulpdu(&changed("D3", 18 + 16, &stag.0.to_be_bytes()));
        let (layer, etype, code) = code;
        let terminate = raw.last_terminate().unwrap();
        assert_eq!(terminate.code, TerminateCode::new(layer, etype, code));
        // SEC-007, RDMAP-039: an empty Read looks at neither.
        let mut raw = subject(true);
        let mut empty = changed("D3", 18 + 16, &stag.0.to_be_bytes());
        empty[18 + 12..18 + 16].fill(0);
        raw.ulpdu(&empty);
        let answer = frames(&raw.transmit(), true);
        assert_eq!(answer, [hex("c142 11223344 0000000000000000")]); // RDMAP-040
    }
}

#[test]
fn ddp_066_writes_to_other_domains_and_read_only_buffers() {
    let elsewhere = STag(0x0700_0001);
    let read_only = STag(0x0700_0002);
    let rights = Rights {
        remote_write: false,
        ..Rights::ALL
    };
    for (stag, code) in [(elsewhere, (1, 1, 2)), (read_only, (1, 1, 0))] {
        let mut raw = subject(true);
        raw.end
            .mem
            .register_as(elsewhere, 0x1000, vec![0; 4096], Rights::ALL, Pd(2));
        raw.end
            .mem
            .register_as(read_only, 0x1000, vec![0; 4096], rights, PD);
        raw.ulpdu(&changed("D2", 2, &stag.0.to_be_bytes()));
        assert_eq!(raw.end.mem.placed(), 0); // RDMAP-025
        let (layer, etype, code) = code;
        let terminate = raw.last_terminate().unwrap();
        assert_eq!(terminate.code, TerminateCode::new(layer, etype, code));
    }
}

/// An access that the connection does not allow is refused like one that the memory does not grant.
#[test]
fn rights_of_the_connection_and_of_the_memory_both_hold() {
    for (vector, read, write, code) in [
        ("D2", true, false, Some((1, 1, 0))),
        ("D3", false, true, Some((0, 1, 2))),
        ("D2", false, true, None),
        ("D3", true, false, None),
    ] {
        let mut raw = subject(true);
        raw.end
            .conn
            .set_remote_rights(RemoteRights::with_both(read, write));
        raw.ulpdu(&changed(vector, 0, &[]));
        let Some((layer, etype, code)) = code else {
            assert_eq!(raw.end.fault(), None, "{vector}");
            continue;
        };
        assert_eq!(raw.end.mem.placed(), 0, "{vector}");
        let terminate = raw.last_terminate().unwrap();
        assert_eq!(terminate.code, TerminateCode::new(layer, etype, code));
    }
}

#[test]
fn ddp_044_an_empty_write_names_anything() {
    let mut raw = subject(true);
    for (stag, to) in [(STag(0), 0), (STag(0xdead_beef), u64::MAX)] {
        raw.ulpdu(&TaggedHeader::new(true, 0x40, stag, to).to_bytes());
    }
    assert_eq!(raw.end.fault(), None);
    assert_eq!(raw.end.conn.counters().received.writes, 3);
}

#[test]
fn ddp_025_to_030_segments_of_one_message_agree() {
    let second = |ulpdu: Vec<u8>, code: (u8, u8, u8), name: &str| {
        let mut raw = subject(true);
        let mut opened = 0;
        for first in ["D8a", "D9a"] {
            let mut first = changed(first, 0, &[]);
            if first[1] == 0x43 {
                first[10..14].copy_from_slice(&1u32.to_be_bytes());
            }
            raw.ulpdu(&first);
            opened += 8;
        }
        assert_eq!(raw.end.fault(), None, "{name}: DDP-053");
        raw.ulpdu(&ulpdu);
        assert_eq!(raw.end.mem.placed(), opened, "{name}");
        let (layer, etype, code) = code;
        assert_eq!(
            raw.last_terminate().unwrap().code,
            TerminateCode::new(layer, etype, code),
            "{name}"
        );
    };
    let d8b = |at: usize, octets: &[u8]| {
        let mut ulpdu = changed("D8b", 10, &1u32.to_be_bytes());
        ulpdu[at..at + octets.len()].copy_from_slice(octets);
        ulpdu
    };
    second(d8b(1, &[0x45]), (0, 2, 6), "another opcode");
    second(d8b(10, &2u32.to_be_bytes()), (1, 2, 3), "another MSN");
    second(d8b(14, &9u32.to_be_bytes()), (1, 2, 4), "a gap");
    second(d8b(14, &7u32.to_be_bytes()), (1, 2, 4), "an overlap");
    second(
        changed("D9b", 2, &SINK.0.to_be_bytes()),
        (1, 1, 0),
        "another STag",
    );
    second(
        changed("D9b", 6, &0x1009u64.to_be_bytes()),
        (1, 1, 1),
        "a gap in TO",
    );
    second(
        changed("D9b", 1, &[0x42]),
        (0, 2, 6),
        "a Read Response inside a Write",
    );
    second(ulpdu("D3"), (1, 2, 1), "a Read Request inside a Send");
}

#[test]
fn ddp_077_an_empty_last_segment_stands_where_the_message_ends() {
    let mut raw = subject(true);
    raw.ulpdu(&changed("D8a", 10, &1u32.to_be_bytes()));
    raw.ulpdu(&UntaggedHeader::new(true, 0x43, 0, Qn::SEND, 1, 8).to_bytes());
    assert_eq!(raw.end.completions()[0].octets, 8);
    let empty = UntaggedHeader::new(true, 0x43, 0, Qn::SEND, 1, 4096).to_bytes();
    refused_about("empty Send with MO", &empty, (1, 2, 4));
}

#[test]
fn rdmap_062_a_send_longer_than_the_receive() {
    let mut raw = subject(true);
    raw.post_receive(2, 100);
    let mut ulpdu = d1(0, &[]);
    ulpdu.resize(18 + 17, 1);
    raw.ulpdu(&ulpdu);
    assert_eq!(raw.end.mem.placed(), 0);
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::new(1, 2, 5)
    );
    // AMB-006, QP-003
    let expected = [WqeStatus::ReceiveTooShort, WqeStatus::Flushed];
    assert_eq!(statuses(&raw.end, RequestKind::Receive), expected);
}

#[test]
fn sec_035_a_send_that_never_ends_stays_in_its_receive() {
    let mut raw = subject(true);
    for at in 0..3u32 {
        let mut ulpdu = UntaggedHeader::new(false, 0x43, 0, Qn::SEND, 1, at * 6)
            .to_bytes()
            .to_vec();
        ulpdu.extend_from_slice(&[1; 6]);
        raw.ulpdu(&ulpdu);
    }
    assert_eq!(raw.end.mem.placed(), 12);
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::new(1, 2, 5)
    );
}

#[test]
fn rdmap_068_a_send_without_a_receive() {
    let mut raw = Raw::responder();
    raw.receive(&vector("D1"));
    let terminate = raw.last_terminate().unwrap();
    assert_eq!(terminate.code, TerminateCode::new(1, 2, 2));
    assert_eq!(terminate.segment_length, Some(23));
    // RDMAP-060, DDP-076: an empty one needs a Receive too.
    let mut raw = Raw::responder();
    raw.receive(&vector("R4"));
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::new(1, 2, 2)
    );
}

#[test]
fn rdmap_067_regions_are_not_invalidated() {
    for (stag, name) in [(TARGET, "a region"), (STag(9), "nothing")] {
        let mut ulpdu = d1(1, &[0x44]);
        ulpdu[2..6].copy_from_slice(&stag.0.to_be_bytes());
        let mut raw = subject(true);
        raw.ulpdu(&ulpdu);
        let terminate = raw.last_terminate().expect(name);
        assert_eq!(terminate.code, TerminateCode::new(0, 1, 9), "{name}");
        assert!(
            terminate.ddp.is_some() && terminate.read.is_none(),
            "{name}: M D, not R"
        );
        assert_eq!(
            statuses(&raw.end, RequestKind::Receive),
            [WqeStatus::Flushed],
            "{name}"
        );
    }
}

#[test]
fn mpa_076_a_ulpdu_without_a_ddp_header() {
    for ulpdu in [
        &[][..],
        &[0x41],
        &[0xc1, 0x40, 0, 0],
        &ulpdu("D1")[..17],
        &ulpdu("D2")[..13],
    ] {
        let terminate = refused("short", ulpdu, (1, 0, 0));
        assert!(terminate.ddp.is_none()); // OPEN-20
    }
}

#[test]
fn rdmap_086_a_malformed_terminate_is_not_answered() {
    let t1 = |at: usize, octets: &[u8]| changed("T1", at, octets);
    for (name, ulpdu) in [
        ("tagged", changed("D2", 1, &[0x47])),
        ("wrong QN", t1(6, &[0; 4])),
        ("wrong MSN", t1(10, &2u32.to_be_bytes())),
        ("wrong MO", t1(14, &1u32.to_be_bytes())),
        ("without L", t1(0, &[0x01])),
        ("without a control word", ulpdu("T1")[..21].to_vec()),
    ] {
        let mut raw = subject(true);
        raw.ulpdu(&ulpdu);
        assert_eq!(raw.end.fault(), Some(Fault::MalformedTerminate), "{name}");
        assert_eq!(raw.transmit(), [], "{name}");
        assert!(raw.end.conn.write_side_done(), "{name}");
    }
}

#[test]
fn rdmap_051_read_responses_go_where_the_oldest_read_said() {
    let subject = || {
        let mut raw = Raw::initiator().with_buffers();
        let sge = SINK_OF_4;
        for context in 0..2 {
            raw.end.post(context, read(&[sge], 0)).unwrap();
        }
        raw.transmit();
        raw
    };
    let long = [&ulpdu("D4")[..], &[1]].concat();
    for (name, ulpdu, code) in [
        (
            "another STag",
            changed("D4", 2, &TARGET.0.to_be_bytes()),
            (1, 1, 0),
        ),
        (
            "another TO",
            changed("D4", 6, &1u64.to_be_bytes()),
            (1, 1, 1),
        ),
        ("too much", long, (1, 1, 1)),
        ("too little", ulpdu("D4")[..17].to_vec(), (1, 1, 1)),
        ("nothing", ulpdu("D4")[..14].to_vec(), (1, 1, 1)),
    ] {
        let mut raw = subject();
        raw.ulpdu(&ulpdu);
        assert_eq!(raw.end.mem.placed(), 0, "{name}");
        let (layer, etype, code) = code;
        assert_eq!(
            raw.last_terminate().unwrap().code,
            TerminateCode::new(layer, etype, code),
            "{name}"
        );
        assert_eq!(
            statuses(&raw.end, RequestKind::Read),
            [WqeStatus::Flushed; 2],
            "{name}"
        );
    }
    // In pieces, the last one empty.
    let mut raw = subject();
    let mut first = ulpdu("D4");
    first[0] = 0x81;
    raw.ulpdu(&first);
    raw.ulpdu(&TaggedHeader::new(true, 0x42, SINK, 4).to_bytes());
    assert_eq!(statuses(&raw.end, RequestKind::Read), [WqeStatus::Success]);
}

#[test]
fn rdmap_034_a_refused_read_lets_earlier_ones_be_answered() {
    let mut raw = subject(true);
    let mut bad = changed("D3", 10, &2u32.to_be_bytes());
    bad[18 + 16..18 + 20].copy_from_slice(&[9; 4]);
    raw.ulpdu(&ulpdu("D3"));
    raw.ulpdu(&bad);
    raw.receive(&vector("D1")); // behind the refused one: dropped
    assert_eq!(raw.end.completions(), []);
    let ulpdus = frames(&raw.transmit(), true);
    let (terminate, answer) = ulpdus.split_last().unwrap();
    let octets: usize = answer.iter().map(|ulpdu| ulpdu.len() - 14).sum();
    assert_eq!(octets, 4096);
    assert_eq!(terminate[18..22], hex("0100e000"));
    assert_eq!(raw.end.mem.placed(), 0);
}

#[test]
fn rdmap_079_a_read_that_fails_half_way_names_the_rest() {
    for crc in [true, false] {
        let config = StreamConfig {
            crc,
            ..stream(Role::Responder)
        };
        let mut raw = Raw::with(config);
        raw.knobs.limit.mulpdu = 14 + 5000;
        raw.knobs.limit.fpdus = 1;
        raw.end
            .mem
            .register_as(TARGET, 0x1000, pattern(20_000, 1), Rights::ALL, PD);
        let mut request = ulpdu("D3");
        request[18 + 12..18 + 16].copy_from_slice(&20_000u32.to_be_bytes());
        let mut frame = Vec::new();
        fpdu::put(&mut frame, &request, crc);
        raw.receive(&frame);
        raw.transmit();
        raw.transmit();
        raw.end.mem.deregister(TARGET);
        // Read in place, the loss shows when the transport wants the octets; copied, when the FPDU is made.
        let first = raw.transmit();
        let rest = [first, raw.transmit()].concat();
        let ulpdus = frames(&rest, crc);
        let terminate = Terminate::parse(&ulpdus.last().unwrap()[18..], false).unwrap();
        assert_eq!(terminate.code, TerminateCode::new(0, 1, 0));
        let whole = ReadRequest::parse(&request[18..]).unwrap();
        assert_eq!(terminate.read, Some(whole.advanced(10_000)), "crc {crc}");
        assert!(raw.end.conn.write_side_done());
    }
}

#[test]
fn rdmap_079_an_answer_revoked_in_the_batch_names_the_rest() {
    // Two answers, made in two calls with different MULPDUs: FPDUs of 5000 octets, then of 6000.
    let config = StreamConfig {
        crc: false,
        ..stream(Role::Responder)
    };
    for sent in 0..6u32 {
        let mut raw = Raw::with(config);
        raw.end
            .mem
            .register_as(TARGET, 0x1000, pattern(21_000, 1), Rights::ALL, PD);
        for msn in 1..=2u32 {
            let mut request = changed("D3", 10, &msn.to_be_bytes());
            request[18 + 12..18 + 16].copy_from_slice(&21_000u32.to_be_bytes());
            let mut frame = Vec::new();
            fpdu::put(&mut frame, &request, false);
            raw.receive(&frame);
        }
        let mut limit = raw.knobs.limit;
        for (mulpdu, fpdus) in [(5014, 3), (6014, 3)] {
            limit = TxLimit {
                mulpdu,
                fpdus,
                ..limit
            };
            raw.end
                .conn
                .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch);
        }
        // 5000, 5000, 5000, 6000 of the first answer, 6000, 6000 of the second.
        let octets = |fpdus: u32| -> u64 {
            (0..fpdus)
                .map(|at| fpdu::fpdu_len(if at < 3 { 5014 } else { 6014 }) as u64)
                .sum()
        };
        raw.end.batch.advance(octets(sent));
        raw.end.batch.revoke();
        raw.end.conn.handle_transmitted(&mut raw.end.batch);
        let terminate = frames(&raw.transmit(), false).remove(0);
        let terminate = Terminate::parse(&terminate[18..], false).unwrap();
        let made = [0, 5000, 10_000, 15_000, 0, 6000][sent as usize];
        let request = ReadRequest::parse(&ulpdu("D3")[18..]).unwrap();
        let whole = ReadRequest {
            size: 21_000,
            ..request
        };
        assert_eq!(
            terminate.read,
            Some(whole.advanced(made)),
            "{sent} FPDUs sent"
        );
        let Some(crate::ddp::Header::Untagged(header)) = terminate.ddp else {
            panic!("untagged")
        };
        assert_eq!(header.msn(), if sent < 4 { 1 } else { 2 });
    }
}

#[test]
fn rdmap_082_only_the_first_error_is_told() {
    let mut raw = subject(true);
    raw.ulpdu(&d1(0, &[0x40]));
    raw.ulpdu(&changed("D2", 0, &[0xc2]));
    let limit = raw.knobs.limit;
    raw.end
        .conn
        .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch);
    raw.end.batch.revoke();
    assert_eq!(
        raw.last_terminate().unwrap().code,
        TerminateCode::new(1, 2, 6)
    );
    let faults = raw
        .end
        .events
        .iter()
        .filter(|event| matches!(event, Event::Fault(_)));
    assert_eq!(faults.count(), 1);
}

/// Every row of section 11 that an engine can cause, against the bits of section 5.4.
#[test]
fn rdmap_076_headers_by_the_table() {
    use crate::ddp::{TaggedError, UntaggedError};
    use crate::rdmap::{OperationError, ProtectionError};
    let rows = [
        (Fault::Local, "0000"),
        (Fault::Truncated, "1000"),
        (Fault::Mpa(crate::mpa::Error::Crc), "2002"),
        (Fault::Mpa(crate::mpa::Error::Marker), "2003"),
        (Fault::Mpa(crate::mpa::Error::Startup), "2004"),
        (Fault::Mpa(crate::mpa::Error::LocalCatastrophic), "2005"),
        (Fault::Mpa(crate::mpa::Error::InsufficientIrd), "2006"),
        (Fault::Mpa(crate::mpa::Error::NoReady), "2007"),
        (Fault::Tagged(TaggedError::InvalidSTag), "1100"),
        (Fault::Tagged(TaggedError::Bounds), "1101"),
        (Fault::Tagged(TaggedError::NotAssociated), "1102"),
        (Fault::Tagged(TaggedError::Wrap), "1103"),
        (Fault::Tagged(TaggedError::Version), "1104"),
        (Fault::Untagged(UntaggedError::InvalidQn), "1201"),
        (Fault::Untagged(UntaggedError::NoBuffer), "1202"),
        (Fault::Untagged(UntaggedError::MsnRange), "1203"),
        (Fault::Untagged(UntaggedError::InvalidMo), "1204"),
        (Fault::Untagged(UntaggedError::TooLong), "1205"),
        (Fault::Untagged(UntaggedError::Version), "1206"),
        (Fault::Protection(ProtectionError::InvalidSTag), "0100"),
        (Fault::Protection(ProtectionError::Bounds), "0101"),
        (Fault::Protection(ProtectionError::Rights), "0102"),
        (Fault::Protection(ProtectionError::NotAssociated), "0103"),
        (Fault::Protection(ProtectionError::Wrap), "0104"),
        (Fault::Protection(ProtectionError::CannotInvalidate), "0109"),
        (Fault::Operation(OperationError::Version), "0205"),
        (Fault::Operation(OperationError::UnexpectedOpcode), "0206"),
    ];
    for (fault, octets) in rows {
        let code = fault.code().expect("a Terminate");
        assert_eq!(
            Terminate::new(code).to_bytes().0[..2],
            hex(octets),
            "{fault}"
        );
        assert!(code.is_assigned() && code.name() != "unassigned", "{fault}");
    }
    assert_eq!(Fault::MalformedTerminate.code(), None);
    assert_eq!(Fault::Mpa(crate::mpa::Error::Closed).code(), None); // OPEN-18
}
