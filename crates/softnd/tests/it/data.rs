//! Requests over connected queue pairs.

use crate::common::wire::{Relay, fpdus};
use crate::common::{
    self, ALL, Pair, Side, connect, connect_by, idle, long, now, pair, pair_with, run,
};
use netdirect::{MrFlags, NotifyType, OpFlags, Overlapped, RequestType, Status};
use softnd::Options;

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    let octet = |at: usize| at.wrapping_mul(31).wrapping_add(at >> 8).to_le_bytes()[0];
    (0..len).map(|at| octet(at).wrapping_add(seed)).collect()
}

fn every_operation(pair: &Pair, len: usize) {
    let source = pair.active.region(len, ALL);
    let target = pair.passive.region(len, ALL);
    let data = pattern(len, 1);
    source.buffer.write(0, &data);

    pair.passive_qp.receive(7, &[target.sge(0, len)]).unwrap();
    pair.active_qp
        .send(8, &[source.sge(0, len)], OpFlags::empty())
        .unwrap();
    let sent = pair.active.result();
    assert_eq!(
        (sent.status, sent.request_type, sent.request_context),
        (Status::SUCCESS, RequestType::Send, 8)
    );
    let received = pair.passive.result();
    assert_eq!(
        (received.status, received.request_type),
        (Status::SUCCESS, RequestType::Receive)
    );
    assert_eq!(
        (
            received.request_context,
            received.bytes_transferred as usize
        ),
        (7, len)
    );
    assert_eq!(target.buffer.to_vec(), data);

    target.buffer.fill(0);
    let data = pattern(len, 2);
    source.buffer.write(0, &data);
    pair.active_qp
        .write(9, &[source.sge(0, len)], target.remote(0), OpFlags::empty())
        .unwrap();
    pair.active_qp
        .read(10, &[], target.remote(0), OpFlags::empty())
        .unwrap(); // its answer proves the Write placed
    let results = pair.active.results(2);
    assert_eq!(results[0].request_type, RequestType::Write);
    assert_eq!(results[1].request_type, RequestType::Read);
    assert!(
        results
            .iter()
            .all(|result| result.status == Status::SUCCESS),
        "{results:?}"
    );
    assert_eq!(target.buffer.to_vec(), data);

    source.buffer.fill(0);
    pair.active_qp
        .read(
            11,
            &[source.sge(0, len)],
            target.remote(0),
            OpFlags::empty(),
        )
        .unwrap();
    assert_eq!(pair.active.result().status, Status::SUCCESS);
    assert_eq!(source.buffer.to_vec(), data);
}

/// Runs every operation at each of these lengths. Returns the octets that both sides sent.
fn octets_of_every_operation([active, passive]: [Options; 2], lens: &[usize]) -> [Vec<u8>; 2] {
    let mut relay = None;
    let (active, passive) = (Side::with(active), Side::with(passive));
    let pair = connect_by(active, passive, 16, |address| {
        relay.insert(Relay::to(address)).address
    });
    for len in lens {
        every_operation(&pair, *len);
    }
    relay.unwrap().octets()
}

/// MPA-032: markers in either direction, both or none, with CRC and without.
#[test]
fn mpa_032_markers_go_where_their_receiver_asks_for_them() {
    for crc in [true, false] {
        for asked in [[false, false], [true, false], [false, true], [true, true]] {
            let options = asked.map(|markers| Options::default().crc(crc).markers(markers));
            let sent =
                octets_of_every_operation(options, &[1, 500, 12_288, 65_537, long(1_000_001)]);
            // A side that asks for markers gets them from the other side.
            for (octets, markers) in sent.iter().zip([asked[1], asked[0]]) {
                let count = fpdus(octets, markers).len();
                assert!(count > 10, "{count} FPDUs, CRC {crc}, asked {asked:?}");
            }
        }
    }
}

