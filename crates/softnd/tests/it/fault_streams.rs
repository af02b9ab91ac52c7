//! Fault plans over the octets of a connection, from the view of the applications at its two ends.

use std::time::Duration;

use crate::common::{
    self, ALL, Caller, LONG, Pair, Side, connect_status, end, now, pair_with, run,
};
use netdirect::{MrFlags, NotifyType, OpFlags, Overlapped, Status};
use softnd::Options;

const LENGTH: usize = 256 * 1024;

fn options(plan: &str) -> Options {
    let plan = plan.parse().unwrap_or_else(|error| panic!("{error}"));
    Options::default().faults(plan).unwrap()
}

fn pair(active: &str, passive: &str) -> Pair {
    pair_with(options(active), options(passive))
}

fn happened(side: &Side) -> u64 {
    side.adapter
        .extensions()
        .unwrap()
        .counters()
        .total("faults")
}

/// Writes many FPDUs, and waits until both ends know that the connection is over. Returns the number of octets at the target's front that
/// have arrived.
fn write_until_the_end(pair: &Pair) -> usize {
    let target = pair.passive.region(LENGTH, ALL);
    let source = pair.active.region(LENGTH, ALL);
    source.buffer.fill(0x5A);
    let (here, there) = (Overlapped::new(), Overlapped::new());
    let _ = pair.active_connector.notify_disconnect(&here).unwrap();
    let _ = pair.passive_connector.notify_disconnect(&there).unwrap();
    let whole = [source.sge(0, LENGTH)];
    pair.active_qp
        .write(1, &whole, target.remote(0), OpFlags::empty())
        .unwrap();
    assert_eq!(here.wait_timeout(LONG), Some(Status::SUCCESS));
    assert_eq!(there.wait_timeout(LONG), Some(Status::SUCCESS));
    // The target's adapter places nothing for a connection that has ended.
    let octets = target.buffer.to_vec();
    let arrived = octets.iter().take_while(|octet| **octet == 0x5A).count();
    assert!(
        octets[arrived..].iter().all(|octet| *octet == 0),
        "in order, and nothing behind"
    );
    arrived
}

#[test]
fn the_peer_dies_in_the_middle_of_a_write() {
    for (sender, receiver) in [
        ("when 1st Write sent: reset after octet 100000", ""),
        ("", "when 1st Write received: reset after octet 100000"),
    ] {
        let pair = pair(sender, receiver);
        let arrived = write_until_the_end(&pair);
        assert!(arrived < 100_000, "{arrived}");
        // The sender's octets may be lost with the connection; those that were received are placed.
        if sender.is_empty() {
            assert!(arrived > 0);
        }
        assert_eq!(happened(&pair.active) + happened(&pair.passive), 1);
        pair.active_qp
            .write_inline(
                2,
                &[b"x"],
                netdirect::RemoteAddress::default(),
                OpFlags::empty(),
            )
            .unwrap();
        let statuses: Vec<_> = pair
            .active
            .results(2)
            .iter()
            .map(|result| result.status)
            .collect();
        assert_eq!(statuses[1], Status::CANCELED);
    }
}

#[test]
fn without_the_plan_the_write_arrives() {
    for plan in [
        "",
        "when 2nd Write sent: reset",
        "when 1st Write sent on connection 2: reset",
        "when 1st Write sent: reset after octet 1000000",
    ] {
        let pair = pair(plan, plan);
        let target = pair.passive.region(LENGTH, ALL);
        let source = pair.active.region(LENGTH, ALL);
        source.buffer.fill(0x5A);
        let whole = [source.sge(0, LENGTH)];
        pair.passive_qp.receive(1, &[]).unwrap();
        pair.active_qp
            .write(1, &whole, target.remote(0), OpFlags::empty())
            .unwrap();
        pair.active_qp.send(2, &[], OpFlags::empty()).unwrap();
        assert!(
            pair.active
                .results(2)
                .iter()
                .all(|result| result.status == Status::SUCCESS)
        );
        assert_eq!(pair.passive.result().status, Status::SUCCESS);
        assert_eq!(target.buffer.to_vec(), vec![0x5A; LENGTH]);
        assert_eq!(happened(&pair.active), 0);
    }
}

/// Both sides write more than sockets accept at once. The rest is sent when the sockets accept more.
#[test]
fn much_data_passes_a_stream_with_a_plan() {
    const MUCH: usize = 12 << 20;
    let plan = "when 1000000th FPDU sent: reset; when 1000000th FPDU received: reset";
    let pair = pair(plan, plan);
    let regions = [&pair.active, &pair.passive].map(|side| side.region(2 * MUCH, ALL));
    for (region, octet) in regions.iter().zip([1, 2]) {
        region.buffer.slice(..MUCH).fill(octet);
    }
    let [here, there] = &regions;
    let whole = |region: &common::Region| [region.sge(0, MUCH)];
    let none = OpFlags::empty();
    for qp in [&pair.active_qp, &pair.passive_qp] {
        qp.receive(1, &[]).unwrap();
    }
    pair.active_qp
        .write(2, &whole(here), there.remote(MUCH), none)
        .unwrap();
    pair.passive_qp
        .write(2, &whole(there), here.remote(MUCH), none)
        .unwrap();
    for qp in [&pair.active_qp, &pair.passive_qp] {
        qp.send(3, &[], none).unwrap();
    }
    for side in [&pair.active, &pair.passive] {
        let results = side.results(3);
        assert!(
            results
                .iter()
                .all(|result| result.status == Status::SUCCESS)
        );
    }
    assert!(
        here.buffer
            .slice(MUCH..)
            .to_vec()
            .iter()
            .all(|octet| *octet == 2)
    );
    assert!(
        there
            .buffer
            .slice(MUCH..)
            .to_vec()
            .iter()
            .all(|octet| *octet == 1)
    );
}

