//! A [`Domain`]: streams that are driven together, by the threads that poll or wait for them.
//!
//! A stream is *hot* if it had traffic lately (`hot`). A poll reads hot streams directly, without asking the readiness set.

mod hot;
mod pending_checks;
mod streams;
mod unfinished;
mod who_drives;

use std::io;
use std::sync::{Arc, Weak};

use super::{BATCH, Edges, Readiness, Ready, Set, Watch};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::vain_polls;
pub use hot::Turn;
use hot::{Drive, HotSources, Probe};
use pending_checks::{Level, PendingChecks};
use streams::Streams;
use unfinished::Unfinished;
use who_drives::WhoDrives;

/// An object that can make progress when its stream is ready.
pub trait Source<S: Readiness = Set>: Send + Sync {
    /// Makes as much progress as is possible.
    fn ready(&self, edges: Edges) -> Turn;

    /// The core on which the kernel received the last data, if known.
    fn incoming_core(&self) -> Option<usize> {
        None
    }

    /// Returns true if the source's stream is over shared memory, so that a turn which finds nothing costs no system call.
    fn has_bells(&self) -> bool {
        false
    }

    /// Takes the source's stream out of the domain's set. Returns false if the source has no stream there.
    fn leave(&self, _domain: &Domain<S>) -> bool {
        false
    }

    /// Puts the source's stream back into the domain's set, which then reports everything that the stream is ready for. Returns false if
    /// that fails.
    fn rejoin(&self, _domain: &Domain<S>) -> bool {
        true
    }
}

/// Streams driven together: those of one completion queue, or the adapter's connection set-up and tear-down.
pub struct Domain<S: Readiness = Set> {
    streams: Streams<S, dyn Source<S>>,
    hot: HotSources<dyn Source<S>>,
    unfinished: Unfinished<dyn Source<S>>,
    who_drives: WhoDrives,
    pending_checks: PendingChecks,
    has_bells: AtomicBool,
}

impl<S: Readiness> std::fmt::Debug for Domain<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain")
            .field("sources", &self.streams.len())
            .finish_non_exhaustive()
    }
}

impl<S: Readiness> Domain<S> {
    /// Makes a domain without sources over an empty set. `parked` counts the threads that sleep in the waiters which drive
    /// the domain.
    pub fn new(set: S, parked: Arc<AtomicUsize>) -> Self {
        Self {
            streams: Streams::new(set),
            hot: HotSources::new(),
            unfinished: Unfinished::new(),
            who_drives: WhoDrives::new(parked),
            pending_checks: PendingChecks::new(),
            has_bells: AtomicBool::new(false),
        }
    }

    /// The set, as a source of other sets.
    pub fn set(&self) -> &S {
        self.streams.set()
    }

    /// Adds a stream, which the set reports for these edges. The returned token takes the stream out again.
    pub fn add(
        &self,
        stream: &impl Watch<S>,
        source: Weak<dyn Source<S>>,
        edges: Edges,
    ) -> io::Result<u64> {
        if stream.has_bells() {
            self.has_bells.store(true, Ordering::Relaxed);
        }
        self.streams.add(stream, source, edges)
    }

    /// Takes a stream out. An event for the stream that is already on its way to a driver finds no source.
    pub fn remove(&self, stream: &impl Watch<S>, token: u64) {
        self.streams.remove(stream, token);
    }

    /// Drives the sources that are ready, without blocking. Returns true if more may be ready at once.
    pub fn progress(&self) -> bool {
        self.pending_checks.set_is_asked();
        if self.has_unfinished() {
            self.resume();
        }
        let mut batch = [Ready {
            token: 0,
            edges: Edges::empty(),
        }; BATCH];
        let mut count = 0;
        self.streams.ready(|ready| {
            batch[count] = ready;
            count += 1;
        });
        if count == BATCH {
            // More sources may be ready, and the set will not report them again.
            self.pending_checks.raise(Level::Unlooked);
        }
        for ready in &batch[..count] {
            let source = self.streams.source(ready.token);
            if let Some(source) = source
                && self.drive(&source, ready.edges).work > 0
            {
                self.hot.warm(self, &source, ready.token);
            }
        }
        count == BATCH || self.has_unfinished()
    }

    /// Progress for a thread that polls: asks the hot sources first, and the set now and then. Returns true if the background thread has to
    /// look after this domain from now on.
    #[must_use]
    pub fn poll(&self) -> bool {
        if self.has_unfinished() {
            self.resume();
        }
        let steady = !self.who_drives.has_interest();
        let probe = self.poll_hot(self, steady);
        probe.left || self.has_unfinished()
    }

