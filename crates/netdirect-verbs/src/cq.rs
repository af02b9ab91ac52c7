//! Completion queues, ND2's `IND2CompletionQueue`: results of the device's queue are moved into a ring, from which the client takes
//! them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use netdirect::{Affinity, CompletionResult, NotifyType, PendingOverlapped, Result, Status};
use netdirect_provider::completion_queue::{CompletionQueueLine, ResizeError};
use parking_lot::Mutex;

use crate::core::{AsyncOwner, Core};
use crate::driver::Source;
use crate::file::File;
use crate::handle::{AsyncEvent, CompletionChannelQueue, WorkCompletion};
use crate::status::shortage;

/// The number of results that are taken from the device at a time.
const BATCH: usize = 32;

/// A queue pair that uses a completion queue.
pub(crate) trait CqUser: Send + Sync {
    /// A request has ended. Called under the lock of the queue's poller. Returns true if the user wants [`tell`](Self::tell) to be called.
    /// It may have [held](Cq::hold) its queues until then.
    fn completed(&self, completion: &WorkCompletion) -> bool;

    /// Notifies others of the events. Called without locks.
    fn tell(&self);

    /// A queue that it uses has broken down.
    fn queue_broke(&self);
}

#[derive(Debug)]
pub(crate) struct Cq {
    core: Arc<Core>,
    file: Arc<File>,
    token: u64,
    queue: Arc<CompletionChannelQueue>,
    poller: Mutex<Poller>,
    ring: Mutex<Ring>,
    /// The number of results that the client has taken: all with a smaller number. Changes with the ring locked.
    taken: AtomicU64,
    silent: SilentRequests,
}

/// Silent requests whose end the device reports. Their results need room in the device's queue, and do not concern the client.
#[derive(Debug)]
struct SilentRequests {
    /// The number of results that are expected, or are in the device's queue.
    count: AtomicUsize,
    /// The places of the device's queue beyond those for the client's results.
    room: AtomicUsize,
    /// The queue was armed because of them.
    watched: AtomicBool,
}

impl SilentRequests {
    /// Returns true if more results may come than half the room.
    fn are_many(&self) -> bool {
        self.count.load(Ordering::SeqCst) > self.room.load(Ordering::SeqCst) / 2
    }
}

/// The part of a queue that moves results out of the device.
struct Poller {
    users: HashMap<u32, Arc<dyn CqUser>>,
    completions: Box<[WorkCompletion; BATCH]>,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller")
            .field("users", &self.users.len())
            .finish_non_exhaustive()
    }
}

/// Results for the client, and the requests that wait for them.
#[derive(Debug)]
struct Ring {
    results: VecDeque<CompletionResult>,
    depth: usize,
    /// Results behind the end of a connection of which a connector is being notified (CONN-106).
    held: VecDeque<CompletionResult>,
    holders: usize,
    /// Counts of results: placed, taken by the client, and those that a Notify has ended for. A result's number is the number of those placed
    /// before it.
    placed: u64,
    taken: u64,
    notified: u64,
    /// The results that had been placed at the last event of the channel.
    heard: u64,
    waiting: Vec<(NotifyType, PendingOverlapped)>,
    ending: Vec<(PendingOverlapped, Status)>,
    broken: Option<Status>,
    /// The users of a queue that has broken down have been notified.
    users_notified: bool,
}

impl Ring {
    /// The number of the next result.
    fn next(&self) -> u64 {
        self.placed + self.held.len() as u64
    }

    /// Returns true if the ring has a result for which no Notify has ended (CQ-031).
    fn has_news(&self) -> bool {
        self.placed > self.taken.max(self.notified)
    }

    fn place(&mut self, result: CompletionResult) {
        if self.broken.is_some() {
            return;
        }
        if self.holders > 0 {
            self.held.push_back(result);
            return;
        }
        if self.results.len() == self.depth {
            self.break_down(Status::BUFFER_OVERFLOW); // CQ-022
            return;
        }
        self.results.push_back(result);
        self.placed += 1;
        if self
            .waiting
            .iter()
            .any(|(kind, _)| *kind == NotifyType::Any)
        {
            self.end_for_results();
        }
    }

