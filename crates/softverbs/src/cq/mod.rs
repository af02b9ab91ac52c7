//! Completion queues.

mod armed;
mod entry;
#[cfg(all(test, loom))]
mod loom_models;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use iwarp_io::cq::{CannotResize, PlannedFaults, Poller, Queue};
use iwarp_io::endpoint::queue_pair::PairCq;
use iwarp_io::endpoint::shared_receives::ResultQueue;
use iwarp_io::limited;
use iwarp_io::log::targets;
use iwarp_io::progress::polling;
use iwarp_io::progress::timers::{Timed, TimerKey};

pub(crate) use armed::Armed;
use armed::{ArmedQueue, DueEvents};
pub(crate) use entry::CqEntry;
pub use entry::{WcOpcode, WcStatus, WorkCompletion, vendor_err};

use crate::channel::CompletionChannel;
use crate::context::{AsyncEventKind, Context};
use crate::device::limits;
use crate::error::{Errno, Error, Result, fail};
use crate::process::Engine;
use crate::users::{Subject, Tag, User, Users};

/// A completion queue.
pub struct CompletionQueue {
    context: Arc<Context>,
    engine: Arc<Engine>,
    channel: Option<Arc<CompletionChannel>>,
    poller: Poller,
    queue: ArmedQueue,
    faults: PlannedFaults<CqEntry>,
    depth: AtomicU32,
    subject: Arc<Subject>,
    pub(crate) users: Users,
    /// The completion queue counts as a user of its context, and of its channel.
    user_of: (User, Option<User>),
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

impl CompletionQueue {
    /// Makes a completion queue for at least `depth` completions. With a channel the queue can be
    /// [armed](Self::request_notification).
    ///
    /// # Errors
    ///
    /// EINVAL if `depth` is 0 or above the device's limit; ENOMEM; those of the system, when it has no descriptors left.
    pub fn create(
        context: &Arc<Context>,
        depth: u32,
        channel: Option<&Arc<CompletionChannel>>,
    ) -> Result<Arc<Self>> {
        check_depth(depth)?;
        let engine = context.engine()?;
        let queue = ArmedQueue::new(depth).map_err(|_| no_memory())?;
        let waiters = channel.map_or(&engine.waiters, |channel| &channel.waiters);
        let poller = Poller::new(&engine.driver, waiters);
        let poller =
            poller.map_err(|error| Error::of_system(&error, "cannot create a completion queue"))?;
        let process = context.process();
        Ok(Arc::new_cyclic(|this: &Weak<Self>| Self {
            faults: PlannedFaults::new(
                process.faults.as_ref(),
                process.clone(),
                &engine.driver,
                this.clone(),
            ),
            user_of: (
                context.users.add(),
                channel.map(|channel| channel.users.add()),
            ),
            context: Arc::clone(context),
            engine,
            channel: channel.cloned(),
            poller,
            queue,
            depth: AtomicU32::new(depth),
            subject: Arc::default(),
            users: Users::default(),
        }))
    }

    /// The context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The channel.
    pub fn channel(&self) -> Option<&Arc<CompletionChannel>> {
        self.channel.as_ref()
    }

    /// Returns the number of completions that the queue has at least room for.
    pub fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.subject.tag
    }

    /// Takes out as many completions as there are and as fit into `completions`, and returns their number. If there are none, drives the
    /// connections of the queue. Never blocks.
    #[inline]
    pub fn poll(&self, completions: &mut [WorkCompletion]) -> usize {
        let taken = (self.poller).poll(completions, |completions| self.queue.take(completions));
        if taken == 0 && !completions.is_empty() {
            self.polled_in_vain();
        }
        taken
    }

    /// Returns true after an overrun: the completions that [`poll`](Self::poll) has not taken yet are the last.
    pub fn is_broken(&self) -> bool {
        self.queue.is_broken()
    }

    fn polled_in_vain(&self) {
        // A program that polls an armed queue and finds nothing is about to sleep.
        let Engine { driver, .. } = &*self.engine;
        if self.queue.is_armed() {
            if !self.is_waited_for_here() {
                polling::stop(); // also the domains that the thread has polled while it polled another one
            }
        } else if driver.environment.world().is_none() {
            driver.driving(|| driver.help(self.poller.domain()));
        }
        driver.environment.polled_in_vain();
    }

