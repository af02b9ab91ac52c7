//! Queues of events with a descriptor that is readable exactly while an event waits.
//!
//! An event counts at its object from the moment in which the program receives it until the program acknowledges it, and an object is
//! destroyed once none of its events counts. Three steps happen with the queue locked: an event enters the queue unless its object has
//! [ended](EventQueue::end); the program takes it out, and it is counted; the object ends, and its events leave the queue. So an object
//! waits only for events that the program has received, and the program receives none afterwards, whichever thread makes the event when.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use iwarp_io::environment::Environment;
use iwarp_io::progress::readiness::event_descriptor::EventDescriptor;
use iwarp_io::progress::waiters::Waiters;
use iwarp_io::sync::{AtomicU8, Mutex, Ordering};
use iwarp_io::vain_polls;

use crate::error::{Error, Result};
use crate::process::Engine;
use crate::users::Acknowledgements;

/// An event of a queue.
pub(crate) trait Event {
    /// The count of the object that the event is about; `None` for an event that needs no acknowledgement.
    fn counter(&self) -> Option<&Acknowledgements>;
}

/// A queue of events.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    waiting: Mutex<Waiting<E>>,
    descriptor: EventDescriptor,
    /// The number of further events that may be found at once until the program counts as one that waits in its own way.
    blocks: AtomicU8,
    /// The waiters in which threads wait for an event.
    waiters: OnceLock<Arc<Waiters>>,
}

/// The events that wait, and the threads that wait for one.
#[derive(Debug)]
struct Waiting<E> {
    events: VecDeque<E>,
    threads: usize,
}

/// A program that has waited in a call counts as one that does so until this many events in a row were there before the call.
const AT_ONCE: u8 = 2;

impl<E: Event> EventQueue<E> {
    pub(crate) fn new(environment: &Environment) -> Result<Self> {
        let descriptor = EventDescriptor::in_environment(environment)
            .map_err(|error: io::Error| Error::of_system(&error, "cannot make a descriptor"))?;
        Ok(Self::with(descriptor))
    }

