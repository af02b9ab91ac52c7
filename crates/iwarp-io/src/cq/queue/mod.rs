//! A completion queue: the ring of results, the requests that wait for results, and breakdowns.
//!
//! A placer looks for requests after it has published its results. A request looks at the ring after it has announced that it waits. Both
//! modify the word `armed` in between, so the later of the two sees the change of the earlier one. (A fence in both would work too, and is
//! slower on x86.) A placer takes the lock of the requests only if a waiting request may be satisfied by the results.

use std::collections::TryReserveError;
use std::num::NonZeroU32;

use super::ring::{CannotResize, Ring};
use super::{Entry, NotifyOn, Reason};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};

/// Bits of [`Queue::armed`] for the kinds of requests that wait.
const ANY: u32 = 1;
const SOLICITED: u32 = 2;
/// A placer adds this when it looks. If it added 0, the compiler would turn the addition into a fence.
const LOOK: u32 = 4;

/// Results, placed as entries of type `E`, and requests of type `R` that wait for them.
///
/// The `interest` that is passed to its functions is called under the requests' lock: with true when the first request
/// begins to wait, with false when the last one is taken out.
#[derive(Debug)]
pub struct Queue<E: Entry, R> {
    ring: Ring<E>,
    /// The number of the reason for which the queue broke down, or [`SOUND`]. After a breakdown no result is placed.
    broken: AtomicU32,
    /// The low bits say which kinds of requests wait for results, and change only under the lock of `waiting`. The bits above
    /// count how often placers looked.
    armed: AtomicU32,
    /// A solicited result below this number satisfies no request. Changes only under the lock of `waiting`, before `armed`.
    awaited: AtomicU64,
    waiting: Mutex<Waiting<R>>,
}

/// The number of a queue that has not broken down.
const SOUND: u32 = 0;

#[derive(Debug)]
struct Waiting<R> {
    requests: Vec<Waiter<R>>,
    /// The reason with which every request ends from now on. Results may still be placed.
    ended: Option<Reason>,
    /// All results below this number have fired a notification.
    fired: u64,
}

/// A request that waits for a result.
#[derive(Debug)]
struct Waiter<R> {
    kind: NotifyOn,
    /// The number of results that were taken when the request was made. Those behind them satisfy it, also if they are taken before it ends.
    since: u64,
    request: R,
}

/// Notify requests to complete once no lock is held.
#[must_use]
#[derive(Debug)]
pub struct CompletedNotifies<R> {
    requests: RequestList<R>,
    /// The reason why the requests end; `None` if a result satisfies them.
    pub reason: Option<Reason>,
    /// The queue has just broken down.
    pub broken: bool,
}

/// Requests that fire together. There is seldom more than one, and a single one costs no allocation.
#[derive(Debug)]
struct RequestList<R> {
    first: Option<R>,
    rest: Vec<R>,
}

impl<R> FromIterator<R> for RequestList<R> {
    fn from_iter<I: IntoIterator<Item = R>>(requests: I) -> Self {
        let mut requests = requests.into_iter();
        let first = requests.next();
        Self {
            first,
            rest: requests.collect(),
        }
    }
}

impl<R> RequestList<R> {
    fn into_iter(self) -> impl Iterator<Item = R> {
        self.first.into_iter().chain(self.rest)
    }
}

impl<R> CompletedNotifies<R> {
    /// Records that the queue has just broken down.
    fn of_breakdown(notifies: &mut Option<Self>, reason: Reason) {
        let notifies = notifies.get_or_insert_with(|| Self {
            requests: RequestList::from_iter([]),
            reason: Some(reason),
            broken: true,
        });
        notifies.broken = true;
    }

    /// Joins the requests of both.
    pub fn and(mut self, other: Self) -> Self {
        self.requests = self
            .requests
            .into_iter()
            .chain(other.requests.into_iter())
            .collect();
        self.reason = other.reason.or(self.reason);
        self.broken |= other.broken;
        self
    }

    /// Adds requests to those that are delivered together, if there are any.
    #[inline]
    pub fn add(to: &mut Option<Self>, notifies: Option<Self>) {
        match notifies {
            None => {}
            Some(notifies) if to.is_some() => notifies.join(to),
            Some(notifies) => _ = to.get_or_insert(notifies), // no code that drops an old value, unlike an assignment
        }
    }

