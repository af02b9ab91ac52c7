//! Auto-reset events.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::Simulation;
use crate::sync::{Condvar, Mutex};

/// An auto-reset event (`CreateEvent(NULL, FALSE, …)`): when the event is set, exactly one waiting thread continues and resets
/// the event.
///
/// A clone is the same event. Unlike [`Overlapped::wait`](crate::Overlapped::wait), waiting on an event does not run the
/// provider: the provider's own thread does the work. A [`Simulation`](crate::Simulation) has no such thread, so there a
/// wait on an event moves the simulation.
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
    /// The simulation of the last request that this event belonged to, if it has one.
    simulation: Mutex<Option<Weak<dyn Simulation>>>,
}

impl Event {
    /// An event that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the event (`SetEvent`), so that one wait ends, now or later.
    pub fn set(&self) {
        *self.0.set.lock() = true;
        self.0.changed.notify_one();
    }

    /// Resets the event (`ResetEvent`).
    pub fn reset(&self) {
        *self.0.set.lock() = false;
    }

    /// Waits until the event is set, and resets it. Returns true, or false if nothing in a simulation can set the event any
    /// more.
    pub fn wait(&self) -> bool {
        match self.simulation() {
            Some(simulation) => self.wait_in_simulation(&*simulation, None),
            None => self.wait_until(None),
        }
    }

    /// As [`wait`](Self::wait), for a limited time; returns false if the time has run out.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        match self.simulation() {
            Some(simulation) => {
                self.wait_in_simulation(&*simulation, simulation.now().checked_add(limit))
            }
            None => self.wait_until(Instant::now().checked_add(limit)),
        }
    }

    /// A request begins whose end sets this event, and which ends in a simulation.
    pub(crate) fn moves(&self, simulation: &Arc<dyn Simulation>) {
        *self.0.simulation.lock() = Some(Arc::downgrade(simulation));
    }

    fn simulation(&self) -> Option<Arc<dyn Simulation>> {
        self.0.simulation.lock().as_ref()?.upgrade()
    }

    fn wait_in_simulation(&self, simulation: &dyn Simulation, deadline: Option<Instant>) -> bool {
        let take = || std::mem::take(&mut *self.0.set.lock());
        let late = || deadline.is_some_and(|deadline| deadline <= simulation.now());
        if take() {
            return true;
        }
        if late() {
            // Who looks in a loop has to see time pass. That nothing is left to happen is no matter for one look.
            let _ = simulation.step(None);
            return take();
        }
        while !late() && simulation.step(deadline).is_ok() {
            if take() {
                return true;
            }
        }
        take()
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
