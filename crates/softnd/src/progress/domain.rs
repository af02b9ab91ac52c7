//! A [`Domain`]: streams that are driven together, by whoever polls or waits for them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;

use super::{BATCH, Edges, Readiness, Ready, Set};

/// Something that can make progress when its descriptor is ready.
pub(crate) trait Source: Send + Sync {
    /// Makes what progress is possible.
    fn ready(&self, edges: Edges) -> Turn;

    /// The core on which the kernel took in what came last, where that is known.
    fn incoming_core(&self) -> Option<usize> {
        None
    }
}

/// What one turn of a source came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// A budget ended it, and more could be done at once.
    pub(crate) unfinished: bool,
    /// Octets received.
    pub(crate) octets: usize,
}

/// Sources that had traffic lately: polls ask them directly, which is cheaper than asking the set.
struct Hot {
    sources: Vec<(Weak<dyn Source>, u32)>,
    /// Grows with every poll, and with what it received: when it reaches [`LOOK`], the set has its turn.
    since_look: usize,
}

/// What asking the hot sources came to.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    /// Another thread is at it.
    busy: bool,
    octets: usize,
    sources: usize,
    /// The set is to be looked at.
    look: bool,
}

/// How far a woken thread has looked, see [`Domain::is_behind`].
const UP_TO_DATE: u8 = 0;
/// Every source is hot and was asked once; the end of a stream may share the event with data.
const REPROBE: u8 = 1;
/// The set holds events that nobody has taken.
const UNLOOKED: u8 = 2;

/// Hot sources at most.
const HOT: usize = 8;
/// Polls without traffic after which a source is hot no more.
const COLD: u32 = 256;
/// Polls of the hot sources before the set is looked at again; received octets count as [`WEIGHT`] says, so that bulk
/// streams do not keep small requests on others waiting.
const LOOK: usize = 32;
const WEIGHT: usize = 16 * 1024;

/// Streams driven together: those of one completion queue, or the adapter's connection set-up and tear-down.
pub(crate) struct Domain {
    set: Set,
    sources: Mutex<Slab<Weak<dyn Source>>>,
    /// Sources that have spent their edge and not finished: looked at again before the set is.
    unfinished: Mutex<VecDeque<Weak<dyn Source>>>,
    /// How many `unfinished` holds, for looks without its lock.
    left: AtomicUsize,
    /// Counts the times that `unfinished` was taken up.
    resumed: AtomicU32,
    /// Counts what was left in it.
    deferred: AtomicU32,
    hot: Mutex<Hot>,
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
    /// What a woken thread has left to look at before it sleeps again.
    behind: AtomicU8,
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
            unfinished: Mutex::new(VecDeque::with_capacity(HOT)),
            left: AtomicUsize::new(0),
            resumed: AtomicU32::new(0),
            deferred: AtomicU32::new(0),
            hot: Mutex::new(Hot {
                sources: Vec::with_capacity(HOT),
                since_look: 0,
            }),
            polls: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            interest: AtomicUsize::new(0),
            parked,
            watched: AtomicBool::new(false),
            behind: AtomicU8::new(UP_TO_DATE),
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

