//! A [`Domain`]: streams that are driven together, by whoever polls or waits for them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;

use super::{BATCH, Edges, Readiness, Ready, Set};

/// Something that can make progress when its descriptor is ready.
pub(crate) trait Source: Send + Sync {
    /// Makes what progress is possible. `true` when a budget ended it and more could be done at once.
    fn ready(self: Arc<Self>, edges: Edges) -> bool;
}

/// Streams driven together: those of one completion queue, or the adapter's connection set-up and tear-down.
pub(crate) struct Domain {
    set: Set,
    sources: Mutex<Slab<Weak<dyn Source>>>,
    /// Sources that have spent their edge and not finished: looked at again before the set is.
    unfinished: Mutex<VecDeque<Weak<dyn Source>>>,
    /// How many `unfinished` holds, for looks without its lock.
    left: AtomicUsize,
    /// Counts polls, so that the background thread can tell whether somebody does its work.
    polls: AtomicU32,
    /// The value of `polls` that the background thread saw last.
    seen: AtomicU32,
    /// Requests that make a parked thread drive this domain.
    interest: AtomicUsize,
    /// Threads parked where this domain is driven from.
    parked: Arc<AtomicUsize>,
    /// The background thread looks at this domain in every tick.
    watched: AtomicBool,
    /// The background thread's name for this domain.
    background: OnceLock<usize>,
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain")
            .field("sources", &self.sources.lock().len())
            .finish_non_exhaustive()
    }
}

impl AsFd for Domain {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl Domain {
    /// Makes a domain without sources; `parked` counts the threads that sleep where it is driven from.
    pub(crate) fn new(parked: Arc<AtomicUsize>) -> io::Result<Self> {
        Ok(Self {
            set: Set::new()?,
            sources: Mutex::default(),
            unfinished: Mutex::default(),
            left: AtomicUsize::new(0),
            polls: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            interest: AtomicUsize::new(0),
            parked,
            watched: AtomicBool::new(false),
            background: OnceLock::new(),
        })
    }

    /// Adds a stream; the token takes it out again.
    pub(crate) fn add(&self, fd: &impl AsFd, source: Weak<dyn Source>) -> io::Result<usize> {
        let token = self.sources.lock().insert(source);
        self.set
            .add_stream(fd, token as u64)
            .inspect_err(|_| drop(self.sources.lock().remove(token)))?;
        Ok(token)
    }

    /// Takes a stream out. An event for it that is already on its way to a driver finds nobody, or somebody new whom a
    /// needless look does no harm.
    pub(crate) fn remove(&self, fd: &impl AsFd, token: usize) {
        let _ = self.set.remove(fd);
        self.sources.lock().try_remove(token);
    }

    /// Drives what is ready, without blocking. True when something was.
    pub(crate) fn progress(&self) -> bool {
        let mut some = self.resume();
        let mut batch = [Ready {
            token: 0,
            edges: Edges::empty(),
        }; BATCH];
        let mut count = 0;
        let waited = self.set.wait(Some(Duration::ZERO), |ready| {
            batch[count] = ready;
            count += 1;
        });
        if let Err(error) = waited {
            tracing::error!(%error, "a readiness set failed");
        }
        for ready in &batch[..count] {
            some = true;
            let source = usize::try_from(ready.token)
                .ok()
                .and_then(|token| self.sources.lock().get(token)?.upgrade());
            if let Some(source) = source {
                self.drive(source, ready.edges);
            }
        }
        some
    }

    fn drive(&self, source: Arc<dyn Source>, edges: Edges) {
        let again = Arc::downgrade(&source);
        if source.ready(edges) {
            self.defer(again);
        }
    }

    fn resume(&self) -> bool {
        // Only what was there at the start: a source that is again not finished has its next turn in the next call.
        let count = self.left.load(Ordering::SeqCst);
        for _ in 0..count {
            let next = self.unfinished.lock().pop_front();
            if next.is_some() {
                self.left.fetch_sub(1, Ordering::SeqCst);
            }
            if let Some(source) = next.and_then(|source| source.upgrade()) {
                self.drive(source, Edges::KICK);
            }
        }
        count > 0
    }

    /// Leaves a source for the next call of [`progress`](Self::progress).
    pub(crate) fn defer(&self, source: Weak<dyn Source>) {
        let mut unfinished = self.unfinished.lock();
        unfinished.push_back(source);
        self.left.fetch_add(1, Ordering::SeqCst);
    }

    /// Work is waiting that no edge will report.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    /// Called by every poll.
    pub(crate) fn polled(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether somebody polled since the last call, or sleeps where this domain is driven from and would be woken.
    pub(crate) fn is_attended(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        let polled = self.seen.swap(polls, Ordering::Relaxed) != polls;
        polled || self.is_waited_for() && !self.has_unfinished()
    }

    fn is_waited_for(&self) -> bool {
        self.interest.load(Ordering::SeqCst) > 0 && self.parked.load(Ordering::SeqCst) > 0
    }

    /// From here on parked threads drive this domain.
    pub(crate) fn add_interest(&self) {
        self.interest.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one [`add_interest`](Self::add_interest) back.
    pub(crate) fn drop_interest(&self) {
        self.interest.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn has_interest(&self) -> bool {
        self.interest.load(Ordering::SeqCst) > 0
    }

    /// Sets whether the background thread looks at this domain in every tick; returns what was.
    pub(crate) fn set_watched(&self, watched: bool) -> bool {
        self.watched.swap(watched, Ordering::SeqCst)
    }

    pub(crate) fn set_background_token(&self, token: usize) {
        // A domain is added to one background thread, once.
        let _ = self.background.set(token);
    }

    pub(crate) fn background_token(&self) -> Option<usize> {
        self.background.get().copied()
    }
}
