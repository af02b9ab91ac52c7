//! Shared receive queues.

use std::sync::Arc;

use netdirect::{
    CompletionResult, Connector, Fault, Overlapped, QueuePair, QueuePairOptions, Sge,
    SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};

use super::connections::newest;
use super::{Objects, eventually, fake, last_post};
use crate::sys::bindings as c;

/// Objects of an adapter that has shared receive queues, and such a queue.
fn objects(options: SharedReceiveQueueOptions) -> (Objects, Arc<dyn SharedReceiveQueue>) {
    fake::with(|world| world.has_shared_receives = true);
    let objects = Objects::new();
    let queue = objects
        .adapter
        .create_shared_receive_queue(&objects.file, options);
    (objects, queue.expect("a shared receive queue"))
}

fn depth(depth: u32) -> SharedReceiveQueueOptions {
    SharedReceiveQueueOptions::default().queue_depth(depth)
}

#[test]
fn ovl_010_a_notify_that_waits_ends_when_the_device_is_removed() {
    let _turn = fake::turn();
    let (objects, queue) = objects(depth(4));
    let overlapped = Overlapped::new();
    assert_eq!(queue.notify(&overlapped), Ok(Started::Pending));
    assert!(overlapped.is_pending());
    let extensions = objects.adapter.extensions().expect("some");
    extensions.inject(Fault::RemoveDevice).expect("removed");
    assert_eq!(overlapped.status(), Status::DEVICE_REMOVED);
}

#[test]
fn a_queue_that_was_made_shorter_has_the_devices_places_still() {
    let _turn = fake::turn();
    let (_objects, queue) = objects(depth(8));
    // Some drivers cannot enlarge a queue.
    fake::with(|world| world.enlarge_returns = libc::EINVAL);
    queue.modify(4, 0).expect("shorter");
    queue.modify(8, 0).expect("as long as it was made");
    let longer = queue.modify(9, 0).map_err(|error| error.status());
    assert_eq!(longer, Err(Status::INSUFFICIENT_RESOURCES));
    fake::with(|world| world.enlarge_returns = 0);
    queue.modify(9, 0).expect("longer");
    queue.modify(1, 0).expect("shorter");
    queue.modify(9, 0).expect("as long as it was");
    assert_eq!(fake::with(|world| world.enlarged.clone()), [9, 9]);
}

#[test]
fn a_threshold_that_is_raised_arms_the_device_for_a_notify_that_waits() {
    let _turn = fake::turn();
    let (objects, queue) = objects(depth(8).notify_threshold(1));
    let sges: [Sge; 0] = [];
    for context in 0..4 {
        queue.receive(context, &sges).expect("posted");
    }
    queue.modify(0, 2).expect("raised");
    assert_eq!(fake::with(|world| world.armed.clone()), []);
    let overlapped = Overlapped::new();
    let started = queue.notify(&overlapped);
    assert_eq!(started, Ok(Started::Pending));
    queue.modify(0, 3).expect("raised");
    assert_eq!(fake::with(|world| world.armed.clone()), [2, 3]);
    assert_eq!(overlapped.status(), Status::PENDING);
    // Fewer than this are left (AMB-052).
    queue.modify(0, 5).expect("raised");
    assert_eq!(overlapped.status(), Status::SUCCESS);
    assert_eq!(fake::with(|world| world.armed.clone()), [2, 3]);
    drop(objects);
}

/// A connected queue pair that uses a shared receive queue with one Receive.
struct Bench {
    objects: Objects,
    queue: Arc<dyn SharedReceiveQueue>,
    pair: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
    /// The Receive, in the form that this queue pair completes.
    receive: fake::Post,
}

impl Bench {
    /// A bench on a device of this vendor, with or without a connection.
    fn new(vendor_id: u32, is_connected: bool) -> Self {
        fake::with(|world| world.vendor_id = vendor_id);
        let (objects, queue) = objects(depth(1));
        let options = QueuePairOptions::default();
        let cq = &objects.cq;
        let pair = objects
            .adapter
            .create_queue_pair_with_srq(cq, cq, &queue, options);
        let pair = pair.expect("a queue pair");
        let number = fake::with(|world| world.pairs.last().expect("one").number);
        queue.receive(1, &[]).expect("posted");
        let receive = fake::Post {
            pair: number,
            ..last_post()
        };
        let connector = objects.adapter.create_connector(&objects.file);
        let connector = connector.expect("a connector");
        if is_connected {
            fake::with(|world| world.calls.clear());
            let overlapped = Overlapped::new();
            let _ = connector
                .connect(&pair, super::PEER, 0, 0, &[], &overlapped)
                .expect("started");
            super::complete_connect(&*connector, &overlapped);
        }
        fake::with(|world| world.calls.clear());
        Self {
            objects,
            queue,
            pair,
            connector,
            receive,
        }
    }

