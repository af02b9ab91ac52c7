//! Requests without results, on a device that reports the end of each request.

use std::sync::Arc;

use netdirect::{
    Affinity, CompletionQueue, Connector, LocalToken, NotifyType, OpFlags, Overlapped, QueuePair,
    QueuePairOptions, RemoteAddress, Sge, Status,
};

use super::{Objects, eventually, fake, last_post};
use crate::sys::bindings as c;

const SGE: Sge = Sge {
    address: 4096,
    length: 8,
    token: LocalToken(1),
};
const DEPTH: u32 = 1024;

/// Queue pairs with long queues, and a short completion queue for them.
struct Bench {
    objects: Objects,
    cq: Arc<dyn CompletionQueue>,
    pairs: Vec<(Arc<dyn QueuePair>, Arc<dyn Connector>)>,
}

impl Bench {
    fn new() -> Self {
        let objects = Objects::new();
        let cq = objects
            .adapter
            .create_completion_queue(&objects.file, 16, Affinity::default());
        let cq = cq.expect("a completion queue");
        let options = QueuePairOptions::default()
            .initiator_queue_depth(DEPTH)
            .max_initiator_request_sge(1);
        let pairs = (0..3).map(|_| objects.another_with(&cq, options));
        let pairs = pairs.collect();
        fake::with(|world| world.calls.clear());
        Self { objects, cq, pairs }
    }

    /// Posts as many as the queues hold. Calls `posted` with each.
    fn post_all(&self, mut posted: impl FnMut(fake::Post)) {
        for (qp, _) in &self.pairs {
            for context in 0..DEPTH {
                let flags = OpFlags::SILENT_SUCCESS;
                let to = RemoteAddress::default();
                let written = qp.write(context.into(), &[SGE], to, flags);
                written.expect("there is room");
                posted(last_post());
            }
        }
    }

    fn check(&self) {
        assert!(!fake::with(|world| world.calls.contains(&"overflow")));
        let overlapped = Overlapped::new();
        let _ = self
            .cq
            .notify(NotifyType::Any, &overlapped)
            .expect("started");
        assert_eq!(overlapped.status(), Status::PENDING);
        assert_eq!(self.objects.results(), []);
    }
}

#[test]
fn silent_requests_that_end_at_once_do_not_fill_the_devices_queue() {
    let _turn = fake::turn();
    let bench = Bench::new();
    bench.post_all(|post| fake::with(|world| world.complete(post, c::IBV_WC_SUCCESS, 0)));
    bench.check();
}

#[test]
fn silent_requests_that_end_while_the_client_sleeps_do_not_fill_the_devices_queue() {
    let _turn = fake::turn();
    let bench = Bench::new();
    let mut posted = Vec::new();
    bench.post_all(|post| posted.push(post));
    for some in posted.chunks(256) {
        fake::with(|world| {
            for post in some {
                world.complete(*post, c::IBV_WC_SUCCESS, 0);
            }
        });
        // The adapter's thread takes them out as long as more than half the places beyond the client's 16 may be needed.
        let waiting = || fake::with(|world| world.waiting_results());
        assert!(eventually(|| waiting() <= (16 + 1024) / 2));
    }
    bench.check();
}

#[test]
fn a_notify_of_solicited_results_does_not_end_by_silent_requests() {
    let _turn = fake::turn();
    let bench = Bench::new();
    let mut posted = Vec::new();
    bench.post_all(|post| posted.push(post));
    let overlapped = Overlapped::new();
    let _ = bench
        .cq
        .notify(NotifyType::Solicited, &overlapped)
        .expect("started");
    fake::with(|world| world.complete(posted[0], c::IBV_WC_SUCCESS, 0));
    assert!(eventually(
        || fake::with(|world| world.waiting_results()) == 0
    ));
    fake::with(|world| world.complete(posted[1], c::IBV_WC_SUCCESS, 0));
    assert!(eventually(
        || fake::with(|world| world.waiting_results()) == 0
    ));
    assert_eq!(overlapped.status(), Status::PENDING);
}
