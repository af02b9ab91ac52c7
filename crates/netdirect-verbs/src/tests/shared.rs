//! Shared receive queues.

use std::any::Any;
use std::sync::Arc;

use netdirect::{Fault, Overlapped, SharedReceiveQueue, SharedReceiveQueueOptions, Status};

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
