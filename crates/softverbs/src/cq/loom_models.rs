//! A connection that places a completion and delivers its event, beside a program that polls, cancels or destroys the queue, under every
//! interleaving that loom's memory model allows, up to three preemptions: `RUSTFLAGS="--cfg loom" cargo test -p softverbs --lib loom`.

use iwarp_io::sync::{AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::events::loom_models::{
    COUNTED_FIRST, Events, MARKED_LATE, RIGHT, Steps, Subject, check, events, receive,
};

/// A completion queue without its streams.
struct Queue {
    results: ArmedQueue,
    events: Arc<Events>,
    subject: Arc<Subject>,
    /// Whether a request for an event waits.
    interest: AtomicUsize,
}

impl Queue {
    /// An armed queue.
    fn armed() -> Arc<Self> {
        let queue = Self {
            results: ArmedQueue::new(4).unwrap(),
            events: events(),
            subject: Arc::default(),
            interest: AtomicUsize::new(0),
        };
        let due = queue.results.request(false, queue.counts(), || {});
        assert!(due.is_none());
        Arc::new(queue)
    }

    fn counts(&self) -> impl Fn(bool) {
        |waits| {
            if waits {
                self.interest.fetch_add(1, Ordering::Relaxed);
            } else {
                self.interest.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn place(&self) -> Option<DueEvents> {
        let entry = CqEntry {
            completion: WorkCompletion::default(),
            solicited: false,
        };
        let entries = std::iter::once(entry);
        self.results.place(entries, |_, _| {}, self.counts())
    }

    /// Places a completion, and delivers the event that it makes due.
    fn place_and_deliver(&self, raise: fn(&Events, &Arc<Subject>)) {
        if let Some(due) = self.place()
            && self.results.fires(due)
        {
            raise(&self.events, &self.subject);
        }
    }
}

/// The program takes the completion and the event, if they are there, and destroys the queue.
fn deliver_beside_destroy(steps: Steps) {
    check(move || {
        let queue = Queue::armed();
        let places = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.place_and_deliver(steps.raise))
        };
        let polled = queue.results.take(&mut [WorkCompletion::default()]);
        let received = receive(&queue.events);
        drop(queue.results.cancel(queue.counts()));
        (steps.destroy)(&queue.events, &queue.subject);
        places.join().unwrap();
        assert!(!receive(&queue.events));
        let left = queue.results.take(&mut [WorkCompletion::default()]);
        assert_eq!(polled + left, 1);
        assert!(!received || polled == 1 || left == 1);
        assert_eq!(queue.interest.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn an_event_is_delivered_while_its_queue_is_destroyed() {
    deliver_beside_destroy(RIGHT);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_event_of_a_queue_that_is_counted_before_it_can_be_received() {
    deliver_beside_destroy(COUNTED_FIRST);
}

#[test]
#[should_panic(expected = "an event of a released object")]
fn a_queue_that_is_marked_after_its_events_were_taken_out() {
    deliver_beside_destroy(MARKED_LATE);
}

/// The program cancels its request: either there is an event, or the request comes back. `delivers` places a completion, and returns true
/// if that makes an event.
fn cancel_beside_delivery(delivers: fn(&Queue) -> bool) {
    check(move || {
        let queue = Queue::armed();
        let places = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || delivers(&queue))
        };
        let cancelled = queue.results.cancel(queue.counts());
        let delivered = places.join().unwrap();
        let ended = cancelled.len() + usize::from(delivered);
        assert_eq!(ended, 1, "a request ends once");
        assert_eq!(queue.interest.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_request_is_cancelled_while_its_event_is_delivered() {
    cancel_beside_delivery(|queue| queue.place().is_some_and(|due| queue.results.fires(due)));
}

#[test]
#[should_panic(expected = "a request ends once")]
fn an_event_that_is_delivered_without_its_request() {
    cancel_beside_delivery(|queue| {
        drop(queue.place());
        queue.results.is_armed()
    });
}
