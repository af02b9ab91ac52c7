//! Shared receive queues over a line whose Receives are a number.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;

use super::*;
use crate::testing::{TestAdapter, file};

#[derive(Debug, Default)]
struct Receives {
    outstanding: u32,
    threshold: u32,
    depth: u32,
    is_armed: bool,
    /// The status of the breakdown, and the number of requests of Notify that waited then.
    reported: Option<(Status, usize)>,
}

#[derive(Debug)]
pub(crate) struct TestSharedReceiveQueue {
    rules: SharedReceiveQueueRules<TestAdapter>,
    receives: Mutex<Receives>,
}

impl TestSharedReceiveQueue {
    /// A queue pair draws a Receive.
    fn draw(&self) {
        self.receives.lock().outstanding -= 1;
        self.look();
    }

    fn look(&self) {
        let is_low = || {
            let receives = self.receives.lock();
            receives.is_armed && receives.outstanding < receives.threshold
        };
        self.rules.end_requests_if(Status::SUCCESS, is_low);
    }
}

impl SharedReceiveQueueLine for TestSharedReceiveQueue {
    type Adapter = TestAdapter;

    fn create(
        rules: SharedReceiveQueueRules<TestAdapter>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<Self>> {
        let receives = Receives {
            threshold: options.notify_threshold,
            depth: options.queue_depth,
            ..Receives::default()
        };
        let line = Self {
            rules,
            receives: Mutex::new(receives),
        };
        Ok(Arc::new(line))
    }

    fn rules(&self) -> &SharedReceiveQueueRules<TestAdapter> {
        &self.rules
    }

    fn arm(&self) {
        self.receives.lock().is_armed = true;
        self.look();
    }

    fn disarm(&self) {
        self.receives.lock().is_armed = false;
    }

    fn modify(&self, depth: Option<u32>, threshold: Option<u32>) -> Result<(), ResizeError> {
        let mut receives = self.receives.lock();
        let depth = depth.unwrap_or(receives.depth);
        if depth < receives.outstanding {
            return Err(ResizeError::TooSmall);
        }
        receives.depth = depth;
        receives.threshold = threshold.unwrap_or(receives.threshold);
        drop(receives);
        self.look();
        Ok(())
    }

    fn broke_down(&self, status: Status) {
        let waiting = self.rules.waiting().unwrap();
        self.receives.lock().reported = Some((status, waiting));
    }

    fn receive(&self, _: u64, _: &[Sge]) -> Result<()> {
        self.receives.lock().outstanding += 1;
        Ok(())
    }
}

/// A queue with room for four Receives, two of which are there. The threshold is one.
fn queue() -> SharedReceiveQueueHandle<TestSharedReceiveQueue> {
    let adapter = TestAdapter::at(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let options = SharedReceiveQueueOptions::default();
    let options = options.queue_depth(4).notify_threshold(1);
    let queue =
        SharedReceiveQueueHandle::<TestSharedReceiveQueue>::create(adapter, file(), options)
            .unwrap();
    for context in 0..2 {
        queue.receive(context, &[]).unwrap();
    }
    queue
}

fn status<T>(result: Result<T>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::SUCCESS)
}

fn notify(queue: &SharedReceiveQueueHandle<TestSharedReceiveQueue>) -> Overlapped {
    let overlapped = Overlapped::new();
    assert_eq!(queue.notify(&overlapped), Ok(Started::Pending));
    overlapped
}

#[test]
fn srq_024_amb_052_a_notify_ends_below_the_threshold_which_may_be_at_once() {
    let queue = queue();
    let (one, other) = (notify(&queue), notify(&queue));
    queue.line().draw();
    assert!(one.is_pending() && other.is_pending());
    queue.line().draw();
    assert_eq!(
        (one.status(), other.status()),
        (Status::SUCCESS, Status::SUCCESS)
    );
    assert_eq!(notify(&queue).status(), Status::SUCCESS); // AMB-052
}

#[test]
fn srq_010_to_srq_015_a_modify_that_fails_leaves_the_queue() {
    let queue = queue();
    let line = Arc::clone(queue.line());
    let modify = |depth, threshold| {
        let status = status(queue.modify(depth, threshold));
        let receives = line.receives.lock();
        (status, receives.depth, receives.threshold)
    };
    assert_eq!(modify(9, 0), (Status::INVALID_PARAMETER, 4, 1)); // SRQ-013
    assert_eq!(modify(1, 0), (Status::BUFFER_OVERFLOW, 4, 1)); // SRQ-014
    let due = Status::INSUFFICIENT_RESOURCES;
    *line.rules.adapter.fault.lock() = Some((Call::ModifySharedReceiveQueue, due));
    assert_eq!(modify(5, 0), (due, 4, 1)); // SRQ-012
    assert_eq!(modify(5, 0), (Status::SUCCESS, 5, 1)); // SRQ-010
    let waits = notify(&queue);
    assert_eq!(modify(0, 3), (Status::SUCCESS, 5, 3)); // SRQ-011
    assert_eq!(waits.status(), Status::SUCCESS);
    line.rules.adapter.is_removed.store(true, Ordering::SeqCst);
    assert_eq!(modify(6, 0), (Status::DEVICE_REMOVED, 5, 3)); // SRQ-015
}

#[test]
fn srq_019_amb_051_a_breakdown_ends_queue_pairs_and_then_every_notify() {
    let queue = queue();
    let waits = notify(&queue);
    let line = queue.line();
    assert!(!line.rules.is_broken());
    line.rules.break_down(&**line, Status::INTERNAL_ERROR);
    assert_eq!(
        line.receives.lock().reported,
        Some((Status::INTERNAL_ERROR, 1))
    );
    assert_eq!(waits.status(), Status::INTERNAL_ERROR);
    assert!(line.rules.is_broken());
    assert_eq!(notify(&queue).status(), Status::INTERNAL_ERROR);
    assert_eq!(status(queue.modify(3, 0)), Status::INVALID_DEVICE_STATE);
}

#[test]
fn ovl_010_a_notify_that_was_admitted_before_the_removal_ends() {
    let queue = queue();
    let waits = notify(&queue);
    queue.line().rules.device_removed();
    assert_eq!(waits.status(), Status::DEVICE_REMOVED);
    assert_eq!(notify(&queue).status(), Status::DEVICE_REMOVED);
}

#[test]
fn srq_020_a_cancel_and_the_end_of_the_handle_cancel_every_notify() {
    let queue = queue();
    let cancelled = notify(&queue);
    queue.cancel_overlapped_requests().unwrap();
    assert_eq!(cancelled.status(), Status::CANCELED);
    assert!(!queue.line().receives.lock().is_armed);
    let due = Status::INSUFFICIENT_RESOURCES;
    *queue.line().rules.adapter.fault.lock() = Some((Call::NotifySharedReceiveQueue, due));
    let refused = Overlapped::new();
    assert_eq!(status(queue.notify(&refused)), due);
    assert_eq!(refused.status(), due);
    let released = notify(&queue);
    drop(queue);
    assert_eq!(released.status(), Status::CANCELED);
}
