//! Windows, refused accesses, and the ends of connections after errors.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, ALL, Pair, Side, connect, pair, pair_with, run, status};
use netdirect::{
    Affinity, Buffer, CompletionPort, CompletionQueue, CompletionResult, MrFlags, NotifyType,
    OpFlags, Overlapped, QueuePair, QueuePairOptions, RemoteAddress, RequestType, Status,
};
use softnd::{Options, Profile};

fn window(pair: &Pair) -> std::sync::Arc<dyn netdirect::MemoryWindow> {
    pair.passive.adapter.create_memory_window().unwrap()
}

#[test]
fn mw_001_a_window_is_bound_used_and_invalidated() {
    let pair = pair();
    let target = pair.passive.region(4096, MrFlags::ALLOW_LOCAL_WRITE);
    let source = pair.active.region(64, ALL);
    source.buffer.fill(0x5A);
    let window = window(&pair);
    let base = target.buffer.address() + 1024;
    let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
    pair.passive_qp
        .bind(1, &target.region, &window, base, 64, rights)
        .unwrap();
    let remote = RemoteAddress {
        address: base,
        token: window.get_remote_token(), // MW-008
    };
    let bound = pair.passive.result();
    assert_eq!(
        (bound.status, bound.request_type),
        (Status::SUCCESS, RequestType::Bind)
    );
    // MR-026: the window keeps its region.
    let busy = run(|overlapped| target.region.deregister(overlapped));
    assert_eq!(busy, Err(Status::DEVICE_BUSY));

    pair.active_qp
        .write(2, &[source.sge(0, 64)], remote, OpFlags::empty())
        .unwrap();
    source.buffer.fill(0);
    pair.active_qp
        .read(3, &[source.sge(0, 64)], remote, OpFlags::READ_FENCE)
        .unwrap();
    let results = pair.active.results(2);
    assert!(
        results
            .iter()
            .all(|result| result.status == Status::SUCCESS)
    );

    // QP-043: a bound window is not bound again, and the connection ends with the failed request.
    pair.passive_qp
        .invalidate(4, &window, OpFlags::empty())
        .unwrap();
    let gone = pair.passive.result();
    assert_eq!(
        (gone.status, gone.request_type),
        (Status::SUCCESS, RequestType::Invalidate)
    );
    run(|overlapped| target.region.deregister(overlapped)).unwrap();

    // QP-049: an access through the token is fatal now.
    pair.passive_qp.receive(5, &[]).unwrap();
    pair.active_qp
        .read(6, &[source.sge(0, 64)], remote, OpFlags::empty())
        .unwrap();
    assert_eq!(pair.active.result().status, Status::ACCESS_VIOLATION);
    let flushed = pair.passive.result(); // IW-032
    assert_eq!(
        (flushed.status, flushed.request_context),
        (Status::CANCELED, 5)
    );
}

#[test]
fn qp_038_bind_checks_rights_and_range_at_the_call() {
    let pair = pair();
    let window = window(&pair);
    let read_only = pair.passive.region(100, MrFlags::empty());
    let base = read_only.buffer.address();
    let bind = |address, length, flags| {
        let posted = pair
            .passive_qp
            .bind(0, &read_only.region, &window, address, length, flags);
        status(posted)
    };
    assert_eq!(
        bind(base, 100, OpFlags::ALLOW_WRITE),
        Status::ACCESS_VIOLATION
    );
    assert_eq!(
        bind(base, 101, OpFlags::ALLOW_READ),
        Status::ACCESS_VIOLATION
    );
    assert_eq!(bind(base, 10, OpFlags::INLINE), Status::INVALID_PARAMETER_6);
    assert_eq!(bind(base, 100, OpFlags::empty()), Status::SUCCESS); // MW-012
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
    assert_eq!(bind(base, 100, OpFlags::ALLOW_READ), Status::SUCCESS);
    assert_eq!(pair.passive.result().status, Status::INVALID_DEVICE_REQUEST); // QP-043
}

