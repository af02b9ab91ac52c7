//! The contents of a capture, read back with a reader that shares no code with the writer.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::{Capture, Flow, FlowRole, SentBy};

/// A writer whose octets a test can read.
#[derive(Clone, Default)]
struct SharedWriter(Arc<Mutex<Vec<u8>>>);

impl Write for SharedWriter {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SharedWriter {
    fn frames(&self) -> Vec<Frame> {
        read_back(&self.0.lock())
    }
}

/// One captured segment.
#[derive(Debug)]
struct Frame {
    nanoseconds: u64,
    by: SentBy,
    stations: [[u8; 6]; 2],
    source: SocketAddr,
    target: SocketAddr,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    payload: Vec<u8>,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

fn le32(octets: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(octets[at..at + 4].try_into().unwrap())
}

fn be16(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}

fn be32(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(octets[at..at + 4].try_into().unwrap())
}

fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
    let mut found = Vec::new();
    while !file.is_empty() {
        let total = le32(file, 4) as usize;
        assert_eq!(total % 4, 0, "blocks are padded");
        assert_eq!(
            le32(file, total - 4) as usize,
            total,
            "both lengths of a block agree"
        );
        found.push((le32(file, 0), &file[8..total - 4]));
        file = &file[total..];
    }
    found
}

/// What the segments of a file carry.
pub(super) fn payloads(file: &[u8]) -> Vec<Vec<u8>> {
    let frames = read_back(file).into_iter();
    frames.map(|frame| frame.payload).collect()
}

fn read_back(file: &[u8]) -> Vec<Frame> {
    let blocks = blocks(file);
    let (kind, section) = blocks[0];
    assert_eq!(
        (kind, le32(section, 0), &section[4..8]),
        (0x0A0D_0D0A, 0x1A2B_3C4D, &[1, 0, 0, 0][..])
    );
    assert_eq!(section[8..16], [0xFF; 8], "a section of unknown length");
    let (kind, interface) = blocks[1];
    assert_eq!(
        (kind, &interface[..8]),
        (1, &[1, 0, 0, 0, 0, 0, 0, 0][..]),
        "one Ethernet interface, no limit"
    );
    assert!(
        interface.windows(5).any(|option| option == [9, 0, 1, 0, 9]),
        "if_tsresol says nanoseconds"
    );
    blocks[2..]
        .iter()
        .map(|(kind, body)| packet(*kind, body))
        .collect()
}

fn packet(kind: u32, body: &[u8]) -> Frame {
    assert_eq!(
        (kind, le32(body, 0)),
        (6, 0),
        "an Enhanced Packet Block of interface 0"
    );
    let nanoseconds = u64::from(le32(body, 4)) << 32 | u64::from(le32(body, 8));
    let length = le32(body, 12) as usize;
    assert_eq!(le32(body, 16) as usize, length, "nothing is cut off");
    let options = &body[20 + length.next_multiple_of(4)..];
    assert_eq!(
        (&options[..4], &options[8..]),
        (&[2, 0, 4, 0][..], &[0; 4][..]),
        "epb_flags, then the end"
    );
    let by = match le32(options, 4) {
        1 => SentBy::Peer,
        2 => SentBy::Local,
        other => panic!("direction {other}"),
    };
    ethernet(nanoseconds, by, &body[20..20 + length])
}

fn ethernet(nanoseconds: u64, by: SentBy, frame: &[u8]) -> Frame {
    let stations = [
        frame[6..12].try_into().unwrap(),
        frame[..6].try_into().unwrap(),
    ];
    let ip = &frame[14..];
    let (segment, pseudo): (&[u8], Vec<u8>) = match be16(frame, 12) {
        0x0800 => {
            assert_eq!(
                (ip[0], ip[9], usize::from(be16(ip, 2))),
                (0x45, 6, ip.len())
            );
            assert_eq!(ones_complement(&ip[..20]), 0xFFFF, "IPv4 header checksum");
            (&ip[20..], ip[12..20].to_vec())
        }
        0x86DD => {
            assert_eq!(
                (ip[0], ip[6], usize::from(be16(ip, 4))),
                (0x60, 6, ip.len() - 40)
            );
            (&ip[40..], ip[8..40].to_vec())
        }
        other => panic!("ethertype {other:#x}"),
    };
    let mut summed = pseudo.clone();
    summed.extend_from_slice(&[0, 6]);
    summed.extend_from_slice(&u16::try_from(segment.len()).unwrap().to_be_bytes());
    summed.extend_from_slice(segment);
    assert_eq!(ones_complement(&summed), 0xFFFF, "TCP checksum");
    let header = usize::from(segment[12] >> 4) * 4;
    let address = |octets: &[u8], port| match <[u8; 4]>::try_from(octets) {
        Ok(v4) => SocketAddr::from((v4, port)),
        Err(_) => SocketAddr::from((<[u8; 16]>::try_from(octets).unwrap(), port)),
    };
    let (source, target) = pseudo.split_at(pseudo.len() / 2);
    Frame {
        nanoseconds,
        by,
        stations,
        source: address(source, be16(segment, 0)),
        target: address(target, be16(segment, 2)),
        sequence: be32(segment, 4),
        acknowledgement: be32(segment, 8),
        flags: segment[13],
        window: be16(segment, 14),
        options: segment[20..header].to_vec(),
        payload: segment[header..].to_vec(),
    }
}

/// RFC 1071 in its plainest form.
fn ones_complement(octets: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

fn v4() -> (SocketAddr, SocketAddr) {
    (
        "127.0.0.1:40000".parse().unwrap(),
        "127.0.0.2:7174".parse().unwrap(),
    )
}

fn flow_over(ends: (SocketAddr, SocketAddr), role: FlowRole) -> (SharedWriter, Capture, Flow) {
    let writer = SharedWriter::default();
    let capture = Capture::to_writer(writer.clone()).unwrap();
    let flow = capture.flow(ends.0, ends.1, role);
    (writer, capture, flow)
}

fn request() -> Vec<u8> {
    let mut frame = b"MPA ID Req Frame".to_vec();
    frame.extend_from_slice(&[0x50, 2, 0, 4, 0x80, 0x10, 0xC0, 0x10]);
    frame
}

fn reply() -> Vec<u8> {
    let mut frame = b"MPA ID Rep Frame".to_vec();
    frame.extend_from_slice(&[0x50, 2, 0, 4, 0x80, 0x10, 0x40, 0x10]);
    frame
}

/// An FPDU in outline: length, ULPDU, pad, four octets in place of the CRC.
fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    let mut frame = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(ulpdu);
    frame.resize(frame.len().next_multiple_of(4), 0);
    frame.extend_from_slice(b"CRC!");
    frame
}

fn flags_of(frames: &[Frame]) -> Vec<(SentBy, u8)> {
    frames.iter().map(|frame| (frame.by, frame.flags)).collect()
}

#[test]
fn an_active_flow_begins_and_ends_like_tcp() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
    flow.opened();
    flow.sent(&[&request()]);
    flow.received(&reply());
    flow.closed(SentBy::Local);
    flow.closed(SentBy::Peer);
    capture.flush().unwrap();

