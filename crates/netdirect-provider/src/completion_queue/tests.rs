//! Completion queues over a line that stores no results.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::testing::{IdleFile, TestAdapter, file_of};

/// The results that are queued.
const QUEUED: u32 = 2;

#[derive(Debug)]
pub(crate) struct TestCompletionQueue {
    adapter: Arc<TestAdapter>,
    pub(crate) is_broken: AtomicBool,
    depth: AtomicU32,
    requests: Mutex<Vec<PendingOverlapped>>,
}

impl TestCompletionQueue {
    fn end_requests(&self, status: Status) {
        for request in std::mem::take(&mut *self.requests.lock()) {
            request.complete(status);
        }
    }
}

impl CompletionQueueLine for TestCompletionQueue {
    type Adapter = TestAdapter;
    type File = IdleFile;

    fn create(
        adapter: Arc<TestAdapter>,
        _: Arc<IdleFile>,
        depth: u32,
        _: Affinity,
    ) -> Result<Arc<Self>> {
        let line = Self {
            adapter,
            is_broken: AtomicBool::new(false),
            depth: AtomicU32::new(depth),
            requests: Mutex::default(),
        };
        Ok(Arc::new(line))
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }

    fn resize(&self, depth: u32) -> Result<(), ResizeError> {
        if depth < QUEUED {
            return Err(ResizeError::TooSmall);
        }
        self.depth.store(depth, Ordering::SeqCst);
        Ok(())
    }

    fn notify(&self, _: NotifyType, request: PendingOverlapped) {
        self.requests.lock().push(request);
    }

    fn cancel(&self) {
        self.end_requests(Status::CANCELED);
    }

    fn device_removed(&self) {
        self.end_requests(Status::DEVICE_REMOVED);
    }

    fn get_results(&self, _: &mut [CompletionResult]) -> usize {
        0
    }
}

fn queue() -> CompletionQueueHandle<TestCompletionQueue> {
    let adapter = TestAdapter::at(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let file = file_of(&adapter);
    CompletionQueueHandle::create(adapter, file, 4, Affinity::default()).unwrap()
}

fn status<T>(result: Result<T>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::SUCCESS)
}

#[test]
fn cq_011_to_cq_016_a_resize_that_fails_leaves_the_depth() {
    let queue = queue();
    let line = Arc::clone(queue.line());
    let resize = |depth| {
        (
            status(queue.resize(depth)),
            line.depth.load(Ordering::SeqCst),
        )
    };
    assert_eq!(resize(9), (Status::INVALID_PARAMETER, 4)); // CQ-012
    assert_eq!(resize(0), (Status::INVALID_PARAMETER, 4)); // CQ-013
    assert_eq!(resize(1), (Status::BUFFER_OVERFLOW, 4)); // CQ-016
    let due = Status::INSUFFICIENT_RESOURCES;
    *line.adapter.fault.lock() = Some((Call::ResizeCompletionQueue, due));
    assert_eq!(resize(5), (due, 4)); // CQ-011
    assert_eq!(resize(5), (Status::SUCCESS, 5));
    line.is_broken.store(true, Ordering::SeqCst);
    assert_eq!(resize(6), (Status::INVALID_DEVICE_STATE, 5));
    line.adapter.info.lock().flags = AdapterFlags::empty();
    assert_eq!(resize(6), (Status::NOT_SUPPORTED, 5)); // CQ-015
    line.adapter.is_removed.store(true, Ordering::SeqCst);
    assert_eq!(resize(6), (Status::DEVICE_REMOVED, 5)); // CQ-014
}

#[test]
fn cq_023_the_end_of_the_handle_and_a_cancel_end_the_requests_of_notify() {
    let queue = queue();
    let notify = || {
        let overlapped = Overlapped::new();
        let started = queue.notify(NotifyType::Any, &overlapped);
        (status(started), overlapped)
    };
    let (started, cancelled) = notify();
    assert_eq!((started, cancelled.is_pending()), (Status::SUCCESS, true));
    queue.cancel_overlapped_requests().unwrap();
    assert_eq!(cancelled.status(), Status::CANCELED);
    let due = Status::INSUFFICIENT_RESOURCES;
    *queue.line.adapter.fault.lock() = Some((Call::NotifyCompletionQueue, due));
    let (refused, abandoned) = notify();
    assert_eq!((refused, abandoned.status()), (due, due));
    let (_, released) = notify();
    assert!(released.is_pending());
    drop(queue);
    assert_eq!(released.status(), Status::CANCELED); // CQ-023
}

#[test]
fn cq_007_cq_008_processors_that_are_not_known() {
    let queue = queue();
    let affinity_status = || status(queue.get_notify_affinity());
    assert_eq!(affinity_status(), Status::NOT_SUPPORTED); // CQ-008
    queue.line.adapter.is_removed.store(true, Ordering::SeqCst);
    assert_eq!(affinity_status(), Status::DEVICE_REMOVED); // CQ-007
}
