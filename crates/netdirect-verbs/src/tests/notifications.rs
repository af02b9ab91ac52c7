//! Notify of completion queues.

use std::any::Any;
use std::sync::Arc;

use netdirect::{CompletionQueue, NotifyType, Overlapped, Sge, Status};
use netdirect_provider::completion_queue::CompletionQueueHandle;

use super::{Objects, fake, last_post};
use crate::cq::Cq;
use crate::driver::Source;
use crate::sys::bindings as c;

/// The adapter's thread handles the report of this queue's channel.
fn handle_event(cq: &Arc<dyn CompletionQueue>) {
    let any: Arc<dyn Any + Send + Sync> = cq.clone();
    let cq = any
        .downcast::<CompletionQueueHandle<Cq>>()
        .expect("one of this provider");
    cq.line().ready();
}

fn notify(objects: &Objects, kind: NotifyType) -> Overlapped {
    let overlapped = Overlapped::new();
    let _ = objects.cq.notify(kind, &overlapped).expect("started");
    overlapped
}

/// A Receive ends.
fn receive(objects: &Objects, context: u64) {
    let sges: [Sge; 0] = [];
    objects.qp.receive(context, &sges).expect("posted");
    let post = last_post();
    fake::with(|world| world.complete(post, c::IBV_WC_SUCCESS, 0));
}

#[test]
fn cq_037_an_event_that_nobody_waits_for_any_more_keeps_no_result_from_the_next_notify() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let first = notify(&objects, NotifyType::Any);
    fake::with(|world| world.holds_events = true);
    receive(&objects, 1);
    // The client is faster than the thread that handles the event.
    assert_eq!(objects.results().len(), 1);
    assert_eq!(first.status(), Status::SUCCESS);
    receive(&objects, 2);
    handle_event(&objects.cq);
    let second = notify(&objects, NotifyType::Any);
    assert_eq!(second.status(), Status::SUCCESS);
    assert_eq!(objects.results().len(), 1);
}

#[test]
fn cq_037_a_notify_of_errors_keeps_no_result_from_another_notify() {
    for kind in [NotifyType::Any, NotifyType::Solicited] {
        let _turn = fake::turn();
        let objects = Objects::connected();
        let errors = notify(&objects, NotifyType::Errors);
        fake::with(|world| world.holds_events = true);
        receive(&objects, 1);
        handle_event(&objects.cq);
        assert_eq!(errors.status(), Status::PENDING);
        assert_eq!(notify(&objects, kind).status(), Status::SUCCESS);
        assert_eq!(errors.status(), Status::PENDING);
    }
}

#[test]
fn a_result_that_comes_later_ends_a_notify_that_waits() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let waits = notify(&objects, NotifyType::Any);
    assert_eq!(waits.status(), Status::PENDING);
    receive(&objects, 1);
    assert_eq!(waits.wait(), Status::SUCCESS);
    // One result ends one Notify (CQ-031).
    assert_eq!(notify(&objects, NotifyType::Any).status(), Status::PENDING);
}