    let frames = writer.frames();
    let (local, peer) = (SentBy::Local, SentBy::Peer);
    let expected = [
        (local, SYN),
        (peer, SYN | ACK),
        (local, ACK),
        (local, PSH | ACK),
        (peer, PSH | ACK),
        (local, FIN | ACK),
        (peer, ACK),
        (peer, FIN | ACK),
        (local, ACK),
    ];
    assert_eq!(flags_of(&frames), expected);
    assert_eq!((frames[0].source, frames[0].target), v4());
    assert_eq!((frames[1].target, frames[1].source), v4());
    assert_eq!(
        frames[0].options,
        [2, 4, 0xFF, 0xD7, 1, 3, 3, 7],
        "MSS 65495, window scale 7"
    );
    assert_eq!(frames[3].payload, request());
    assert_eq!(frames[4].payload, reply());
    assert_eq!(
        frames[8].acknowledgement,
        frames[7].sequence.wrapping_add(1),
        "a FIN takes one number"
    );
    assert!(frames.iter().all(|frame| frame.window == 0xFFFF));
}

#[test]
fn a_passive_flow_is_opened_by_the_peer() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Passive);
    flow.received(&request());
    capture.flush().unwrap();
    let frames = writer.frames();
    assert_eq!(
        flags_of(&frames[..3]),
        [
            (SentBy::Peer, SYN),
            (SentBy::Local, SYN | ACK),
            (SentBy::Peer, ACK)
        ]
    );
    assert_eq!(
        (frames[3].by, &frames[3].payload),
        (SentBy::Peer, &request())
    );
}

