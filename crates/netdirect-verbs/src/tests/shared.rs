//! Shared receive queues.

use std::any::Any;
use std::sync::Arc;

use netdirect::{
    Fault, Overlapped, Sge, SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};

use super::{Objects, fake};
use crate::srq::SrqHandle;

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
fn gen_015_a_notify_that_the_removal_overtakes_ends() {
    let _turn = fake::turn();
    let (objects, queue) = objects(depth(4));
    let any: Arc<dyn Any + Send + Sync> = queue.clone();
    let own = any.downcast::<SrqHandle>().expect("one of this provider");
    // The call was admitted before, and its request is added afterwards.
    let overlapped = Overlapped::new();
    let request = overlapped.begin(&objects.file).expect("free");
    let extensions = objects.adapter.extensions().expect("some");
    extensions.inject(Fault::RemoveDevice).expect("removed");
    own.0.add_notify(request);
    assert_eq!(overlapped.status(), Status::DEVICE_REMOVED);
}

#[test]
fn a_queue_that_was_made_shorter_has_the_devices_places_still() {
    let _turn = fake::turn();
    let (_objects, queue) = objects(depth(8));
    // As drivers do that cannot enlarge a queue.
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
    // So many are not left (AMB-052).
    queue.modify(0, 5).expect("raised");
    assert_eq!(overlapped.status(), Status::SUCCESS);
    assert_eq!(fake::with(|world| world.armed.clone()), [2, 3]);
    drop(objects);
}
