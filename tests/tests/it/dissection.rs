//! Captures as Wireshark dissects them, without a connection. The frames are the catalogue's vectors.

use std::path::Path;

use softnd::capture::{Capture, FlowRole, SentBy};
use softnd_tests::dissect::{Dissection, Startup};
use softnd_tests::tool;

/// Request, Rev 2, peer-to-peer, IRD and ORD 16, Write and Read offered.
const S4: &str = "4d504120494420526571204672616d65 50 02 0004 8010 c010";
/// Reply to S4, Read chosen.
const S5: &str = "4d504120494420526570204672616d65 50 02 0004 8010 4010";
/// Zero-length Write.
const R1: &str = "000e c140 00000001 0000000000000000 ebd34c5f";
/// Send "hello".
const D1: &str = "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 b990b10c";
/// Write of de ad be ef.
const D2: &str = "0012 c140 12345678 0000000000001000 deadbeef adc06961";
/// Read Request for 4096 octets.
const D3: &str = "002e 4141 00000000 00000001 00000001 00000000 11223344 0000000000000000 00001000 12345678 \
                  0000000000001000 7d749884";
/// Read Response with ca fe f0 0d.
const D4: &str = "0012 c142 11223344 0000000000000000 cafef00d bae39456";
/// Terminate 1/1/01 for D2.
const T1: &str = "0026 4147 00000000 00000002 00000001 00000000 1101 c000 0012 c140 12345678 0000000000001000 42347cf9";
/// D1 with a wrong CRC.
const X1: &str = "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 b990b10d";

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex
        .bytes()
        .filter(|digit| !digit.is_ascii_whitespace())
        .collect();
    let octet = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

/// One connection with the vectors; the last FPDU before the Terminate is `extra`.
fn record(path: &Path, ends: [&str; 2], extra: &str) {
    let capture = Capture::create(path).unwrap();
    let flow = capture.flow(
        ends[0].parse().unwrap(),
        ends[1].parse().unwrap(),
        FlowRole::Active,
    );
    flow.opened();
    flow.sent(&[&octets(S4)]);
    flow.received(&octets(S5));
    let ours = [R1, D1, D2, D3, extra].map(octets).concat();
    // Cut as a socket might have taken it.
    let (first, second) = ours.split_at(33);
    flow.sent(&[first]);
    flow.sent(&[&second[..10], &second[10..]]);
    for octet in [D4, T1].map(octets).concat() {
        flow.received(&[octet]);
    }
    flow.closed(SentBy::Peer);
    flow.closed(SentBy::Local);
}

#[test]
fn vectors_s4_s5_r1_d1_to_d4_t1_are_dissected_as_what_they_are() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for ends in [
        ["127.0.0.1:40000", "127.0.0.1:7174"],
        ["[fd00::1]:40000", "[fd00::2]:7174"],
    ] {
        let path = folder.path().join("vectors.pcapng");
        record(&path, ends, D1);
        let found = Dissection::new(&tshark, &path);
        found.assert_clean();

        let packets: Vec<_> = found
            .packets
            .iter()
            .filter(|packet| packet.payload > 0)
            .collect();
        let startup = |request, words: &str| {
            Some(Startup {
                request,
                private_data: words.to_owned(),
            })
        };
        assert_eq!(packets[0].startup, startup(true, "8010c010"));
        assert_eq!(packets[1].startup, startup(false, "80104010"));
        let seen: Vec<_> = packets[2..]
            .iter()
            .map(|packet| (packet.outbound, &packet.opcodes[..]))
            .collect();
        let (write, read, response, send, terminate) = ([0], [1], [2], [3], [7]);
        let expected: [(bool, &[u8]); 7] = [
            (true, &write),
            (true, &send),
            (true, &write),
            (true, &read),
            (true, &send),
            (false, &response),
            (false, &terminate),
        ];
        assert_eq!(
            seen, expected,
            "one FPDU per packet, however the stream was cut"
        );
        assert_eq!(packets[8].terminate, Some((1, 1, 1)));
        assert_eq!(found.count(3), (2, 0));
        assert_eq!(found.messages().len(), 1);
    }
}

#[test]
fn vector_x1_has_the_only_bad_crc() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.pcapng");
    record(&path, ["127.0.0.1:40000", "127.0.0.1:7174"], X1);
    let found = Dissection::new(&tshark, &path);
    let bad: Vec<_> = found
        .packets
        .iter()
        .filter(|packet| packet.good_crcs < packet.fpdus)
        .collect();
    assert_eq!(bad.len(), 1);
    assert_eq!(bad[0].opcodes, [3]);
}

#[test]
fn a_stream_that_is_no_mpa_is_not_taken_for_it() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.pcapng");
    let capture = Capture::create(&path).unwrap();
    let flow = capture.flow(
        ([127, 0, 0, 1], 40000).into(),
        ([127, 0, 0, 1], 80).into(),
        FlowRole::Passive,
    );
    flow.received(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    flow.reset(SentBy::Local);
    let found = Dissection::new(&tshark, &path);
    assert!(
        found
            .packets
            .iter()
            .all(|packet| !packet.is_iwarp() && packet.bad_checksums == 0)
    );
    assert_eq!(found.packets.len(), 5);
}
