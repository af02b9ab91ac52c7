//! Readiness of descriptors: the set of watched descriptors, and the thread that does the work when no other thread waits. The same thread
//! calls objects at given times.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rdma_buffer::signals;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

/// An object with a descriptor. Any thread may call `ready`, several at a time, and without need.
pub(crate) trait Source: Send + Sync {
    /// Does the pending work, without waiting. This may include making and destroying objects of the device, which takes as long as the
    /// driver takes: other connections and times wait as long. Calls that are known to wait in the driver are made in another thread.
    fn ready(&self);
}

/// An object that has a time limit.
pub(crate) trait Timed: Send + Sync {
    /// The time that was set with this key is over. Called without locks, by the adapter's thread.
    fn time_is_up(&self, key: u64);
}

/// A time for which an object waits, and its key. No two are equal.
pub(crate) type Deadline = (Instant, u64);

/// The token of the descriptor that only wakes up.
const WAKE: u64 = 0;
/// The number of ready descriptors that are taken at a time.
const BATCH: usize = 16;

/// A set of descriptors, and one that wakes up the threads that wait for them.
pub(crate) struct WatchSet {
    epoll: OwnedFd,
    wake: OwnedFd,
}

impl WatchSet {
    pub(crate) fn new() -> io::Result<Self> {
        let set = Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        set.watch(set.wake.as_fd(), WAKE)?;
        Ok(set)
    }

    /// Watches a descriptor. Its token is not 0.
    pub(crate) fn watch(&self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)?;
        Ok(())
    }

    pub(crate) fn unwatch(&self, descriptor: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Wakes up a thread that waits, or the next one that will.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Forgets wake-ups.
    pub(crate) fn reset(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
    }

    /// Waits until a descriptor is ready, and calls `visit` with the token of each. Without a limit, waits for ever.
    pub(crate) fn wait(&self, limit: Option<&Timespec>, mut visit: impl FnMut(u64)) {
        let mut ready = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; BATCH];
        let count = match epoll::wait(&self.epoll, &mut ready[..], limit) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => {
                debug_assert!(false, "epoll cannot wait: {error}");
                0
            }
        };
        for event in &ready[..count] {
            let data = event.data;
            let token = data.u64();
            if token != WAKE {
                visit(token);
            }
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl fmt::Debug for WatchSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchSet").finish_non_exhaustive()
    }
}

/// The sources of an adapter. The adapter's thread serves them while no other thread does.
pub(crate) struct Driver {
    set: WatchSet,
    sources: Mutex<HashMap<u64, Weak<dyn Source>>>,
    deadlines: Mutex<BTreeMap<Deadline, Weak<dyn Timed>>>,
    next: AtomicU64,
    stopped: AtomicBool,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

impl Driver {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let driver = Arc::new(Self {
            set: WatchSet::new()?,
            sources: Mutex::default(),
            deadlines: Mutex::default(),
            next: AtomicU64::new(WAKE + 1),
            stopped: AtomicBool::new(false),
        });
        let own = Arc::clone(&driver);
        let thread = thread::Builder::new().name("netdirect-verbs".to_owned());
        signals::blocked(|| thread.spawn(move || own.run()))?;
        Ok(driver)
    }

    /// A number that no other object of this adapter has.
    pub(crate) fn next_key(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn add(
        &self,
        token: u64,
        descriptor: BorrowedFd<'_>,
        source: Weak<dyn Source>,
    ) -> io::Result<()> {
        self.sources.lock().insert(token, source);
        self.set
            .watch(descriptor, token)
            .inspect_err(|_| drop(self.sources.lock().remove(&token)))
    }

    pub(crate) fn remove(&self, token: u64, descriptor: BorrowedFd<'_>) {
        self.set.unwatch(descriptor);
        self.sources.lock().remove(&token);
    }

    /// Calls the source with this token, if it is still there.
    pub(crate) fn dispatch(&self, token: u64) {
        let source = self.sources.lock().get(&token).and_then(Weak::upgrade);
        if let Some(source) = source {
            source.ready();
        }
    }

    /// No longer watches a descriptor that stays readable.
    pub(crate) fn unwatch(&self, descriptor: BorrowedFd<'_>) {
        self.set.unwatch(descriptor);
    }

    /// Calls `who` when `after` has passed. The key is a [number](Self::next_key) that no other object of this adapter has.
    pub(crate) fn remind(&self, after: Duration, key: u64, who: Weak<dyn Timed>) -> Deadline {
        let deadline = (Instant::now() + after, key);
        let mut deadlines = self.deadlines.lock();
        deadlines.insert(deadline, who);
        let is_first = deadlines.keys().next() == Some(&deadline);
        drop(deadlines);
        if is_first {
            self.set.wake();
        }
        deadline
    }

    pub(crate) fn forget(&self, deadline: Deadline) {
        self.deadlines.lock().remove(&deadline);
    }

    /// The time until the next deadline, if there is one.
    fn rest(&self) -> Option<Timespec> {
        let deadlines = self.deadlines.lock();
        let (first, _) = deadlines.keys().next()?;
        let rest = first.saturating_duration_since(Instant::now());
        Timespec::try_from(rest).ok()
    }

    fn tell_times(&self) {
        let now = Instant::now();
        loop {
            let first = {
                let mut deadlines = self.deadlines.lock();
                let first = deadlines.first_entry();
                let first = first.filter(|first| first.key().0 <= now);
                first.map(|first| first.remove_entry())
            };
            let Some(((_, key), who)) = first else { return };
            if let Some(who) = who.upgrade() {
                who.time_is_up(key);
            }
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.set.wake();
    }

    fn run(&self) {
        while !self.stopped.load(Ordering::SeqCst) {
            let rest = self.rest();
            self.set.wait(rest.as_ref(), |token| self.dispatch(token));
            // Before `stopped` and the times are checked: neither changes unnoticed.
            self.set.reset();
            self.tell_times();
        }
    }
}
