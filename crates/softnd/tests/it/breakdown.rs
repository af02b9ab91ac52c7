//! CQ-021, CQ-022: a completion queue that breaks down on request behaves like one that has overflowed.

use crate::common::{LONG, Side, connect, status};
use netdirect::{
    Adapter, Affinity, CompletionQueue, CompletionResult, Fault, NotifyType, OpFlags, Overlapped,
    QueuePairOptions, Started, Status,
};
use std::sync::Arc;

fn break_down(
    adapter: &Arc<dyn Adapter>,
    queue: &Arc<dyn CompletionQueue>,
    with: Status,
) -> Status {
    let extensions = adapter.extensions().expect("softnd has them");
    let fault = Fault::BreakCompletionQueue {
        queue: queue.clone(),
        status: with,
    };
    status(extensions.inject(fault))
}

#[test]
fn cq_021_cq_022_a_broken_queue_ends_its_requests_and_queue_pairs() {
    for with in [Status::INTERNAL_ERROR, Status::BUFFER_OVERFLOW] {
        let pair = connect(Side::new(), Side::new(), 4);
        let side = &pair.active;
        let kinds = [NotifyType::Errors, NotifyType::Any, NotifyType::Solicited];
        let pending = kinds.map(|kind| {
            let overlapped = Overlapped::new();
            let started = side.cq.notify(kind, &overlapped).unwrap();
            assert_eq!((started, overlapped.is_pending()), (Started::Pending, true));
            overlapped
        });
        let ended = Overlapped::new();
        let _ = pair.passive_connector.notify_disconnect(&ended).unwrap();
        pair.active_qp.receive(1, &[]).unwrap();

        assert_eq!(break_down(&side.adapter, &side.cq, with), Status::SUCCESS);
        let statuses = pending.map(|overlapped| overlapped.status());
        assert_eq!(statuses, [with; 3]);
        // The queue gets no further results, not even those of outstanding requests. The peer sees the end of the connection.
        assert_eq!(ended.wait_timeout(LONG), Some(Status::SUCCESS));
        let mut results = [CompletionResult::default(); 4];
        assert_eq!(side.cq.get_results(&mut results), 0);
        let faults = side
            .adapter
            .extensions()
            .unwrap()
            .counters()
            .total("faults");
        assert_eq!(faults, 1);
    }
}

#[test]
fn what_was_queued_before_can_be_fetched_and_other_queues_live_on() {
    let pair = connect(Side::new(), Side::new(), 4);
    let side = &pair.active;
    let none = Affinity::default();
    let other = side
        .adapter
        .create_completion_queue(&side.file, 16, none)
        .unwrap();
    let on_other = Side {
        cq: other.clone(),
        ..side.clone()
    };
    let healthy = connect(on_other, Side::new(), 4);
    let flags = OpFlags::empty();
    pair.passive_qp.receive(1, &[]).unwrap();
    pair.active_qp.send(2, &[], flags).unwrap();
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
    // Waits until the active side's result is in its queue, before the queue is polled.
    let overlapped = Overlapped::new();
    let _ = side.cq.notify(NotifyType::Any, &overlapped).unwrap();
    assert_eq!(overlapped.wait_timeout(LONG), Some(Status::SUCCESS));

    let broken = break_down(&side.adapter, &side.cq, Status::INTERNAL_ERROR);
    assert_eq!(broken, Status::SUCCESS);
    let mut results = [CompletionResult::default(); 4];
    assert_eq!(side.cq.get_results(&mut results), 1);
    assert_eq!(
        (results[0].request_context, results[0].status),
        (2, Status::SUCCESS)
    );

    healthy.passive_qp.receive(3, &[]).unwrap();
    healthy.active_qp.send(4, &[], flags).unwrap();
    assert_eq!(healthy.passive.result().status, Status::SUCCESS);
    assert_eq!(healthy.active.result().request_context, 4);
    let options = QueuePairOptions::default();
    assert!(
        side.adapter
            .create_queue_pair(&other, &other, options)
            .is_ok()
    );
}

#[test]
fn breakdowns_that_cannot_be_are_refused() {
    let (side, stranger) = (Side::new(), Side::new());
    let foreign = break_down(&side.adapter, &stranger.cq, Status::INTERNAL_ERROR);
    assert_eq!(foreign, Status::INVALID_PARAMETER_1);
    let no_error = break_down(&side.adapter, &side.cq, Status::PENDING);
    assert_eq!(no_error, Status::INVALID_PARAMETER);
    let pending = Overlapped::new();
    let _ = side.cq.notify(NotifyType::Errors, &pending).unwrap();
    assert!(pending.is_pending(), "the queue is sound");
}