    #[inline]
    fn poll_hot(&self, streams: &impl Drive<Source = dyn Source<S>>, steady: bool) -> Probe {
        let probe = self.hot.ask(streams, Edges::READ, steady, |probe, _| {
            if probe.work == 0 {
                self.pending_checks.seen_all(Level::Reprobe);
            }
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

    /// As [`poll`](Self::poll), for a thread that asks before it sleeps. It puts the streams back into the set before it does sleep, so they
    /// may leave the set meanwhile, unless `others_sleep`. Returns what `poll` returns, and whether hot streams are over shared memory, which
    /// costs no system call to ask.
    pub(super) fn ask(&self, others_sleep: &dyn Fn() -> bool) -> (bool, bool) {
        if self.has_unfinished() {
            self.resume();
        }
        let probe = self.poll_hot(
            &Asked {
                domain: self,
                others_sleep,
            },
            true,
        );
        let left = probe.left || self.has_unfinished();
        (left, self.hot.have_bells(self))
    }

    /// Returns true if a stream over shared memory has been in the domain.
    #[inline]
    pub(super) fn has_bells(&self) -> bool {
        self.has_bells.load(Ordering::Relaxed)
    }

    /// Progress for a thread that the set has woken: asks the hot sources at once, and the set before the next sleep. On a
    /// system that does not report the set again while events are left in it, asks the set at once too.
    pub fn woken(&self) {
        if !self.set().reports_untaken() {
            self.progress(); // notes the work that it leaves
            return;
        }
        if self.has_unfinished() {
            self.resume();
        }
        // The thread may have been woken because there is room to send.
        let edges = Edges::READ | Edges::WRITE;
        let asked = self.hot.ask(self, edges, false, |_, hot| {
            // Hot sources may include some that have left the domain.
            let behind = if self.streams.are_all_among(hot.tokens()) {
                Level::Reprobe
            } else {
                Level::Unlooked
            };
            // This is done before others can ask, so that only a poll that asks after this thread takes it back.
            self.pending_checks.raise(behind);
        });
        if asked.is_none() {
            self.pending_checks.raise(Level::Unlooked);
        }
    }

    /// Returns true if work waits that no edge will report, because a budget ended a turn, or because [`woken`](Self::woken) has not asked
    /// every source.
    pub fn is_behind(&self) -> bool {
        self.has_unfinished() || self.pending_checks.level() != Level::UpToDate
    }

    /// Does the work that [`is_behind`](Self::is_behind) reports.
    pub fn catch_up(&self) {
        match self.pending_checks.level() {
            Level::Unlooked => {
                self.progress();
            }
            Level::Reprobe => {
                if self.has_unfinished() {
                    self.resume();
                }
                self.poll_hot(self, false);
            }
            Level::UpToDate if self.has_unfinished() => self.resume(),
            Level::UpToDate => {}
        }
    }

    /// Puts all streams back into the set, because from now on a thread sleeps on the set, or serves it without polling.
    pub fn recall(&self) {
        self.hot.recall(self);
    }

    /// Returns true if streams have left the set, so that only polls find what they receive.
    pub(super) fn is_apart(&self) -> bool {
        self.hot.is_apart()
    }

    /// Takes a stream out of the set; [`rejoin`](Self::rejoin) puts it back.
    pub fn leave(&self, stream: &impl Watch<S>) -> bool {
        self.streams.leave(stream)
    }

    /// Changes the edges for which the set reports a stream, unless the stream has left the set.
    pub fn report(&self, stream: &impl Watch<S>, token: u64, edges: Edges) {
        self.streams.report(stream, token, edges);
    }

    /// The caller has handled what the set has reported of a stream; see [`Readiness::arm`].
    pub fn arm(&self, stream: &impl Watch<S>, edges: Edges) {
        self.streams.arm(stream, edges);
    }

    /// Puts a stream back into the set. Returns false if that fails.
    pub fn rejoin(&self, stream: &impl Watch<S>, token: u64, edges: Edges) -> bool {
        self.streams.rejoin(stream, token, edges)
    }

    /// The core from which one of the sources had its last traffic.
    pub fn incoming_core(&self) -> Option<usize> {
        // Any of the sources will do; the last one became idle before the others.
        self.hot.any(self)?.incoming_core()
    }

    fn resume(&self) {
        self.unfinished.resume(|source| {
            self.drive(source, Edges::KICK);
        });
    }

    /// Leaves a source for the next call of [`progress`](Self::progress). A source that is left twice still gets one turn there: both the
    /// event and the turn of an endless stream leave it, so it would otherwise get more turns each time.
    pub fn defer(&self, source: Weak<dyn Source<S>>) {
        self.unfinished.defer(source);
    }

    /// Two counts that grow when work is left for the next driver, and when a driver takes it up.
    pub fn unfinished_counts(&self) -> (u32, u32) {
        self.unfinished.counts()
    }

    /// Returns true if work is waiting that no edge will report.
    pub fn has_unfinished(&self) -> bool {
        self.unfinished.has_any()
    }

    /// Called by every poll. Two polls at the same time may count as one, because it only matters that the count changes while a thread
    /// polls.
    #[inline]
    pub fn polled(&self) {
        self.who_drives.polled();
    }

    /// Called by a poll that has found what it looked for.
    #[inline]
    pub fn found(&self) {
        self.who_drives.found();
        vain_polls::found();
    }

    /// Returns true if a thread that polls another domain may also poll this one.
    pub(super) fn may_be_helped_by(&self, thread: u32) -> bool {
        self.who_drives.may_be_helped_by(thread)
    }

    /// A thread that polls another domain has also polled this one.
    pub(super) fn helped_by(&self, thread: u32) {
        self.who_drives.helped_by(thread);
    }

    /// The number of the last poll that has found what it looked for.
    pub(super) fn found_at(&self) -> u32 {
        self.who_drives.found_at()
    }

    /// Returns true if the last poll has found what it looked for, so that it may be the last one for some time.
    pub(super) fn has_found(&self) -> bool {
        self.who_drives.has_found()
    }

    /// Returns true if the thread that polls this domain waits for something else after a poll that has found what it looked for.
    pub(super) fn looks_elsewhere(&self) -> bool {
        self.who_drives.looks_elsewhere()
    }

    /// Sets what [`looks_elsewhere`](Self::looks_elsewhere) returns. Called by the background thread.
    pub(super) fn set_looks_elsewhere(&self, looks: bool) {
        self.who_drives.set_looks_elsewhere(looks);
    }

    /// The number of polls of the domain.
    #[inline]
    pub fn polls(&self) -> u32 {
        self.who_drives.polls()
    }

    /// The thread that polled this domain stops polling for now, so no thread attends the domain until the next poll. Returns true if the
    /// background thread has to be notified, because it leaves the domain alone.
    pub fn polls_end(&self) -> bool {
        self.who_drives.polls_end()
    }

    /// Returns true if a thread has polled since the last call, or if a parked thread would be woken by this domain. Only the background
    /// thread calls this.
    pub fn is_attended(&self) -> bool {
        self.who_drives.take_polled() || self.is_driven_by_sleepers()
    }

    /// Like [`is_attended`](Self::is_attended), but without a side effect: the next call of that method has the same answer.
    pub(super) fn seems_attended(&self) -> bool {
        self.who_drives.was_polled() || self.is_driven_by_sleepers()
    }

    /// Returns true if a domain that [`is_attended`](Self::is_attended) has found attended still is: false if the thread that polled has
    /// gone to sleep since.
    pub(super) fn stays_attended(&self) -> bool {
        self.who_drives.polls_go_on() || self.is_driven_by_sleepers()
    }

    fn is_driven_by_sleepers(&self) -> bool {
        self.is_waited_for() && !self.has_unfinished()
    }

    /// Returns true if a thread sleeps that this domain would wake.
    pub fn is_waited_for(&self) -> bool {
        self.who_drives.has_sleeper() && !self.is_apart()
    }

    /// Sets whether the set that parked threads sleep in reports this domain.
    pub fn set_armed(&self, armed: bool) {
        self.who_drives.set_armed(armed);
    }

    /// Makes parked threads drive this domain from now on; before they sleep, the domain has to [`recall`](Self::recall) its streams.
    pub fn add_interest(&self) {
        self.who_drives.add_interest();
    }

    /// Takes one [`add_interest`](Self::add_interest) back.
    pub fn drop_interest(&self) {
        self.who_drives.drop_interest();
    }

    /// Returns true if requests make a parked thread drive this domain.
    #[inline]
    pub fn has_interest(&self) -> bool {
        self.who_drives.has_interest()
    }

    /// Sets whether the background thread looks at this domain in every tick. Returns the former value.
    pub fn set_watched(&self, watched: bool) -> bool {
        self.who_drives.set_watched(watched)
    }

    pub(super) fn set_background_token(&self, token: u64) {
        self.who_drives.set_background_token(token);
    }

    pub(super) fn background_token(&self) -> Option<u64> {
        self.who_drives.background_token()
    }
}

/// The calls that the hot sources make to their domain.
impl<S: Readiness> Drive for Domain<S> {
    type Source = dyn Source<S>;

    #[inline]
    fn drive(&self, source: &Arc<dyn Source<S>>, edges: Edges) -> Turn {
        let turn = source.ready(edges);
        if turn.unfinished {
            self.defer(Arc::downgrade(source));
        }
        turn
    }

    fn take_out(&self, source: &dyn Source<S>) -> bool {
        source.leave(self)
    }

    fn put_back(&self, source: &dyn Source<S>) -> bool {
        source.rejoin(self)
    }

    #[inline]
    fn needs_set(&self) -> bool {
        self.who_drives.has_interest()
    }

    fn has_bells(&self, source: &dyn Source<S>) -> bool {
        self.has_bells() && source.has_bells()
    }
}

/// The calls of the hot sources while a thread asks them before it sleeps: interest alone needs no stream in the set.
struct Asked<'a, S: Readiness> {
    domain: &'a Domain<S>,
    others_sleep: &'a dyn Fn() -> bool,
}

impl<S: Readiness> Drive for Asked<'_, S> {
    type Source = dyn Source<S>;

    fn drive(&self, source: &Arc<Self::Source>, edges: Edges) -> Turn {
        Drive::drive(self.domain, source, edges)
    }

    fn take_out(&self, source: &Self::Source) -> bool {
        self.domain.take_out(source)
    }

    fn put_back(&self, source: &Self::Source) -> bool {
        self.domain.put_back(source)
    }

    fn needs_set(&self) -> bool {
        (self.others_sleep)()
    }

    fn has_bells(&self, source: &Self::Source) -> bool {
        Drive::has_bells(self.domain, source)
    }
}