#[test]
fn a_flipped_bit_is_found_by_the_crc_unless_that_is_made_good() {
    let pair_of = |plan| {
        let pair = pair(plan, "");
        let target = pair.passive.region(64, MrFlags::ALLOW_LOCAL_WRITE);
        (pair, target)
    };
    let (pair, target) = pair_of("when 1st Send sent: flip bit 7 of payload");
    pair.passive_qp.receive(1, &[target.sge(0, 64)]).unwrap();
    pair.active_qp
        .send_inline(2, &[b"abc"], OpFlags::empty())
        .unwrap();
    assert_eq!(pair.passive.result().status, Status::CANCELED);
    assert_eq!(target.buffer.to_vec(), [0; 64]);

    let (pair, target) = pair_of("when 1st Send sent: flip bit 7 of payload with good CRC");
    pair.passive_qp.receive(1, &[target.sge(0, 64)]).unwrap();
    pair.active_qp
        .send_inline(2, &[b"abc"], OpFlags::empty())
        .unwrap();
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
    assert_eq!(target.buffer.to_vec()[..3], *b"`bc");
}

#[test]
fn what_is_held_for_a_time_arrives_after_it() {
    let time = Duration::from_millis(30);
    for (active, passive) in [
        ("when 1st Send sent: hold for 30 ms after octet 10", ""),
        ("", "when 1st Send received: hold for 30 ms after octet 10"),
        ("when 1st Send sent: hold for 30 ms after octet 0", ""),
        ("", "when 1st Send received: hold for 30 ms after octet 0"),
    ] {
        let pair = pair(active, passive);
        for context in 1..=2 {
            pair.passive_qp.receive(context, &[]).unwrap();
        }
        let start = now();
        for context in 1..=2 {
            pair.active_qp.send(context, &[], OpFlags::empty()).unwrap();
        }
        let results = pair.passive.results(2);
        assert!(now() - start >= time, "{active}{passive}");
        assert!(
            results
                .iter()
                .all(|result| result.status == Status::SUCCESS)
        );
        // The other direction was open all the time. Now both directions are open.
        pair.active_qp.receive(3, &[]).unwrap();
        pair.passive_qp.send(3, &[], OpFlags::empty()).unwrap();
        assert!(
            pair.active
                .results(3)
                .iter()
                .all(|result| result.status == Status::SUCCESS)
        );
    }
}

#[test]
fn a_direction_that_is_held_for_ever_leaves_the_other_one_open() {
    let pair = pair("when 1st Send sent: hold after octet 0", "");
    pair.passive_qp.receive(1, &[]).unwrap();
    pair.active_qp.receive(2, &[]).unwrap();
    pair.active_qp.send(3, &[], OpFlags::empty()).unwrap();
    pair.passive_qp.send(4, &[], OpFlags::empty()).unwrap();
    let mut contexts: Vec<_> = pair
        .active
        .results(2)
        .iter()
        .map(|result| result.request_context)
        .collect();
    contexts.sort_unstable();
    assert_eq!(contexts, [2, 3]);
    let sent = pair.passive.result();
    assert_eq!((sent.request_context, sent.status), (4, Status::SUCCESS));
}

#[test]
fn a_closed_direction_is_the_peers_end() {
    for (active, passive) in [
        ("when 1st Send sent: close", ""),
        ("", "when 1st Send received: close"),
    ] {
        let pair = pair(active, passive);
        let ended = Overlapped::new();
        let _ = pair.passive_connector.notify_disconnect(&ended).unwrap();
        for context in 1..=2 {
            pair.passive_qp.receive(context, &[]).unwrap();
            pair.active_qp.send(context, &[], OpFlags::empty()).unwrap();
        }
        assert_eq!(ended.wait_timeout(LONG), Some(Status::SUCCESS));
        let results = pair.passive.results(2);
        let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
        assert_eq!(
            statuses,
            [Status::SUCCESS, Status::CANCELED],
            "{active}{passive}"
        );
    }
}

