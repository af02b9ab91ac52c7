//! Auto-reset events.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::SimulatedTime;
use crate::sync::{Condvar, Mutex};

/// An auto-reset event (`CreateEvent(NULL, FALSE, …)`): when the event is set, exactly one waiting thread continues and resets
/// the event.
///
/// A clone is the same event. Unlike [`Overlapped::wait`](crate::Overlapped::wait), waiting on an event does not run the
/// provider: the provider's own thread does the work, and a wait that is about to sleep hands this work over to it
/// ([`OverlappedFile::hand_over`](crate::OverlappedFile::hand_over)). So each end of a request costs two changes of threads, and a
/// round trip takes several times as long as with `Overlapped::wait`. A [simulation](crate::SimulatedTime) has no such thread, so
/// there a wait on an event moves the simulation.
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
    /// Where the last request belonged that this event belonged to.
    origin: Mutex<Origin>,
}

/// The parts of a request's file that an event needs.
#[derive(Default)]
pub(crate) struct Origin {
    /// The address of the file, which `hand_over` keeps from being used again.
    pub(crate) file: usize,
    /// Calls [`OverlappedFile::hand_over`](crate::OverlappedFile::hand_over), as long as the file exists.
    pub(crate) hand_over: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Kept in addition to the file, because a simulation can outlive the file.
    pub(crate) simulation: Option<Weak<dyn SimulatedTime>>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("simulation", &self.simulation)
            .finish_non_exhaustive()
    }
}

impl Event {
    /// An event that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the event (`SetEvent`), so that one wait ends, now or later.
    pub fn set(&self) {
        self.mark();
        self.announce();
    }

    /// Sets the event, without waking a thread that sleeps. [`announce`](Self::announce) has to follow.
    pub(crate) fn mark(&self) {
        *self.0.set.lock() = true;
    }

    /// Wakes a thread that sleeps on the event.
    pub(crate) fn announce(&self) {
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

    /// A request begins whose end sets this event, of the file with this address.
    pub(crate) fn belongs_to(&self, file: usize, origin: impl FnOnce() -> Origin) {
        let mut known = self.0.origin.lock();
        if known.file != file {
            let old = std::mem::replace(&mut *known, origin());
            drop(known);
            drop(old);
        }
    }

    fn simulation(&self) -> Option<Arc<dyn SimulatedTime>> {
        self.0.origin.lock().simulation.as_ref()?.upgrade()
    }

    /// The thread is about to sleep.
    fn hand_over(&self) {
        let hand_over = self.0.origin.lock().hand_over.clone();
        if let Some(hand_over) = hand_over {
            hand_over();
        }
    }

    fn wait_in_simulation(
        &self,
        simulation: &dyn SimulatedTime,
        deadline: Option<Instant>,
    ) -> bool {
        let take = || std::mem::take(&mut *self.0.set.lock());
        let late = || deadline.is_some_and(|deadline| deadline <= simulation.now());
        if take() {
            return true;
        }
        if late() {
            // A loop of such looks has to see time pass. One look may find that the simulation has no event left.
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
        let mut handed_over = false;
        loop {
            if std::mem::take(&mut *set) {
                return true;
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return false;
            }
            if !handed_over {
                drop(set);
                self.hand_over();
                handed_over = true;
                set = self.0.set.lock();
                continue;
            }
            set = self.0.changed.wait(set, deadline);
        }
    }
}