    /// Drives what is ready, without blocking. True when more may be ready at once.
    pub(crate) fn progress(&self) -> bool {
        self.behind.store(UP_TO_DATE, Ordering::SeqCst);
        if self.has_unfinished() {
            self.resume();
        }
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
            let source = usize::try_from(ready.token)
                .ok()
                .and_then(|token| self.sources.lock().get(token)?.upgrade());
            if let Some(source) = source
                && self.drive(&source, ready.edges) > 0
            {
                self.warm(&source);
            }
        }
        count == BATCH || self.has_unfinished()
    }

    /// Progress for somebody who polls: the hot sources first, the set now and then.
    pub(crate) fn poll(&self) {
        if self.has_unfinished() {
            self.resume();
        }
        let probe = self.probe(Edges::READ);
        if probe.octets == 0 && !probe.busy {
            self.seen_all(REPROBE);
        }
        if probe.look {
            self.progress();
        }
    }

    /// Progress for somebody who was woken by the set: the hot sources at once, the rest before the next sleep.
    pub(crate) fn woken(&self) {
        if self.has_unfinished() {
            self.resume();
        }
        // What woke us may have been room to send.
        let probe = self.probe(Edges::READ | Edges::WRITE);
        let all_hot = !probe.busy && probe.sources >= self.sources.lock().len();
        self.behind
            .fetch_max(if all_hot { REPROBE } else { UNLOOKED }, Ordering::SeqCst);
    }

    /// Work waits that nothing will report: left by a budget, or not looked at since [`woken`](Self::woken).
    pub(crate) fn is_behind(&self) -> bool {
        self.has_unfinished() || self.behind.load(Ordering::SeqCst) != UP_TO_DATE
    }

    /// Does what [`is_behind`](Self::is_behind) speaks of.
    pub(crate) fn catch_up(&self) {
        match self.behind.load(Ordering::SeqCst) {
            UNLOOKED => {
                self.progress();
            }
            REPROBE => self.poll(),
            _ if self.has_unfinished() => self.resume(),
            _ => {}
        }
    }

    /// Everything up to `level` has been looked at.
    fn seen_all(&self, level: u8) {
        // Only from that level: a thread that was woken meanwhile has more to look at.
        let _ = self
            .behind
            .compare_exchange(level, UP_TO_DATE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Asks the hot sources.
    fn probe(&self, edges: Edges) -> Probe {
        // Whoever comes second finds the first one at work on them.
        let Some(mut hot) = self.hot.try_lock() else {
            return Probe {
                busy: true,
                look: true,
                ..Probe::default()
            };
        };
        let Hot {
            sources,
            since_look,
        } = &mut *hot;
        let mut probe = Probe::default();
        sources.retain_mut(|(source, idle)| {
            let Some(source) = source.upgrade() else {
                return false;
            };
            let octets = self.drive(&source, edges);
            probe.octets += octets;
            *idle = if octets > 0 { 0 } else { *idle + 1 };
            *idle < COLD
        });
        probe.sources = sources.len();
        *since_look += 1 + probe.octets / WEIGHT;
        // Where something has come, its receiver has something better to do than to wait for a look at the set.
        let due = if probe.octets > 0 { 4 * LOOK } else { LOOK };
        probe.look = sources.is_empty() || *since_look >= due;
        if probe.look {
            *since_look = 0;
        }
        probe
    }

    /// A source has received something: the next polls ask it directly.
    fn warm(&self, source: &Arc<dyn Source>) {
        let Some(mut hot) = self.hot.try_lock() else {
            return;
        };
        let source = Arc::downgrade(source);
        if hot.sources.iter().any(|(known, _)| known.ptr_eq(&source)) {
            return;
        }
        if hot.sources.len() == HOT {
            let coldest = hot
                .sources
                .iter()
                .enumerate()
                .max_by_key(|(_, (_, idle))| *idle);
            let coldest = coldest.map_or(0, |(at, _)| at);
            hot.sources.swap_remove(coldest);
        }
        hot.sources.push((source, 0));
    }

    /// The core from which one of the sources had its last traffic.
    pub(crate) fn incoming_core(&self) -> Option<usize> {
        let hot = self.hot.try_lock()?;
        // Any of them will do; the last one was idle before the others were.
        let (source, _) = hot.sources.last()?;
        source.upgrade()?.incoming_core()
    }

    fn drive(&self, source: &Arc<dyn Source>, edges: Edges) -> usize {
        let turn = source.ready(edges);
        if turn.unfinished {
            self.defer(Arc::downgrade(source));
        }
        turn.octets
    }

    fn resume(&self) {
        // Only what was there at the start: a source that is again not finished has its next turn in the next call.
        let count = self.left.load(Ordering::SeqCst);
        for _ in 0..count {
            let next = self.unfinished.lock().pop_front();
            if next.is_some() {
                self.left.fetch_sub(1, Ordering::SeqCst);
            }
            if let Some(source) = next.and_then(|source| source.upgrade()) {
                self.drive(&source, Edges::KICK);
            }
        }
        self.resumed.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves a source for the next call of [`progress`](Self::progress).
    pub(crate) fn defer(&self, source: Weak<dyn Source>) {
        let mut unfinished = self.unfinished.lock();
        unfinished.push_back(source);
        self.left.fetch_add(1, Ordering::SeqCst);
        self.deferred.fetch_add(1, Ordering::Relaxed);
    }

    /// Two counts that grow when work is left for the next driver, and when a driver takes it up.
    pub(crate) fn unfinished_counts(&self) -> (u32, u32) {
        (
            self.deferred.load(Ordering::Relaxed),
            self.resumed.load(Ordering::Relaxed),
        )
    }

    /// Work is waiting that no edge will report.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    /// Called by every poll.
    pub(crate) fn polled(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was polled.
    pub(crate) fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Whoever polled this domain polls no more for now: nobody attends it until somebody polls again. True if the
    /// background thread has to be told, as it keeps away.
    pub(crate) fn polls_end(&self) -> bool {
        self.seen.store(self.polls(), Ordering::Relaxed);
        self.watched.load(Ordering::SeqCst)
    }

    /// Whether somebody polled since the last call, or sleeps where this domain is driven from and would be woken.
    pub(crate) fn is_attended(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        let polled = self.seen.swap(polls, Ordering::Relaxed) != polls;
        polled || self.is_waited_for() && !self.has_unfinished()
    }

    /// Whether a thread sleeps that this domain would wake.
    pub(crate) fn is_waited_for(&self) -> bool {
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
