//! A [`Domain`]: streams that are driven together, by whoever polls or waits for them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::tokens::Tokens;
use super::{BATCH, Edges, Readiness, Ready, Set, Watch};
use crate::sync::{
    AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Mutex, Ordering, after_unlocking, fence,
};

/// Something that can make progress when its stream is ready.
pub trait Source<S: Readiness = Set>: Send + Sync {
    /// Makes what progress is possible.
    fn ready(&self, edges: Edges) -> Turn;

    /// The core on which the kernel took in what came last, where that is known.
    fn incoming_core(&self) -> Option<usize> {
        None
    }

    /// Takes its stream out of the domain's set; false when it has none there.
    fn leave(&self, _domain: &Domain<S>) -> bool {
        false
    }

    /// Puts its stream back into the domain's set, where whatever it is ready for is reported; false when that fails.
    fn rejoin(&self, _domain: &Domain<S>) -> bool {
        true
    }
}

/// What one turn of a source came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// A budget ended it, and more could be done at once.
    pub unfinished: bool,
    /// Something waits until it can be written.
    pub blocked: bool,
    /// Octets received.
    pub octets: usize,
}

/// Sources that had traffic lately: polls ask them directly, which is cheaper than asking the set.
struct Hot<S: Readiness> {
    sources: Vec<HotSource<S>>,
    /// Grows with every poll, and with what it received: when it reaches [`LOOK`], the set has its turn.
    since_look: usize,
}

struct HotSource<S: Readiness> {
    source: Weak<dyn Source<S>>,
    /// By which the domain knows it. It may have gone to another domain since.
    token: u64,
    /// Polls in a row that found nothing.
    idle: u32,
    /// Polls that found something, since it is in the set.
    found: u32,
    /// It is not in the set: polls alone find what it receives, and nothing has to be reported of it.
    apart: bool,
}

impl<S: Readiness> HotSource<S> {
    /// Takes the stream out of the domain's set.
    fn leave(&mut self, source: &Arc<dyn Source<S>>, domain: &Domain<S>) {
        self.apart = source.leave(domain);
        if self.apart {
            domain.apart.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Puts the stream back, if it was taken out; false when that fails.
    fn rejoin(&mut self, domain: &Domain<S>) -> bool {
        self.found = 0;
        if self.apart {
            let source = self.source.upgrade();
            if source.is_some_and(|source| !source.rejoin(domain)) {
                return false;
            }
            self.apart = false;
            domain.apart.fetch_sub(1, Ordering::SeqCst);
        }
        true
    }
}

/// What asking the hot sources came to.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    octets: usize,
    /// The set is to be looked at.
    look: bool,
    /// A source has left the set.
    left: bool,
}

/// How far a woken thread has looked, see [`Domain::is_behind`].
const UP_TO_DATE: u8 = 0;
/// Every source is hot and was asked once; the end of a stream may share the event with data.
const REPROBE: u8 = 1;
/// The set may hold events that nobody has taken.
const UNLOOKED: u8 = 2;

/// Hot sources at most.
const HOT: usize = 8;
/// Polls without traffic after which a source is hot no more.
const COLD: u32 = if cfg!(loom) { 3 } else { 256 };
/// Polls with traffic after which a source leaves the set, as long as polling goes on. To report a stream costs its sender
/// several per cent of a short round trip, and who polls all the time needs no report.
const STEADY: u32 = if cfg!(loom) { 1 } else { 32 };
/// Polls of the hot sources before the set is looked at again; received octets count as [`WEIGHT`] says, so that bulk
/// streams do not keep small requests on others waiting.
const LOOK: usize = if cfg!(loom) { 2 } else { 32 };
const WEIGHT: usize = 16 * 1024;

/// Streams driven together: those of one completion queue, or the adapter's connection set-up and tear-down.
pub struct Domain<S: Readiness = Set> {
    set: S,
    sources: Mutex<Tokens<Weak<dyn Source<S>>>>,
    /// Sources that have spent their edge and not finished: looked at again before the set is.
    unfinished: Mutex<VecDeque<Weak<dyn Source<S>>>>,
    /// How many `unfinished` holds, for looks without its lock.
    left: AtomicUsize,
    /// Counts the times that `unfinished` was taken up.
    resumed: AtomicU32,
    /// Counts what was left in it.
    deferred: AtomicU32,
    hot: Mutex<Hot<S>>,
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
    /// The set that parked threads sleep in reports this domain.
    armed: AtomicBool,
    /// The background thread looks at this domain in every tick, or is about to.
    watched: AtomicBool,
    /// What a woken thread has left to look at before it sleeps again.
    behind: AtomicU8,
    /// The background thread's name for this domain.
    background: OnceLock<u64>,
}

impl<S: Readiness> std::fmt::Debug for Domain<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain")
            .field("sources", &self.sources.lock().len())
            .finish_non_exhaustive()
    }
}

