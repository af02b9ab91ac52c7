//! Completion queues, ND2's `IND2CompletionQueue`.

mod entry;

use std::sync::{Arc, Weak};
use std::time::Instant;

use netdirect::{Affinity, CompletionResult, Error, NotifyType, PendingOverlapped, Result, Status};
use netdirect_provider::completion_queue::{CompletionQueueLine, ResizeError};
use parking_lot::Mutex;

use crate::core::{BreakableQueue, Core, QueueUser, QueueUsers};
use crate::fault_plan;
use crate::file::File;
use crate::status::{no_memory, shortage};
use iwarp_io::cq::{self, CannotResize, HeldResults, Queue};
use iwarp_io::endpoint::shared_receives::ResultQueue;
use iwarp_io::faults::Effect;
use iwarp_io::limited;
use iwarp_io::progress::domain::Domain;
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::progress::waiters::Waiters;

pub(crate) use entry::Entry;
use entry::{notify_on, reason, status};

/// The queue itself, shared by its handle and by the queue pairs that place results in the queue.
#[derive(Debug)]
pub(crate) struct Cq {
    core: Arc<Core>,
    /// The threads that wait for the queue.
    waiters: Arc<Waiters>,
    /// The queue's token there.
    waiters_token: u64,
    pub(crate) domain: Arc<Domain>,
    queue: Queue<Entry, PendingOverlapped>,
    queue_pairs: Mutex<QueueUsers>,
    /// Results that the fault plan delays, if the plan has rules for this queue.
    held: Option<HeldResults<Entry>>,
    this: Weak<Self>,
}

/// Requests of Notify that complete once no lock is held.
pub(crate) type CompletedNotifies = cq::CompletedNotifies<PendingOverlapped>;

impl Cq {
    /// Wakes a thread that is parked on the file and drives, to look for unfinished work.
    pub(crate) fn wake(&self) {
        self.waiters.call_driver();
    }

    pub(crate) fn attach(&self, qp: Weak<dyn QueueUser>) {
        self.queue_pairs.lock().add(qp);
    }

    /// Places results. The caller delivers the returned requests when no lock is held. The caller has locked the queue pair, which
    /// keeps the queue pair's results in order.
    ///
    /// `numbered` gets the number of the first result and how many there are, in order, before the client can take any of them. A queue that
    /// has broken down, or has no room, drops results; they have no number.
    #[inline]
    pub(crate) fn place(
        &self,
        entries: impl Iterator<Item = Entry> + Clone,
        numbered: impl FnOnce(u64, usize),
    ) -> Option<CompletedNotifies> {
        match &self.held {
            None => self.put(entries, numbered),
            Some(held) => self.place_or_hold(held, entries, numbered),
        }
    }

    #[cold]
    fn place_or_hold(
        &self,
        held: &HeldResults<Entry>,
        entries: impl Iterator<Item = Entry> + Clone,
        numbered: impl FnOnce(u64, usize),
    ) -> Option<CompletedNotifies> {
        let mut notifies = None;
        let put = |entry| {
            let done = self.put(std::iter::once(entry), |_, _| {});
            notifies = both(notifies.take(), done);
        };
        let effect = |effect| match effect {
            Effect::RemoveDevice => self.core.device.remove_by_plan(),
            Effect::BreakQueue(name) => {
                if let Some(status) = fault_plan::status(&name) {
                    self.core.break_soon(self.this.clone(), status);
                }
            }
        };
        let now = || self.core.driver.now();
        if let Some(at) = held.place(entries, numbered, now, put, effect) {
            self.core.driver.set_timer(at, self.this.clone());
        }
        notifies
    }

    #[inline]
    fn put(
        &self,
        entries: impl Iterator<Item = Entry> + Clone,
        numbered: impl FnOnce(u64, usize),
    ) -> Option<CompletedNotifies> {
        self.queue
            .place(entries, numbered, |waits| self.interest(waits))
    }

    /// The number of results that the client has taken: all with a smaller number.
    pub(crate) fn taken(&self) -> u64 {
        self.queue.taken()
    }

    /// Notifies the domain that a request waits, or that none does.
    fn interest(&self, waits: bool) {
        if waits {
            self.domain.add_interest();
        } else {
            self.domain.drop_interest();
        }
    }

    /// Completes requests of Notify, with no lock held. After a breakdown, ends every queue pair of the queue first.
    pub(crate) fn deliver(&self, notifies: CompletedNotifies) {
        let status = status(notifies.reason);
        if notifies.broken {
            limited!(
                error,
                %status,
                "a completion queue broke down, and its connections end; create the queue and its queue pairs anew"
            );
            let queue_pairs = self.queue_pairs.lock().take();
            queue_pairs.for_each(|qp| qp.queue_broke());
        }
        for request in notifies.into_requests() {
            request.complete(status);
        }
    }
}

