//! Sources that share a descriptor: one source that has a descriptor, their *carrier*, carries many of them.
//!
//! The streams of one UDP socket are such sources. A set holds each of them under a separate token, and waits for their carrier, once for
//! all of them. When the carrier is ready, the thread that waits on the set drives the carrier, and the carrier
//! [raises](CarriedSource::raise) the sources that became ready. A raised source is reported by every set that holds it; a set in which
//! another thread sleeps is woken.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

use rustix::fd::BorrowedFd;

use super::readiness::{Edges, Readiness, Ready, Wake};
use crate::simulation::world::SimSource;
use crate::sync::{AtomicBool, AtomicU8, AtomicUsize, Mutex, Ordering};

/// The source that a set waits for in place of the sources of a carrier.
#[derive(Clone, Copy, Debug)]
pub enum CarrierId<'a> {
    /// A descriptor of the system; on Windows a socket.
    Descriptor(BorrowedFd<'a>),
    /// A source of a simulated world.
    Sim(SimSource),
}

/// An object that carries sources.
pub trait Carrier: Send + Sync {
    /// The source that sets wait for. It stays ready as long as the carrier has input.
    fn id(&self) -> CarrierId<'_>;

    /// Takes in all input, and raises the sources that became ready.
    fn drive(&self);

    /// Returns true if the carrier has work to do without input, because a time limit has passed.
    fn is_due(&self) -> bool;

    /// A source has got its first place in a set (true), or has lost its last one (false).
    fn held(&self, held: bool);
}

/// A set's list of sources that are ready.
pub trait ReadyList: Send + Sync {
    /// Adds a source that the set holds under `token`.
    fn push(&self, token: u64, source: Arc<CarriedSource>);

    /// One place less for sources of a carrier.
    fn left(&self, carrier: &Weak<dyn Carrier>);
}

/// A source that a carrier carries.
pub struct CarriedSource {
    carrier: Weak<dyn Carrier>,
    places: Mutex<Vec<Place>>,
    /// The edges for which the source is ready, as its carrier has reported them.
    ready: AtomicU8,
    /// The carrier is notified whether sets hold the source.
    counts: bool,
}

/// The place of a source in one set.
struct Place {
    list: Weak<dyn ReadyList>,
    token: u64,
    edges: Edges,
    /// Edges that were not reported yet. If they are not empty, the source is in the list.
    pending: Edges,
    /// The source is not reported for now.
    aside: bool,
}

impl std::fmt::Debug for CarriedSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CarriedSource")
            .field("places", &self.places.lock().len())
            .finish_non_exhaustive()
    }
}

impl Place {
    fn is_in(&self, list: &Arc<impl ReadyList + 'static>) -> bool {
        std::ptr::addr_eq(self.list.as_ptr(), Arc::as_ptr(list))
    }

    /// Notes edges. Returns true if the source has to be put into the list.
    fn note(&mut self, edges: Edges) -> bool {
        // A hang-up is always reported.
        if self.aside || !edges.intersects(self.edges | Edges::HANGUP) {
            return false;
        }
        let listed = !self.pending.is_empty();
        self.pending |= edges;
        !listed
    }
}

impl CarriedSource {
    /// Makes a source of `carrier`, which is notified whether sets hold it.
    pub fn new(carrier: Weak<dyn Carrier>) -> Arc<Self> {
        Self::with(carrier, true)
    }

    /// Makes a source that does not count for its carrier, and is never raised: a set that holds it drives the carrier.
    pub fn silent(carrier: Weak<dyn Carrier>) -> Arc<Self> {
        Self::with(carrier, false)
    }

    fn with(carrier: Weak<dyn Carrier>, counts: bool) -> Arc<Self> {
        Arc::new(Self {
            carrier,
            places: Mutex::new(Vec::new()),
            ready: AtomicU8::new(0),
            counts,
        })
    }

    /// The source became ready: every set that waits for one of these edges reports it.
    pub fn raise(self: &Arc<Self>, edges: Edges) {
        self.note_ready(edges);
        let mut places = self.places.lock();
        for place in places.iter_mut() {
            if place.note(edges)
                && let Some(list) = place.list.upgrade()
            {
                list.push(place.token, Arc::clone(self));
            }
        }
    }

    /// The source became ready, and the caller handles this itself: only a set to which the source is added later reports it.
    pub fn note_ready(&self, edges: Edges) {
        self.ready.fetch_or(edges.bits(), Ordering::SeqCst);
    }

    /// The source is not ready for these edges any more, so that a set to which it is added does not report them at once.
    pub fn lower(&self, edges: Edges) {
        self.ready.fetch_and(!edges.bits(), Ordering::SeqCst);
    }

