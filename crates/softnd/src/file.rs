//! The overlapped file: where threads wait for requests, and where waiting makes progress.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use netdirect::{Association, OverlappedFile};
use parking_lot::Mutex;
use slab::Slab;

use crate::adapter::Core;
use crate::cq;
use crate::log::limited;
use crate::progress::domain::Domain;
use crate::progress::{Readiness, Set, Waker};

const CONTROL: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const FRONT: u64 = u64::MAX - 2;
const FILE: u64 = 0;

/// An overlapped file, ND2's `IND2Adapter::CreateOverlappedFile`.
///
/// Its set nests the adapter's control set and, once a Notify was armed, the sets of completion queues made with it. The
/// first thread that waits sleeps in that set itself; every further one in a set of its own which nests it, so that each
/// can be woken by itself.
pub(crate) struct File {
    core: Arc<Core>,
    association: Association,
    set: Set,
    /// Makes the file's own descriptor readable when something completed elsewhere.
    waker: Waker,
    /// The descriptor was handed out: somebody may be waiting outside of [`park`](OverlappedFile::park).
    exposed: AtomicBool,
    front: Front,
    slots: Mutex<Slots>,
    parked: Arc<AtomicUsize>,
    queues: Mutex<Slab<Queue>>,
}

/// The place of the thread that sleeps in the file's own set.
struct Front {
    taken: AtomicBool,
    asleep: AtomicBool,
    waker: Waker,
}

#[derive(Default)]
struct Slots {
    idle: Vec<Arc<Slot>>,
    parked: Vec<Arc<Slot>>,
}

/// A completion queue made with the file.
struct Queue {
    domain: Weak<Domain>,
    heard: Heard,
}

/// Whether the file's set reports a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// No Notify was armed yet: the queue is not in the set.
    Never,
    Yes,
    /// It became ready while no Notify was armed.
    Muted,
}

