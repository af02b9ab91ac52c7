//! Payload that is placed while its FPDU arrives: nothing but the time of placing may differ.

use super::*;
use crate::memory::{Memory, MessageEnd};
use crate::{ddp, mpa};

/// Without CRC, so that long FPDUs are placed early, or not.
fn responder(early: usize) -> Raw {
    Raw::with(StreamConfig {
        crc: false,
        early,
        ..stream(Role::Responder)
    })
    .with_buffers()
}

/// One FPDU without CRC.
fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    fpdu::put(&mut frame, ulpdu, false);
    frame
}

/// The ready-to-receive message: what comes before it is not placed early.
fn ready() -> Vec<u8> {
    fpdu(&ulpdu("R1"))
}

/// As [`Raw::last_terminate`].
fn last_terminate(raw: &mut Raw) -> Option<crate::rdmap::Terminate> {
    let ulpdus = frames(&raw.transmit(), false);
    let last = ulpdus.last().filter(|last| last[1] == 0x47)?;
    crate::rdmap::Terminate::parse(&last[18..], false)
}

fn write(last: bool, to: u64, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = ddp::TaggedHeader::new(last, 0x40, TARGET, to)
        .to_bytes()
        .to_vec();
    ulpdu.extend_from_slice(payload);
    fpdu(&ulpdu)
}

fn send(last: bool, mo: u32, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = ddp::UntaggedHeader::new(last, 0x43, 0, ddp::Qn::SEND, 1, mo)
        .to_bytes()
        .to_vec();
    ulpdu.extend_from_slice(payload);
    fpdu(&ulpdu)
}

/// The state that a stream cut at `at` leaves behind.
fn outcome(early: usize, octets: &[u8], at: usize) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut raw = responder(early);
    let inbox = raw.post_receive(1, 300);
    let short = Sge {
        length: 100,
        ..inbox
    };
    raw.end.conn.post_receive(2, &[short]).unwrap();
    raw.receive(&ready());
    raw.receive(&octets[..at]);
    raw.receive(&octets[at..]);
    let sent = raw.transmit();
    (
        raw.end.events,
        sent,
        raw.end.mem.bytes(TARGET),
        raw.end.mem.bytes(inbox.token),
        *raw.end.conn.counters(),
        raw.end.staging.len(),
    )
}

/// Good ones and bad ones of every kind, cut at every octet: results, Terminates with their headers, memory and counters
/// are those of FPDUs that are looked at as a whole.
#[test]
fn mpa_072_ddp_007_early_or_late_is_the_same() {
    let data = pattern(200, 3);
    let streams = [
        write(true, 0x1000 + 5, &data),
        [
            write(false, 0x1000, &data),
            write(true, 0x1000 + 200, &data),
        ]
        .concat(),
        write(true, 0x1000 + 4096 - 199, &data), // one octet too far
        write(true, u64::MAX - 20, &data),
        [
            write(false, 0x1000, &data),
            write(true, 0x1000 + 201, &data),
        ]
        .concat(),
        [write(false, 0x1000, &data), send(true, 0, &data)].concat(),
        send(true, 0, &data),
        [send(false, 0, &data), send(true, 200, &data[..100])].concat(),
        [send(false, 0, &data), send(true, 200, &data[..101])].concat(), // longer than the Receive
        [send(false, 0, &data), send(true, 201, &data[..50])].concat(),
        [send(true, 0, &data), write(true, 0x1000, &data)].concat(),
    ];
    for (number, octets) in streams.iter().enumerate() {
        let whole = outcome(usize::MAX, octets, 0);
        for at in 0..=octets.len() {
            assert!(
                outcome(40, octets, at) == whole,
                "stream {number} cut at {at}: {:?}, not {whole:?}",
                outcome(40, octets, at)
            );
        }
    }
}

#[test]
fn ddp_066_a_segment_that_is_too_long_places_nothing_of_itself() {
    let mut raw = responder(40);
    raw.receive(&ready());
    let before = raw.end.mem.bytes(TARGET);
    let octets = write(true, 0x1000 + 4096 - 199, &pattern(200, 3));
    for octet in &octets {
        assert_eq!(raw.end.conn.next_place(), None);
        raw.receive(&[*octet]);
    }
    assert_eq!(raw.end.mem.bytes(TARGET), before);
    assert!(last_terminate(&mut raw).is_some());
}

#[test]
fn the_last_word_comes_with_the_end_of_its_fpdu() {
    let mut raw = responder(40);
    raw.receive(&ready());
    let data = pattern(200, 3);
    let octets = write(true, 0x1000, &data);
    let (front, back) = octets.split_at(octets.len() - 1);
    raw.receive(front);
    let placed = raw.end.mem.bytes(TARGET);
    assert_eq!(placed[..192], data[..192], "what is here is placed");
    assert_eq!(placed[192..200], pattern(4096, 7)[192..200]);
    assert_eq!(raw.end.conn.next_place(), None);
    assert_eq!(raw.end.conn.wanted(), raw.end.staging.len() + 1);
    raw.receive(back);
    assert_eq!(raw.end.mem.bytes(TARGET)[..200], data[..]);
    assert_eq!(
        raw.end.conn.counters().received.writes,
        2,
        "and the first one"
    );
}

