//! Events and the end of their object under every interleaving that loom's memory model allows, up to three preemptions:
//! `RUSTFLAGS="--cfg loom" cargo test -p softverbs --lib loom`.
//!
//! Each model also runs with its steps in a wrong order, and then fails: loom reports a deadlock if an end waits for an event that the
//! program cannot receive.

use iwarp_io::sync::AtomicBool;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// An object with events.
#[derive(Default)]
pub(crate) struct Subject {
    pub(crate) acknowledgements: Acknowledgements,
    /// The program has released the object.
    is_gone: AtomicBool,
}

impl Subject {
    /// The program looks at the object behind an event.
    fn look(&self) {
        let is_gone = self.is_gone.load(Ordering::Relaxed);
        assert!(!is_gone, "an event of a released object");
    }

    /// Waits for the acknowledgements, and releases the object.
    pub(crate) fn release(&self) {
        self.acknowledgements.wait(false).unwrap();
        self.is_gone.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct TestEvent {
    subject: Arc<Subject>,
    /// The event was counted when it was made.
    is_counted: bool,
}

impl Event for TestEvent {
    fn counter(&self) -> Option<&Acknowledgements> {
        (!self.is_counted).then_some(&self.subject.acknowledgements)
    }
}

pub(crate) type Events = EventQueue<TestEvent>;

pub(crate) fn events() -> Arc<Events> {
    Arc::new(EventQueue::with(EventDescriptor::simulated()))
}

/// The steps that an order can be wrong in.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// Leaves an event.
    pub(crate) raise: fn(&Events, &Arc<Subject>),
    /// Ends the object, and releases it.
    pub(crate) destroy: fn(&Events, &Arc<Subject>),
}

pub(crate) const RIGHT: Steps = Steps {
    raise: |events, subject| {
        let (subject, is_counted) = (Arc::clone(subject), false);
        drop(events.push(TestEvent {
            subject,
            is_counted,
        }));
    },
    destroy: |events, subject| {
        drop(events.end(&subject.acknowledgements));
        subject.release();
    },
};

fn is_of(subject: &Arc<Subject>) -> impl Fn(&TestEvent) -> bool {
    move |event| Arc::ptr_eq(&event.subject, subject)
}

/// Events are counted before they can be received, and the end does not keep later ones out.
pub(crate) const COUNTED_FIRST: Steps = Steps {
    raise: |events, subject| {
        subject.acknowledgements.handed_out();
        let (subject, is_counted) = (Arc::clone(subject), true);
        drop(events.push(TestEvent {
            subject,
            is_counted,
        }));
    },
    destroy: |events, subject| {
        for event in events.extract(is_of(subject)) {
            event.subject.acknowledgements.acknowledge(1);
        }
        subject.release();
    },
};

/// The object is marked after its events were taken out, with the queue unlocked in between.
pub(crate) const MARKED_LATE: Steps = Steps {
    destroy: |events, subject| {
        drop(events.extract(is_of(subject)));
        subject.acknowledgements.end();
        subject.release();
    },
    ..RIGHT
};

/// The program waits for acknowledgements while it can still receive events.
const WAITED_FIRST: Steps = Steps {
    destroy: |events, subject| {
        subject.release();
        drop(events.end(&subject.acknowledgements));
    },
    ..RIGHT
};

/// The program receives an event, if one is there, looks at its object, and acknowledges.
pub(crate) fn receive(events: &Events) -> bool {
    let Some(event) = events.take() else {
        return false;
    };
    event.subject.look();
    event.subject.acknowledgements.acknowledge(1);
    true
}

pub(crate) fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// One thread raises an event, and the program, which may receive it, destroys its object.
fn raise_beside_destroy(steps: Steps) {
    check(move || {
        let (events, subject) = (events(), Arc::new(Subject::default()));
        let raises = {
            let (events, subject) = (Arc::clone(&events), Arc::clone(&subject));
            thread::spawn(move || (steps.raise)(&events, &subject))
        };
        receive(&events);
        (steps.destroy)(&events, &subject);
        raises.join().unwrap();
        assert!(!receive(&events));
    });
}

/// One thread of the program receives and acknowledges, another one destroys the object.
fn acknowledge_beside_destroy(steps: Steps) {
    check(move || {
        let (events, subject) = (events(), Arc::new(Subject::default()));
        (steps.raise)(&events, &subject);
        (steps.raise)(&events, &subject);
        let receives = {
            let events = Arc::clone(&events);
            thread::spawn(move || {
                receive(&events);
                receive(&events);
            })
        };
        (steps.destroy)(&events, &subject);
        receives.join().unwrap();
        assert!(!receive(&events));
    });
}

#[test]
fn an_event_is_raised_while_its_object_is_destroyed() {
    raise_beside_destroy(RIGHT);
}

/// `cq/loom_models.rs` finds the deadlock of this order.
#[test]
#[should_panic(expected = "an event of a released object")]
fn an_event_that_is_counted_before_it_can_be_received() {
    raise_beside_destroy(COUNTED_FIRST);
}

#[test]
#[should_panic(expected = "an event of a released object")]
fn an_object_that_is_marked_after_its_events_were_taken_out() {
    raise_beside_destroy(MARKED_LATE);
}

#[test]
fn an_event_is_acknowledged_while_its_object_is_destroyed() {
    acknowledge_beside_destroy(RIGHT);
}

#[test]
#[should_panic(expected = "an event of a released object")]
fn an_object_that_waits_before_its_events_were_taken_out() {
    acknowledge_beside_destroy(WAITED_FIRST);
}
