//! The limits of an adapter and the sizes of a queue pair. The tests set limits so small that requests reach them.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, ALL, Pair, Side, pair_with, run, status};
use netdirect::{Affinity, Buffer, OpFlags, QueuePair, QueuePairOptions, Sge, Status};
use softnd::{Limits, Options, Profile};

const NONE: OpFlags = OpFlags::empty();

/// A side whose adapter has small limits.
fn small(change: impl FnOnce(&mut Limits)) -> Side {
    let adapter = common::open(Options::default().limits(change));
    let file = adapter.create_overlapped_file().unwrap();
    let depth = adapter.query().unwrap().max_completion_queue_depth;
    let cq = adapter.create_completion_queue(&file, depth, Affinity::default());
    Side {
        adapter,
        file,
        cq: cq.unwrap(),
    }
}

fn queue_pair(side: &Side, options: QueuePairOptions) -> netdirect::Result<Arc<dyn QueuePair>> {
    side.adapter.create_queue_pair(&side.cq, &side.cq, options)
}

#[test]
fn mr_011_a_registration_has_a_largest_size() {
    let side = small(|limits| limits.registration_size = 1000);
    let info = side.adapter.query().unwrap();
    assert_eq!(
        (info.max_registration_size, info.max_window_size),
        (1000, 1000)
    ); // AMB-058
    let region = side.adapter.create_memory_region(&side.file).unwrap();
    let buffer = Buffer::new(1001);
    let register = |len| run(|overlapped| region.register(&buffer.slice(..len), ALL, overlapped));
    assert_eq!(register(1001), Err(Status::INVALID_PARAMETER));
    assert_eq!(register(1000), Ok(()));
    // The default limit, if the system gives the process enough address space.
    if let Ok(large) = Buffer::try_new((1 << 40) + 1) {
        let side = Side::new();
        let region = side.adapter.create_memory_region(&side.file).unwrap();
        let refused = run(|overlapped| region.register(&large, ALL, overlapped));
        assert_eq!(refused, Err(Status::INVALID_PARAMETER));
    }
}

#[test]
fn mr_008_registrations_and_binds_run_out_of_tokens() {
    let options = Options::default().limits(|limits| limits.memory_tokens = 8);
    let pair = pair_with(options, Options::default());
    let side = &pair.active;
    let buffer = Buffer::new(64);
    let mut regions = Vec::new();
    let full = loop {
        let region = side.adapter.create_memory_region(&side.file).unwrap();
        match run(|overlapped| region.register(&buffer, ALL, overlapped)) {
            Ok(()) => regions.push(region),
            Err(status) => break status,
        }
    };
    assert_eq!(full, Status::INSUFFICIENT_RESOURCES);
    assert!(
        (7..=8).contains(&regions.len()),
        "one token may be left out"
    );
    let window = side.adapter.create_memory_window().unwrap();
    let bind = || {
        let at = buffer.address();
        status(pair.active_qp.bind(1, &regions[0], &window, at, 64, NONE))
    };
    assert_eq!(bind(), Status::INSUFFICIENT_RESOURCES);
    run(|overlapped| regions[1].deregister(overlapped)).unwrap();
    assert_eq!(bind(), Status::SUCCESS);
    assert_eq!(side.result().status, Status::SUCCESS);
    drop(window);
    run(|overlapped| regions[1].register(&buffer, ALL, overlapped)).unwrap();
}

#[test]
fn adpt_023_cq_013_a_completion_queue_has_a_greatest_depth() {
    let side = small(|limits| limits.completion_queue_depth = 5);
    assert_eq!(side.adapter.query().unwrap().max_completion_queue_depth, 5);
    let make = |depth| {
        let made = side
            .adapter
            .create_completion_queue(&side.file, depth, Affinity::default());
        status(made)
    };
    assert_eq!(make(5), Status::SUCCESS); // AMB-019
    assert_eq!(make(6), Status::INVALID_PARAMETER_3);
    assert_eq!(make(0), Status::INVALID_PARAMETER_3);
    assert_eq!(status(side.cq.resize(6)), Status::INVALID_PARAMETER);
    assert_eq!(status(side.cq.resize(5)), Status::SUCCESS);
}

