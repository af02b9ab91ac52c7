//! Completions, and the one event that the program has asked for.

use std::collections::TryReserveError;
use std::ops::Deref;

use iwarp_io::cq::{self, NotifyOn, RemovableQueue};
use iwarp_io::sync::{AtomicU8, Ordering};

use super::CqEntry;

/// The completion queue is not armed, or waits for a solicited completion, or for any.
const NOT_ARMED: u8 = 0;
const SOLICITED: u8 = 1;
const ANY: u8 = 2;

/// The request for one event.
#[derive(Debug)]
pub(crate) struct Armed;

/// Events to be delivered once no lock is held.
pub(crate) type DueEvents = cq::CompletedNotifies<Armed>;

/// Completions, and the one event that the program has asked for.
#[derive(Debug)]
pub(super) struct ArmedQueue {
    queue: RemovableQueue<CqEntry, Armed>,
    /// The events that the program waits for: one of the constants above.
    armed: AtomicU8,
}

/// Everything but the event.
impl Deref for ArmedQueue {
    type Target = RemovableQueue<CqEntry, Armed>;

    fn deref(&self) -> &Self::Target {
        &self.queue
    }
}

impl ArmedQueue {
    pub(super) fn new(depth: u32) -> Result<Self, TryReserveError> {
        Ok(Self {
            queue: RemovableQueue::new(depth)?,
            armed: AtomicU8::new(NOT_ARMED),
        })
    }

    pub(super) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed) != NOT_ARMED
    }

    /// Asks for one event. Calls `waits` if the queue was not armed for as much before, and returns what has become due.
    pub(super) fn request(
        &self,
        solicited_only: bool,
        interest: impl Fn(bool),
        waits: impl FnOnce(),
    ) -> Option<DueEvents> {
        let (wanted, on) = match solicited_only {
            true => (SOLICITED, NotifyOn::Solicited),
            false => (ANY, NotifyOn::Any),
        };
        // A queue that is already armed for as much is not changed: there is one event for all requests.
        if self.armed.fetch_max(wanted, Ordering::SeqCst) >= wanted {
            return None;
        }
        let due = self.queue.notify(on, Armed, interest);
        waits();
        due
    }

    /// Returns true for due events of which the program gets one.
    pub(super) fn fires(&self, due: DueEvents) -> bool {
        let is_due = due.into_requests().count() > 0;
        is_due && self.armed.swap(NOT_ARMED, Ordering::SeqCst) != NOT_ARMED
    }
}