#[test]
fn stations_are_local_unicast_and_tell_hosts_apart() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
    flow.opened();
    capture.flush().unwrap();
    let frames = writer.frames();
    let [source, target] = frames[0].stations;
    assert_eq!(
        (source[0] & 3, target[0] & 3),
        (2, 2),
        "locally administered, no group"
    );
    assert_ne!(source, target);
    assert_eq!(frames[1].stations, [target, source]);
}

#[test]
fn ipv6_and_mapped_addresses_are_written_as_what_they_are() {
    let v6 = (
        "[fd00::1]:40000".parse().unwrap(),
        "[fd00::2]:7174".parse().unwrap(),
    );
    let (writer, capture, flow) = flow_over(v6, FlowRole::Active);
    flow.sent(&[&request()]);
    capture.flush().unwrap();
    assert_eq!((writer.frames()[3].source, writer.frames()[3].target), v6);

    let mapped = (
        "[::ffff:127.0.0.1]:40000".parse().unwrap(),
        "[::ffff:127.0.0.2]:7174".parse().unwrap(),
    );
    let (writer, capture, flow) = flow_over(mapped, FlowRole::Active);
    flow.sent(&[&request()]);
    capture.flush().unwrap();
    assert_eq!((writer.frames()[3].source, writer.frames()[3].target), v4());
}

#[test]
fn one_fpdu_makes_one_segment_however_the_socket_cut_it() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
    flow.sent(&[&request()]);
    flow.received(&reply());
    let units = [fpdu(&[7; 14]), fpdu(&[8; 1000]), fpdu(&[9; 17])];
    for octet in units.concat() {
        flow.sent(&[&[octet]]);
    }
    flow.received(&units.concat());
    capture.flush().unwrap();
    let frames = writer.frames();
    let payloads: Vec<_> = frames[5..]
        .iter()
        .map(|frame| frame.payload.clone())
        .collect();
    assert_eq!(payloads, [&units[..], &units[..]].concat());
}

#[test]
fn a_cut_fpdu_is_written_when_the_stream_ends() {
    for end in [
        |flow: Flow| flow.closed(SentBy::Local),
        |flow: Flow| flow.reset(SentBy::Peer),
        drop,
    ] {
        let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
        flow.sent(&[&request()]);
        flow.received(&reply());
        flow.sent(&[&fpdu(&[7; 100])[..30]]);
        end(flow);
        capture.flush().unwrap();
        assert_eq!(writer.frames()[5].payload, fpdu(&[7; 100])[..30]);
    }
}

#[test]
fn what_is_not_mpa_is_written_as_it_comes() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Passive);
    flow.received(b"GET / HTTP/1.1\r\n");
    flow.received(b"\r\n");
    flow.received(&[0; 200_000]);
    capture.flush().unwrap();
    let frames = writer.frames();
    let lengths: Vec<_> = frames[3..]
        .iter()
        .map(|frame| frame.payload.len())
        .collect();
    assert_eq!(
        lengths,
        [16, 2, 65495, 65495, 65495, 200_000 - 3 * 65495],
        "IP lengths fit 16 bits"
    );
}

