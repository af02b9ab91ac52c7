//! AMB-002: with `Options::confirm_writes`, a Write completes when the peer has placed the data. A refused Write fails itself.

use crate::common::{ALL, LONG, Pair, SIMULATED, Side, connect, log, pair_with, run};
use netdirect::{
    CompletionResult, MrFlags, NotifyType, OpFlags, Overlapped, ReadLimits, RequestType, Status,
};
use softnd::{Options, Profile};

fn confirming() -> Options {
    Options::default().confirm_writes(true)
}

/// Two connected sides, with the read limits that the clients asked for.
fn confirming_pair(limit: u32) -> Pair {
    connect(Side::with(confirming()), Side::with(confirming()), limit)
}

fn limits(pair: &Pair) -> [ReadLimits; 2] {
    [&pair.active_connector, &pair.passive_connector]
        .map(|connector| connector.get_read_limits().unwrap())
}

/// Asserts that no further result comes, however often the queue is polled.
fn nothing_completes(side: &Side) -> bool {
    if SIMULATED {
        // A poll that finds nothing moves the clock to the next event of the network, which is the end of `receive_wait`.
        let notified = Overlapped::new();
        let _ = side.cq.notify(NotifyType::Any, &notified).unwrap();
        let nothing = notified.wait_timeout(LONG / 2).is_none();
        side.cq.cancel_overlapped_requests().unwrap();
        return nothing;
    }
    let mut results = [CompletionResult::default(); 4];
    (0..1000).all(|_| side.cq.get_results(&mut results) == 0)
}

/// TST-076, with the limits of a client that uses no Reads: the option raises the limits to 1.
#[test]
fn amb_002_a_write_without_the_right_is_refused_itself() {
    for options in [
        confirming(),
        confirming().crc(false).profile(Profile::Strict),
    ] {
        let (active, passive) = (Side::with(options.clone()), Side::with(options));
        let pair = connect(active, passive, 0);
        let one = ReadLimits {
            inbound: 1,
            outbound: 1,
        };
        assert_eq!(limits(&pair), [one; 2]);
        let target = pair.passive.region(64, MrFlags::ALLOW_REMOTE_READ);
        let source = pair.active.region(64, ALL);
        source.buffer.fill(1);
        pair.passive_qp.receive(9, &[]).unwrap();
        let ended = Overlapped::new();
        let _ = pair.active_connector.notify_disconnect(&ended).unwrap();
        pair.active_qp
            .write(1, &[source.sge(0, 64)], target.remote(0), OpFlags::empty())
            .unwrap();
        let written = pair.active.result();
        assert_eq!(written.status, Status::ACCESS_VIOLATION);
        assert_eq!(
            (written.request_context, written.request_type),
            (1, RequestType::Write)
        );
        assert_eq!(written.bytes_transferred, 0);
        assert_eq!(pair.passive.result().status, Status::CANCELED); // IW-032
        assert_eq!(ended.wait_timeout(LONG), Some(Status::SUCCESS));
        assert_eq!(target.buffer.to_vec(), [0; 64]);
        pair.active_qp.send(3, &[], OpFlags::empty()).unwrap(); // AMB-046
        assert_eq!(pair.active.result().status, Status::CANCELED);
        run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
        run(|overlapped| pair.passive_connector.disconnect(overlapped)).unwrap();
    }
}

/// TST-075: only the last 41 octets are outside the region, and other requests are in flight.
#[test]
fn amb_002_of_many_writes_the_one_that_reaches_too_far() {
    const LEN: usize = 200_000;
    let pair = confirming_pair(4);
    let target = pair.passive.region(LEN, ALL);
    let source = pair.active.region(LEN, ALL);
    source.buffer.fill(7);
    pair.passive_qp.receive(90, &[]).unwrap();
    for context in 0..20 {
        pair.active_qp
            .write(
                context,
                &[source.sge(0, 100)],
                target.remote(0),
                OpFlags::empty(),
            )
            .unwrap();
    }
    let long = source.sge(0, LEN);
    pair.active_qp
        .write(20, &[long], target.remote(41), OpFlags::empty())
        .unwrap();
    pair.active_qp.send(21, &[], OpFlags::empty()).unwrap();
    let results = pair.active.results(22);
    for (result, context) in results.iter().zip(0..) {
        let status = match context {
            0..20 => Status::SUCCESS,
            20 => Status::ACCESS_VIOLATION,
            _ => Status::CANCELED,
        };
        assert_eq!((result.request_context, result.status), (context, status));
    }
    assert_eq!(pair.passive.result().status, Status::CANCELED);
}

