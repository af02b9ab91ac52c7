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
use crate::log::limited;

/// Something that can make progress when its descriptor is ready.
pub(crate) trait Source: Send + Sync {
    /// Makes what progress is possible.
    fn ready(&self, edges: Edges) -> Turn;

    /// The core on which the kernel took in what came last, where that is known.
    fn incoming_core(&self) -> Option<usize> {
        None
    }

    /// Takes its stream out of the domain's set; false when it has none there.
    fn leave(&self, _domain: &Domain) -> bool {
        false
    }

    /// Puts its stream back into the domain's set, where whatever it is ready for is reported.
    fn rejoin(&self, _domain: &Domain) {}
}

/// What one turn of a source came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// A budget ended it, and more could be done at once.
    pub(crate) unfinished: bool,
    /// Something waits until it can be written.
    pub(crate) blocked: bool,
    /// Octets received.
    pub(crate) octets: usize,
}

/// Sources that had traffic lately: polls ask them directly, which is cheaper than asking the set.
struct Hot {
    sources: Vec<HotSource>,
    /// Grows with every poll, and with what it received: when it reaches [`LOOK`], the set has its turn.
    since_look: usize,
}

struct HotSource {
    source: Weak<dyn Source>,
    /// Polls in a row that found nothing.
    idle: u32,
    /// Polls that found something, since it is in the set.
    found: u32,
    /// It is not in the set: polls alone find what it receives, and nothing has to be reported of it.
    apart: bool,
}