#[test]
fn tst_076_a_write_without_the_right_ends_the_connection_and_changes_nothing() {
    let pair = pair();
    let target = pair.passive.region(64, MrFlags::ALLOW_REMOTE_READ);
    let source = pair.active.region(64, ALL);
    source.buffer.fill(1);
    pair.passive_qp.receive(9, &[]).unwrap();
    let ended = Overlapped::new();
    let _ = pair.active_connector.notify_disconnect(&ended).unwrap();
    pair.active_qp
        .write(1, &[source.sge(0, 64)], target.remote(0), OpFlags::empty())
        .unwrap();
    let written = pair.active.result().status;
    assert!(
        [Status::SUCCESS, Status::ACCESS_VIOLATION].contains(&written), // AMB-002
        "{written}"
    );
    assert_eq!(pair.passive.result().status, Status::CANCELED);
    assert_eq!(ended.wait_timeout(common::LONG), Some(Status::SUCCESS));
    assert_eq!(target.buffer.to_vec(), [0; 64]);
    // AMB-046: accepted and flushed.
    pair.active_qp.send(3, &[], OpFlags::empty()).unwrap();
    assert_eq!(pair.active.result().status, Status::CANCELED);
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    run(|overlapped| pair.passive_connector.disconnect(overlapped)).unwrap();
}

#[test]
fn rdmap_045_reads_beyond_the_region_and_with_a_wrong_token_are_refused() {
    for wrong_token in [false, true] {
        let pair = pair();
        let target = pair.passive.region(64, MrFlags::ALLOW_REMOTE_READ);
        let sink = pair.active.region(128, ALL);
        let mut remote = target.remote(0);
        if wrong_token {
            remote.token.0 ^= 0xFFFF;
        }
        pair.active_qp
            .read(1, &[sink.sge(0, 65)], remote, OpFlags::empty())
            .unwrap();
        pair.active_qp
            .read(2, &[sink.sge(0, 1)], target.remote(0), OpFlags::empty())
            .unwrap();
        let results = pair.active.results(2);
        assert_eq!(results[0].status, Status::ACCESS_VIOLATION);
        assert_eq!(results[1].status, Status::CANCELED);
        assert_eq!(sink.buffer.to_vec(), [0; 128]);
    }
}

#[test]
fn sge_004_a_bad_local_sge_is_a_result_not_a_return_value() {
    let pair = pair();
    let source = pair.active.region(64, MrFlags::empty());
    let mut sge = source.sge(0, 64);
    sge.length = 65;
    pair.passive_qp.receive(4, &[]).unwrap();
    pair.active_qp.send(1, &[sge], OpFlags::empty()).unwrap();
    assert_eq!(pair.active.result().status, Status::ACCESS_VIOLATION);
    assert_eq!(pair.passive.result().status, Status::CANCELED);
}

#[test]
fn mr_034_a_deregistered_region_is_refused() {
    let pair = pair();
    let source = pair.active.region(64, MrFlags::empty());
    let sge = source.sge(0, 64);
    run(|overlapped| source.region.deregister(overlapped)).unwrap();
    pair.active_qp.send(1, &[sge], OpFlags::empty()).unwrap();
    assert_eq!(pair.active.result().status, Status::ACCESS_VIOLATION);
}

#[test]
fn amb_015_read_sinks_are_lenient_by_default_and_strict_on_request() {
    for (profile, expected) in [
        (Profile::Default, Status::SUCCESS),
        (Profile::Strict, Status::ACCESS_VIOLATION),
    ] {
        let options = Options::default().profile(profile);
        let pair = pair_with(options, Options::default());
        let target = pair.passive.region(64, ALL);
        let sink = pair.active.region(64, MrFlags::ALLOW_LOCAL_WRITE);
        pair.active_qp
            .read(1, &[sink.sge(0, 64)], target.remote(0), OpFlags::empty())
            .unwrap();
        assert_eq!(pair.active.result().status, expected);
    }
}

#[test]
fn qp_034_a_message_longer_than_the_receive() {
    let pair = pair();
    let (source, target) = (
        pair.active.region(1024, ALL),
        pair.passive.region(1023, ALL),
    );
    pair.passive_qp.receive(1, &[target.sge(0, 1023)]).unwrap();
    pair.passive_qp.receive(2, &[]).unwrap();
    pair.active_qp
        .send(3, &[source.sge(0, 1024)], OpFlags::empty())
        .unwrap();
    assert_eq!(pair.active.result().status, Status::SUCCESS); // AMB-007
    let results = pair.passive.results(2);
    assert_eq!(results[0].status, Status::BUFFER_OVERFLOW);
    assert_eq!(results[1].status, Status::CANCELED);
}