    #[cold]
    fn join(self, to: &mut Option<Self>) {
        if let Some(before) = to.take() {
            *to = Some(before.and(self));
        }
    }

    /// The requests that end.
    pub fn into_requests(self) -> impl Iterator<Item = R> {
        self.requests.into_iter()
    }
}

impl<R> Waiting<R> {
    fn has(&self, kind: NotifyOn) -> bool {
        self.requests.iter().any(|waiter| waiter.kind == kind)
    }

    /// The number of the first result that satisfies a request of this kind, if one waits.
    fn fires_after(&self, kind: NotifyOn) -> Option<u64> {
        let waiters = self.requests.iter().filter(|waiter| waiter.kind == kind);
        let since = waiters.map(|waiter| waiter.since).min()?;
        Some(since.max(self.fired))
    }
}

impl<E: Entry, R> Queue<E, R> {
    /// An empty queue for `depth` results, at least one and at most [`GREATEST_DEPTH`](super::GREATEST_DEPTH).
    ///
    /// # Errors
    ///
    /// [`TryReserveError`] if there is not enough memory for `depth` results.
    pub fn new(depth: u32) -> Result<Self, TryReserveError> {
        Ok(Self {
            ring: Ring::new(depth)?,
            broken: AtomicU32::new(SOUND),
            armed: AtomicU32::new(0),
            awaited: AtomicU64::new(0),
            waiting: Mutex::new(Waiting {
                requests: Vec::with_capacity(2),
                ended: None,
                fired: 0,
            }),
        })
    }

    /// Places results, and takes out the requests that they satisfy.
    ///
    /// `numbered` gets the number of the first result and how many were placed, in the order of `entries`, before any of them can be taken.
    /// It is not called if none was placed. Results that find no room get no number.
    #[inline]
    pub fn place(
        &self,
        entries: impl Iterator<Item = E> + Clone,
        numbered: impl FnOnce(u64, usize),
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        if self.broken.load(Ordering::Relaxed) != SOUND {
            return None;
        }
        let wanted = entries.clone().count();
        if wanted == 0 {
            return None;
        }
        let overflow = self.ring.place(entries, wanted, numbered) < wanted;
        let broke = overflow && self.breaks(E::OVERFLOW);
        let armed = self.armed.fetch_add(LOOK, Ordering::AcqRel);
        let mut notifies = if overflow || self.may_fire(armed) {
            self.fire(&mut self.waiting.lock(), interest)
        } else {
            None
        };
        if broke {
            CompletedNotifies::of_breakdown(&mut notifies, E::OVERFLOW);
        }
        notifies
    }

    /// Breaks the queue down, as an overflow does. Returns `None` if the queue has broken down before.
    pub fn break_down(
        &self,
        reason: Reason,
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        if !self.breaks(reason) {
            return None;
        }
        let mut notifies = self.fire(&mut self.waiting.lock(), interest);
        CompletedNotifies::of_breakdown(&mut notifies, reason);
        notifies
    }

    /// Returns true for the one thread that breaks the queue down.
    fn breaks(&self, reason: Reason) -> bool {
        let broken = &self.broken;
        let was =
            broken.compare_exchange(SOUND, reason.0.get(), Ordering::Relaxed, Ordering::Relaxed);
        was.is_ok()
    }

    /// Takes all requests out, for the caller to end. Later requests end for this reason. Results are still placed.
    pub fn end_requests(&self, reason: Reason, interest: impl Fn(bool)) -> Vec<R> {
        self.waiting.lock().ended = Some(reason);
        self.cancel(interest)
    }

    /// Makes a request wait. If it is satisfied already, returns it for delivery, with the other requests that fire with it.
    pub fn notify(
        &self,
        kind: NotifyOn,
        request: R,
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        self.notify_since(self.taken(), kind, request, interest)
    }

    /// As [`notify`](Self::notify), where the client has taken all results below number `since`.
    pub(super) fn notify_since(
        &self,
        since: u64,
        kind: NotifyOn,
        request: R,
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        let mut waiting = self.waiting.lock();
        if waiting.requests.is_empty() {
            interest(true);
        }
        waiting.requests.push(Waiter {
            kind,
            since,
            request,
        });
        self.arm(&waiting);
        self.fire(&mut waiting, interest)
    }