/// Without CRC, long payload is read directly into registered memory, also when a Receive has several SGEs. Content and order are
/// the same as with CRC, and octets outside the target stay unchanged.
#[test]
fn ddp_049_long_messages_without_crc_go_straight_to_their_places() {
    let pair = pair_with(Options::default().crc(false), Options::default().crc(false));
    let len = 700_001;
    let source = pair.active.region(len, ALL);
    let target = pair.passive.region(len + 100, ALL);
    for (seed, at) in [(1, 0), (2, 1), (3, 20_000), (4, 333_333)] {
        let data = pattern(len, seed);
        source.buffer.write(0, &data);
        target.buffer.fill(0);
        let parts = [target.sge(50, at), target.sge(50 + at, len - at)];
        pair.passive_qp.receive(1, &parts).unwrap();
        pair.active_qp
            .send(2, &[source.sge(0, len)], OpFlags::empty())
            .unwrap();
        let received = pair.passive.result();
        assert_eq!(received.status, Status::SUCCESS);
        assert_eq!(received.bytes_transferred as usize, len);
        assert_eq!(pair.active.result().status, Status::SUCCESS);
        let content = target.buffer.to_vec();
        assert_eq!(content[50..50 + len], data[..], "first SGE of {at}");
        let around = content[..50].iter().chain(&content[50 + len..]);
        assert!(around.into_iter().all(|octet| *octet == 0));
    }
}

#[test]
fn qp_010_qp_064_qp_052_every_operation_moves_its_octets() {
    for crc in [true, false] {
        let pair = pair_with(Options::default().crc(crc), Options::default().crc(crc));
        for len in [1, 8, 12_287, 12_288, 65_537, long(3_000_001)] {
            every_operation(&pair, len);
        }
    }
}

#[test]
fn data_moves_the_other_way_as_well() {
    let pair = pair();
    let (here, there) = (
        pair.passive.region(5000, ALL),
        pair.active.region(5000, ALL),
    );
    let data = pattern(5000, 3);
    here.buffer.write(0, &data);
    pair.active_qp.receive(1, &[there.sge(0, 5000)]).unwrap();
    pair.passive_qp
        .send(2, &[here.sge(0, 5000)], OpFlags::empty())
        .unwrap(); // AMB-040: the passive side sends first
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
    assert_eq!(pair.active.result().bytes_transferred, 5000);
    assert_eq!(there.buffer.to_vec(), data);
}

#[test]
fn qp_059_sges_gather_and_scatter_in_order() {
    let pair = pair();
    let (source, target) = (pair.active.region(100, ALL), pair.passive.region(100, ALL));
    source.buffer.write(0, &pattern(100, 4));
    pair.passive_qp
        .receive(0, &[target.sge(50, 10), target.sge(0, 40)])
        .unwrap();
    pair.active_qp
        .send(0, &[source.sge(90, 5), source.sge(0, 30)], OpFlags::empty())
        .unwrap();
    assert_eq!(pair.passive.result().bytes_transferred, 35);
    let sent: Vec<_> = [&pattern(100, 4)[90..95], &pattern(100, 4)[..30]].concat();
    assert_eq!(target.buffer.to_vec()[50..60], sent[..10]);
    assert_eq!(target.buffer.to_vec()[..25], sent[10..]);

    pair.active_qp
        .read(
            0,
            &[source.sge(10, 3), source.sge(20, 4)],
            target.remote(50),
            OpFlags::empty(),
        )
        .unwrap();
    let results = pair.active.results(2);
    assert!(
        results
            .iter()
            .all(|result| result.status == Status::SUCCESS),
        "{results:?}"
    );
    assert_eq!(source.buffer.to_vec()[10..13], sent[..3]);
    assert_eq!(source.buffer.to_vec()[20..24], sent[3..7]);
}

#[test]
fn qp_023_inline_data_is_copied_at_the_call() {
    let pair = pair();
    let target = pair.passive.region(64, ALL);
    pair.passive_qp.receive(0, &[target.sge(0, 64)]).unwrap();
    let mut data = *b"inline data";
    pair.active_qp
        .send_inline(0, &[&data[..6], &data[6..]], OpFlags::empty())
        .unwrap();
    data.fill(0);
    assert_eq!(pair.passive.result().bytes_transferred, 11);
    assert_eq!(&target.buffer.to_vec()[..11], b"inline data");
    pair.active_qp
        .write_inline(0, &[b"xyz"], target.remote(20), OpFlags::empty())
        .unwrap();
    pair.active_qp
        .read(0, &[], target.remote(0), OpFlags::empty())
        .unwrap();
    pair.active.results(3);
    assert_eq!(&target.buffer.to_vec()[20..23], b"xyz");
    let long = [0; 65];
    let refused = pair.active_qp.send_inline(0, &[&long], OpFlags::empty());
    assert_eq!(common::status(refused), Status::BUFFER_OVERFLOW); // QP-025
}

