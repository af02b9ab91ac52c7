//! The hot sources of a domain: those that had traffic lately. Polls ask them directly, because that is cheaper than asking
//! the set.
//!
//! A source that polls find busy again and again leaves the set: it is *apart*. Only polls find what it receives, so it is put back before
//! a thread sleeps on the set, and before the background thread serves the domain. Only one thread at a time asks the hot sources; a second
//! one does not wait.

use std::sync::{Arc, Weak};

use crate::progress::Edges;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, after_unlocking, fence};

/// The largest number of hot sources.
pub(super) const HOT: usize = 8;
/// Polls without traffic after which a source is no longer hot.
const COLD: u32 = if cfg!(loom) { 3 } else { 256 };
/// The number of polls with traffic after which a source leaves the set, as long as a thread polls. Each report of a stream costs its
/// sender several per cent of a short round trip, and a thread that polls all the time needs no report.
const STEADY: u32 = if cfg!(loom) { 1 } else { 32 };
/// The number of polls of the hot sources before the set is asked again. [`Turn::work`] counts as well, in units of [`WEIGHT`], so that
/// busy streams do not keep small requests on other streams waiting.
const LOOK: usize = if cfg!(loom) { 2 } else { 32 };
const WEIGHT: usize = 16 * 1024;

/// The result of one turn of a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// A budget ended the turn, and there is more work.
    pub unfinished: bool,
    /// Octets wait until the socket accepts data again.
    pub blocked: bool,
    /// The octets received, plus an equivalent in octets of other work.
    pub work: usize,
}

/// The calls that the hot sources make to their domain.
pub(super) trait Drive {
    type Source: ?Sized;

    /// Gives a source its turn.
    fn drive(&self, source: &Arc<Self::Source>, edges: Edges) -> Turn;

    /// Takes the stream of a source out of the set. Returns false if the source has no stream there.
    fn take_out(&self, source: &Self::Source) -> bool;

    /// Puts the stream of a source back into the set. Returns false if that fails.
    fn put_back(&self, source: &Self::Source) -> bool;

    /// Returns true if a thread may sleep until the set reports a stream.
    fn needs_set(&self) -> bool;

    /// Returns true if the stream of a source is over shared memory.
    fn has_bells(&self, source: &Self::Source) -> bool;
}

pub(super) struct HotSources<T: ?Sized> {
    known: Mutex<Known<T>>,
    /// Hot sources that are not in the set.
    apart: AtomicUsize,
    /// The thread that holds `known` has to put these sources back.
    recalled: AtomicBool,
}

/// The hot sources, for the thread that holds them.
pub(super) struct Known<T: ?Sized> {
    sources: Vec<HotSource<T>>,
    /// Grows with every poll, and with the work of the poll. When it reaches [`LOOK`], the next poll asks the
    /// set.
    since_look: usize,
}

struct HotSource<T: ?Sized> {
    source: Weak<T>,
    /// The token of the source in this domain. The source may have moved to another domain since.
    token: u64,
    /// Polls in a row that found nothing.
    idle: u32,
    /// Polls that found something, since the source is in the set.
    found: u32,
    /// The source is not in the set. Only polls find what it receives, and the set has nothing to report.
    apart: bool,
    /// The stream is over shared memory: a turn that finds nothing costs no system call.
    has_bells: bool,
}

/// The result of asking the hot sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) work: usize,
    /// The set has to be asked now.
    pub(super) look: bool,
    /// A source has left the set.
    pub(super) left: bool,
}

