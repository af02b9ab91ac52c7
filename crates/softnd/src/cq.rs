//! Completion queues, ND2's `IND2CompletionQueue`.

mod entry;

use std::sync::{Arc, Weak};
use std::time::Instant;

use netdirect::{
    Affinity, Call, CompletionQueue, CompletionResult, NotifyType, Overlapped, OverlappedFile,
    OverlappedObject, PendingOverlapped, Result, Started, Status,
};
use netdirect_provider::checks::sizes;
use netdirect_provider::owned;
use netdirect_provider::requests::begin_admitted;
use parking_lot::Mutex;

use crate::core::{BreakableQueue, Core, QueueUser, QueueUsers};
use crate::device::{DeviceListEntry, DeviceObject, RemovalOrder};
use crate::fault_plan;
use crate::file::File;
use crate::status::{fail, no_memory, shortage};
use iwarp_io::cq::{self, CannotResize, HeldResults, Queue};
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
    /// Where threads wait for the queue.
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

    /// Whether the queue has broken down, and its queue pairs with the queue.
    pub(crate) fn is_broken(&self) -> bool {
        self.queue.is_broken()
    }

    pub(crate) fn attach(&self, qp: Weak<dyn QueueUser>) {
        self.queue_pairs.lock().add(qp);
    }

    /// Places results. The caller delivers the returned requests when no lock is held. The caller has locked the queue pair, which
    /// keeps the queue pair's results in order.
    #[inline]
    pub(crate) fn place(
        &self,
        entries: impl Iterator<Item = Entry> + Clone,
    ) -> Option<CompletedNotifies> {
        match &self.held {
            None => self.put(entries),
            Some(held) => self.place_or_hold(held, entries),
        }
    }

    #[cold]
    fn place_or_hold(
        &self,
        held: &HeldResults<Entry>,
        entries: impl Iterator<Item = Entry>,
    ) -> Option<CompletedNotifies> {
        let mut notifies = None;
        let put = |entry| notifies = both(notifies.take(), self.put(std::iter::once(entry)));
        let effect = |effect| match effect {
            Effect::RemoveDevice => self.core.device.remove_by_plan(),
            Effect::BreakQueue(name) => {
                if let Some(status) = fault_plan::status(&name) {
                    self.core.break_soon(self.this.clone(), status);
                }
            }
        };
        if let Some(at) = held.place(entries, || self.core.driver.now(), put, effect) {
            self.core.driver.set_timer(at, self.this.clone());
        }
        notifies
    }

    fn put(&self, entries: impl Iterator<Item = Entry> + Clone) -> Option<CompletedNotifies> {
        self.queue.place(entries, |waits| self.interest(waits))
    }

    /// Tells the domain whether a request waits.
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

    fn cancel(&self) {
        for request in self.queue.cancel(|waits| self.interest(waits)) {
            request.complete(Status::CANCELED);
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

impl Timed for Cq {
    /// Places the results that the fault plan has delayed until now.
    fn expired(&self, _: TimerKey, now: Instant) {
        let Some(held) = &self.held else {
            return;
        };
        let mut notifies = None;
        let put = |entry| notifies = both(notifies.take(), self.put(std::iter::once(entry)));
        if let Some(at) = held.release(now, put) {
            self.core.driver.set_timer(at, self.this.clone());
        }
        if let Some(notifies) = notifies {
            self.deliver(notifies);
        }
    }
}

impl DeviceObject for Cq {
    fn waits(&self) -> Option<String> {
        let waits = self.domain.has_interest();
        waits.then(|| "Notify waits for a result of a completion queue".to_owned())
    }

    /// Ends the requests of Notify with ND_DEVICE_REMOVED (OVL-010). Results stay, and queue pairs still add flushed requests.
    fn device_removed(&self) {
        let status = Status::DEVICE_REMOVED;
        for request in self
            .queue
            .end_requests(reason(status), |waits| self.interest(waits))
        {
            request.complete(status);
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.waiters.remove_queue(&self.domain, self.waiters_token);
        self.core.driver.remove_domain(&self.domain);
    }
}

/// The client's reference to a queue. Releasing the handle cancels the pending requests of Notify.
#[derive(Debug)]
pub(crate) struct CqHandle(
    pub(crate) Arc<Cq>,
    Arc<File>,
    #[expect(dead_code, reason = "kept until it is dropped")] DeviceListEntry,
);

impl CqHandle {
    pub(crate) fn new(core: Arc<Core>, file: Arc<File>, depth: u32) -> Result<Self> {
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
        let device = Arc::clone(&core.device);
        let queue_pairs = Mutex::default();
        let faults = core.device.faults().and_then(|faults| faults.queue());
        let cq = Arc::new_cyclic(|this| Cq {
            held: faults.map(HeldResults::new),
            this: this.clone(),
            core,
            waiters,
            waiters_token,
            domain,
            queue,
            queue_pairs,
        });
        let this = Arc::downgrade(&(Arc::clone(&cq) as Arc<dyn DeviceObject>));
        let entry = device.add_object(RemovalOrder::CompletionQueue, this)?;
        Ok(Self(cq, file, entry))
    }
}

impl Drop for CqHandle {
    fn drop(&mut self) {
        self.0.cancel(); // CQ-023
    }
}

owned!(CqHandle of Core: |queue| &queue.0.core);

impl OverlappedObject for CqHandle {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.cancel();
        Ok(())
    }
}

impl CompletionQueue for CqHandle {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        self.0.core.notify_affinity()
    }

    fn resize(&self, depth: u32) -> Result<()> {
        sizes::resized_completion_queue(depth, self.0.core.options.limits.completion_queue_depth)?;
        sizes::working_completion_queue(self.0.is_broken(), Status::INVALID_DEVICE_STATE)?;
        self.0.core.device.admit(Call::ResizeCompletionQueue)?;
        match self.0.queue.resize(depth) {
            Ok(()) => Ok(()),
            Err(CannotResize::TooMany) => fail(
                Status::BUFFER_OVERFLOW,
                "more results are queued than the new depth holds; get results first",
            ), // CQ-016
            Err(CannotResize::OutOfMemory) => fail(
                Status::INSUFFICIENT_RESOURCES,
                "there is no memory for the new depth",
            ), // CQ-011
        }
    }

    fn notify(&self, kind: NotifyType, overlapped: &Overlapped) -> Result<Started> {
        let cq = &self.0;
        let file: Arc<dyn OverlappedFile> = self.1.clone();
        let admit = || cq.core.device.admit(Call::NotifyCompletionQueue);
        let request = begin_admitted(overlapped, &file, admit)?;
        let notifies = cq
            .queue
            .notify(notify_on(kind), request, |waits| cq.interest(waits));
        if cq.domain.has_interest() {
            cq.waiters.arm(&cq.domain, cq.waiters_token);
        }
        if let Some(notifies) = notifies {
            cq.deliver(notifies);
        }
        Ok(Started::Pending)
    }

    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        let taken = self.take_results(results);
        if taken == 0 && !results.is_empty() {
            // Time has to pass for a program that polls.
            self.0.core.driver.environment.polled_in_vain();
        }
        taken
    }

    #[inline]
    fn take_results(&self, results: &mut [CompletionResult]) -> usize {
        let cq = &self.0;
        cq.core.driver.polled(&cq.domain);
        let taken = cq.queue.take(results);
        // When results are there, the streams are not read, so that the client can handle its results first.
        if taken == results.len() || taken > 0 && !cq.domain.has_unfinished() {
            cq.domain.found();
            return taken;
        }
        if cq.core.driving(|| cq.domain.poll()) {
            cq.core.driver.notice(&cq.domain);
        }
        let taken = taken + cq.queue.take(&mut results[taken..]);
        if taken > 0 {
            cq.domain.found();
        }
        taken
    }
}