#[test]
fn amb_008_a_send_waits_a_while_for_its_receive() {
    let pair = pair();
    pair.active_qp
        .send_inline(1, &[b"early"], OpFlags::empty())
        .unwrap();
    assert_eq!(pair.active.result().status, Status::SUCCESS);
    let target = pair.passive.region(8, ALL);
    pair.passive_qp.receive(2, &[target.sge(0, 8)]).unwrap();
    assert_eq!(pair.passive.result().bytes_transferred, 5);
}

#[test]
fn rdmap_068_without_a_receive_the_connection_ends() {
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        let pair = pair_with(Options::default(), Options::default().receive_wait(wait));
        let ended = Overlapped::new();
        let _ = pair.active_connector.notify_disconnect(&ended).unwrap();
        pair.active_qp
            .send_inline(1, &[b"early"], OpFlags::empty())
            .unwrap();
        assert_eq!(ended.wait_timeout(common::LONG), Some(Status::SUCCESS));
    }
}

#[test]
fn iw_013_reads_beyond_the_limit_wait_their_turn() {
    let pair = connect(Side::new(), Side::new(), 1);
    let target = pair.passive.region(32, ALL);
    let sink = pair.active.region(32, ALL);
    target.buffer.write(0, b"0123456789abcdef0123456789abcdef");
    for at in 0..32 {
        pair.active_qp
            .read(
                at as u64,
                &[sink.sge(at, 1)],
                target.remote(at),
                OpFlags::empty(),
            )
            .unwrap();
    }
    let results = pair.active.results(32);
    assert!(
        results
            .iter()
            .all(|result| result.status == Status::SUCCESS)
    );
    assert_eq!(sink.buffer.to_vec(), target.buffer.to_vec());
}

#[test]
fn amb_045_a_read_without_a_limit_is_an_invalid_request() {
    let pair = connect(Side::new(), Side::new(), 0);
    let target = pair.passive.region(32, ALL);
    let sink = pair.active.region(32, ALL);
    pair.active_qp
        .read(1, &[sink.sge(0, 1)], target.remote(0), OpFlags::empty())
        .unwrap();
    let result = pair.active.result();
    assert_eq!(result.status, Status::INVALID_DEVICE_REQUEST);
    let error = pair.active_qp.explain(&result);
    assert!(
        error.what().contains("read limit of the connection is 0"),
        "{error}"
    );
}

#[test]
fn iw_041_an_overflow_breaks_the_queue_and_its_queue_pairs() {
    let side = Side::new();
    let cq = side
        .adapter
        .create_completion_queue(&side.file, 1, Affinity::default())
        .unwrap();
    let qp = side
        .adapter
        .create_queue_pair(&cq, &cq, QueuePairOptions::default())
        .unwrap();
    let errors = Overlapped::new();
    let _ = cq.notify(NotifyType::Errors, &errors).unwrap();
    qp.receive(1, &[]).unwrap();
    qp.receive(2, &[]).unwrap();
    qp.flush().unwrap();
    assert_eq!(
        errors.wait_timeout(common::LONG),
        Some(Status::BUFFER_OVERFLOW)
    );
    let late = Overlapped::new();
    let _ = cq.notify(NotifyType::Any, &late).unwrap();
    assert_eq!(
        late.wait_timeout(common::LONG),
        Some(Status::BUFFER_OVERFLOW)
    );
}

/// A completion queue that has overflowed, with the queue pair whose results overflowed the queue.
fn overflowed(side: &Side) -> (Arc<dyn CompletionQueue>, Arc<dyn QueuePair>) {
    let cq = side
        .adapter
        .create_completion_queue(&side.file, 1, Affinity::default())
        .unwrap();
    let options = QueuePairOptions::default().receive_queue_depth(2);
    let qp = side.adapter.create_queue_pair(&cq, &cq, options).unwrap();
    let errors = Overlapped::new();
    let _ = cq.notify(NotifyType::Errors, &errors).unwrap();
    qp.receive(1, &[]).unwrap();
    qp.receive(2, &[]).unwrap();
    qp.flush().unwrap();
    assert_eq!(
        errors.wait_timeout(common::LONG),
        Some(Status::BUFFER_OVERFLOW)
    );
    (cq, qp)
}

#[test]
fn cq_022_a_queue_that_has_overflowed_is_not_resized() {
    let side = Side::new();
    let (cq, _qp) = overflowed(&side);
    assert_eq!(status(cq.resize(256)), Status::INVALID_DEVICE_STATE);
    assert_eq!(status(cq.resize(0)), Status::INVALID_PARAMETER);
}