impl<T: ?Sized> HotSource<T> {
    /// Takes the stream out of the domain's set.
    fn leave(&mut self, source: &T, domain: &impl Drive<Source = T>, apart: &AtomicUsize) {
        self.apart = domain.take_out(source);
        if self.apart {
            apart.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Puts the stream back, if it was taken out. Returns false if that fails.
    fn rejoin(&mut self, domain: &impl Drive<Source = T>, apart: &AtomicUsize) -> bool {
        self.found = 0;
        if self.apart {
            let source = self.source.upgrade();
            if source.is_some_and(|source| !domain.put_back(&source)) {
                return false;
            }
            self.apart = false;
            apart.fetch_sub(1, Ordering::SeqCst);
        }
        true
    }
}

impl<T: ?Sized> Known<T> {
    /// The tokens of the sources.
    pub(super) fn tokens(&self) -> impl Iterator<Item = u64> {
        self.sources.iter().map(|known| known.token)
    }

    /// The source that became idle last, if it is still there.
    fn last(&self) -> Option<Arc<T>> {
        self.sources.last()?.source.upgrade()
    }
}

impl<T: ?Sized> HotSources<T> {
    pub(super) fn new() -> Self {
        Self {
            known: Mutex::new(Known {
                sources: Vec::with_capacity(HOT),
                since_look: 0,
            }),
            apart: AtomicUsize::new(0),
            recalled: AtomicBool::new(false),
        }
    }

    /// Asks the hot sources for these edges, unless another thread is asking them. With `steady` polling, sources with much traffic leave
    /// the set. `note` is called before any other thread can ask.
    #[inline]
    pub(super) fn ask(
        &self,
        domain: &impl Drive<Source = T>,
        edges: Edges,
        steady: bool,
        note: impl FnOnce(&Probe, &Known<T>),
    ) -> Option<Probe> {
        self.with(domain, |known| {
            let probe = self.probe(known, domain, edges, steady);
            note(&probe, known);
            probe
        })
    }

    #[inline(always)] // one call less in every poll
    fn probe(
        &self,
        known: &mut Known<T>,
        domain: &impl Drive<Source = T>,
        edges: Edges,
        steady: bool,
    ) -> Probe {
        let Known {
            sources,
            since_look,
        } = known;
        let apart = &self.apart;
        let mut probe = Probe::default();
        sources.retain_mut(|hot| {
            let Some(source) = hot.source.upgrade() else {
                hot.rejoin(domain, apart);
                return false;
            };
            let turn = domain.drive(&source, edges);
            probe.work += turn.work;
            if turn.work > 0 {
                hot.idle = 0;
                hot.found = hot.found.saturating_add(1);
            } else {
                hot.idle += 1;
            }
            if hot.apart && turn.blocked || hot.idle >= COLD {
                if !hot.rejoin(domain, apart) {
                    hot.idle = 0; // only polls find what it receives
                }
            } else if steady && !hot.apart && !turn.blocked && hot.found >= STEADY {
                hot.leave(&source, domain, apart);
                probe.left = true;
                // A thread may have begun to wait without seeing that streams left the set.
                if domain.needs_set() {
                    hot.rejoin(domain, apart);
                }
            }
            hot.idle < COLD
        });
        *since_look += 1 + probe.work / WEIGHT;
        // If data has arrived, the set is asked later, because the receiver should not wait for that.
        let due = if probe.work > 0 { 4 * LOOK } else { LOOK };
        probe.look = sources.is_empty() || *since_look >= due;
        if probe.look {
            *since_look = 0;
        }
        probe
    }

    /// Makes a source that has received something hot: the next polls ask it directly.
    pub(super) fn warm(&self, domain: &impl Drive<Source = T>, source: &Arc<T>, token: u64) {
        let has_bells = domain.has_bells(source);
        let source = Arc::downgrade(source);
        self.with(domain, |known| {
            let sources = &mut known.sources;
            let mut all = sources.iter_mut();
            if let Some(known) = all.find(|known| known.source.ptr_eq(&source)) {
                known.token = token;
                return;
            }
            if sources.len() == HOT {
                let coldest = sources.iter().enumerate();
                let coldest = coldest.max_by_key(|(_, known)| known.idle);
                let coldest = coldest.map_or(0, |(at, _)| at);
                if !sources[coldest].rejoin(domain, &self.apart) {
                    return;
                }
                sources.swap_remove(coldest);
            }
            sources.push(HotSource {
                source,
                token,
                idle: 0,
                found: 0,
                apart: false,
                has_bells,
            });
        });
    }

    /// Returns true if hot streams are over shared memory, or if another thread is asking them.
    pub(super) fn have_bells(&self, domain: &impl Drive<Source = T>) -> bool {
        let has = self.with(domain, |known| {
            known.sources.iter().any(|hot| hot.has_bells)
        });
        has.unwrap_or(true)
    }

    /// One of the hot sources, unless another thread is asking them.
    pub(super) fn any(&self, domain: &impl Drive<Source = T>) -> Option<Arc<T>> {
        self.with(domain, |known| known.last())?
    }

    /// Puts all streams back into the set.
    pub(super) fn recall(&self, domain: &impl Drive<Source = T>) {
        if self.is_apart() {
            self.recalled.store(true, Ordering::SeqCst);
            // The holder of the lock may have looked before the store, and have unlocked since.
            fence(Ordering::SeqCst);
            self.answer_recall(domain);
        }
    }

    /// Returns true if streams have left the set, so that only polls find what they receive.
    pub(super) fn is_apart(&self) -> bool {
        self.apart.load(Ordering::SeqCst) > 0
    }

    /// Calls `act` with the hot sources, unless another thread holds them. Afterwards does what other threads have requested meanwhile.
    #[inline]
    fn with<R>(
        &self,
        domain: &impl Drive<Source = T>,
        act: impl FnOnce(&mut Known<T>) -> R,
    ) -> Option<R> {
        let done = act(&mut *self.known.try_lock()?);
        after_unlocking();
        self.answer_recall(domain);
        Some(done)
    }

    #[inline]
    fn answer_recall(&self, domain: &impl Drive<Source = T>) {
        if self.recalled.load(Ordering::SeqCst) {
            self.put_all_back(domain);
        }
    }

    #[cold]
    fn put_all_back(&self, domain: &impl Drive<Source = T>) {
        loop {
            // The holder of the lock looks for a recall after unlocking.
            let Some(mut known) = self.known.try_lock() else {
                return;
            };
            if self.recalled.swap(false, Ordering::SeqCst) {
                for hot in &mut known.sources {
                    hot.rejoin(domain, &self.apart);
                }
            }
            drop(known);
            after_unlocking();
            if !self.recalled.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