impl HotSource {
    /// Takes the stream out of the domain's set.
    fn leave(&mut self, source: &Arc<dyn Source>, domain: &Domain) {
        self.apart = source.leave(domain);
        if self.apart {
            domain.apart.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Puts the stream back, if it was taken out.
    fn rejoin(&mut self, domain: &Domain) {
        self.found = 0;
        if std::mem::take(&mut self.apart) {
            if let Some(source) = self.source.upgrade() {
                source.rejoin(domain);
            }
            domain.apart.fetch_sub(1, Ordering::SeqCst);
        }
    }
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
    /// A source has left the set.
    left: bool,
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
/// Polls with traffic after which a source leaves the set, as long as polling goes on. To report a stream costs its sender
/// several per cent of a short round trip, and who polls all the time needs no report.
const STEADY: u32 = 32;
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
    /// Hot sources that are not in the set.
    apart: AtomicUsize,
    /// They are to be put back by whoever holds `hot`.
    recalled: AtomicBool,
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
            apart: AtomicUsize::new(0),
            recalled: AtomicBool::new(false),
            polls: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            interest: AtomicUsize::new(0),
            parked,
            watched: AtomicBool::new(false),
            behind: AtomicU8::new(UP_TO_DATE),
            background: OnceLock::new(),
        })
    }

    /// Adds a stream, reported for these edges; the token takes it out again.
    pub(crate) fn add(
        &self,
        fd: &impl AsFd,
        source: Weak<dyn Source>,
        edges: Edges,
    ) -> io::Result<usize> {
        let token = self.sources.lock().insert(source);
        self.set
            .add_stream(fd, token as u64, edges)
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
            limited!(error, %error, "a readiness set failed");
        }
        for ready in &batch[..count] {
            let source = usize::try_from(ready.token)
                .ok()
                .and_then(|token| self.sources.lock().get(token)?.upgrade());
            if let Some(source) = source
                && self.drive(&source, ready.edges).octets > 0
            {
                self.warm(&source);
            }
        }
        count == BATCH || self.has_unfinished()
    }

    /// Progress for somebody who polls: the hot sources first, the set now and then. True when the background thread has
    /// to look after this domain from now on.
    #[must_use]
    pub(crate) fn poll(&self) -> bool {
        if self.has_unfinished() {
            self.resume();
        }
        let steady = self.interest.load(Ordering::SeqCst) == 0;
        let probe = self.poll_hot(steady);
        probe.left || self.has_unfinished()
    }

    fn poll_hot(&self, steady: bool) -> Probe {
        let probe = self.probe(Edges::READ, steady);
        if probe.octets == 0 && !probe.busy {
            self.seen_all(REPROBE);
        }
        if probe.look {
            self.progress();
        }
        probe
    }

    /// Progress for somebody who was woken by the set: the hot sources at once, the rest before the next sleep.
    pub(crate) fn woken(&self) {
        if self.has_unfinished() {
            self.resume();
        }
        // What woke us may have been room to send.
        let probe = self.probe(Edges::READ | Edges::WRITE, false);
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
            REPROBE => {
                if self.has_unfinished() {
                    self.resume();
                }
                self.poll_hot(false);
            }
            _ if self.has_unfinished() => self.resume(),
            _ => {}
        }
    }

    /// Everything up to `level` has been looked at.
    fn seen_all(&self, level: u8) {
        if self.behind.load(Ordering::SeqCst) != level {
            return; // most polls, to which the write below would be dear
        }
        // Only from that level: a thread that was woken meanwhile has more to look at.
        let _ = self
            .behind
            .compare_exchange(level, UP_TO_DATE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Asks the hot sources. Where polling is `steady`, those with much traffic leave the set.
    fn probe(&self, edges: Edges, steady: bool) -> Probe {
        // Whoever comes second finds the first one at work on them.
        self.with_hot(|hot| self.probe_all(hot, edges, steady))
            .unwrap_or(Probe {
                busy: true,
                look: true,
                ..Probe::default()
            })
    }

    fn probe_all(&self, hot: &mut Hot, edges: Edges, steady: bool) -> Probe {
        let Hot {
            sources,
            since_look,
        } = hot;
        let mut probe = Probe::default();
        sources.retain_mut(|hot| {
            let Some(source) = hot.source.upgrade() else {
                hot.rejoin(self);
                return false;
            };
            let turn = self.drive(&source, edges);
            probe.octets += turn.octets;
            if turn.octets > 0 {
                hot.idle = 0;
                hot.found = hot.found.saturating_add(1);
            } else {
                hot.idle += 1;
            }
            if hot.apart && turn.blocked || hot.idle >= COLD {
                hot.rejoin(self);
            } else if steady && !hot.apart && !turn.blocked && hot.found >= STEADY {
                hot.leave(&source, self);
                probe.left = true;
                // Somebody may have begun to wait without seeing that.
                if self.has_interest() {
                    hot.rejoin(self);
                }
            }
            hot.idle < COLD
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

    /// Does something with the hot sources, unless another thread is at them, and what that thread was asked for meanwhile.
    fn with_hot<T>(&self, act: impl FnOnce(&mut Hot) -> T) -> Option<T> {
        let done = act(&mut *self.hot.try_lock()?);
        self.answer_recall();
        Some(done)
    }

    /// Has all streams reported by the set again: somebody sleeps on it from now on, or serves it unpolled.
    pub(crate) fn recall(&self) {
        if self.apart.load(Ordering::SeqCst) > 0 {
            self.recalled.store(true, Ordering::SeqCst);
            self.answer_recall();
        }
    }

    fn answer_recall(&self) {
        while self.recalled.load(Ordering::SeqCst) {
            // Who holds the lock looks here again after it has let go.
            let Some(mut hot) = self.hot.try_lock() else {
                return;
            };
            if self.recalled.swap(false, Ordering::SeqCst) {
                hot.sources.iter_mut().for_each(|hot| hot.rejoin(self));
            }
        }
    }

    /// Takes a stream out of the set; [`rejoin`](Self::rejoin) puts it back.
    pub(crate) fn leave(&self, fd: &impl AsFd) -> bool {
        self.set.remove(fd).is_ok()
    }

    /// Changes what a stream is reported for, unless it has left the set.
    pub(crate) fn report(&self, fd: &impl AsFd, token: usize, edges: Edges) {
        match self.set.change_stream(fd, token as u64, edges) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                limited!(error, %error, "a stream is not reported as it should be");
            }
            _ => {}
        }
    }

    /// Puts a stream back into the set.
    pub(crate) fn rejoin(&self, fd: &impl AsFd, token: usize, edges: Edges) {
        if let Err(error) = self.set.add_stream(fd, token as u64, edges) {
            // The polls that found out still find it, until it is hot no more.
            limited!(error, %error, "a stream is not reported any more");
        }
    }

    /// A source has received something: the next polls ask it directly.
    fn warm(&self, source: &Arc<dyn Source>) {
        let source = Arc::downgrade(source);
        self.with_hot(|hot| {
            if hot.sources.iter().any(|known| known.source.ptr_eq(&source)) {
                return;
            }
            if hot.sources.len() == HOT {
                let coldest = hot.sources.iter().enumerate();
                let coldest = coldest.max_by_key(|(_, known)| known.idle);
                let coldest = coldest.map_or(0, |(at, _)| at);
                hot.sources.swap_remove(coldest).rejoin(self);
            }
            hot.sources.push(HotSource {
                source,
                idle: 0,
                found: 0,
                apart: false,
            });
        });
    }

    /// The core from which one of the sources had its last traffic.
    pub(crate) fn incoming_core(&self) -> Option<usize> {
        // Any of them will do; the last one was idle before the others were.
        let source = self.with_hot(|hot| hot.sources.last()?.source.upgrade())??;
        source.incoming_core()
    }

    fn drive(&self, source: &Arc<dyn Source>, edges: Edges) -> Turn {
        let turn = source.ready(edges);
        if turn.unfinished {
            self.defer(Arc::downgrade(source));
        }
        turn
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

    /// Called by every poll. Where two threads poll at once, both may count as one: what matters is that the count changes
    /// while somebody polls.
    pub(crate) fn polled(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
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

    /// From here on parked threads drive this domain; before they sleep it has to [`recall`](Self::recall) its streams.
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