    /// Ends the requests that wait for results (CQ-033, CQ-035). Results for which none waits end the next one (CQ-037).
    fn end_for_results(&mut self) {
        let for_results = |(kind, _): &mut (NotifyType, _)| *kind != NotifyType::Errors;
        let ended = self.waiting.extract_if(.., for_results);
        let before = self.ending.len();
        self.ending
            .extend(ended.map(|(_, request)| (request, Status::SUCCESS)));
        if self.ending.len() > before {
            self.notified = self.placed;
        }
    }

    fn end_all(&mut self, status: Status) {
        let ended = self.waiting.drain(..).map(|(_, request)| (request, status));
        self.ending.extend(ended);
    }

    fn break_down(&mut self, status: Status) {
        if self.broken.is_none() {
            self.broken = Some(status);
            self.end_all(status);
        }
    }
}

impl Cq {
    pub(crate) fn queue(&self) -> &Arc<CompletionChannelQueue> {
        &self.queue
    }

    /// Has results of the queue pair with this number go to `user`. Its requests are posted afterwards. The number may have been that
    /// of a queue pair that was destroyed: results that are in the queue are of that one.
    pub(crate) fn attach(&self, number: u32, user: Arc<dyn CqUser>) {
        let (former, tells) = {
            let mut poller = self.poller.lock();
            let tells = self.take_all(&mut poller);
            (poller.users.insert(number, user), tells)
        };
        self.tell(tells);
        drop(former);
    }

    /// Ends the effect of [`attach`](Self::attach), unless another user has the number by now.
    pub(crate) fn detach(&self, number: u32, user: &dyn CqUser) {
        let mut poller = self.poller.lock();
        let is_this = |other: &Arc<dyn CqUser>| std::ptr::addr_eq(Arc::as_ptr(other), user);
        let former = poller.users.get(&number).is_some_and(is_this);
        let former = former.then(|| poller.users.remove(&number));
        drop(poller);
        drop(former);
    }

    /// Places results. The caller [settles](Self::settle) the queue when it holds no lock any more.
    ///
    /// `numbered` gets the numbers of the results, in order, before the client can take them. A queue that has broken down drops results; they
    /// have no numbers.
    pub(crate) fn place(
        &self,
        results: impl Iterator<Item = CompletionResult>,
        numbered: impl FnOnce(Range<u64>),
    ) {
        let mut ring = self.ring.lock();
        let first = ring.next();
        for result in results {
            ring.place(result);
        }
        numbered(first..ring.next());
    }

    /// The number of results that the client has taken: all with a smaller number.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// From now on results stay invisible, until each user that has held the queue has released it.
    pub(crate) fn hold(&self) {
        self.ring.lock().holders += 1;
    }

    pub(crate) fn release(&self) {
        let mut ring = self.ring.lock();
        ring.holders -= 1;
        if ring.holders == 0 {
            for result in std::mem::take(&mut ring.held) {
                ring.place(result);
            }
        }
        drop(ring);
        self.settle();
    }

    /// Ends the requests that results, or the end of the queue, have ended. Called without locks.
    pub(crate) fn settle(&self) {
        let mut ring = self.ring.lock();
        if ring.ending.is_empty() && (ring.broken.is_none() || ring.users_notified) {
            return;
        }
        let ending = std::mem::take(&mut ring.ending);
        let broke = ring.broken.filter(|_| !ring.users_notified);
        ring.users_notified |= broke.is_some();
        drop(ring);
        if let Some(status) = broke {
            tracing::error!(
                target: crate::log::TARGET,
                %status,
                "a completion queue broke down, and its connections end; create the queue and its queue pairs anew"
            );
            let users: Vec<_> = self.poller.lock().users.values().cloned().collect();
            for user in users {
                user.queue_broke();
            }
        }
        for (request, status) in ending {
            request.complete(status);
        }
    }

    /// Moves the device's results into the ring. Called without locks.
    pub(crate) fn poll(&self) {
        let tells = self.take_all(&mut self.poller.lock());
        self.tell(tells);
    }

    /// Moves the device's results into the ring. Returns the users whose [`tell`](CqUser::tell) has to be called.
    fn take_all(&self, poller: &mut Poller) -> Vec<Arc<dyn CqUser>> {
        let mut tells = Vec::new();
        let Poller { users, completions } = poller;
        loop {
            let count = match self.queue.poll(&mut completions[..]) {
                Ok(count) => count,
                Err(error) => {
                    tracing::error!(target: crate::log::TARGET, %error, "the device tells no results");
                    self.ring.lock().break_down(Status::INTERNAL_ERROR);
                    0
                }
            };
            for completion in &completions[..count] {
                // A result of a queue pair that was destroyed is dropped.
                if let Some(user) = users.get(&completion.qp_num)
                    && user.completed(completion)
                {
                    tells.push(Arc::clone(user));
                }
            }
            if count < BATCH {
                return tells;
            }
        }
    }

