//! Auto-reset events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

/// An auto-reset event (`CreateEvent(NULL, FALSE, …)`): once set, it releases exactly one wait, which resets it.
///
/// Clones are the same event. Waiting on an event is a plain wait: unlike [`Overlapped::wait`](crate::Overlapped::wait) it
/// does not drive the provider, whose own thread does the work then.
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

    /// Waits until the event is set, and resets it.
    pub fn wait(&self) {
        self.wait_until(None);
    }

    /// As [`wait`](Self::wait), for a limited time; false when the time ran out.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        self.wait_until(Instant::now().checked_add(limit))
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