#[test]
fn qp_019_silent_success_yields_no_result() {
    let pair = pair();
    let target = pair.passive.region(8, ALL);
    let source = pair.active.region(8, ALL);
    pair.active_qp
        .write(
            1,
            &[source.sge(0, 8)],
            target.remote(0),
            OpFlags::SILENT_SUCCESS,
        )
        .unwrap();
    pair.active_qp
        .write(2, &[source.sge(0, 8)], target.remote(0), OpFlags::empty())
        .unwrap();
    assert_eq!(pair.active.result().request_context, 2);
}

#[test]
fn cq_028_solicited_notifications_wait_for_their_send() {
    let pair = pair();
    let target = pair.passive.region(8, ALL);
    for context in 0..2 {
        pair.passive_qp
            .receive(context, &[target.sge(0, 8)])
            .unwrap();
    }
    let solicited = Overlapped::new();
    let _ = pair
        .passive
        .cq
        .notify(NotifyType::Solicited, &solicited)
        .unwrap();
    pair.active_qp
        .send_inline(0, &[b"plain"], OpFlags::empty())
        .unwrap();
    pair.active.result();
    // The Read is answered behind the Send, so the Send without the flag was delivered and has ended no Notify.
    pair.active_qp
        .read(0, &[], target.remote(0), OpFlags::empty())
        .unwrap();
    pair.active.result();
    assert_eq!(pair.passive.result().bytes_transferred, 5);
    assert!(solicited.is_pending());
    pair.active_qp
        .send_inline(0, &[b"event"], OpFlags::SEND_AND_SOLICIT_EVENT)
        .unwrap();
    assert_eq!(solicited.wait_timeout(common::LONG), Some(Status::SUCCESS));
    assert_eq!(pair.passive.result().bytes_transferred, 5);
}

#[test]
fn many_requests_complete_in_posting_order() {
    let pair = pair();
    let (source, target) = (
        pair.active.region(16, ALL),
        pair.passive.region(16 * 32, ALL),
    );
    for round in 0..50u64 {
        for (at, context) in (0..32).zip(0..) {
            pair.passive_qp
                .receive(context, &[target.sge(at * 16, 16)])
                .unwrap();
        }
        for at in 0..32 {
            pair.active_qp
                .send(round * 32 + at, &[source.sge(0, 16)], OpFlags::empty())
                .unwrap();
        }
        let sent: Vec<_> = pair
            .active
            .results(32)
            .iter()
            .map(|result| result.request_context)
            .collect();
        assert_eq!(sent, (round * 32..round * 32 + 32).collect::<Vec<_>>());
        let received: Vec<_> = pair
            .passive
            .results(32)
            .iter()
            .map(|result| result.request_context)
            .collect();
        assert_eq!(received, (0..32).collect::<Vec<_>>());
    }
}

#[test]
fn qp_013_a_full_queue_says_so_and_goes_on() {
    let pair = pair();
    let target = pair.passive.region(8, MrFlags::ALLOW_LOCAL_WRITE);
    for context in 0..32 {
        pair.passive_qp
            .receive(context, &[target.sge(0, 8)])
            .unwrap();
    }
    let full = pair.passive_qp.receive(99, &[target.sge(0, 8)]);
    assert_eq!(common::status(full), Status::NO_MORE_ENTRIES);
    pair.active_qp
        .send_inline(0, &[b"x"], OpFlags::empty())
        .unwrap();
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
    pair.passive_qp.receive(99, &[target.sge(0, 8)]).unwrap();
}

#[test]
fn iw_063_a_target_that_never_calls_in_still_gets_its_data() {
    let pair = pair();
    let (source, target) = (
        pair.active.region(4096, ALL),
        pair.passive.region(4096, ALL),
    );
    source.buffer.fill(7);
    pair.active_qp
        .write(
            0,
            &[source.sge(0, 4096)],
            target.remote(0),
            OpFlags::empty(),
        )
        .unwrap();
    assert_eq!(pair.active.result().status, Status::SUCCESS);
    // The last octet becomes visible last (IW-051).
    let started = now();
    while target.buffer.load(4095) != 7 {
        assert!(
            now() - started < common::LONG,
            "no progress while the target spins on its buffer"
        );
        idle();
    }
    assert!(target.buffer.to_vec().iter().all(|octet| *octet == 7));
}