    /// Calls [`tell`](CqUser::tell) of the users. Called without locks.
    fn tell(&self, users: Vec<Arc<dyn CqUser>>) {
        for user in users {
            user.tell();
        }
        self.settle();
    }

    /// Changes the number of a queue pair's silent requests whose end the device reports from `former` to `now`.
    pub(crate) fn count_silent(&self, former: usize, now: usize) {
        let count = &self.silent.count;
        if now > former {
            count.fetch_add(now - former, Ordering::SeqCst);
        } else {
            count.fetch_sub(former - now, Ordering::SeqCst);
        }
    }

    /// Keeps the results of silent requests from filling the device's queue, by taking them out. If expected results may need more than
    /// half the room, the adapter's thread takes them out. Called without locks.
    pub(crate) fn make_room(&self) {
        if !self.silent.are_many() {
            return;
        }
        self.poll();
        if self.silent.are_many() && !self.silent.watched.swap(true, Ordering::SeqCst) {
            self.arm(false);
            self.poll();
        }
    }

    /// The queue cannot be used any more, and its queue pairs end.
    pub(crate) fn break_down(&self, status: Status) {
        self.ring.lock().break_down(status);
        self.settle();
    }

    fn arm(&self, solicited_only: bool) {
        if let Err(error) = self.queue.arm(solicited_only) {
            tracing::error!(target: crate::log::TARGET, %error, "the device does not tell of results");
            self.break_down(Status::INTERNAL_ERROR);
        }
    }

    /// Stops watching the channel. That of a device that was removed stays readable, and reports nothing more.
    fn unwatch(&self) {
        let descriptor = self.queue.descriptor();
        self.file.unwatch(descriptor);
        self.core.driver.unwatch(descriptor);
    }

    /// The channel has failed, which it does when the device was pulled out.
    fn lose_channel(&self, error: &io::Error) {
        self.unwatch();
        if self.core.device.is_removed() {
            return;
        }
        tracing::error!(target: crate::log::TARGET, %error, "the device tells of no results any more");
        match error.raw_os_error() {
            Some(libc::EIO | libc::ENODEV) => self.core.remove_device(),
            _ => self.break_down(Status::INTERNAL_ERROR),
        }
    }
}

impl Source for Cq {
    /// The channel has reported a result.
    fn ready(&self) {
        let mut had_event = false;
        loop {
            match self.queue.take_event() {
                Ok(true) => had_event = true,
                Ok(false) => break,
                Err(error) => return self.lose_channel(&error),
            }
        }
        if !had_event {
            return;
        }
        let was_watched = self.silent.watched.swap(false, Ordering::SeqCst);
        self.poll();
        let mut ring = self.ring.lock();
        let only = |kind| move |(waits, _): &(NotifyType, PendingOverlapped)| *waits == kind;
        let for_any = ring.waiting.iter().any(only(NotifyType::Any));
        let of_silent = was_watched && ring.heard == ring.placed;
        ring.heard = ring.placed;
        if ring.has_news() || !for_any && !of_silent {
            ring.end_for_results();
        }
        let still_waits = !ring.waiting.is_empty();
        drop(ring);
        self.settle();
        let are_many = self.silent.are_many();
        if are_many {
            self.silent.watched.store(true, Ordering::SeqCst);
        }
        if still_waits || are_many {
            // For an event of results that the client has taken meanwhile, and for the end of the queue.
            self.arm(false);
            self.poll();
        }
    }
}

impl AsyncOwner for Cq {
    fn on_async_event(&self, _: AsyncEvent) {
        self.poll();
        self.break_down(Status::BUFFER_OVERFLOW); // CQ-022
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        let descriptor = self.queue.descriptor();
        self.file.unwatch(descriptor);
        self.core.driver.remove(self.token, descriptor);
        self.core.disown_object(self.token);
    }
}

