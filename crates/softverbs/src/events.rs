//! Queues of events with a descriptor that is readable exactly while an event waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use iwarp_io::environment::Environment;
use iwarp_io::progress::parking::Parking;
use iwarp_io::progress::readiness::event_descriptor::EventDescriptor;
use parking_lot::Mutex;

use crate::error::{Errno, Error, Result, fail};
use crate::process::Engine;

/// A queue of events.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    events: Mutex<VecDeque<E>>,
    descriptor: EventDescriptor,
    /// Where threads wait for an event.
    parking: OnceLock<Arc<Parking>>,
}

impl<E> EventQueue<E> {
    pub(crate) fn new(environment: &Environment) -> Result<Self> {
        let descriptor = environment
            .event_descriptor()
            .map_err(|error: io::Error| Error::of_system(&error, "cannot make a descriptor"))?;
        Ok(Self {
            events: Mutex::default(),
            descriptor,
            parking: OnceLock::new(),
        })
    }

    /// Threads that wait for an event park here.
    pub(crate) fn wait_in(&self, parking: &Arc<Parking>) {
        // Of several threads that come first, each brings a parking that serves.
        let _ = self.parking.set(Arc::clone(parking));
    }

    pub(crate) fn push(&self, event: E) {
        let mut events = self.events.lock();
        events.push_back(event);
        self.descriptor.set(true);
        drop(events);
        if let Some(parking) = self.parking.get() {
            parking.wake();
        }
    }

    pub(crate) fn take(&self) -> Option<E> {
        let mut events = self.events.lock();
        let event = events.pop_front();
        self.descriptor.set(!events.is_empty());
        event
    }

    /// Takes out all events that `wanted` chooses, in their order.
    pub(crate) fn extract(&self, wanted: impl FnMut(&E) -> bool) -> Vec<E> {
        let mut events = self.events.lock();
        let (taken, kept): (Vec<_>, Vec<_>) = events.drain(..).partition(wanted);
        events.extend(kept);
        self.descriptor.set(!events.is_empty());
        taken
    }

    /// Counts the events that `wanted` chooses.
    pub(crate) fn count(&self, wanted: impl Fn(&E) -> bool) -> usize {
        self.events
            .lock()
            .iter()
            .filter(|event| wanted(event))
            .count()
    }

    fn is_empty(&self) -> bool {
        self.events.lock().is_empty()
    }

    /// The next event. Waits for it, and drives the connections meanwhile, unless the program has set `O_NONBLOCK` on the descriptor.
    pub(crate) fn get(&self, engine: impl FnOnce() -> Result<Arc<Engine>>) -> Result<E> {
        if let Some(event) = self.take() {
            return Ok(event);
        }
        if self.descriptor.is_nonblocking() {
            return fail(Errno::AGAIN, "no event waits");
        }
        let engine = engine()?;
        self.wait_in(&engine.parking);
        let parking = self.parking.get().unwrap_or(&engine.parking);
        loop {
            engine.wait(parking, &|| !self.is_empty())?;
            if let Some(event) = self.take() {
                return Ok(event);
            }
        }
    }

    /// Returns true while an event waits.
    pub(crate) fn is_ready(&self) -> bool {
        self.descriptor.is_raised()
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.descriptor()
    }
}