impl<S: Readiness> Domain<S> {
    /// Makes a domain without sources over an empty set; `parked` counts the threads that sleep where it is driven from.
    pub fn new(set: S, parked: Arc<AtomicUsize>) -> Self {
        Self {
            set,
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
            armed: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            behind: AtomicU8::new(UP_TO_DATE),
            background: OnceLock::new(),
        }
    }

    /// The set, as a source of other sets.
    pub fn set(&self) -> &S {
        &self.set
    }

    /// Adds a stream, reported for these edges; the token takes it out again.
    pub fn add(
        &self,
        stream: &impl Watch<S>,
        source: Weak<dyn Source<S>>,
        edges: Edges,
    ) -> io::Result<u64> {
        let token = self.sources.lock().insert(source);
        self.set
            .add_stream(stream, token, edges)
            .inspect_err(|_| drop(self.sources.lock().remove(token)))?;
        Ok(token)
    }

    /// Takes a stream out. An event for it that is already on its way to a driver finds nobody.
    pub fn remove(&self, stream: &impl Watch<S>, token: u64) {
        let _ = self.set.remove(stream);
        let source = self.sources.lock().remove(token);
        drop(source);
    }

    /// Drives what is ready, without blocking. True when more may be ready at once.
    pub fn progress(&self) -> bool {
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
        if count == BATCH {
            // More may be ready, and nobody is told of it again.
            self.behind.fetch_max(UNLOOKED, Ordering::SeqCst);
        }
        for ready in &batch[..count] {
            let source = self.source(ready.token);
            if let Some(source) = source
                && self.drive(&source, ready.edges).octets > 0
            {
                self.warm(&source, ready.token);
            }
        }
        count == BATCH || self.has_unfinished()
    }

    fn source(&self, token: u64) -> Option<Arc<dyn Source<S>>> {
        self.sources.lock().get(token)?.upgrade()
    }

    /// Progress for somebody who polls: the hot sources first, the set now and then. True when the background thread has
    /// to look after this domain from now on.
    #[must_use]
    pub fn poll(&self) -> bool {
        if self.has_unfinished() {
            self.resume();
        }
        let steady = self.interest.load(Ordering::SeqCst) == 0;
        let probe = self.poll_hot(steady);
        probe.left || self.has_unfinished()
    }

    fn poll_hot(&self, steady: bool) -> Probe {
        let probe = self.with_hot(|hot| {
            let probe = self.probe(hot, Edges::READ, steady);
            if probe.octets == 0 {
                self.seen_all(REPROBE);
            }
            probe
        });
        // Whoever comes second finds the first one at work on them.
        let probe = probe.unwrap_or(Probe {
            look: true,
            ..Probe::default()
        });
        if probe.look {
            self.progress();
        }
        probe
    }