    /// The program is about to sleep. If it will do so in its own way, as far as is known, the background thread drives the connections
    /// from now on. Otherwise the program's thread does, in the channel.
    fn leave(&self) {
        if !self.is_waited_for_here() {
            self.engine.driver.hand_over(self.poller.domain());
        }
    }

    fn is_waited_for_here(&self) -> bool {
        let channel = self.channel.as_ref();
        channel.is_some_and(|channel| channel.is_waited_for_here())
    }

    /// Asks for one event in the channel, when a completion arrives that was not announced yet; with `solicited_only` when one arrives that
    /// failed or whose Send asked for an event. Without a channel nothing happens.
    pub fn request_notification(&self, solicited_only: bool) {
        if self.channel.is_none() {
            return;
        }
        let poller = &self.poller;
        let request = self
            .queue
            .request(solicited_only, poller.interest(), || poller.arm());
        if let Some(due) = request {
            self.deliver(due);
        }
        self.leave();
    }

    /// The program has handled this many events of the channel that belong to this queue.
    pub fn acknowledge_events(&self, count: u64) {
        self.subject.acknowledgements.acknowledge(count);
    }

    /// Changes the depth. Completions in the queue are kept.
    ///
    /// # Errors
    ///
    /// EINVAL if the depth is 0, above the device's limit or below the number of completions in the queue; ENOMEM.
    pub fn resize(&self, depth: u32) -> Result<()> {
        check_depth(depth)?;
        self.queue.resize(depth).map_err(|why| match why {
            CannotResize::TooMany => Error::new(
                Errno::INVAL,
                "more completions are queued than the new depth holds: poll first",
            ),
            CannotResize::OutOfMemory => no_memory(),
        })?;
        self.depth.store(depth, Ordering::Relaxed);
        Ok(())
    }

    /// Prepares to release the queue: waits until its events are acknowledged.
    ///
    /// # Errors
    ///
    /// EBUSY while queue pairs or shared receive queues use the queue.
    pub fn destroy(&self) -> Result<()> {
        self.users
            .check_none("the completion queue", "queue pairs")?;
        drop(self.queue.cancel(self.poller.interest()));
        if let Some(channel) = &self.channel {
            channel.end_subject(&self.subject);
        }
        self.context.end_subject(&self.subject)?;
        let (context, channel) = &self.user_of;
        context.release();
        if let Some(channel) = channel {
            channel.release();
        }
        Ok(())
    }

    /// Drops the completions of a queue pair that the program has destroyed or reset, and that makes no more. Returns their numbers. What the
    /// fault plan holds back is placed now, because a completion has to be in the queue to be dropped.
    pub(crate) fn remove(&self, queue_pair: u32) -> Vec<u64> {
        let interest = self.poller.interest();
        if let Some(due) = self.faults.release(None, &self.queue, interest) {
            self.deliver(due);
        }
        self.queue.remove(|one| one.qp_num == queue_pair)
    }

    #[cold]
    fn broke(&self) {
        limited!(
            error,
            target: targets::QUEUE,
            "a completion queue was overrun, and its connections end; create it with room for the completions of all its requests"
        );
        self.context
            .raise(AsyncEventKind::CompletionQueueError, Some(&self.subject));
        self.poller.users.end();
    }
}

impl Timed for CompletionQueue {
    fn expired(&self, _: TimerKey, now: Instant) {
        self.fault_is_due(now);
    }
}

impl PairCq<CqEntry, Armed> for CompletionQueue {
    fn poller(&self) -> &Poller {
        &self.poller
    }

    fn queue(&self) -> &Queue<CqEntry, Armed> {
        &self.queue
    }

    fn faults(&self) -> &PlannedFaults<CqEntry> {
        &self.faults
    }

    fn deliver(&self, due: DueEvents) {
        if due.broken {
            self.broke();
        }
        if self.queue.fires(due)
            && let Some(channel) = &self.channel
        {
            channel.push(&self.subject);
        }
    }
}

impl ResultQueue for CompletionQueue {
    fn taken(&self) -> u64 {
        self.queue.taken()
    }
}

fn check_depth(depth: u32) -> Result<()> {
    if depth == 0 || depth > limits::COMPLETIONS {
        return fail(
            Errno::INVAL,
            format!(
                "a completion queue has 1 to {} completions",
                limits::COMPLETIONS
            ),
        );
    }
    Ok(())
}

fn no_memory() -> Error {
    Error::new(Errno::NOMEM, "there is no memory for the completion queue")
}
