//! A [`Domain`]: streams that are driven together, by the threads that poll or wait for them.

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
    /// Makes as much progress as is possible.
    fn ready(&self, edges: Edges) -> Turn;

    /// The core on which the kernel took in the last data, where that is known.
    fn incoming_core(&self) -> Option<usize> {
        None
    }

    /// Takes the source's stream out of the domain's set. False if the source has no stream there.
    fn leave(&self, _domain: &Domain<S>) -> bool {
        false
    }

    /// Puts the source's stream back into the domain's set, which then reports whatever the stream is ready for. False if
    /// that fails.
    fn rejoin(&self, _domain: &Domain<S>) -> bool {
        true
    }
}

/// The result of one turn of a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// A budget ended the turn, and more could be done at once.
    pub unfinished: bool,
    /// Octets wait until the socket takes data again.
    pub blocked: bool,
    /// Octets received.
    pub octets: usize,
}

/// Sources that had traffic lately. Polls ask these directly, because that is cheaper than asking the set.
struct Hot<S: Readiness> {
    sources: Vec<HotSource<S>>,
    /// Grows with every poll, and with the octets that the poll received. When it reaches [`LOOK`], the next poll asks the
    /// set.
    since_look: usize,
}

struct HotSource<S: Readiness> {
    source: Weak<dyn Source<S>>,
    /// The token of the source in this domain. The source may have gone to another domain since.
    token: u64,
    /// Polls in a row that found nothing.
    idle: u32,
    /// Polls that found something, since the source is in the set.
    found: u32,
    /// The source is not in the set. Only polls find what it receives, and the set has nothing to report.
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

    /// Puts the stream back, if it was taken out. False if that fails.
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

/// The result of asking the hot sources.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    octets: usize,
    /// The set has to be asked now.
    look: bool,
    /// A source has left the set.
    left: bool,
}

/// How far a woken thread has looked, see [`Domain::is_behind`].
const UP_TO_DATE: u8 = 0;
/// Every source is hot and was asked once. They have to be asked again, because the end of a stream may share an event with
/// data.
const REPROBE: u8 = 1;
/// The set may hold events that nobody has taken.
const UNLOOKED: u8 = 2;

/// The largest number of hot sources.
const HOT: usize = 8;
/// Polls without traffic after which a source is no longer hot.
const COLD: u32 = if cfg!(loom) { 3 } else { 256 };
/// Polls with traffic after which a source leaves the set, as long as polling goes on. Each report of a stream costs its
/// sender several per cent of a short round trip, and a thread that polls all the time needs no report.
const STEADY: u32 = if cfg!(loom) { 1 } else { 32 };
/// Polls of the hot sources before the set is asked again. Received octets count as well, in units of [`WEIGHT`], so that
/// bulk streams do not keep small requests on other streams waiting.
const LOOK: usize = if cfg!(loom) { 2 } else { 32 };
const WEIGHT: usize = 16 * 1024;

/// Streams driven together: those of one completion queue, or the adapter's connection set-up and tear-down.
pub struct Domain<S: Readiness = Set> {
    set: S,
    sources: Mutex<Tokens<Weak<dyn Source<S>>>>,
    /// Sources that have used up their edge and have not finished. They get a turn before the set is asked.
    unfinished: Mutex<VecDeque<Weak<dyn Source<S>>>>,
    /// How many sources `unfinished` holds, to be read without the lock.
    left: AtomicUsize,
    /// Counts the times that `unfinished` was taken up.
    resumed: AtomicU32,
    /// Counts the sources that were put into `unfinished`.
    deferred: AtomicU32,
    hot: Mutex<Hot<S>>,
    /// Hot sources that are not in the set.
    apart: AtomicUsize,
    /// The thread that holds `hot` has to put these sources back.
    recalled: AtomicBool,
    /// Counts polls, so that the background thread can tell whether somebody does its work.
    polls: AtomicU32,
    /// The value of `polls` that the background thread saw last.
    seen: AtomicU32,
    /// Requests that make a parked thread drive this domain.
    interest: AtomicUsize,
    /// Threads parked in the parking that drives this domain.
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
    /// Makes a domain without sources over an empty set. `parked` counts the threads that sleep in the parking which drives
    /// the domain.
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

    /// Adds a stream, which the set reports for these edges. The returned token takes the stream out again.
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

    /// Takes a stream out. An event for the stream that is already on its way to a driver finds no source.
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
            // More may be ready, and the set will not report it again.
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