    /// Takes out the edges that one set has to report of the source, with the token there.
    fn take(&self, list: &Arc<impl ReadyList + 'static>) -> Option<Ready> {
        let mut places = self.places.lock();
        let place = places.iter_mut().find(|place| place.is_in(list))?;
        let edges = std::mem::replace(&mut place.pending, Edges::empty());
        let reported = !edges.is_empty() && !place.aside;
        reported.then_some(Ready {
            token: place.token,
            edges,
        })
    }

    fn tell(&self, held: bool) {
        if self.counts
            && let Some(carrier) = self.carrier.upgrade()
        {
            carrier.held(held);
        }
    }
}

impl Drop for CarriedSource {
    fn drop(&mut self) {
        let places = std::mem::take(&mut *self.places.lock());
        let held = !places.is_empty();
        for place in places {
            if !place.aside
                && let Some(list) = place.list.upgrade()
            {
                list.left(&self.carrier);
            }
        }
        if held {
            self.tell(false);
        }
    }
}

/// The carried sources of one set.
pub(super) struct CarriedSources<S: Readiness> {
    ready: Mutex<VecDeque<(u64, Arc<CarriedSource>)>>,
    /// Makes the set ready while `ready` is not empty.
    waker: S::Waker,
    woken: AtomicBool,
    /// Threads that look into `ready` before they wait on the set again.
    looking: AtomicUsize,
    carriers: Mutex<Vec<HeldCarrier>>,
    /// The number of the next carrier.
    next: AtomicUsize,
}

/// A carrier for which a set waits.
struct HeldCarrier {
    number: usize,
    carrier: Arc<dyn Carrier>,
    /// Sources of the carrier that the set reports.
    sources: usize,
}

impl<S: Readiness> std::fmt::Debug for CarriedSources<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CarriedSources")
            .field("carriers", &self.carriers.lock().len())
            .finish_non_exhaustive()
    }
}

impl<S: Readiness<Waker: Send + Sync> + 'static> ReadyList for CarriedSources<S> {
    fn push(&self, token: u64, source: Arc<CarriedSource>) {
        self.ready.lock().push_back((token, source));
        if self.looking.load(Ordering::SeqCst) == 0 {
            self.wake();
        }
    }

    fn left(&self, carrier: &Weak<dyn Carrier>) {
        let mut carriers = self.carriers.lock();
        let mut held = carriers.iter_mut();
        if let Some(held) =
            held.find(|held| std::ptr::addr_eq(Arc::as_ptr(&held.carrier), carrier.as_ptr()))
        {
            held.sources -= 1;
        }
    }
}