    /// Progress for somebody who was woken by the set: the hot sources at once, the rest before the next sleep. On a system
    /// that does not report the set again while events are left in it, all of them at once.
    pub fn woken(&self) {
        if !self.set.reports_untaken() {
            self.progress(); // notes what it has left
            return;
        }
        if self.has_unfinished() {
            self.resume();
        }
        let asked = self.with_hot(|hot| {
            // What woke us may have been room to send.
            self.probe(hot, Edges::READ | Edges::WRITE, false);
            let behind = if self.are_all_in(hot) {
                REPROBE
            } else {
                UNLOOKED
            };
            // Still under the lock: a poll that takes this back has asked after us.
            self.behind.fetch_max(behind, Ordering::SeqCst);
        });
        if asked.is_none() {
            self.behind.fetch_max(UNLOOKED, Ordering::SeqCst);
        }
    }

    /// Whether all streams of this domain are among the hot ones, where some may be that have left the domain.
    fn are_all_in(&self, hot: &Hot<S>) -> bool {
        let sources = self.sources.lock();
        let known = hot.sources.iter();
        let known = known.filter(|hot| sources.get(hot.token).is_some());
        known.count() >= sources.len()
    }

    /// Work waits that nothing will report: left by a budget, or not looked at since [`woken`](Self::woken).
    pub fn is_behind(&self) -> bool {
        self.has_unfinished() || self.behind.load(Ordering::SeqCst) != UP_TO_DATE
    }

