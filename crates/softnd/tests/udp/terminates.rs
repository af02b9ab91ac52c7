//! The traffic of a peer after a Terminate: it gets no room for octets that would be dropped, before it has the Terminate.

use std::time::Duration;

use iwarp_io::transport::quic::preamble::ErrorCode;
use netdirect::{MrFlags, OpFlags, Overlapped, Status};

use crate::common::network;
use crate::ends::{Ends, active, over, passive};
use crate::peer::End;

/// A Send. The adapter has no Receive for it, and lets it wait for 2 s.
const SEND: [u8; 28] = [
    0x00, 0x16, // ULPDU_Length
    0x41, 0x43, // untagged, last, DDP version 1; RDMAP version 1, Send
    0, 0, 0, 0, // invalidate STag: none
    0, 0, 0, 0, // queue number
    0, 0, 0, 1, // message sequence number
    0, 0, 0, 0, // message offset
    1, 2, 3, 4, // payload
    0, 0, 0, 0, // CRC field
];

/// The window of a stream.
const WINDOW: usize = 4 << 20;

/// Makes the peer send until the adapter accepts no more, because a Send waits for a Receive. The request ends when the adapter has failed
/// the connection.
fn filled(ends: &mut Ends) -> Overlapped {
    let notice = Overlapped::new();
    let _ = ends.connector.notify_disconnect(&notice).unwrap();
    ends.peer.write(ends.stream, &SEND);
    let (stream, mut sent) = (ends.stream, 0);
    ends.peer.until_true(|peer| {
        sent += peer.fill(stream);
        sent > WINDOW - 1024
    });
    // The last acknowledgements come, and the Send still waits.
    for _ in 0..100 {
        network().pass(Duration::from_millis(10));
        ends.peer.drive();
    }
    assert!(notice.is_pending());
    notice
}

/// The time that Disconnect takes.
fn disconnects(ends: &mut Ends) -> Duration {
    let (begun, disconnects) = (network().time(), Overlapped::new());
    let _ = ends.connector.disconnect(&disconnects).unwrap();
    over(&mut ends.peer, &disconnects);
    network().time() - begun
}

fn both(test: impl Fn(Ends)) {
    test(active());
    test(passive());
}

#[test]
fn amb_008_alt_025_a_terminate_that_is_lost_arrives_before_the_peer_has_room_again() {
    both(|mut ends| {
        let notice = filled(&mut ends);
        ends.peer.lose = 1;
        let Ends { peer, stream, .. } = &mut ends;
        let (mut octets, mut end, mut was_lost) = (Vec::new(), None, false);
        peer.until_true(|peer| {
            let read = peer.read(*stream, usize::MAX);
            octets.extend(read.octets);
            end = end.or(read.end);
            was_lost |= !notice.is_pending() && peer.lose == 0 && octets.is_empty();
            peer.fill(*stream) > 0
        });
        assert!(was_lost, "the Terminate was to be lost");
        assert_eq!(octets.get(2..4), Some(&[0x41, 0x47][..]), "a Terminate");
        assert_eq!(octets[20..22], [0x12, 0x02], "DDP, untagged, no buffer");
        // From then on the adapter reads up to the end, so that the connection ends in good order.
        peer.finish(*stream);
        assert_eq!(end, Some(End::Fin));
        let begun = network().time();
        peer.until_true(|_| network().time() - begun > Duration::from_secs(20));
        assert_eq!(peer.stopped(*stream), None);
    });
}

#[test]
fn a_reset_ends_the_wait_for_the_peer_to_have_the_terminate() {
    both(|mut ends| {
        let notice = filled(&mut ends);
        ends.peer.lose = usize::MAX;
        assert_eq!(over(&mut ends.peer, &notice), Status::SUCCESS);
        ends.peer.reset(ends.stream, ErrorCode::Aborted);
        let time = disconnects(&mut ends);
        assert!(time < Duration::from_secs(1), "{time:?}");
    });
}

#[test]
fn iw_065_a_peer_that_never_has_the_terminate_is_not_waited_for_beyond_the_limit() {
    both(|mut ends| {
        let notice = filled(&mut ends);
        ends.peer.lose = usize::MAX;
        assert_eq!(over(&mut ends.peer, &notice), Status::SUCCESS);
        let time = disconnects(&mut ends);
        assert!(time > Duration::from_secs(9), "{time:?}");
        assert!(time < Duration::from_secs(11), "{time:?}");
    });
}

#[test]
fn a_side_whose_terminate_waits_for_room_reads_on() {
    // Two sides that fail at the same time would otherwise wait for each other.
    let mut ends = active();
    let region = ends.side.region(3 * WINDOW, MrFlags::empty());
    let sge = region.sge(0, 3 * WINDOW);
    ends.qp.send(1, &[sge], OpFlags::empty()).unwrap();
    let notice = filled(&mut ends);
    assert_eq!(over(&mut ends.peer, &notice), Status::SUCCESS);
    let Ends { peer, stream, .. } = &mut ends;
    let (begun, mut sent) = (network().time(), 0);
    peer.until_true(|peer| {
        sent += peer.fill(*stream);
        sent > 2 * WINDOW
    });
    assert!(network().time() - begun < Duration::from_secs(1));
    // The peer reads again: the Terminate is the last message.
    let read = peer.read_to_end(*stream);
    assert_eq!(read.end, Some(End::Fin));
    assert!(read.octets.windows(2).any(|pair| pair == [0x41, 0x47]));
    peer.finish(*stream);
    network().pass(Duration::from_secs(20));
    peer.drive();
    assert_eq!(peer.stopped(*stream), None);
}