impl<S: Readiness<Waker: Send + Sync> + 'static> CarriedSources<S> {
    /// Makes a list without sources, with a waker that the set reports.
    pub(super) fn new(waker: S::Waker) -> Arc<Self> {
        Arc::new(Self {
            ready: Mutex::default(),
            waker,
            woken: AtomicBool::new(false),
            looking: AtomicUsize::new(0),
            carriers: Mutex::default(),
            next: AtomicUsize::new(0),
        })
    }

    pub(super) fn waker(&self) -> &S::Waker {
        &self.waker
    }

    fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Returns true if the waker is ready: sources that were raised elsewhere wait to be reported.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// The set has reported the waker.
    pub(super) fn woken(&self) {
        self.waker.clear();
        self.woken.store(false, Ordering::SeqCst);
    }

    /// Adds a source, and reports its readiness. `watch` makes the set wait for a carrier that is new to it.
    pub(super) fn add(
        self: &Arc<Self>,
        source: &Arc<CarriedSource>,
        token: u64,
        edges: Edges,
        watch: impl FnOnce(usize, CarrierId<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut places = source.places.lock();
        if let Some(at) = places.iter().position(|place| place.is_in(self)) {
            if !places[at].aside {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            self.watch(source, watch)?;
            places[at].aside = false;
            places[at].edges = edges;
            drop(places);
        } else {
            self.watch(source, watch)?;
            let list: Weak<Self> = Arc::downgrade(self);
            places.push(Place {
                list,
                token,
                edges,
                pending: Edges::empty(),
                aside: false,
            });
            let first = places.len() == 1;
            drop(places);
            if first {
                source.tell(true);
            }
        }
        self.look_anew(source);
        Ok(())
    }

    /// Makes only this set report the readiness of the source.
    fn look_anew(self: &Arc<Self>, source: &Arc<CarriedSource>) {
        let edges = Edges::from_bits_truncate(source.ready.load(Ordering::SeqCst));
        let mut places = source.places.lock();
        let place = places.iter_mut().find(|place| place.is_in(self));
        if let Some(place) = place
            && place.note(edges)
        {
            self.push(place.token, Arc::clone(source));
        }
    }

    fn watch(
        &self,
        source: &CarriedSource,
        watch: impl FnOnce(usize, CarrierId<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let carrier = source.carrier.upgrade().ok_or(io::ErrorKind::NotFound)?;
        let mut carriers = self.carriers.lock();
        let mut held = carriers.iter_mut();
        if let Some(held) = held.find(|held| Arc::ptr_eq(&held.carrier, &carrier)) {
            held.sources += 1;
            return Ok(());
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        watch(number, carrier.id())?;
        carriers.push(HeldCarrier {
            number,
            carrier,
            sources: 1,
        });
        Ok(())
    }

    /// Changes the place of a source that the set reports.
    fn with_place(
        self: &Arc<Self>,
        source: &CarriedSource,
        change: impl FnOnce(&mut Place),
    ) -> io::Result<()> {
        let mut places = source.places.lock();
        let place = places
            .iter_mut()
            .find(|place| place.is_in(self) && !place.aside);
        change(place.ok_or(io::ErrorKind::NotFound)?);
        Ok(())
    }

    /// Changes the edges of a source, and reports its readiness.
    pub(super) fn change(
        self: &Arc<Self>,
        source: &Arc<CarriedSource>,
        edges: Edges,
    ) -> io::Result<()> {
        self.with_place(source, |place| place.edges = edges)?;
        self.look_anew(source);
        Ok(())
    }

    /// Keeps a source from being reported until it is added again; its carrier still counts it as held. `forget` makes the set stop waiting
    /// for a carrier.
    pub(super) fn set_aside(
        self: &Arc<Self>,
        source: &Arc<CarriedSource>,
        forget: impl FnMut(CarrierId<'_>),
    ) -> io::Result<()> {
        self.with_place(source, |place| place.aside = true)?;
        self.left(&source.carrier);
        self.purge(forget);
        Ok(())
    }

    /// Takes a source out.
    pub(super) fn remove(
        self: &Arc<Self>,
        source: &Arc<CarriedSource>,
        forget: impl FnMut(CarrierId<'_>),
    ) -> io::Result<()> {
        let mut places = source.places.lock();
        let at = places.iter().position(|place| place.is_in(self));
        let place = places.swap_remove(at.ok_or(io::ErrorKind::NotFound)?);
        let last = places.is_empty();
        drop(places);
        if !place.aside {
            self.left(&source.carrier);
        }
        self.purge(forget);
        if last {
            source.tell(false);
        }
        Ok(())
    }

    /// Drops carriers without sources here.
    fn purge(&self, mut forget: impl FnMut(CarrierId<'_>)) {
        let mut carriers = self.carriers.lock();
        let gone: Vec<_> = carriers.extract_if(.., |held| held.sources == 0).collect();
        for held in &gone {
            forget(held.carrier.id());
        }
        drop(carriers);
    }

    /// Drives the carriers of these numbers.
    pub(super) fn drive(&self, numbers: &[usize]) {
        // This thread takes the sources that they raise right afterwards.
        self.looking.fetch_add(1, Ordering::SeqCst);
        for number in numbers {
            let carriers = self.carriers.lock();
            let held = carriers.iter().find(|held| held.number == *number);
            let carrier = held.map(|held| Arc::clone(&held.carrier));
            drop(carriers);
            if let Some(carrier) = carrier {
                carrier.drive();
            }
        }
        self.looking.fetch_sub(1, Ordering::SeqCst);
    }

    /// Drives the carriers that are due.
    pub(super) fn drive_due(&self) {
        let held = self.carriers.lock();
        let due = held.iter().filter(|held| held.carrier.is_due());
        let due: Vec<_> = due.map(|held| held.number).collect();
        drop(held);
        if !due.is_empty() {
            self.drive(&due);
        }
    }

    /// Reports at most `most` sources. Returns their number.
    pub(super) fn report(self: &Arc<Self>, most: usize, mut each: impl FnMut(Ready)) -> usize {
        let mut count = 0;
        loop {
            let mut list = self.ready.lock();
            if count == most {
                let more = !list.is_empty();
                drop(list);
                if more {
                    self.wake();
                }
                return count;
            }
            let Some((_, source)) = list.pop_front() else {
                return count;
            };
            drop(list);
            if let Some(ready) = source.take(self) {
                each(ready);
                count += 1;
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests;