#[test]
fn the_device_is_removed_after_the_third_send() {
    let pair = pair("when 3rd Send sent: remove device", "");
    let ended = Overlapped::new();
    let _ = pair.active.cq.notify(NotifyType::Errors, &ended).unwrap();
    for context in 1..=4 {
        pair.passive_qp.receive(context, &[]).unwrap();
    }
    for context in 1..=4 {
        // The device may be removed before the fourth Send is posted.
        let _ = pair.active_qp.send(context, &[], OpFlags::empty());
    }
    assert_eq!(ended.wait_timeout(LONG), Some(Status::DEVICE_REMOVED));
    let statuses: Vec<_> = pair
        .passive
        .results(4)
        .iter()
        .map(|result| result.status)
        .collect();
    assert_eq!(
        statuses,
        [
            Status::SUCCESS,
            Status::SUCCESS,
            Status::SUCCESS,
            Status::CANCELED
        ]
    );
    assert_eq!(happened(&pair.active), 1);
}

#[test]
fn a_message_breaks_the_queues_that_its_stream_feeds() {
    let pair = pair(
        "",
        "when 2nd Send received: break queue with ND_BUFFER_OVERFLOW after octet 0",
    );
    let broken = Overlapped::new();
    let _ = pair.passive.cq.notify(NotifyType::Errors, &broken).unwrap();
    for context in 1..=2 {
        pair.passive_qp.receive(context, &[]).unwrap();
        pair.active_qp.send(context, &[], OpFlags::empty()).unwrap();
    }
    assert_eq!(broken.wait_timeout(LONG), Some(Status::BUFFER_OVERFLOW));
    assert_eq!(happened(&pair.passive), 1);
}

#[test]
fn the_start_up_is_held_cut_and_changed() {
    let once = |plan: &str| options(plan).revision_1_fallback(false);
    let side = |plan: &str| Side::with(once(plan));
    for (active, passive) in [
        (
            "when 1st MPA Request sent: hold for 20 ms after octet 3",
            "",
        ),
        (
            "",
            "when 1st MPA Request received: hold for 20 ms after octet 3",
        ),
        ("", "when 1st MPA Reply sent: hold for 20 ms after octet 0"),
        (
            "when 1st MPA Reply received: hold for 20 ms after octet 19",
            "",
        ),
    ] {
        let begun = now();
        assert_eq!(
            connect_status(&side(active), &side(passive)),
            Status::SUCCESS,
            "{active}{passive}"
        );
        assert!(
            now() - begun >= Duration::from_millis(20),
            "{active}{passive}"
        );
    }
    for (active, passive) in [
        ("when 1st MPA Request sent: reset", ""),
        ("when 1st MPA Request sent: flip bit 0 of header", ""),
        ("", "when 1st MPA Request received: close after octet 5"),
        ("", "when 1st MPA Reply sent: reset after octet 5"),
        ("when 1st MPA Reply received: flip bit 2 of header", ""),
    ] {
        let status = connect_status(&side(active), &side(passive));
        assert!(
            [Status::CONNECTION_REFUSED, Status::CONNECTION_ABORTED].contains(&status),
            "{active}{passive}: {status}"
        );
    }
    let impatient = once("").timeouts(|limits| limits.reply = Some(Duration::from_millis(20)));
    let silent = side("when 1st MPA Reply sent: hold after octet 0");
    assert_eq!(
        connect_status(&Side::with(impatient), &silent),
        Status::IO_TIMEOUT
    );
    let removed = side("when 1st MPA Reply received: remove device after octet 5");
    assert_eq!(connect_status(&removed, &side("")), Status::DEVICE_REMOVED);
}

/// The status of an Accept whose Reply this plan affects. A time limit would end it with another one.
fn accept_status(plan: &str) -> Status {
    let once = Options::default().revision_1_fallback(false);
    let (active, passive) = (Side::with(once), Side::with(options(plan)));
    let (listener, address) = passive.listener(0);
    let (connector, queue_pair) = (passive.connector(), passive.queue_pair());
    let arrives = Overlapped::new();
    let arrival = listener.get_connection_request(&connector, &arrives);
    let _caller = Caller::new(&active, address, b"hello");
    end(arrival, &arrives).unwrap();
    queue_pair.receive(5, &[]).unwrap();
    let accepted = run(|overlapped| connector.accept(&queue_pair, 1, 1, &[], overlapped));
    assert_eq!(passive.result().status, Status::CANCELED);
    accepted.err().unwrap_or(Status::SUCCESS)
}

#[test]
fn conn_061_an_accept_whose_reply_is_reset_ends_at_once() {
    for plan in [
        "when 1st MPA Reply sent: reset after octet 0",
        "when 1st MPA Reply sent: reset after octet 5",
        "when 1st MPA Reply sent: reset",
    ] {
        assert_eq!(accept_status(plan), Status::CONNECTION_ABORTED, "{plan}");
    }
}

#[test]
fn a_faulted_stream_can_be_captured() {
    let capture = softnd::capture::Capture::to_writer(std::io::sink()).unwrap();
    let both = options("when 1st Send sent: flip bit 0 of payload with good CRC").capture(capture);
    let pair = pair_with(both, Options::default());
    pair.passive_qp.receive(1, &[]).unwrap();
    pair.active_qp.send(2, &[], OpFlags::empty()).unwrap();
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
    assert_eq!(
        happened(&pair.active),
        0,
        "a message of no octets has no such bit"
    );
}