#[test]
fn a_direction_with_markers_is_cut_at_its_fpdus() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
    let mut wants_markers = reply();
    wants_markers[16] |= 0x80;
    flow.sent(&[&request()]);
    flow.received(&wants_markers);
    let mut stream = Vec::new();
    for len in [484, 20, 1500, 64] {
        let at = stream.len() as u64;
        iwarp::mpa::marker::put(&mut stream, &vec![7; len], true, at);
    }
    for octets in stream.chunks(13) {
        flow.sent(&[octets]);
    }
    flow.received(&[0, 14, 0]);
    capture.flush().unwrap();
    let frames = writer.frames();
    let sent: Vec<usize> = frames[5..]
        .iter()
        .map(|frame| frame.payload.len())
        .collect();
    // One marker each before the first FPDU and within the second and the last, two within the third; the peer's three octets are held
    // until their FPDU is complete.
    assert_eq!(sent, [4 + 492, 28 + 4, 1508 + 8, 72 + 4]);
}

#[test]
fn nothing_follows_a_reset_or_ones_own_fin() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
    flow.closed(SentBy::Peer);
    flow.received(b"late");
    flow.closed(SentBy::Peer);
    flow.sent(&[&request()]);
    flow.reset(SentBy::Local);
    flow.sent(&[b"late"]);
    flow.reset(SentBy::Peer);
    flow.closed(SentBy::Local);
    capture.flush().unwrap();
    let frames = writer.frames();
    assert_eq!(frames.len(), 7);
    assert_eq!(
        (frames[5].by, frames[5].payload.len()),
        (SentBy::Local, 24),
        "half-closed is not closed"
    );
    assert_eq!((frames[6].by, frames[6].flags), (SentBy::Local, RST | ACK));
}

#[test]
fn sequence_numbers_wrap_and_a_one_way_stream_is_acknowledged() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
    flow.state.lock().local.next = u32::MAX - 100_000;
    flow.sent(&[b"not MPA"]);
    for _ in 0..20 {
        flow.sent(&[&[5; 65495]]);
    }
    capture.flush().unwrap();
    let frames = writer.frames();
    let pure: Vec<_> = frames[3..]
        .iter()
        .filter(|frame| frame.payload.is_empty())
        .collect();
    assert_eq!(pure.len(), 4, "one per 256 KiB and a bit");
    assert!(
        pure.iter()
            .all(|frame| (frame.by, frame.flags) == (SentBy::Peer, ACK))
    );
    check_stream(&frames);
}

#[test]
fn flows_differ_in_their_first_sequence_numbers() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
    let second = capture.flow(v4().0, v4().1, FlowRole::Active);
    flow.opened();
    second.opened();
    capture.flush().unwrap();
    let frames = writer.frames();
    assert_ne!(frames[0].sequence, frames[3].sequence);
}

#[test]
fn the_file_grows_by_whole_blocks_and_has_the_rest_after_drop() {
    let (writer, capture, flow) = flow_over(v4(), FlowRole::Active);
    assert_eq!(writer.frames().len(), 0, "the header is there at once");
    flow.sent(&[b"not MPA"]);
    assert_eq!(writer.frames().len(), 0);
    for _ in 0..3 {
        flow.sent(&[&[5; 40_000]]);
        assert!(writer.frames().len() <= 7);
    }
    drop(capture);
    assert!(
        writer.frames().len() < 7,
        "the flow still holds the capture"
    );
    drop(flow);
    assert_eq!(writer.frames().len(), 7);
}