#[test]
fn adpt_053_to_adpt_057_the_sizes_of_a_queue_pair_have_limits() {
    let side = small(|limits| {
        limits.queue_depth = 3;
        limits.sges = 1;
        limits.inline_data_size = 9;
    });
    let info = side.adapter.query().unwrap();
    let depths = (info.max_receive_queue_depth, info.max_initiator_queue_depth);
    assert_eq!(depths, (3, 3)); // TST-021
    let sges = (
        info.max_receive_sge,
        info.max_initiator_sge,
        info.max_read_sge,
    );
    assert_eq!(sges, (1, 1, 1));
    let inline = (info.max_inline_data_size, info.inline_request_threshold);
    assert_eq!(inline, (9, 9), "TST-022: made with the threshold");
    let options = QueuePairOptions::default()
        .receive_queue_depth(3)
        .initiator_queue_depth(3)
        .inline_data_size(9);
    let make = |options| status(queue_pair(&side, options));
    assert_eq!(make(options), Status::SUCCESS);
    assert_eq!(
        make(options.receive_queue_depth(4)),
        Status::INVALID_PARAMETER_5
    );
    assert_eq!(
        make(options.initiator_queue_depth(4)),
        Status::INVALID_PARAMETER_6
    );
    assert_eq!(
        make(options.max_receive_request_sge(2)),
        Status::INVALID_PARAMETER_7
    );
    assert_eq!(
        make(options.max_initiator_request_sge(2)),
        Status::INVALID_PARAMETER_8
    );
    assert_eq!(
        make(options.inline_data_size(10)),
        Status::INVALID_PARAMETER_9
    );
    // AMB-009 grants two SGEs, but never more than the adapter has.
    let qp = queue_pair(&side, options).unwrap();
    let region = side.region(64, ALL);
    let two = [region.sge(0, 1), region.sge(1, 1)];
    assert_eq!(status(qp.receive(1, &two)), Status::DATA_OVERRUN);
    assert_eq!(status(qp.receive(1, &two[..1])), Status::SUCCESS);
}

#[test]
fn qp_012_qp_027_qp_054_qp_066_a_request_has_a_greatest_length() {
    let options = Options::default().limits(|limits| limits.transfer_length = 100);
    let pair = pair_with(options, Options::default());
    assert_eq!(
        pair.active.adapter.query().unwrap().max_transfer_length,
        100
    );
    let (local, peer) = (pair.active.region(128, ALL), pair.passive.region(128, ALL));
    let qp = &pair.active_qp;
    for (sges, expected) in [
        (vec![local.sge(0, 101)], Status::BUFFER_OVERFLOW),
        (
            vec![local.sge(0, 50), local.sge(0, 51)],
            Status::BUFFER_OVERFLOW,
        ),
        (vec![local.sge(0, 50), local.sge(50, 50)], Status::SUCCESS),
    ] {
        assert_eq!(status(qp.receive(1, &sges)), expected);
        assert_eq!(status(qp.write(2, &sges, peer.remote(0), NONE)), expected);
        assert_eq!(status(qp.read(3, &sges, peer.remote(0), NONE)), expected);
        pair.passive_qp.receive(4, &[peer.sge(0, 100)]).unwrap();
        assert_eq!(status(qp.send(5, &sges, NONE)), expected);
    }
    let ended = pair.active.results(3);
    assert!(ended.iter().all(|result| result.status == Status::SUCCESS));
}

#[test]
fn qp_056_a_read_may_have_fewer_sges_than_other_requests() {
    let options = Options::default().limits(|limits| limits.read_sges = 1);
    let pair = pair_with(options, Options::default());
    let info = pair.active.adapter.query().unwrap();
    assert_eq!((info.max_initiator_sge, info.max_read_sge), (16, 1));
    let (local, peer) = (pair.active.region(64, ALL), pair.passive.region(64, ALL));
    let two = [local.sge(0, 4), local.sge(4, 4)];
    let (qp, there) = (&pair.active_qp, peer.remote(0));
    assert_eq!(status(qp.write(1, &two, there, NONE)), Status::SUCCESS);
    assert_eq!(status(qp.read(2, &two, there, NONE)), Status::DATA_OVERRUN);
    assert_eq!(status(qp.read(3, &two[..1], there, NONE)), Status::SUCCESS);
}