    /// Progress for a thread that polls: asks the hot sources first, and the set now and then. True if the background
    /// thread has to look after this domain from now on.
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
        // If another thread holds the hot sources, that thread asks them.
        let probe = probe.unwrap_or(Probe {
            look: true,
            ..Probe::default()
        });
        if probe.look {
            self.progress();
        }
        probe
    }

    /// Progress for a thread that the set has woken: asks the hot sources at once, and the set before the next sleep. On a
    /// system that does not report the set again while events are left in it, asks the set at once too.
    pub fn woken(&self) {
        if !self.set.reports_untaken() {
            self.progress(); // notes what it has left
            return;
        }
        if self.has_unfinished() {
            self.resume();
        }
        let asked = self.with_hot(|hot| {
            // The thread may have been woken because there is room to send.
            self.probe(hot, Edges::READ | Edges::WRITE, false);
            let behind = if self.are_all_in(hot) {
                REPROBE
            } else {
                UNLOOKED
            };
            // This is done under the lock, so that only a poll that asks after this thread takes it back.
            self.behind.fetch_max(behind, Ordering::SeqCst);
        });
        if asked.is_none() {
            self.behind.fetch_max(UNLOOKED, Ordering::SeqCst);
        }
    }

    /// Whether all streams of this domain are hot. The hot sources may include some that have left the domain.
    fn are_all_in(&self, hot: &Hot<S>) -> bool {
        let sources = self.sources.lock();
        let known = hot.sources.iter();
        let known = known.filter(|hot| sources.get(hot.token).is_some());
        known.count() >= sources.len()
    }

    /// Whether work waits that nothing will report, because a budget ended a turn, or because [`woken`](Self::woken) has
    /// not asked everything.
    pub fn is_behind(&self) -> bool {
        self.has_unfinished() || self.behind.load(Ordering::SeqCst) != UP_TO_DATE
    }

    /// Does the work that [`is_behind`](Self::is_behind) reports.
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
        // Only from that level, because a thread that was woken meanwhile has more to look at.
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
                // A thread may have begun to wait without seeing that streams left the set.
                if self.has_interest() {
                    hot.rejoin(self);
                }
            }
            hot.idle < COLD
        });
        *since_look += 1 + probe.octets / WEIGHT;
        // If data has come, the set is asked later, because the receiver should not wait for that.
        let due = if probe.octets > 0 { 4 * LOOK } else { LOOK };
        probe.look = sources.is_empty() || *since_look >= due;
        if probe.look {
            *since_look = 0;
        }
        probe
    }

    /// Calls `act` with the hot sources, unless another thread holds them. Afterwards does what other threads have asked
    /// for meanwhile.
    fn with_hot<T>(&self, act: impl FnOnce(&mut Hot<S>) -> T) -> Option<T> {
        let done = act(&mut *self.hot.try_lock()?);
        after_unlocking();
        self.answer_recall();
        Some(done)
    }

    /// Puts all streams back into the set, because from now on a thread sleeps on the set, or serves it without polling.
    pub fn recall(&self) {
        if self.is_apart() {
            self.recalled.store(true, Ordering::SeqCst);
            // The holder of the lock may have looked before the store, and have unlocked since.
            fence(Ordering::SeqCst);
            self.answer_recall();
        }
    }

    fn answer_recall(&self) {
        while self.recalled.load(Ordering::SeqCst) {
            // The holder of the lock looks here again after unlocking.
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

    /// Whether streams have left the set, so that only polls find what they receive.
    pub(super) fn is_apart(&self) -> bool {
        self.apart.load(Ordering::SeqCst) > 0
    }

    /// Takes a stream out of the set; [`rejoin`](Self::rejoin) puts it back.
    pub fn leave(&self, stream: &impl Watch<S>) -> bool {
        self.set.remove(stream).is_ok()
    }

    /// Changes the edges for which the set reports a stream, unless the stream has left the set.
    pub fn report(&self, stream: &impl Watch<S>, token: u64, edges: Edges) {
        match self.set.change_stream(stream, token, edges) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                limited!(error, %error, "the readiness set cannot change how it reports a stream");
            }
            _ => {}
        }
    }

    /// Puts a stream back into the set. False if that fails.
    pub fn rejoin(&self, stream: &impl Watch<S>, token: u64, edges: Edges) -> bool {
        match self.set.add_stream(stream, token, edges) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                limited!(error, %error, "the readiness set cannot take a stream back; the background thread checks the stream every few milliseconds");
                false
            }
            _ => true,
        }
    }

    /// Makes a source hot that has received something: the next polls ask it directly.
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
        // Any of the sources will do; the last one became idle before the others.
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
        // Only the sources that were there at the start: a source that is unfinished again has its next turn in the next
        // call.
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

    /// Leaves a source for the next call of [`progress`](Self::progress). A source that is left twice still gets one turn
    /// there, because both the event and the turn of an endless stream leave it, and it would get more turns each time.
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

    /// Whether work is waiting that no edge will report.
    pub fn has_unfinished(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    /// Called by every poll. Two threads that poll at once may count as one, because it only matters that the count changes
    /// while somebody polls.
    pub fn polled(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// How often the domain was polled.
    pub fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }

    /// The thread that polled this domain stops polling for now, so nobody attends the domain until the next poll. True if
    /// the background thread has to be told, because it keeps away from the domain.
    pub fn polls_end(&self) -> bool {
        self.seen.store(self.polls(), Ordering::Relaxed);
        self.watched.load(Ordering::SeqCst)
    }

    /// Whether a thread has polled since the background thread asked last, or a parked thread would be woken by this
    /// domain. Only the background thread calls this.
    pub fn is_attended(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        let polled = self.seen.swap(polls, Ordering::Relaxed) != polls;
        polled || self.is_driven_by_sleepers()
    }

    /// As [`is_attended`](Self::is_attended), but without a side effect: the next call of that method has the same answer.
    pub(super) fn seems_attended(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        self.seen.load(Ordering::Relaxed) != polls || self.is_driven_by_sleepers()
    }

    fn is_driven_by_sleepers(&self) -> bool {
        self.is_waited_for() && !self.has_unfinished()
    }

    /// Whether a thread sleeps which this domain would wake.
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