/// A writer that accepts this many octets and then fails, as a full disk does.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(octets.len())
            .ok_or(io::ErrorKind::StorageFull)?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_remembered_and_disturbs_nobody() {
    assert!(
        Capture::to_writer(Full(10)).is_err(),
        "not even the header fits"
    );
    let capture = Capture::to_writer(Full(1000)).unwrap();
    let flow = capture.flow(v4().0, v4().1, FlowRole::Active);
    capture.flush().unwrap();
    for _ in 0..100 {
        flow.sent(&[&[0; 60_000]]);
    }
    flow.closed(SentBy::Local);
    for _ in 0..2 {
        assert_eq!(
            capture.flush().unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
    }
}

#[test]
fn create_says_why_it_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no").join("such.pcapng");
    assert_eq!(
        Capture::create(missing).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    let path = folder.path().join("some.pcapng");
    drop(Capture::create(&path).unwrap());
    assert_eq!(read_back(&std::fs::read(path).unwrap()).len(), 0);
}

#[test]
fn threads_share_one_file() {
    let writer = SharedWriter::default();
    let capture = Capture::to_writer(writer.clone()).unwrap();
    std::thread::scope(|scope| {
        for port in 1..=4 {
            let flow = capture.flow(
                ([10, 0, 0, 1], port).into(),
                ([10, 0, 0, 2], 7).into(),
                FlowRole::Active,
            );
            scope.spawn(move || {
                for _ in 0..200 {
                    flow.sent(&[b"not MPA"]);
                    flow.received(b"neither");
                }
            });
        }
    });
    capture.flush().unwrap();
    let frames = writer.frames();
    assert_eq!(frames.len(), 4 * (3 + 400));
    assert!(
        frames.is_sorted_by_key(|frame| frame.nanoseconds),
        "one order for blocks and times"
    );
}

/// Checks what holds for every capture of one flow: numbers have no gaps, and nothing is acknowledged that was not sent.
/// Returns the two streams.
fn check_stream(frames: &[Frame]) -> [Vec<u8>; 2] {
    let mut next = [frames[0].sequence, frames[1].sequence];
    if frames[0].by == SentBy::Peer {
        next.reverse();
    }
    let mut streams = [Vec::new(), Vec::new()];
    for frame in frames {
        let (own, other) = if frame.by == SentBy::Local {
            (0, 1)
        } else {
            (1, 0)
        };
        assert_eq!(frame.sequence, next[own], "no gap, no overlap");
        if frame.flags & ACK != 0 {
            assert_eq!(frame.acknowledgement, next[other]);
        }
        let length = u32::try_from(frame.payload.len()).unwrap();
        next[own] = next[own]
            .wrapping_add(length)
            .wrapping_add(u32::from(frame.flags & (SYN | FIN) != 0));
        streams[own].extend_from_slice(&frame.payload);
    }
    assert!(frames.is_sorted_by_key(|frame| frame.nanoseconds));
    streams
}

/// A stream of one side: start-up frame and FPDUs, or anything.
fn stream(key: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let fpdus = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8);
    let framed = fpdus.prop_map(move |ulpdus| {
        let mut octets = key.clone();
        octets.extend(ulpdus.iter().flat_map(|ulpdu| fpdu(ulpdu)));
        octets
    });
    prop_oneof![3 => framed, 1 => prop::collection::vec(any::<u8>(), 0..2000)]
}

proptest! {
    /// Both streams come back octet by octet, whatever they are and however they were cut.
    #[test]
    fn streams_survive(
        ours in stream(request()),
        theirs in stream(reply()),
        cuts in prop::collection::vec((any::<bool>(), 1_usize..400, 1_usize..40), 0..60),
        passive in any::<bool>(),
        start in any::<u32>(),
    ) {
        let role = if passive { FlowRole::Passive } else { FlowRole::Active };
        let (writer, capture, flow) = flow_over(v4(), role);
        flow.state.lock().local.next = start;
        let (mut out, mut inward) = (&ours[..], &theirs[..]);
        for (send, length, piece) in cuts {
            let stream = if send { &mut out } else { &mut inward };
            let (now, later) = stream.split_at(length.min(stream.len()));
            *stream = later;
            if send {
                flow.sent(&now.chunks(piece).collect::<Vec<_>>());
            } else {
                flow.received(now);
            }
        }
        flow.sent(&[out]);
        flow.received(inward);
        flow.closed(SentBy::Peer);
        flow.closed(SentBy::Local);
        capture.flush().unwrap();
        let frames = writer.frames();
        let [sent, received] = check_stream(&frames);
        prop_assert_eq!(sent, ours);
        prop_assert_eq!(received, theirs);
    }
}