#[test]
fn amb_002_a_write_completes_when_it_is_in_the_peers_memory() {
    for (confirm, crc) in [(true, true), (true, false), (false, true)] {
        let options = Options::default().receive_wait(LONG).crc(crc);
        let active = options.clone().confirm_writes(confirm);
        let pair = pair_with(active, options);
        // Without confirmation the Write completes when the system's socket buffers have taken it, so it has to fit into them.
        let len = if confirm { 100_000 } else { 10_000 };
        let target = pair.passive.region(len, ALL);
        let source = pair.active.region(len, ALL);
        source.buffer.fill(9);
        // This Send waits for a Receive of the peer, and so does everything behind it on the stream.
        pair.active_qp.send(1, &[], OpFlags::empty()).unwrap();
        pair.active_qp
            .write(2, &[source.sge(0, len)], target.remote(0), OpFlags::empty())
            .unwrap();
        assert_eq!(pair.active.result().request_context, 1);
        if !confirm {
            assert_eq!(pair.active.result().request_context, 2);
            assert_eq!(
                target.buffer.load(len - 1),
                0,
                "the transport has it, no more"
            );
            continue;
        }
        assert!(nothing_completes(&pair.active), "not before it is placed");
        assert_eq!(target.buffer.load(len - 1), 0);
        pair.passive_qp.receive(3, &[]).unwrap();
        let written = pair.active.result();
        let placed = target.buffer.to_vec() == vec![9; len];
        assert_eq!(
            (written.request_context, written.status),
            (2, Status::SUCCESS)
        );
        assert!(placed, "placed by now");
        assert_eq!(written.bytes_transferred as usize, len);
        assert_eq!(pair.passive.result().request_context, 3);
    }
}

/// Both sides post Writes and Reads, more than the read limit allows at a time.
#[test]
fn amb_002_writes_and_reads_of_both_sides_share_the_limit() {
    let pair = confirming_pair(1);
    let sides = [
        (&pair.active, &pair.active_qp, &pair.passive),
        (&pair.passive, &pair.passive_qp, &pair.active),
    ];
    for (side, qp, peer) in sides {
        let target = peer.region(64, ALL);
        let (source, sink) = (side.region(64, ALL), side.region(64, ALL));
        for round in 1..=50 {
            source.buffer.fill(round);
            let context = u64::from(round);
            for _ in 0..3 {
                qp.write(
                    context,
                    &[source.sge(0, 64)],
                    target.remote(0),
                    OpFlags::empty(),
                )
                .unwrap();
                let silent = OpFlags::SILENT_SUCCESS;
                qp.write(0, &[source.sge(0, 8)], target.remote(8), silent)
                    .unwrap();
                let fenced = OpFlags::READ_FENCE;
                qp.read(context, &[sink.sge(0, 64)], target.remote(0), fenced)
                    .unwrap();
            }
            for result in side.results(6) {
                assert_eq!(
                    (result.request_context, result.status),
                    (context, Status::SUCCESS)
                );
            }
            assert_eq!(sink.buffer.to_vec(), [round; 64]);
        }
    }
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    run(|overlapped| pair.passive_connector.disconnect(overlapped)).unwrap();
}

/// A flush and a disconnect cancel unconfirmed Writes.
#[test]
fn amb_002_unconfirmed_writes_are_flushed() {
    for flush in [true, false] {
        let waits = Options::default().receive_wait(LONG);
        let pair = pair_with(confirming(), waits);
        let (target, source) = (pair.passive.region(64, ALL), pair.active.region(64, ALL));
        pair.active_qp.send(1, &[], OpFlags::empty()).unwrap();
        assert_eq!(pair.active.result().status, Status::SUCCESS);
        pair.active_qp
            .write(2, &[source.sge(0, 64)], target.remote(0), OpFlags::empty())
            .unwrap();
        if flush {
            pair.active_qp.flush().unwrap();
        } else {
            let overlapped = Overlapped::new();
            let _ = pair.active_connector.disconnect(&overlapped).unwrap();
        }
        let written = pair.active.result();
        assert_eq!(
            (written.request_context, written.status),
            (2, Status::CANCELED)
        );
    }
}

/// A peer without the option keeps the read limit 0: Writes complete unconfirmed, and a log line says so.
#[test]
fn amb_002_towards_a_peer_that_serves_no_reads() {
    log::keep();
    let pair = connect(Side::with(confirming()), Side::new(), 0);
    assert_eq!(limits(&pair)[0].outbound, 0);
    let (target, source) = (pair.passive.region(64, ALL), pair.active.region(64, ALL));
    pair.active_qp
        .write(1, &[source.sge(0, 64)], target.remote(0), OpFlags::empty())
        .unwrap();
    assert_eq!(pair.active.result().status, Status::SUCCESS);
    let lines = log::lines_with(&["complete unconfirmed", "serves no Reads"]);
    assert_eq!(lines.len(), 1, "{lines:?}");
}