#[test]
fn adpt_051_adpt_052_a_queue_that_has_overflowed_takes_no_queue_pair() {
    let side = Side::new();
    let (dead, _qp) = overflowed(&side);
    let create = |receive, initiator| {
        let options = QueuePairOptions::default();
        status(side.adapter.create_queue_pair(receive, initiator, options))
    };
    assert_eq!(create(&dead, &dead), Status::INVALID_PARAMETER_2);
    assert_eq!(create(&dead, &side.cq), Status::INVALID_PARAMETER_2);
    assert_eq!(create(&side.cq, &dead), Status::INVALID_PARAMETER_3);
    assert_eq!(create(&side.cq, &side.cq), Status::SUCCESS);
}

#[test]
fn iw_041_a_queue_pair_of_an_overflowed_queue_cannot_be_connected() {
    let side = Side::new();
    let (_listener, address) = side.listener(0);
    let (_cq, qp) = overflowed(&side);
    let connector = side.connector();
    let connected = run(|overlapped| connector.connect(&qp, address, 0, 0, &[], overlapped));
    assert_eq!(connected, Err(Status::INVALID_DEVICE_STATE));
}

#[test]
fn tst_085_flushed_receives_come_in_one_go() {
    let side = Side::new();
    let qp = side.queue_pair();
    qp.receive(1, &[]).unwrap();
    qp.receive(2, &[]).unwrap();
    qp.flush().unwrap();
    let any = Overlapped::new();
    let _ = side.cq.notify(NotifyType::Any, &any).unwrap();
    assert_eq!(any.wait_timeout(common::LONG), Some(Status::SUCCESS));
    let mut results = [CompletionResult::default(); 2];
    assert_eq!(side.cq.get_results(&mut results), 2);
    assert!(
        results
            .iter()
            .all(|result| result.status == Status::CANCELED)
    );
}

#[test]
fn tst_030_cancelled_notifications_are_queued_before_cancel_returns_in_its_order() {
    let side = Side::new();
    let port = CompletionPort::new();
    side.file.associate(&port, 1).unwrap();
    let other = side
        .adapter
        .create_completion_queue(&side.file, 4, Affinity::default())
        .unwrap();
    let requests = [Overlapped::new(), Overlapped::new()];
    for (user, request) in requests.iter().enumerate() {
        request.set_user(user as u64);
    }
    for order in [[0, 1], [1, 0]] {
        let queues = [&side.cq, &other];
        for (queue, request) in queues.iter().zip(&requests) {
            let _ = queue.notify(NotifyType::Any, request).unwrap();
        }
        for at in order {
            queues[at].cancel_overlapped_requests().unwrap();
        }
        for at in order {
            let packet = port
                .get(Some(Duration::ZERO))
                .expect("queued by the cancel");
            assert_eq!((packet.user, packet.status), (at as u64, Status::CANCELED));
        }
    }
}

#[test]
fn mr_002_mr_027_register_and_deregister_alternate() {
    let side = Side::new();
    let region = side.region(10, ALL);
    let buffer = Buffer::new(10);
    let again = run(|overlapped| region.region.register(&buffer, ALL, overlapped));
    assert_eq!(again, Err(Status::INVALID_DEVICE_STATE));
    run(|overlapped| region.region.deregister(overlapped)).unwrap();
    let twice = run(|overlapped| region.region.deregister(overlapped));
    assert_eq!(twice, Err(Status::INVALID_DEVICE_STATE));
    let empty = Buffer::new(0);
    let nothing = run(|overlapped| region.region.register(&empty, ALL, overlapped));
    assert_eq!(nothing, Err(Status::INVALID_BUFFER_SIZE)); // TST-084
    let unknown = MrFlags::from_bits_retain(0x100);
    let flags = run(|overlapped| region.region.register(&buffer, unknown, overlapped));
    assert_eq!(flags, Err(Status::INVALID_PARAMETER_3));
    run(|overlapped| region.region.register(&buffer, ALL, overlapped)).unwrap(); // MR-029
}

#[test]
fn gen_022_objects_of_another_adapter_are_refused_in_their_place() {
    let (one, other) = (Side::new(), Side::new());
    let options = QueuePairOptions::default();
    let made = one.adapter.create_queue_pair(&other.cq, &one.cq, options);
    assert_eq!(status(made), Status::INVALID_PARAMETER_2);
    let made = one.adapter.create_queue_pair(&one.cq, &other.cq, options);
    assert_eq!(status(made), Status::INVALID_PARAMETER_3);
    assert_eq!(
        status(one.adapter.create_connector(&other.file)),
        Status::INVALID_HANDLE
    );
    let to = "127.0.0.1:1".parse().unwrap();
    let connector = one.connector();
    let foreign =
        run(|overlapped| connector.connect(&other.queue_pair(), to, 0, 0, b"", overlapped));
    assert_eq!(foreign, Err(Status::INVALID_PARAMETER_1));
}