#[test]
fn a_transport_reads_to_the_place_across_the_sges_of_a_receive() {
    let mut raw = responder(40);
    raw.receive(&ready());
    let mem = &raw.end.mem;
    let sges = [30, 100, 200].map(|len| mem.register(vec![0; len], Rights::ALL, PD));
    raw.end.conn.post_receive(1, &sges).unwrap();
    let data = pattern(250, 3);
    let octets = send(true, 0, &data);
    let mut at = 2 + ddp::UntaggedHeader::LEN;
    let taken = raw
        .end
        .conn
        .handle_bytes(&octets[..at], &raw.end.mem, OwnQueue);
    assert_eq!(taken, at);
    let mut stretches = Vec::new();
    while let Some(direct) = raw.end.conn.direct_placement() {
        let place = direct.place();
        stretches.push(place.len());
        let len = place.len().min(60);
        let here = &octets[at..at + len as usize];
        raw.end
            .mem
            .place(place.slice(0, len), here, MessageEnd::More)
            .unwrap();
        direct.placed(len);
        at += len as usize;
    }
    assert_eq!(stretches, [30, 100, 40, 112, 52]);
    assert_eq!(raw.end.conn.wanted(), octets.len() - at);
    raw.receive(&octets[at..]);
    let content = sges.map(|sge| raw.end.mem.bytes(sge.token)).concat();
    assert_eq!(content[..250], data[..]);
    assert_eq!(outcomes(&raw.end), [WqeStatus::Success]);
}

#[test]
#[should_panic(expected = "more than there was a place for")]
fn more_than_the_place_cannot_be_read_to_it() {
    let mut raw = responder(40);
    raw.receive(&ready());
    raw.receive(&write(true, 0x1000, &pattern(200, 3))[..20]);
    let direct = raw.end.conn.direct_placement().expect("a place");
    let len = direct.place().len();
    direct.placed(len + 1);
}

/// RDMAP-077: the segment as it came, however much of it was placed.
#[test]
fn rdmap_077_memory_that_goes_away_in_the_middle_is_told_with_the_whole_segment() {
    let mut raw = responder(40);
    raw.receive(&ready());
    let octets = write(false, 0x1000 + 8, &pattern(200, 3));
    raw.receive(&octets[..100]);
    raw.end.mem.deregister(TARGET);
    raw.receive(&octets[100..]);
    assert_eq!(
        raw.end.fault(),
        Some(Fault::Tagged(ddp::TaggedError::InvalidSTag))
    );
    let terminate = last_terminate(&mut raw).expect("a Terminate");
    let header = ddp::TaggedHeader::new(false, 0x40, TARGET, 0x1008);
    assert_eq!(terminate.ddp, Some(ddp::Header::Tagged(header)));
    assert_eq!(terminate.segment_length, Some(214));
}

/// A Terminate names the whole segment, as for memory that was revoked. What still arrives is dropped.
#[test]
fn a_place_that_cannot_be_written_fails_what_it_belongs_to() {
    let mut raw = responder(40);
    raw.receive(&ready());
    let octets = write(false, 0x1000 + 8, &pattern(200, 3));
    raw.receive(&octets[..100]);
    raw.end.conn.direct_placement().expect("a place").refused();
    raw.receive(&octets[100..]);
    let fault = Fault::Tagged(ddp::TaggedError::InvalidSTag);
    assert_eq!(raw.end.fault(), Some(fault));
    let terminate = last_terminate(&mut raw).expect("a Terminate");
    let header = ddp::TaggedHeader::new(false, 0x40, TARGET, 0x1008);
    assert_eq!(terminate.ddp, Some(ddp::Header::Tagged(header)));
    assert_eq!(terminate.segment_length, Some(214));

    // A Send takes its Receive along.
    let mut raw = responder(40);
    raw.receive(&ready());
    raw.post_receive(1, 300);
    raw.post_receive(2, 300);
    let octets = send(true, 0, &pattern(250, 3));
    raw.receive(&octets[..100]);
    raw.end.conn.direct_placement().expect("a place").refused();
    raw.receive(&octets[100..]);
    assert!(raw.end.conn.direct_placement().is_none());
    raw.end.collect();
    let expected = [WqeStatus::LocalAccess, WqeStatus::Flushed];
    assert_eq!(outcomes(&raw.end), expected);
    assert_eq!(raw.end.fault(), Some(Fault::Local));
}

#[test]
fn mpa_078_an_end_inside_an_early_fpdu_is_an_error() {
    for at in 20..217 {
        let mut raw = responder(40);
        raw.receive(&ready());
        raw.receive(&write(true, 0x1000, &pattern(200, 3))[..at]);
        let unread = raw.end.staging.len();
        raw.end.conn.handle_stream_end(StreamEnd::Fin, unread);
        raw.transmit();
        assert_eq!(
            raw.end.fault(),
            Some(Fault::Mpa(mpa::Error::Closed)),
            "{at}"
        );
    }
}

/// A Send without a Receive waits as a whole, and a short FPDU is worth nothing of this.
#[test]
fn what_cannot_be_placed_yet_is_kept() {
    let mut raw = Raw::with(StreamConfig {
        crc: false,
        early: 40,
        receive_wait: Duration::from_secs(1),
        ..stream(Role::Responder)
    });
    raw.receive(&ready());
    let octets = send(true, 0, &pattern(200, 3));
    raw.receive(&octets[..100]);
    assert_eq!(
        (raw.end.conn.next_place(), raw.end.staging.len()),
        (None, 100)
    );
    raw.receive(&octets[100..]);
    assert!(raw.end.conn.is_stalled());
    let inbox = raw.post_receive(1, 300);
    raw.receive(&[]);
    assert_eq!(raw.end.mem.bytes(inbox.token)[..200], pattern(200, 3));
}