#[test]
fn limits_above_those_there_can_be_are_cut() {
    let greatest = |limits: &mut Limits| {
        limits.registration_size = u64::MAX;
        limits.memory_tokens = u32::MAX;
        limits.completion_queue_depth = u32::MAX;
        limits.queue_depth = u32::MAX;
        limits.sges = u32::MAX;
        limits.read_sges = u32::MAX;
        limits.transfer_length = u32::MAX;
        limits.inline_data_size = u32::MAX;
    };
    let options = Options::default()
        .limits(greatest)
        .private_data_limit(u32::MAX)
        .read_limit(u32::MAX);
    let usual = Options::default().private_data_limit(508).read_limit(255);
    let info = |options| Side::with(options).adapter.query().unwrap();
    assert_eq!(info(options), info(usual));
}

#[test]
fn limits_of_nothing_refuse_everything_and_break_nothing() {
    let nothing = |limits: &mut Limits| {
        limits.registration_size = 0;
        limits.memory_tokens = 0;
        limits.queue_depth = 0;
        limits.sges = 0;
        limits.read_sges = 0;
        limits.transfer_length = 0;
        limits.inline_data_size = 0;
    };
    let side = small(nothing);
    let options = QueuePairOptions::default()
        .receive_queue_depth(0)
        .initiator_queue_depth(0)
        .max_receive_request_sge(0)
        .max_initiator_request_sge(0);
    let qp = queue_pair(&side, options).unwrap();
    assert_eq!(status(qp.receive(1, &[])), Status::NO_MORE_ENTRIES);
    let region = side.adapter.create_memory_region(&side.file).unwrap();
    let refused = run(|overlapped| region.register(&Buffer::new(1), ALL, overlapped));
    assert_eq!(refused, Err(Status::INVALID_PARAMETER));
    let adapter = softnd::open(
        "softnd+tcp://127.0.0.1",
        Options::default().limits(|limits| limits.completion_queue_depth = 0),
    )
    .unwrap();
    let file = adapter.create_overlapped_file().unwrap();
    let made = adapter.create_completion_queue(&file, 1, Affinity::default());
    assert_eq!(status(made), Status::INVALID_PARAMETER_3);
}

/// A connection whose active queue pair has these sizes.
fn connected(profile: Profile, sizes: QueuePairOptions) -> (Pair, Arc<dyn QueuePair>) {
    let (active, passive) = (Side::with(Options::default().profile(profile)), Side::new());
    let sized = queue_pair(&active, sizes).unwrap();
    let pair = common::connect_queue_pair(active, passive, sized.clone(), 16, |address| address);
    (pair, sized)
}