    /// Does what [`is_behind`](Self::is_behind) speaks of.
    pub fn catch_up(&self) {
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

    /// Everything up to `level` has been looked at. Called with the hot sources locked.
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
    #[inline(always)] // one call less in every poll
    fn probe(&self, hot: &mut Hot<S>, edges: Edges, steady: bool) -> Probe {
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
                if !hot.rejoin(self) {
                    hot.idle = 0; // nothing else than polls finds what it receives
                }
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
    fn with_hot<T>(&self, act: impl FnOnce(&mut Hot<S>) -> T) -> Option<T> {
        let done = act(&mut *self.hot.try_lock()?);
        after_unlocking();
        self.answer_recall();
        Some(done)
    }

    /// Has all streams reported by the set again: somebody sleeps on it from now on, or serves it unpolled.
    pub fn recall(&self) {
        if self.is_apart() {
            self.recalled.store(true, Ordering::SeqCst);
            // Who holds the lock may have looked before that, and gone since.
            fence(Ordering::SeqCst);
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
                for hot in &mut hot.sources {
                    hot.rejoin(self);
                }
            }
            drop(hot);
            after_unlocking();
        }
    }

    /// Streams have left the set: polls alone find what they receive.
    pub(super) fn is_apart(&self) -> bool {
        self.apart.load(Ordering::SeqCst) > 0
    }

    /// Takes a stream out of the set; [`rejoin`](Self::rejoin) puts it back.
    pub fn leave(&self, stream: &impl Watch<S>) -> bool {
        self.set.remove(stream).is_ok()
    }

    /// Changes what a stream is reported for, unless it has left the set.
    pub fn report(&self, stream: &impl Watch<S>, token: u64, edges: Edges) {
        match self.set.change_stream(stream, token, edges) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                limited!(error, %error, "a stream is not reported as it should be");
            }
            _ => {}
        }
    }

    /// Puts a stream back into the set; false when that fails.
    pub fn rejoin(&self, stream: &impl Watch<S>, token: u64, edges: Edges) -> bool {
        match self.set.add_stream(stream, token, edges) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                limited!(error, %error, "a stream cannot be reported for now: it is looked at every few milliseconds");
                false
            }
            _ => true,
        }
    }

    /// A source has received something: the next polls ask it directly.
    fn warm(&self, source: &Arc<dyn Source<S>>, token: u64) {
        let source = Arc::downgrade(source);
        self.with_hot(|hot| {
            let mut known = hot.sources.iter_mut();
            if let Some(known) = known.find(|known| known.source.ptr_eq(&source)) {
                known.token = token;
                return;
            }
            if hot.sources.len() == HOT {
                let coldest = hot.sources.iter().enumerate();
                let coldest = coldest.max_by_key(|(_, known)| known.idle);
                let coldest = coldest.map_or(0, |(at, _)| at);
                if !hot.sources[coldest].rejoin(self) {
                    return;
                }
                hot.sources.swap_remove(coldest);
            }
            hot.sources.push(HotSource {
                source,
                token,
                idle: 0,
                found: 0,
                apart: false,
            });
        });
    }

    /// The core from which one of the sources had its last traffic.
    pub fn incoming_core(&self) -> Option<usize> {
        // Any of them will do; the last one was idle before the others were.
        let source = self.with_hot(|hot| hot.sources.last()?.source.upgrade())??;
        source.incoming_core()
    }

    fn drive(&self, source: &Arc<dyn Source<S>>, edges: Edges) -> Turn {
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

    /// Leaves a source for the next call of [`progress`](Self::progress). One that is left already has one turn there and not
    /// two: a stream without end is found unfinished by its event and by its turn, and would have more turns each time.
    pub fn defer(&self, source: Weak<dyn Source<S>>) {
        let mut unfinished = self.unfinished.lock();
        let count = self.deferred.load(Ordering::Relaxed);
        if iwarp::planted!(WorkForgotten) && count % 4 == 3 {
            self.deferred.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if !unfinished.iter().any(|left| left.ptr_eq(&source)) {
            unfinished.push_back(source);
            self.left.fetch_add(1, Ordering::SeqCst);
        }
        self.deferred.fetch_add(1, Ordering::Relaxed);
    }

    /// Two counts that grow when work is left for the next driver, and when a driver takes it up.
    pub fn unfinished_counts(&self) -> (u32, u32) {
        (
            self.deferred.load(Ordering::Relaxed),
            self.resumed.load(Ordering::Relaxed),
        )
    }

    /// Work is waiting that no edge will report.
    pub fn has_unfinished(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    /// Called by every poll. Where two threads poll at once, both may count as one: what matters is that the count changes
    /// while somebody polls.
    pub fn polled(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// How often it was polled.
    pub fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Whoever polled this domain polls no more for now: nobody attends it until somebody polls again. True if the
    /// background thread has to be told, as it keeps away.
    pub fn polls_end(&self) -> bool {
        self.seen.store(self.polls(), Ordering::Relaxed);
        self.watched.load(Ordering::SeqCst)
    }

    /// Whether somebody polled since the background thread asked last, or sleeps where this domain is driven from and would
    /// be woken. Asked by the background thread alone.
    pub fn is_attended(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        let polled = self.seen.swap(polls, Ordering::Relaxed) != polls;
        polled || self.is_driven_by_sleepers()
    }

    /// As [`is_attended`](Self::is_attended), asked by the way: the next question has the same answer.
    pub(super) fn seems_attended(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        self.seen.load(Ordering::Relaxed) != polls || self.is_driven_by_sleepers()
    }

    fn is_driven_by_sleepers(&self) -> bool {
        self.is_waited_for() && !self.has_unfinished()
    }

    /// Whether a thread sleeps that this domain would wake.
    pub fn is_waited_for(&self) -> bool {
        self.has_interest()
            && self.parked.load(Ordering::SeqCst) > 0
            && self.armed.load(Ordering::SeqCst)
            && !self.is_apart()
    }

    /// Says whether the set that parked threads sleep in reports this domain.
    pub fn set_armed(&self, armed: bool) {
        self.armed.store(armed, Ordering::SeqCst);
    }

    /// From here on parked threads drive this domain; before they sleep it has to [`recall`](Self::recall) its streams.
    pub fn add_interest(&self) {
        self.interest.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one [`add_interest`](Self::add_interest) back.
    pub fn drop_interest(&self) {
        self.interest.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether requests make a parked thread drive this domain.
    pub fn has_interest(&self) -> bool {
        self.interest.load(Ordering::SeqCst) > 0
    }

    /// Sets whether the background thread looks at this domain in every tick; returns what was.
    pub fn set_watched(&self, watched: bool) -> bool {
        self.watched.swap(watched, Ordering::SeqCst)
    }

    pub(super) fn set_background_token(&self, token: u64) {
        // A domain is added to one background thread, once.
        let _ = self.background.set(token);
    }

    pub(super) fn background_token(&self) -> Option<u64> {
        self.background.get().copied()
    }
}
