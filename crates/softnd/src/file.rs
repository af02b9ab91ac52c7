//! The overlapped file: where threads wait for requests, and where waiting makes progress.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use netdirect::{Association, OverlappedFile};
use parking_lot::Mutex;
use slab::Slab;

use crate::adapter::Core;
use crate::progress::domain::Domain;
use crate::progress::{Readiness, Set, Waker};

const CONTROL: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const FILE: u64 = 0;

/// An overlapped file, ND2's `IND2Adapter::CreateOverlappedFile`.
///
/// Its set nests the adapter's control set and, while a Notify is armed, the sets of completion queues made with it.
/// A thread that waits sleeps in a set of its own which nests this one, so that each can be woken by itself.
pub(crate) struct File {
    core: Arc<Core>,
    association: Association,
    set: Set,
    /// Makes the file's own descriptor readable when something completed elsewhere.
    waker: Waker,
    /// The descriptor was handed out: somebody may be waiting outside of [`park`](OverlappedFile::park).
    exposed: AtomicBool,
    slots: Mutex<Slots>,
    parked: Arc<AtomicUsize>,
    queues: Mutex<Slab<Queue>>,
}

#[derive(Default)]
struct Slots {
    idle: Vec<Arc<Slot>>,
    parked: Vec<Arc<Slot>>,
}

/// A completion queue made with the file.
struct Queue {
    domain: Weak<Domain>,
    /// The set reports it when it becomes ready.
    armed: bool,
}