#[test]
fn iw_019_what_succeeded_before_disconnect_arrives() {
    let pair = pair();
    let target = pair.passive.region(100_000, ALL);
    let source = pair.active.region(100_000, ALL);
    source.buffer.fill(9);
    pair.passive_qp
        .receive(1, &[target.sge(0, 100_000)])
        .unwrap();
    pair.active_qp
        .send(2, &[source.sge(0, 100_000)], OpFlags::empty())
        .unwrap();
    assert_eq!(pair.active.result().status, Status::SUCCESS);
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    assert_eq!(pair.passive.result().bytes_transferred, 100_000);
    run(|overlapped| pair.passive_connector.disconnect(overlapped)).unwrap();
}

/// MPA-084: no FPDU is longer than a TCP segment, and the FPDUs of a long message are as long as possible. TCP options take up to 40
/// octets of a segment, and the length of an FPDU is a multiple of 4 octets. Windows lets no program choose the length of segments.
#[cfg(not(windows))]
#[test]
fn mpa_084_fpdus_follow_the_segment_size() {
    use crate::common::{SIMULATED, network};

    for crc in [true, false] {
        for segment in [600, 1200] {
            // Segments belong to TCP, and in a simulated network to the network.
            let options = Options::default().crc(crc).segment(segment);
            if SIMULATED {
                network().change(|network| network.segment = 1..=segment.into());
            }
            let lens = [1, 550, 1250, 100_000];
            let sent = octets_of_every_operation([options.clone(), options], &lens);
            // The active side sends a Send and a Write of 100,000 octets, the passive side a Read Response.
            for (octets, messages) in sent.iter().zip([2, 1]) {
                let lengths = fpdus(octets, false);
                let segment = usize::from(segment);
                let longest = *lengths.iter().max().unwrap();
                assert!((segment - 44..=segment).contains(&longest), "{longest}");
                let full = lengths.iter().filter(|length| **length == longest);
                assert!(
                    full.count() >= messages * (100_000 / segment),
                    "{lengths:?}"
                );
            }
        }
    }
}

/// More streams than there are large send buffers. The streams without a large buffer send from small buffers.
#[test]
fn sec_038_many_streams_whose_peers_do_not_read_lose_nothing() {
    const STREAMS: u64 = 48;
    const LEN: usize = long(6 << 20);
    let patient = Options::default().receive_wait(common::LONG);
    let (active, passive) = (Side::new(), Side::with(patient));
    let pairs: Vec<_> = (0..STREAMS)
        .map(|_| connect(active.clone(), passive.clone(), 1))
        .collect();
    let source = active.region(LEN, ALL);
    let data = pattern(LEN, 3);
    source.buffer.write(0, &data);
    for (pair, context) in pairs.iter().zip(0..) {
        pair.active_qp
            .send(context, &[source.sge(0, LEN)], OpFlags::empty())
            .unwrap();
    }
    let target = passive.region(LEN, ALL);
    for (pair, context) in pairs.iter().zip(0..) {
        target.buffer.fill(0);
        pair.passive_qp
            .receive(context, &[target.sge(0, LEN)])
            .unwrap();
        let received = passive.result();
        assert_eq!(
            (received.status, received.request_context),
            (Status::SUCCESS, context)
        );
        assert!(target.buffer.to_vec() == data, "stream {context}");
    }
    let sent = active.results(pairs.len());
    assert!(sent.iter().all(|sent| sent.status == Status::SUCCESS));
}

/// The Send is too long for TCP to have taken all of it before the peer refuses it.
#[test]
fn res_014_a_send_that_goes_wrong_at_the_peer_has_a_remote_error() {
    let pair = pair();
    let (source, sink) = (
        pair.active.region(64 << 20, ALL),
        pair.passive.region(16, ALL),
    );
    pair.passive_qp.receive(1, &[sink.sge(0, 16)]).unwrap();
    let sge = source.sge(0, 64 << 20);
    pair.active_qp.send(2, &[sge], OpFlags::empty()).unwrap();
    assert_eq!(pair.passive.result().status, Status::BUFFER_OVERFLOW);
    let sent = pair.active.result();
    assert_eq!(
        (sent.request_context, sent.status),
        (2, Status::REMOTE_ERROR)
    );
}