    /// Disconnects, which makes the device fail the queue pair.
    fn disconnect(&self) -> Overlapped {
        let overlapped = Overlapped::new();
        let _ = self.connector.disconnect(&overlapped).expect("started");
        let id = newest();
        fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_DISCONNECTED, 0));
        fake::until(|world| world.calls.contains(&"fail"));
        overlapped
    }

    /// The client has the Receive back, and the queue has a place again.
    fn has_receive_back(&self) {
        let mut results = [CompletionResult::default()];
        let cq = &self.objects.cq;
        assert_eq!(cq.get_results(&mut results), 1);
        let found = (results[0].request_context, results[0].status);
        assert_eq!(found, (1, Status::CANCELED));
        self.queue.receive(2, &[]).expect("there is a place");
    }
}

/// Returns true if the queue pair of this Receive was destroyed.
fn is_destroyed(receive: fake::Post) -> bool {
    fake::with(|world| {
        let mut pairs = world.pairs.iter();
        !pairs.any(|pair| pair.number == receive.pair)
    })
}

#[test]
fn a_queue_pair_that_ends_gives_back_what_it_has_taken_from_the_shared_queue() {
    let _turn = fake::turn();
    let bench = Bench::new(0x1425, true);
    bench.pair.flush().expect("flushed");
    assert!(!is_destroyed(bench.receive));
    fake::with(|world| {
        world.complete(bench.receive, c::IBV_WC_WR_FLUSH_ERR, 0);
        world.tell_of_pair(c::IBV_EVENT_QP_LAST_WQE_REACHED);
    });
    assert!(eventually(|| is_destroyed(bench.receive)));
    bench.has_receive_back();
}

#[test]
fn a_device_that_does_not_tell_of_the_last_receive_is_not_waited_for_long() {
    let _turn = fake::turn();
    let bench = Bench::new(0x1425, true);
    let overlapped = bench.disconnect();
    assert!(eventually(|| overlapped.status() == Status::SUCCESS));
    assert!(is_destroyed(bench.receive));
}

#[test]
fn the_removal_of_the_device_ends_the_wait_for_the_last_receive() {
    let _turn = fake::turn();
    let bench = Bench::new(0x1425, true);
    bench.pair.flush().expect("flushed");
    assert!(!is_destroyed(bench.receive));
    let extensions = bench.objects.adapter.extensions().expect("some");
    extensions.inject(Fault::RemoveDevice).expect("removed");
    assert!(is_destroyed(bench.receive));
}

#[test]
fn siw_flushes_the_receive_at_once() {
    let _turn = fake::turn();
    let bench = Bench::new(0x62_6D_74, true);
    bench.pair.flush().expect("flushed");
    assert!(is_destroyed(bench.receive));
}

#[test]
fn a_receive_that_an_attempt_has_used_comes_back() {
    let _turn = fake::turn();
    let bench = Bench::new(0x1425, false);
    let overlapped = Overlapped::new();
    let (connector, pair) = (&bench.connector, &bench.pair);
    let _ = connector
        .connect(pair, super::PEER, 0, 0, &[], &overlapped)
        .expect("started");
    fake::until(|world| world.calls.contains(&"connect"));
    let id = newest();
    fake::with(|world| world.complete(bench.receive, c::IBV_WC_WR_FLUSH_ERR, 0));
    assert_eq!(bench.objects.results(), []);
    fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_REJECTED, -libc::ECONNREFUSED));
    assert_eq!(overlapped.wait(), Status::CONNECTION_REFUSED);
    bench.has_receive_back();
}

#[test]
fn adpt_076_the_peer_is_told_to_wait_for_shared_receives() {
    let _turn = fake::turn();
    let bench = Bench::new(0x1425, true);
    // 7 times means without end.
    let sent = fake::with(|world| world.sent_receive_options);
    assert_eq!(sent, Some((7, true)));
    drop(bench);
}