/// Where one thread sleeps.
struct Slot {
    set: Set,
    waker: Waker,
    asleep: AtomicBool,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("parked", &self.parked.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

impl File {
    pub(crate) fn new(core: Arc<Core>) -> std::io::Result<Self> {
        let (set, waker) = (Set::new()?, Waker::new()?);
        set.add_level(&waker, WAKE)?;
        set.add_level(&*core.control, CONTROL)?;
        Ok(Self {
            core,
            association: Association::default(),
            set,
            waker,
            exposed: AtomicBool::new(false),
            slots: Mutex::default(),
            parked: Arc::default(),
            queues: Mutex::default(),
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Counts the threads parked here.
    pub(crate) fn parked(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.parked)
    }

    /// Adds a completion queue's domain, asleep until [`arm`](Self::arm).
    pub(crate) fn add_queue(&self, domain: &Arc<Domain>) -> std::io::Result<usize> {
        let mut queues = self.queues.lock();
        let entry = queues.vacant_entry();
        self.set.add_once(&**domain, entry.key() as u64)?;
        let token = entry.key();
        entry.insert(Queue {
            domain: Arc::downgrade(domain),
            armed: true,
        });
        Ok(token)
    }

    pub(crate) fn remove_queue(&self, domain: &Domain, token: usize) {
        let _ = self.set.remove(domain);
        self.queues.lock().try_remove(token);
    }

    /// A Notify was armed: whatever becomes ready in the queue wakes the threads parked here.
    pub(crate) fn arm(&self, domain: &Domain, token: usize) {
        if let Some(queue) = self.queues.lock().get_mut(token)
            && !std::mem::replace(&mut queue.armed, true)
        {
            let _ = self.set.rearm(domain, token as u64);
        }
    }

    /// The set has reported a queue, and does so no more until it is armed again.
    fn reported(&self, token: u64) -> Option<(usize, Arc<Domain>)> {
        let token = usize::try_from(token).ok()?;
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(token)?;
        queue.armed = false;
        Some((token, queue.domain.upgrade()?))
    }

    /// The next queue from `from` on that a request waits for.
    fn awaited(&self, from: usize) -> Option<(usize, Arc<Domain>)> {
        let queues = self.queues.lock();
        let domains = queues
            .iter()
            .filter_map(|(token, queue)| Some((token, queue.domain.upgrade()?)));
        domains
            .skip_while(|(token, _)| *token < from)
            .find(|(_, domain)| domain.has_interest())
    }

    /// Calls `each` for every queue that a request waits for, with no lock held.
    fn each_awaited(&self, mut each: impl FnMut(&Domain)) {
        let mut from = 0;
        while let Some((token, domain)) = self.awaited(from) {
            each(&domain);
            from = token + 1;
        }
    }

    fn slot(&self) -> std::io::Result<Arc<Slot>> {
        let idle = self.slots.lock().idle.pop();
        let slot = match idle {
            Some(slot) => slot,
            None => {
                let slot = Slot {
                    set: Set::new()?,
                    waker: Waker::new()?,
                    asleep: AtomicBool::new(false),
                };
                slot.set.add_level(&self.set, FILE)?;
                slot.set.add_level(&slot.waker, WAKE)?;
                Arc::new(slot)
            }
        };
        self.slots.lock().parked.push(Arc::clone(&slot));
        Ok(slot)
    }

    fn leave(&self, slot: Arc<Slot>) {
        let mut slots = self.slots.lock();
        slots.parked.retain(|parked| !Arc::ptr_eq(parked, &slot));
        slots.idle.push(slot);
    }

    /// Sleeps until something is ready or was completed elsewhere.
    fn sleep(&self, slot: &Slot, done: &dyn Fn() -> bool, deadline: Option<Instant>) {
        slot.asleep.store(true, Ordering::SeqCst);
        if !done() {
            let limit = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let limit = limit.filter(|limit| *limit < Duration::from_secs(3600));
            if let Err(error) = slot.set.wait(limit, |_| {}) {
                tracing::error!(%error, "a thread cannot wait for its requests");
            }
        }
        if !slot.asleep.swap(false, Ordering::SeqCst) {
            slot.waker.clear();
        }
    }

    fn drive(&self) {
        let mut queues = [None; crate::progress::BATCH];
        let mut count = 0;
        let mut control = false;
        let _ = self
            .set
            .wait(Some(Duration::ZERO), |ready| match ready.token {
                CONTROL => control = true,
                WAKE => self.waker.clear(),
                token => {
                    queues[count] = Some(token);
                    count += 1;
                }
            });
        if control {
            self.core.control.progress();
            if self.core.control.has_unfinished() {
                self.core.notice(&self.core.control);
            }
        }
        for token in queues.into_iter().flatten() {
            if let Some((token, domain)) = self.reported(token) {
                domain.progress();
                if domain.has_interest() {
                    self.arm(&domain, token);
                }
            }
        }
        self.each_awaited(|domain| {
            if domain.has_unfinished() {
                self.go_on(domain);
            }
        });
    }

    /// Drives a queue, work that a budget ended included.
    fn go_on(&self, domain: &Domain) {
        domain.progress();
        if domain.has_unfinished() {
            self.core.notice(domain);
        }
    }

    fn has_unfinished(&self) -> bool {
        let mut some = false;
        self.each_awaited(|domain| some |= domain.has_unfinished());
        some
    }
}

impl OverlappedFile for File {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {
        self.drive();
    }

    fn park(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) {
        if done() {
            return;
        }
        let slot = match self.slot() {
            Ok(slot) => slot,
            Err(error) => {
                tracing::error!(%error, "out of descriptors to wait with; polling instead");
                self.drive();
                return std::thread::yield_now();
            }
        };
        self.parked.fetch_add(1, Ordering::SeqCst);
        self.core.parked.fetch_add(1, Ordering::SeqCst);
        let over = || done() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        while !over() {
            if !self.has_unfinished() {
                self.sleep(&slot, done, deadline);
            }
            // Most often it is one of these; asking the set which is dearer than asking them.
            self.each_awaited(|domain| self.go_on(domain));
            if !over() {
                self.drive();
            }
        }
        self.core.parked.fetch_sub(1, Ordering::SeqCst);
        self.parked.fetch_sub(1, Ordering::SeqCst);
        self.leave(slot);
    }

    fn wake(&self) {
        if self.parked.load(Ordering::SeqCst) == 0 && !self.exposed.load(Ordering::SeqCst) {
            return;
        }
        for slot in &self.slots.lock().parked {
            if slot.asleep.swap(false, Ordering::SeqCst) {
                slot.waker.wake();
            }
        }
        if self.exposed.load(Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.exposed.store(true, Ordering::SeqCst);
        self.set.as_fd()
    }
}