fn both(
    one: Option<CompletedNotifies>,
    other: Option<CompletedNotifies>,
) -> Option<CompletedNotifies> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}

impl BreakableQueue for Cq {
    /// Breaks the queue down with all its queue pairs, as an overflow does.
    fn break_down(&self, status: Status) {
        let reason = reason(status);
        if let Some(notifies) = self.queue.break_down(reason, |waits| self.interest(waits)) {
            self.deliver(notifies);
        }
    }
}

impl ResultQueue for Cq {
    fn taken(&self) -> u64 {
        self.queue.taken()
    }
}

impl Timed for Cq {
    /// Places the results that the fault plan has delayed until now.
    fn expired(&self, _: TimerKey, now: Instant) {
        let Some(held) = &self.held else {
            return;
        };
        let mut notifies = None;
        let put = |entry| {
            let done = self.put(std::iter::once(entry), |_, _| {});
            notifies = both(notifies.take(), done);
        };
        if let Some(at) = held.release(now, put) {
            self.core.driver.set_timer(at, self.this.clone());
        }
        if let Some(notifies) = notifies {
            self.deliver(notifies);
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.waiters.remove_queue(&self.domain, self.waiters_token);
        self.core.driver.remove_domain(&self.domain);
    }
}

impl CompletionQueueLine for Cq {
    type Adapter = Core;
    type File = File;

    fn create(
        core: Arc<Core>,
        file: Arc<File>,
        depth: u32,
        _: Affinity, // ignored (ADPT-026)
    ) -> Result<Arc<Self>> {
        let queue = Queue::new(depth);
        let short = no_memory(
            Status::NO_MEMORY, // ADPT-021
            "cannot create a completion queue",
        );
        let queue = queue.map_err(short)?;
        let waiters = Arc::clone(&file.waiters);
        let domain = core.driver.domain(&waiters);
        let domain = domain.map_err(shortage("cannot create a completion queue"))?;
        let waiters_token = waiters.add_queue(&domain);
        let queue_pairs = Mutex::default();
        let faults = core.device.faults().and_then(|faults| faults.queue());
        Ok(Arc::new_cyclic(|this| Self {
            held: faults.map(HeldResults::new),
            this: this.clone(),
            core,
            waiters,
            waiters_token,
            domain,
            queue,
            queue_pairs,
        }))
    }

    fn is_broken(&self) -> bool {
        self.queue.is_broken()
    }

    fn resize(&self, depth: u32) -> Result<(), ResizeError> {
        self.queue.resize(depth).map_err(|why| match why {
            CannotResize::TooMany => ResizeError::TooSmall,
            CannotResize::OutOfMemory => ResizeError::Other(Error::new(
                Status::INSUFFICIENT_RESOURCES,
                "there is no memory for the new depth",
            )), // CQ-011
        })
    }

    fn notify(&self, kind: NotifyType, request: PendingOverlapped) {
        let on = notify_on(kind);
        let notifies = self.queue.notify(on, request, |waits| self.interest(waits));
        if self.domain.has_interest() {
            self.waiters.arm(&self.domain, self.waiters_token);
        }
        if let Some(notifies) = notifies {
            self.deliver(notifies);
        }
    }

    fn cancel(&self) {
        for request in self.queue.cancel(|waits| self.interest(waits)) {
            request.complete(Status::CANCELED);
        }
    }

    /// Results stay, and queue pairs still add flushed requests.
    fn device_removed(&self) {
        let status = Status::DEVICE_REMOVED;
        for request in self
            .queue
            .end_requests(reason(status), |waits| self.interest(waits))
        {
            request.complete(status);
        }
    }

    fn waits(&self) -> Option<String> {
        let waits = self.domain.has_interest();
        waits.then(|| "Notify waits for a result of a completion queue".to_owned())
    }

    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        let taken = self.take_results(results);
        if taken == 0 && !results.is_empty() {
            // Time has to pass for a program that polls.
            self.core.driver.environment.polled_in_vain();
        }
        taken
    }

    #[inline]
    fn take_results(&self, results: &mut [CompletionResult]) -> usize {
        self.core.driver.polled(&self.domain);
        let taken = self.queue.take(results);
        // When results are there, the streams are not read, so that the client can handle its results first.
        if taken == results.len() || taken > 0 && !self.domain.has_unfinished() {
            self.domain.found();
            return taken;
        }
        if self.core.driving(|| self.domain.poll()) {
            self.core.driver.notice(&self.domain);
        }
        let taken = taken + self.queue.take(&mut results[taken..]);
        if taken > 0 {
            self.domain.found();
        }
        taken
    }
}
