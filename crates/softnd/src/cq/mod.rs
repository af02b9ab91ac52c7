//! Completion queues, ND2's `IND2CompletionQueue`.

mod entry;

use std::sync::{Arc, Weak};
use std::time::Instant;

use netdirect::{Affinity, CompletionResult, Error, NotifyType, PendingOverlapped, Result, Status};
use netdirect_provider::completion_queue::{CompletionQueueLine, ResizeError};
use netdirect_provider::request_ends;

use crate::core::Core;
use crate::file::File;
use crate::status::{no_memory, shortage};
use iwarp_io::cq::{CannotResize, CompletedNotifies, PlannedFaults, Poller, Queue};
use iwarp_io::endpoint::queue_pair::PairCq;
use iwarp_io::endpoint::shared_receives::ResultQueue;
use iwarp_io::limited;
use iwarp_io::log::targets;
use iwarp_io::progress::timers::{Timed, TimerKey};

pub(crate) use entry::Entry;
pub(crate) use entry::reason;
use entry::{notify_on, status};

/// The queue itself, shared by its handle and by the queue pairs that place results in the queue.
#[derive(Debug)]
pub(crate) struct Cq {
    poller: Poller,
    queue: Queue<Entry, PendingOverlapped>,
    core: Arc<Core>,
    faults: PlannedFaults<Entry>,
}

impl PairCq<Entry, PendingOverlapped> for Cq {
    fn poller(&self) -> &Poller {
        &self.poller
    }

    #[inline]
    fn queue(&self) -> &Queue<Entry, PendingOverlapped> {
        &self.queue
    }

    #[inline]
    fn faults(&self) -> &PlannedFaults<Entry> {
        &self.faults
    }

    fn deliver(&self, notifies: CompletedNotifies<PendingOverlapped>) {
        let status = status(notifies.reason);
        if notifies.broken {
            limited!(
                error,
                target: targets::QUEUE,
                %status,
                "a completion queue broke down, and its connections end; create the queue and its queue pairs anew"
            );
            self.poller.users.end();
        }
        for request in notifies.into_requests() {
            match status {
                Status::SUCCESS => request.complete(status),
                _ => request.complete(broken(status)),
            }
        }
    }
}

/// The end of a Notify of a queue that has broken down.
#[cold]
fn broken(status: Status) -> Error {
    match status {
        Status::BUFFER_OVERFLOW => Error::new(
            status,
            "the completion queue has overflowed; create it with room for the results of all requests",
        ),
        Status::INTERNAL_ERROR => Error::new(status, "the completion queue has broken down"),
        _ => request_ends(status),
    }
}

impl ResultQueue for Cq {
    fn taken(&self) -> u64 {
        self.queue.taken()
    }
}

impl Timed for Cq {
    fn expired(&self, _: TimerKey, now: Instant) {
        self.fault_is_due(now);
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
        let device = Arc::clone(&core.device);
        Ok(Arc::new_cyclic(|this: &Weak<Self>| Self {
            faults: PlannedFaults::new(core.device.faults(), device, &core.driver, this.clone()),
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
            request.complete(request_ends(Status::CANCELED));
        }
    }

    /// Results stay, and queue pairs still add flushed requests.
    fn device_removed(&self) {
        let status = Status::DEVICE_REMOVED;
        for request in self
            .queue
            .end_requests(reason(status), self.poller.interest())
        {
            request.complete(request_ends(status));
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