    /// Takes all requests out, for the caller to cancel.
    pub fn cancel(&self, interest: impl Fn(bool)) -> Vec<R> {
        let mut waiting = self.waiting.lock();
        let requests = std::mem::take(&mut waiting.requests);
        self.arm(&waiting);
        if !requests.is_empty() {
            interest(false);
        }
        requests.into_iter().map(|waiter| waiter.request).collect()
    }

    /// Returns true if the queue has broken down. Then no results are placed any more.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed) != SOUND
    }

    /// The number of results that were taken so far: all results with a smaller number.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.ring.taken()
    }

    /// Takes out as many results as are ready and fit into `results`, and returns their number. The other elements of `results` are
    /// unspecified.
    pub fn take(&self, results: &mut [E::Result]) -> usize {
        self.ring.take(results)
    }

    /// As [`take`](Self::take). Also returns the number of the first result; the others have the numbers behind it.
    #[inline]
    pub(super) fn take_row(&self, results: &mut [E::Result]) -> (u64, usize) {
        self.ring.take_row(results)
    }

    /// Changes the depth. Entries that are placed meanwhile may still find the room of the old depth.
    ///
    /// # Errors
    ///
    /// See [`CannotResize`]; the depth is as it was then.
    pub fn resize(&self, depth: u32) -> Result<(), CannotResize> {
        self.ring.resize(depth, 0)
    }

    /// As [`resize`](Self::resize), where this many results count that are not in the queue any more.
    pub(super) fn resize_besides(&self, depth: u32, results: usize) -> Result<(), CannotResize> {
        self.ring.resize(depth, results as u64)
    }

    fn arm(&self, waiting: &Waiting<R>) {
        let any = if waiting.has(NotifyOn::Any) { ANY } else { 0 };
        let solicited = if let Some(after) = waiting.fires_after(NotifyOn::Solicited) {
            self.awaited.store(after, Ordering::Relaxed);
            SOLICITED
        } else {
            0
        };
        // Never fails: the closure always has a new value.
        let _ = self
            .armed
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |armed| {
                Some(armed & !(LOOK - 1) | any | solicited)
            });
    }

    /// Returns true if a request may be satisfied.
    fn may_fire(&self, armed: u32) -> bool {
        match armed & (LOOK - 1) {
            0 => false,
            // A request for solicited results costs placers no lock until such a result is there.
            SOLICITED => self.ring.solicited() > self.awaited.load(Ordering::Relaxed),
            _ => true,
        }
    }

    /// Takes out the requests that are satisfied by results placed since requests were last completed.
    fn fire(
        &self,
        waiting: &mut Waiting<R>,
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        let broken = NonZeroU32::new(self.broken.load(Ordering::Relaxed));
        let ended = broken.map(Reason).or(waiting.ended);
        if ended.is_none() && !self.has_news(waiting) {
            return None;
        }
        let fires = |kind: &NotifyOn| ended.is_some() || *kind != NotifyOn::Breakdown;
        let requests: RequestList<R> = waiting
            .requests
            .extract_if(.., |waiter| fires(&waiter.kind))
            .map(|waiter| waiter.request)
            .collect();
        self.arm(waiting);
        requests.first.as_ref()?;
        if waiting.requests.is_empty() {
            interest(false);
        }
        Some(CompletedNotifies {
            requests,
            reason: ended,
            broken: false,
        })
    }

    /// Returns true if results were placed that a request waits for. From then on these results are no longer new. Only results that can be
    /// taken, or were, count; the thread that publishes a missing result before them looks here afterwards.
    fn has_news(&self, waiting: &mut Waiting<R>) -> bool {
        // A request for any result also completes the requests for solicited results.
        let any = waiting.fires_after(NotifyOn::Any);
        let last = self.ring.solicited();
        let solicited = waiting.fires_after(NotifyOn::Solicited);
        let solicited = solicited.is_some_and(|after| last > after);
        if any.is_none() && !solicited {
            return false;
        }
        let placed = self.ring.published(waiting.fired);
        let fires = any.is_some_and(|after| placed > after) || solicited && placed >= last;
        if fires {
            waiting.fired = placed;
        }
        fires
    }
}

#[cfg(all(test, loom))]
mod loom_model;
#[cfg(all(test, not(loom)))]
mod tests;