/// AMB-036: a queue of depth 0 refuses every request. A queue created for 0 SGEs refuses all requests with SGEs, and only these.
#[test]
fn amb_036_sizes_of_zero_are_granted_as_zero() {
    let some = QueuePairOptions::default();
    for profile in [Profile::Default, Profile::Strict] {
        let (pair, qp) = connected(
            profile,
            some.max_receive_request_sge(0).max_initiator_request_sge(0),
        );
        let (local, peer) = (pair.active.region(64, ALL), pair.passive.region(64, ALL));
        for sges in [
            vec![Sge::default()],
            vec![local.sge(0, 1)],
            vec![local.sge(0, 1); 2],
        ] {
            let there = peer.remote(0);
            assert_eq!(
                status(qp.receive(1, &sges)),
                Status::DATA_OVERRUN,
                "{profile:?}"
            );
            assert_eq!(status(qp.send(1, &sges, NONE)), Status::DATA_OVERRUN);
            assert_eq!(
                status(qp.write(1, &sges, there, NONE)),
                Status::DATA_OVERRUN
            );
            assert_eq!(status(qp.read(1, &sges, there, NONE)), Status::DATA_OVERRUN);
        }
        // QP-016, QP-030, QP-060, QP-070: requests without SGEs are accepted.
        pair.passive_qp.receive(9, &[]).unwrap();
        qp.receive(2, &[]).unwrap();
        pair.passive_qp.send(8, &[], NONE).unwrap();
        qp.send(3, &[], NONE).unwrap();
        qp.write(4, &[], peer.remote(0), NONE).unwrap();
        qp.read(5, &[], peer.remote(0), NONE).unwrap();
        let window = pair.active.adapter.create_memory_window().unwrap();
        let at = local.buffer.address();
        qp.bind(6, &local.region, &window, at, 64, NONE).unwrap();
        qp.invalidate(7, &window, NONE).unwrap();
        let ended = pair.active.results(6);
        assert!(
            ended.iter().all(|result| result.status == Status::SUCCESS),
            "{ended:?}"
        );

        // QP-024: inline data has no SGEs.
        let none = some.max_receive_request_sge(0).max_initiator_request_sge(0);
        let (pair, qp) = connected(profile, none.inline_data_size(8));
        let peer = pair.passive.region(64, ALL);
        qp.write_inline(1, &[b"in", b"line"], peer.remote(0), NONE)
            .unwrap();
        assert_eq!(
            status(qp.write_inline(2, &[&[0; 9]], peer.remote(0), NONE)),
            Status::BUFFER_OVERFLOW
        );
        assert_eq!(pair.active.result().status, Status::SUCCESS);

        let (pair, qp) = connected(
            profile,
            some.receive_queue_depth(0).initiator_queue_depth(0),
        );
        let peer = pair.passive.region(64, ALL);
        let window = pair.active.adapter.create_memory_window().unwrap();
        let local = pair.active.region(64, ALL);
        let at = local.buffer.address();
        assert_eq!(status(qp.receive(1, &[])), Status::NO_MORE_ENTRIES);
        assert_eq!(status(qp.send(1, &[], NONE)), Status::NO_MORE_ENTRIES);
        assert_eq!(
            status(qp.write(1, &[], peer.remote(0), NONE)),
            Status::NO_MORE_ENTRIES
        );
        assert_eq!(
            status(qp.read(1, &[], peer.remote(0), NONE)),
            Status::NO_MORE_ENTRIES
        );
        assert_eq!(
            status(qp.invalidate(1, &window, NONE)),
            Status::NO_MORE_ENTRIES
        );
        let bound = qp.bind(1, &local.region, &window, at, 64, NONE);
        assert_eq!(status(bound), Status::NO_MORE_ENTRIES);
        run(|overlapped| local.region.deregister(overlapped)).unwrap(); // the Bind was not taken

        // A queue pair without inline data refuses inline data of any length.
        let (pair, qp) = connected(profile, some);
        let peer = pair.passive.region(64, ALL);
        assert_eq!(
            status(qp.send_inline(1, &[b"x"], NONE)),
            Status::BUFFER_OVERFLOW
        );
        qp.write_inline(1, &[], peer.remote(0), NONE).unwrap();
        assert_eq!(pair.active.result().status, Status::SUCCESS);
    }
}

/// The longest possible time limits do not overflow the clock.
#[test]
fn the_longest_time_limits_are_as_good_as_none() {
    let longest = || {
        Options::default()
            .receive_wait(Duration::MAX)
            .timeouts(|limits| {
                for limit in [
                    &mut limits.connect,
                    &mut limits.reply,
                    &mut limits.reply_frame,
                    &mut limits.request,
                    &mut limits.ready,
                    &mut limits.hold_ready,
                    &mut limits.disconnect,
                ] {
                    *limit = Some(Duration::MAX);
                }
            })
    };
    let pair = pair_with(longest(), longest());
    pair.active_qp.send(1, &[], NONE).unwrap();
    assert_eq!(pair.active.result().status, Status::SUCCESS);
    pair.passive_qp.receive(2, &[]).unwrap();
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
    let ends = [&pair.active_connector, &pair.passive_connector];
    let requests = ends.map(|connector| {
        let overlapped = netdirect::Overlapped::new();
        (connector.disconnect(&overlapped), overlapped)
    });
    for (started, overlapped) in requests {
        assert_eq!(common::end(started, &overlapped), Ok(()));
    }
}