/// Where a further thread sleeps.
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
        let front = Front {
            taken: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            waker: Waker::new()?,
        };
        set.add_level(&waker, WAKE)?;
        set.add_level(&front.waker, FRONT)?;
        set.add_level(&*core.control, CONTROL)?;
        Ok(Self {
            core,
            association: Association::default(),
            set,
            waker,
            exposed: AtomicBool::new(false),
            front,
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

    /// Adds a completion queue's domain, not heard of until [`arm`](Self::arm): while it is only polled, its events cost
    /// nothing here.
    pub(crate) fn add_queue(&self, domain: &Arc<Domain>) -> usize {
        self.queues.lock().insert(Queue {
            domain: Arc::downgrade(domain),
            heard: Heard::Never,
        })
    }

    pub(crate) fn remove_queue(&self, domain: &Domain, token: usize) {
        let _ = self.set.remove(domain);
        self.queues.lock().try_remove(token);
    }

    /// A Notify was armed: whatever becomes ready in the queue wakes the threads parked here.
    pub(crate) fn arm(&self, domain: &Domain, token: usize) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(token) else {
            return;
        };
        let heard = match queue.heard {
            Heard::Yes => return,
            Heard::Never => self.set.add_set(domain, token as u64),
            Heard::Muted => self.set.unmute(domain, token as u64),
        };
        match heard {
            Ok(()) => queue.heard = Heard::Yes,
            // The background thread sees to the queue all the same.
            Err(error) => limited!(error, %error, "cannot wait for a completion queue"),
        }
    }

    /// The set has reported a queue. One that no request waits for is not to be reported again.
    fn reported(&self, token: u64) -> Option<Arc<Domain>> {
        let token = usize::try_from(token).ok()?;
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(token)?;
        let domain = queue.domain.upgrade()?;
        if domain.has_interest() {
            return Some(domain);
        }
        if self.set.mute(&*domain, token as u64).is_ok() {
            queue.heard = Heard::Muted;
        }
        None
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

    fn leave(&self, slot: Option<Arc<Slot>>) {
        let Some(slot) = slot else {
            return self.front.taken.store(false, Ordering::SeqCst);
        };
        let mut slots = self.slots.lock();
        slots.parked.retain(|parked| !Arc::ptr_eq(parked, &slot));
        slots.idle.push(slot);
    }

    /// Sleeps until something is ready or was completed elsewhere.
    fn sleep(&self, slot: Option<&Slot>, done: &dyn Fn() -> bool, deadline: Option<Instant>) {
        let (asleep, waker) = match slot {
            Some(slot) => (&slot.asleep, &slot.waker),
            None => (&self.front.asleep, &self.front.waker),
        };
        asleep.store(true, Ordering::SeqCst);
        // From here on awake: what this thread completes itself is no reason to wake it.
        let wake_up = || {
            if !asleep.swap(false, Ordering::SeqCst) {
                waker.clear();
            }
        };
        if done() {
            return wake_up();
        }
        let limit = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = limit.filter(|limit| *limit < Duration::from_secs(3600));
        match slot {
            Some(slot) => {
                if let Err(error) = slot.set.wait(limit, |_| {}) {
                    limited!(error, %error, "a thread cannot wait for its requests");
                }
                wake_up();
            }
            None => self.look(limit, wake_up),
        }
    }

    /// Waits for what the file's set reports, calls `then`, and drives what was reported.
    fn look(&self, limit: Option<Duration>, then: impl FnOnce()) {
        let mut queues = [None; crate::progress::BATCH];
        let mut count = 0;
        let (mut control, mut woken) = (false, false);
        let waited = self.set.wait(limit, |ready| match ready.token {
            CONTROL => control = true,
            WAKE => woken = true,
            FRONT => {} // cleared by the thread it was meant for
            token => {
                queues[count] = Some(token);
                count += 1;
            }
        });
        if let Err(error) = waited {
            limited!(error, %error, "a thread cannot wait for its requests");
        }
        then();
        if woken {
            self.waker.clear();
        }
        for token in queues.into_iter().flatten() {
            if let Some(domain) = self.reported(token) {
                domain.woken();
            }
        }
        if control {
            self.core.control.progress();
            if self.core.control.has_unfinished() {
                self.core.notice(&self.core.control);
            }
        }
    }

    /// Drives everything that a thread which waits here has to drive.
    fn drive(&self) {
        self.look(Some(Duration::ZERO), || {});
        self.each_awaited(|domain| {
            domain.progress();
            if domain.has_unfinished() {
                self.core.notice(domain);
            }
        });
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
        let in_front = !self.front.taken.swap(true, Ordering::SeqCst);
        let slot = match in_front {
            true => None,
            false => match self.slot() {
                Ok(slot) => Some(slot),
                Err(error) => {
                    limited!(error, %error, "out of descriptors to wait with; polling instead");
                    self.drive();
                    return std::thread::yield_now();
                }
            },
        };
        self.parked.fetch_add(1, Ordering::SeqCst);
        self.core.parked.fetch_add(1, Ordering::SeqCst);
        cq::stop_polling();
        // The clock is looked at only when there was something else to see than what is waited for.
        let too_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        while !done() {
            let mut behind = false;
            self.each_awaited(|domain| {
                domain.catch_up();
                if domain.has_unfinished() {
                    self.core.notice(domain);
                }
                behind |= domain.is_behind();
            });
            if done() {
                break;
            }
            if !behind {
                self.sleep(slot.as_deref(), done, deadline);
            }
            if done() || too_late() {
                break;
            }
            if !behind && slot.is_some() {
                self.drive();
            }
        }
        self.core.parked.fetch_sub(1, Ordering::SeqCst);
        self.parked.fetch_sub(1, Ordering::SeqCst);
        self.leave(slot);
    }

    fn wake(&self) {
        if self.parked.load(Ordering::SeqCst) > 0 {
            if self.front.asleep.swap(false, Ordering::SeqCst) {
                self.front.waker.wake();
            }
            for slot in &self.slots.lock().parked {
                if slot.asleep.swap(false, Ordering::SeqCst) {
                    slot.waker.wake();
                }
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
