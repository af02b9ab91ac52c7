//! Completion queues, ND2's `IND2CompletionQueue`.

mod entry;

use std::sync::{Arc, Weak};
use std::time::Instant;

use netdirect::{Affinity, CompletionResult, Error, NotifyType, PendingOverlapped, Result, Status};
use netdirect_provider::completion_queue::{CompletionQueueLine, ResizeError};

use crate::core::{BreakableQueue, Core};
use crate::fault_plan;
use crate::file::File;
use crate::status::{no_memory, shortage};
use iwarp_io::cq::{self, CannotResize, HeldResults, Poller, Queue};
use iwarp_io::endpoint::queue_pair::PairCq;
use iwarp_io::endpoint::shared_receives::ResultQueue;
use iwarp_io::faults::Effect;
use iwarp_io::limited;
use iwarp_io::progress::timers::{Timed, TimerKey};

pub(crate) use entry::Entry;
use entry::{notify_on, reason, status};

/// The queue itself, shared by its handle and by the queue pairs that place results in the queue.
#[derive(Debug)]
pub(crate) struct Cq {
    poller: Poller,
    queue: Queue<Entry, PendingOverlapped>,
    core: Arc<Core>,
    /// Results that the fault plan delays, if the plan has rules for this queue.
    held: Option<HeldResults<Entry>>,
    this: Weak<Self>,
}

/// Requests of Notify that complete once no lock is held.
pub(crate) type CompletedNotifies = cq::CompletedNotifies<PendingOverlapped>;

impl Cq {
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
            CompletedNotifies::add(&mut notifies, done);
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
        self.queue.place(entries, numbered, self.poller.interest())
    }
}

impl PairCq<Entry, PendingOverlapped> for Cq {
    fn poller(&self) -> &Poller {
        &self.poller
    }

    #[inline]
    fn place(
        &self,
        entries: impl Iterator<Item = Entry> + Clone,
        numbered: impl FnOnce(u64, usize),
    ) -> Option<CompletedNotifies> {
        match &self.held {
            None => self.put(entries, numbered),
            Some(held) => self.place_or_hold(held, entries, numbered),
        }
    }

    fn deliver(&self, notifies: CompletedNotifies) {
        let status = status(notifies.reason);
        if notifies.broken {
            limited!(
                error,
                %status,
                "a completion queue broke down, and its connections end; create the queue and its queue pairs anew"
            );
            self.poller.users.end();
        }
        for request in notifies.into_requests() {
            request.complete(status);
        }
    }
}

impl BreakableQueue for Cq {
    /// Breaks the queue down with all its queue pairs, as an overflow does.
    fn break_down(&self, status: Status) {
        let reason = reason(status);
        if let Some(notifies) = self.queue.break_down(reason, self.poller.interest()) {
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
            CompletedNotifies::add(&mut notifies, done);
        };
        if let Some(at) = held.release(now, put) {
            self.core.driver.set_timer(at, self.this.clone());
        }
        if let Some(notifies) = notifies {
            self.deliver(notifies);
        }
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
        let poller = Poller::new(&core.driver, &file.waiters);
        let poller = poller.map_err(shortage("cannot create a completion queue"))?;
        let faults = core.device.faults().and_then(|faults| faults.queue());
        Ok(Arc::new_cyclic(|this| Self {
            held: faults.map(HeldResults::new),
            this: this.clone(),
            poller,
            queue,
            core,
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
        let notifies = self.queue.notify(on, request, self.poller.interest());
        self.poller.arm();
        if let Some(notifies) = notifies {
            self.deliver(notifies);
        }
    }

    fn cancel(&self) {
        for request in self.queue.cancel(self.poller.interest()) {
            request.complete(Status::CANCELED);
        }
    }

    /// Results stay, and queue pairs still add flushed requests.
    fn device_removed(&self) {
        let status = Status::DEVICE_REMOVED;
        for request in self
            .queue
            .end_requests(reason(status), self.poller.interest())
        {
            request.complete(status);
        }
    }

    fn waits(&self) -> Option<String> {
        let waits = self.poller.domain().has_interest();
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
        self.poller
            .poll(results, |results| self.queue.take(results))
    }
}