    fn with(descriptor: EventDescriptor) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                events: VecDeque::new(),
                threads: 0,
            }),
            descriptor,
            blocks: AtomicU8::new(0),
            waiters: OnceLock::new(),
        }
    }

    /// Threads that wait for an event park here.
    pub(crate) fn wait_in(&self, waiters: &Arc<Waiters>) {
        // If several threads come first, each brings waiters that can be used.
        let _ = self.waiters.set(Arc::clone(waiters));
    }

    /// If a thread waits for an event in [`get`](Self::get), that thread gets the event, and the descriptor is not changed. An event of an
    /// object that has [ended](Self::end) comes back.
    pub(crate) fn push(&self, event: E) -> Option<E> {
        let mut waiting = self.waiting.lock();
        if event.counter().is_some_and(Acknowledgements::has_ended) {
            return Some(event);
        }
        waiting.events.push_back(event);
        if waiting.threads == 0 {
            self.descriptor.set(true);
        }
        drop(waiting);
        if let Some(waiters) = self.waiters.get() {
            waiters.wake();
        }
        None
    }

    /// Takes out the oldest event for the program, and counts it at its object.
    pub(crate) fn take(&self) -> Option<E> {
        let events = &mut self.waiting.lock().events;
        let event = events.pop_front();
        if let Some(counter) = event.as_ref().and_then(Event::counter) {
            counter.handed_out();
        }
        self.descriptor.set(!events.is_empty());
        event
    }

    /// The object with this count has no more events: takes out those that wait, and later ones do not enter.
    pub(crate) fn end(&self, ended: &Acknowledgements) -> Vec<E> {
        let waiting = &mut self.waiting.lock();
        ended.end();
        self.extract_from(waiting, |event| {
            event.counter().is_some_and(|own| std::ptr::eq(own, ended))
        })
    }

    /// Takes out all events for which `wanted` returns true, in order.
    pub(crate) fn extract(&self, wanted: impl FnMut(&E) -> bool) -> Vec<E> {
        self.extract_from(&mut self.waiting.lock(), wanted)
    }

    fn extract_from(&self, waiting: &mut Waiting<E>, wanted: impl FnMut(&E) -> bool) -> Vec<E> {
        let events = &mut waiting.events;
        let (taken, kept): (Vec<_>, Vec<_>) = events.drain(..).partition(wanted);
        events.extend(kept);
        self.descriptor.set(!events.is_empty());
        taken
    }

    /// Takes out the last event for which `wanted` returns true.
    pub(crate) fn extract_last(&self, wanted: impl FnMut(&E) -> bool) -> Option<E> {
        let events = &mut self.waiting.lock().events;
        let last = events.iter().rposition(wanted)?;
        let event = events.remove(last);
        self.descriptor.set(!events.is_empty());
        event
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().events.is_empty()
    }

    /// The next event. Waits for it, and drives the connections meanwhile, unless the program has set `O_NONBLOCK` on the descriptor.
    pub(crate) fn get(&self, engine: impl FnOnce() -> Result<Arc<Engine>>) -> Result<E> {
        if let Some(event) = self.take() {
            let blocks = self.blocks.load(Ordering::Relaxed);
            self.blocks
                .store(blocks.saturating_sub(1), Ordering::Relaxed);
            return Ok(event);
        }
        if self.descriptor.is_nonblocking() {
            vain_polls::polled_in_vain();
            return Err(Error::no_event());
        }
        let engine = engine()?;
        self.wait_in(&engine.waiters);
        let waiters = self.waiters.get().unwrap_or(&engine.waiters);
        self.blocks.store(AT_ONCE, Ordering::Relaxed);
        self.waiting.lock().threads += 1;
        let waited = loop {
            if let Err(error) = engine.wait(waiters, &|| !self.is_empty()) {
                break Err(error);
            }
            if let Some(event) = self.take() {
                break Ok(event);
            }
        };
        let mut waiting = self.waiting.lock();
        waiting.threads -= 1;
        // Events that came for this thread, and that it leaves.
        self.descriptor
            .set(waiting.threads == 0 && !waiting.events.is_empty());
        waited
    }

    /// Returns true if the program waits for events in [`get`](Self::get), which drives the connections, and not at the descriptor.
    pub(crate) fn is_waited_for_here(&self) -> bool {
        self.blocks.load(Ordering::Relaxed) > 0
    }

    /// Returns true while an event waits.
    pub(crate) fn is_ready(&self) -> bool {
        self.descriptor.is_raised()
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.descriptor()
    }
}

#[cfg(all(test, loom))]
pub(crate) mod loom_models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct TestEvent(Arc<Acknowledgements>, u8);

    impl Event for TestEvent {
        fn counter(&self) -> Option<&Acknowledgements> {
            Some(&self.0)
        }
    }

    fn acknowledged(counter: &Acknowledgements) -> bool {
        counter.wait(true).is_ok()
    }

    #[test]
    fn an_object_waits_for_the_events_that_were_received_and_has_none_after_its_end() {
        let events = EventQueue::with(EventDescriptor::simulated());
        let (one, other) = (Arc::default(), Arc::default());
        for (source, number) in [(&one, 1), (&one, 2), (&other, 3), (&one, 4)] {
            assert!(events.push(TestEvent(Arc::clone(source), number)).is_none());
        }
        assert!(acknowledged(&one));
        assert_eq!(events.take().unwrap().1, 1);
        assert!(!acknowledged(&one));
        let left: Vec<_> = events.end(&one).iter().map(|event| event.1).collect();
        assert_eq!(left, [2, 4]);
        assert!(!acknowledged(&one), "the event that was received");
        one.acknowledge(1);
        assert!(acknowledged(&one));
        assert_eq!(events.push(TestEvent(one, 5)).unwrap().1, 5);
        assert_eq!(events.take().unwrap().1, 3);
        assert!(events.take().is_none() && !events.is_ready());
        assert!(events.push(TestEvent(other, 6)).is_none() && events.is_ready());
    }
}
