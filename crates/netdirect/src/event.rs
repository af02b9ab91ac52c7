//! Auto-reset events.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::OverlappedFile;
use crate::sync::{Condvar, Mutex};

/// An auto-reset event (`CreateEvent(NULL, FALSE, …)`): once set, it releases exactly one wait, which resets it.
///
/// Clones are the same event. Waiting on an event is a plain wait: unlike [`Overlapped::wait`](crate::Overlapped::wait) it
/// does not drive the provider, whose own thread does the work then. A [`Simulation`](crate::Simulation) has no such thread:
/// there the wait moves the simulation.
///
/// ```
/// let event = netdirect::Event::new();
/// event.set();
/// event.set(); // a second time changes nothing
/// event.wait();
/// assert!(!event.wait_timeout(std::time::Duration::ZERO));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Event(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    set: Mutex<bool>,
    changed: Condvar,
    /// The file of the last request that this event belonged to and that lives in a simulation.
    simulated: Mutex<Option<Weak<dyn OverlappedFile>>>,
}

impl Event {
    /// An event that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the event (`SetEvent`), releasing one wait, now or later.
    pub fn set(&self) {
        *self.0.set.lock() = true;
        self.0.changed.notify_one();
    }

    /// Takes the signal back (`ResetEvent`).
    pub fn reset(&self) {
        *self.0.set.lock() = false;
    }

    /// Waits until the event is set, and resets it. True, but for one case: false in a simulation in which nothing is left
    /// that could set the event.
    pub fn wait(&self) -> bool {
        match self.simulated() {
            Some(file) => self.wait_in_simulation(&*file, None),
            None => self.wait_until(None),
        }
    }

    /// As [`wait`](Self::wait), for a limited time; false when the time ran out.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        match self.simulated() {
            Some(file) => self.wait_in_simulation(&*file, file.now().checked_add(limit)),
            None => self.wait_until(Instant::now().checked_add(limit)),
        }
    }

    /// A request begins whose end sets this event, and whose file lives in a simulation.
    pub(crate) fn driven_by(&self, file: &Arc<dyn OverlappedFile>) {
        *self.0.simulated.lock() = Some(Arc::downgrade(file));
    }

    fn simulated(&self) -> Option<Arc<dyn OverlappedFile>> {
        self.0.simulated.lock().as_ref()?.upgrade()
    }

    fn wait_in_simulation(&self, file: &dyn OverlappedFile, deadline: Option<Instant>) -> bool {
        let is_set = || *self.0.set.lock();
        loop {
            if std::mem::take(&mut *self.0.set.lock()) {
                return true;
            }
            let late = || deadline.is_some_and(|deadline| deadline <= file.now());
            if late() || file.park(&is_set, deadline).is_err() {
                return std::mem::take(&mut *self.0.set.lock());
            }
        }
    }

    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        let mut set = self.0.set.lock();
        loop {
            if std::mem::take(&mut *set) {
                return true;
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return false;
            }
            set = self.0.changed.wait(set, deadline);
        }
    }
}