/// The depth of the device's queue for `depth` results of the client. The ends of silent requests are in the device's queue as well. When
/// these need more room, [`make_room`](Cq::make_room) takes results out.
fn device_depth(core: &Core, depth: u32) -> u32 {
    if core.needs.completes_out_of_order {
        return depth.saturating_mul(2).saturating_add(1024);
    }
    let most = core.limits.completion_queue_depth;
    depth.saturating_add(1024).min(most.max(depth))
}

impl CompletionQueueLine for Cq {
    type Adapter = Core;
    type File = File;

    fn create(
        core: Arc<Core>,
        file: Arc<File>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<Self>> {
        let cannot = shortage("cannot create a completion queue");
        let token = core.driver.next_key();
        let asked = device_depth(&core, depth);
        let vectors = core.context().completion_vectors().max(1);
        let vector = affinity.mask.trailing_zeros() % vectors;
        let queue = CompletionChannelQueue::new(core.context(), asked, token, vector);
        let queue = queue.map_err(&cannot)?;
        let cq = Arc::new(Self {
            core,
            file,
            token,
            queue: Arc::new(queue),
            poller: Mutex::new(Poller {
                users: HashMap::new(),
                completions: Box::new([WorkCompletion::default(); BATCH]),
            }),
            ring: Mutex::new(Ring {
                results: VecDeque::new(),
                depth: depth as usize,
                held: VecDeque::new(),
                holders: 0,
                placed: 0,
                taken: 0,
                notified: 0,
                heard: 0,
                waiting: Vec::new(),
                ending: Vec::new(),
                broken: None,
                users_notified: false,
            }),
            taken: AtomicU64::new(0),
            silent: SilentRequests {
                count: AtomicUsize::new(0),
                room: AtomicUsize::new((asked - depth) as usize),
                watched: AtomicBool::new(false),
            },
        });
        let source: Weak<Self> = Arc::downgrade(&cq);
        let descriptor = cq.queue.descriptor();
        let added = cq.core.driver.add(token, descriptor, source.clone());
        let cannot = shortage("cannot watch a completion queue");
        added.map_err(&cannot)?;
        cq.file.watch(descriptor, token).map_err(&cannot)?;
        cq.core.own_object(token, source);
        Ok(cq)
    }

    fn is_broken(&self) -> bool {
        self.ring.lock().broken.is_some()
    }

    fn resize(&self, depth: u32) -> Result<(), ResizeError> {
        self.poll();
        let mut ring = self.ring.lock();
        let wanted = depth as usize;
        if ring.results.len() + ring.held.len() > wanted {
            return Err(ResizeError::TooSmall);
        }
        let asked = device_depth(&self.core, depth);
        let resized = self.queue.resize(asked);
        resized.map_err(shortage("cannot resize the completion queue"))?;
        let room = (asked - depth) as usize;
        self.silent.room.store(room, Ordering::SeqCst);
        ring.depth = wanted;
        Ok(())
    }

    fn notify(&self, kind: NotifyType, request: PendingOverlapped) {
        let mut ring = self.ring.lock();
        ring.waiting.push((kind, request));
        let arms = match ring.broken {
            Some(status) => {
                ring.end_all(status);
                false
            }
            None if kind != NotifyType::Errors && ring.has_news() => {
                ring.end_for_results(); // CQ-031
                !ring.waiting.is_empty()
            }
            None => true,
        };
        let wants_all = ring
            .waiting
            .iter()
            .any(|(kind, _)| *kind != NotifyType::Solicited);
        drop(ring);
        self.settle();
        if arms {
            self.arm(!wants_all && !self.core.needs.solicits_no_failures);
            self.poll();
            if kind == NotifyType::Solicited {
                // A result from before the queue was armed may have been solicited.
                let mut ring = self.ring.lock();
                if ring.has_news() {
                    ring.end_for_results();
                }
                drop(ring);
                self.settle();
            }
        }
        if self.core.device.is_removed() {
            self.device_removed();
        }
    }

    fn cancel(&self) {
        self.ring.lock().end_all(Status::CANCELED);
        self.settle();
    }

    fn device_removed(&self) {
        self.unwatch();
        self.ring.lock().end_all(Status::DEVICE_REMOVED);
        self.settle();
    }

    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        self.poll();
        let mut ring = self.ring.lock();
        let count = ring.results.len().min(results.len());
        for (into, result) in results.iter_mut().zip(ring.results.drain(..count)) {
            *into = result;
        }
        ring.taken += count as u64;
        self.taken.store(ring.taken, Ordering::Release);
        count
    }
}