#[test]
fn adpt_053_sizes_above_the_limits_name_their_parameter() {
    let side = Side::new();
    let info = side.adapter.query().unwrap();
    let make = |options| status(side.adapter.create_queue_pair(&side.cq, &side.cq, options));
    let options = QueuePairOptions::default;
    assert_eq!(
        make(options().receive_queue_depth(info.max_receive_queue_depth + 1)),
        Status::INVALID_PARAMETER_5
    );
    assert_eq!(
        make(options().initiator_queue_depth(info.max_initiator_queue_depth + 1)),
        Status::INVALID_PARAMETER_6
    );
    assert_eq!(
        make(options().max_receive_request_sge(info.max_receive_sge + 1)),
        Status::INVALID_PARAMETER_7
    );
    assert_eq!(
        make(options().max_initiator_request_sge(info.max_initiator_sge + 1)),
        Status::INVALID_PARAMETER_8
    );
    assert_eq!(
        make(options().inline_data_size(info.max_inline_data_size + 1)),
        Status::INVALID_PARAMETER_9
    );
    let depth = info.max_completion_queue_depth;
    for (depth, expected) in [
        (0, Status::INVALID_PARAMETER_3),
        (depth, Status::SUCCESS),
        (depth + 1, Status::INVALID_PARAMETER_3),
    ] {
        let made = side
            .adapter
            .create_completion_queue(&side.file, depth, Affinity::default());
        assert_eq!(status(made), expected);
    }
}

#[test]
fn cq_016_resize_keeps_what_is_queued() {
    let side = Side::new();
    let qp = side.queue_pair();
    for context in 0..3 {
        qp.receive(context, &[]).unwrap();
    }
    qp.flush().unwrap();
    assert_eq!(status(side.cq.resize(2)), Status::BUFFER_OVERFLOW);
    assert_eq!(status(side.cq.resize(0)), Status::INVALID_PARAMETER);
    side.cq.resize(3).unwrap();
    let contexts: Vec<_> = side
        .results(3)
        .iter()
        .map(|result| result.request_context)
        .collect();
    assert_eq!(contexts, [0, 1, 2]);
}

#[test]
fn cq_022_posts_after_an_overflow_are_taken_and_have_no_result() {
    let (active, passive) = (Side::new(), Side::new());
    let cq = active
        .adapter
        .create_completion_queue(&active.file, 2, Affinity::default())
        .unwrap();
    let options = QueuePairOptions::default()
        .initiator_queue_depth(4)
        .receive_queue_depth(1);
    let qp = active.adapter.create_queue_pair(&cq, &cq, options).unwrap();
    let pair = common::connect_queue_pair(active, passive, qp, 1, |address| address);
    let errors = Overlapped::new();
    let _ = cq.notify(NotifyType::Errors, &errors).unwrap();
    for context in 0..3 {
        pair.passive_qp.receive(context, &[]).unwrap();
        pair.active_qp.send(context, &[], OpFlags::empty()).unwrap();
    }
    assert_eq!(
        errors.wait_timeout(common::LONG),
        Some(Status::BUFFER_OVERFLOW)
    );
    let ended = run(|overlapped| pair.active_connector.notify_disconnect(overlapped));
    assert_eq!(ended, Ok(()));
    let send = || pair.active_qp.send(8, &[], OpFlags::empty());
    assert_eq!(status(pair.active_qp.receive(7, &[])), Status::SUCCESS);
    assert_eq!(status(send()), Status::SUCCESS);
    // Requests without a result keep their places.
    assert_eq!(
        status(pair.active_qp.receive(7, &[])),
        Status::NO_MORE_ENTRIES
    );
    let mut results = [CompletionResult::default(); 8];
    assert_eq!(cq.get_results(&mut results), 2);
    assert!(
        results[..2]
            .iter()
            .all(|result| result.status == Status::SUCCESS)
    );
    assert_eq!(cq.get_results(&mut results), 0);
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    assert_eq!(status(send()), Status::CONNECTION_INVALID);
}
