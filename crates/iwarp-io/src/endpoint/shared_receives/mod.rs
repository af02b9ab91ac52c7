//! Receives that many connections share, and the connections that wait for one.
//!
//! A connection draws the oldest Receive when a message arrives. A connection that finds no Receive waits in line, without a deadline. A
//! Receive that is posted while connections wait is promised to the connection that has waited longest: no other connection can draw it.
//! The poster then has that connection driven, outside the lock. A connection that leaves with a promise passes the promise on. A connection
//! whose delivery is unreliable never waits: it gets a Receive that is promised to no other connection, or none.
//!
//! When a read has returned several messages, and no connection waits, their Receives are drawn together, under one lock. Receives that a
//! message then does not take, because the connection fails, go back to the front of the queue.
//!
//! A slot of the queue is used from the post of a Receive until the client has taken its result, or until it ends without one. The results are
//! in the completion queues of the connections. When a post finds no free slot, it compares the numbers of the results with the number of
//! results that were taken from each completion queue.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use iwarp::{Connection, OutOfMemory, PostError, ReceiveSlot, ReceiveSource, Sge};
use parking_lot::{Mutex, MutexGuard};
use slab::Slab;

use super::owner::ReceivesAhead;
use crate::cq::Untaken;
use crate::thread_value::{is_there, with_value};

/// A connection that can wait for a shared Receive.
pub trait Waiter: Send + Sync {
    /// A Receive was promised to this connection. Called with no lock held.
    fn receive_posted(&self);
}

/// A completion queue that gets results of shared Receives.
pub trait ResultQueue: Send + Sync {
    /// The number of results that were taken so far: all results with a smaller number.
    fn taken(&self) -> u64;
}

/// The results of shared Receives in one completion queue.
#[derive(Debug)]
struct SharedResults {
    queue: Weak<dyn ResultQueue>,
    /// The smallest number in `untaken`, or [`NO_RESULT`].
    oldest: AtomicU64,
    untaken: Mutex<Untaken>,
}

const NO_RESULT: u64 = u64::MAX;

impl SharedResults {
    fn change<T>(&self, act: impl FnOnce(&mut Untaken) -> T) -> T {
        let mut untaken = self.untaken.lock();
        let done = act(&mut untaken);
        let oldest = untaken.oldest().unwrap_or(NO_RESULT);
        self.oldest.store(oldest, Ordering::Release);
        done
    }

    fn is_empty(&self) -> bool {
        self.oldest.load(Ordering::Acquire) == NO_RESULT
    }

    /// The number of results that were taken since the last call. Nobody takes results out of a queue that is gone.
    fn take(&self) -> u64 {
        let oldest = self.oldest.load(Ordering::Acquire);
        if oldest == NO_RESULT {
            return 0;
        }
        let end = self.queue.upgrade().map_or(u64::MAX, |queue| queue.taken());
        if oldest >= end {
            return 0;
        }
        self.change(|untaken| untaken.take_below(end))
    }
}

impl std::fmt::Debug for dyn ResultQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultQueue").finish_non_exhaustive()
    }
}

/// The number and the size of the Receives.
#[derive(Clone, Copy, Debug)]
pub struct SharedReceiveSizes {
    /// The number of slots. A slot is used until the result of its Receive has been taken.
    pub depth: u32,
    /// The largest number of SGEs of one Receive.
    pub sges: u32,
    /// The largest length of one Receive, in octets.
    pub max_transfer: u32,
}

/// The reason why [`modify`](SharedReceives::modify) has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotModify {
    /// More slots are used than the new depth has.
    TooMany,
    /// There is no memory for the new depth.
    OutOfMemory,
}

impl From<OutOfMemory> for CannotModify {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// A queue of shared Receives. See the [module](self).
pub struct SharedReceives {
    sges: usize,
    max_transfer: u32,
    state: Mutex<State>,
    /// The results in each completion queue. Locked before `state`.
    results: Mutex<Vec<Arc<SharedResults>>>,
    /// The number of Receives has fallen below the threshold since [`arm`](Self::arm) was called.
    low: AtomicBool,
    /// Members in [`State::due`] have to be driven.
    due: AtomicBool,
}

struct State {
    ring: Ring,
    depth: usize,
    /// The slots that are used, as far as is known.
    used: usize,
    members: Slab<Member>,
    /// The members that wait, the longest wait first, each with the number of the wait. A member that no longer waits stays here
    /// until [`promise`](Self::promise) reaches and skips the entry.
    line: VecDeque<(usize, u64)>,
    waits: u64,
    /// The number of members that wait, and of those that were promised a Receive. While both are 0, a draw looks at no member.
    waiting: usize,
    promised: usize,
    /// Members that were promised a Receive that another connection gave back. They were not driven yet.
    due: Vec<Weak<dyn Waiter>>,
    threshold: usize,
    /// [`low`](SharedReceives::low) is set when the number of Receives falls below the threshold.
    armed: bool,
}

/// Receives in the order in which they were posted. The number of slots is a power of two, so that no access costs a division.
struct Ring {
    receives: Box<[Receive]>,
    sges: Box<[Sge]>,
    first: usize,
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Receive {
    context: u64,
    /// The sum of the lengths of its SGEs, in octets.
    length: u32,
    sges: u32,
}

struct Member {
    waiter: Weak<dyn Waiter>,
    draw_state: DrawState,
    /// The connection waits if it finds no Receive.
    waits: bool,
}

/// The state of a connection that draws Receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrawState {
    /// The connection waits for no Receive.
    Satisfied,
    /// The connection found no Receive, and waits. The number identifies the wait.
    Waiting(u64),
    /// A Receive that was posted meanwhile is promised to the connection.
    Promised,
}

fn filled<T: Clone + Default>(length: Option<usize>) -> Result<Box<[T]>, OutOfMemory> {
    let length = length.ok_or(OutOfMemory)?;
    let mut list = Vec::new();
    list.try_reserve_exact(length)?;
    list.resize(length, T::default());
    Ok(list.into())
}

impl Ring {
    fn new(depth: usize, sges: usize) -> Result<Self, OutOfMemory> {
        let slots = depth.checked_next_power_of_two();
        Ok(Self {
            receives: filled(slots)?,
            sges: filled(slots.and_then(|slots| slots.checked_mul(sges)))?,
            first: 0,
            count: 0,
        })
    }

    fn slot(&self, at: usize) -> usize {
        at & (self.receives.len() - 1)
    }

    #[inline]
    fn push(&mut self, context: u64, length: u32, sges: &[Sge], each: usize) {
        let at = self.slot(self.first + self.count);
        let mut count = 1;
        if let [one] = sges {
            self.sges[at * each] = *one; // most Receives, without a call that copies memory
        } else {
            count = 0;
            for (slot, sge) in self.sges[at * each..].iter_mut().zip(sges) {
                *slot = *sge;
                count += 1;
            }
        }
        self.receives[at] = Receive {
            context,
            length,
            sges: count,
        };
        self.count += 1;
    }

    /// Puts a Receive back in front of all others.
    fn push_front(&mut self, receive: Receive, sges: &[Sge], each: usize) {
        self.first = self.slot(self.first.wrapping_sub(1));
        self.sges[self.first * each..][..sges.len()].copy_from_slice(sges);
        self.receives[self.first] = receive;
        self.count += 1;
    }

    #[inline]
    fn pop(&mut self, each: usize) -> Option<(Receive, &[Sge])> {
        if self.count == 0 {
            return None;
        }
        let at = self.first;
        if !(crate::planted!(SharedReceiveTwice) && self.count % 4 == 3) {
            self.first = self.slot(at + 1);
        }
        self.count -= 1;
        let receive = self.receives[at];
        Some((receive, &self.sges[at * each..][..receive.sges as usize]))
    }
}

impl State {
    /// Takes the oldest Receive for a member, or makes the member wait.
    #[inline(always)]
    fn draw(&mut self, key: usize, each: usize) -> Option<(Receive, &[Sge])> {
        let all_satisfied = self.waiting == 0 && self.promised == 0;
        if all_satisfied && self.ring.count > 0 || self.may_draw(key) {
            self.ring.pop(each)
        } else {
            None
        }
    }

    /// Returns true if there is a Receive for a member. If not, the member waits, if it does at all.
    #[cold]
    fn may_draw(&mut self, key: usize) -> bool {
        let member = &mut self.members[key];
        let unpromised = self.ring.count > self.promised;
        match member.draw_state {
            DrawState::Promised => self.promised -= 1,
            DrawState::Waiting(_) if unpromised => self.waiting -= 1,
            DrawState::Satisfied if unpromised => return true,
            DrawState::Waiting(_) => return false,
            DrawState::Satisfied if !member.waits => return false,
            DrawState::Satisfied => {
                self.waits += 1;
                self.waiting += 1;
                member.draw_state = DrawState::Waiting(self.waits);
                self.line.push_back((key, self.waits));
                return false;
            }
        }
        member.draw_state = DrawState::Satisfied;
        true
    }

    /// Promises a Receive to the member that has waited longest, if an unpromised Receive is left. Returns that member.
    fn promise(&mut self) -> Option<Weak<dyn Waiter>> {
        while self.promised < self.ring.count {
            let (key, wait) = self.line.pop_front()?;
            if let Some(member) = self.members.get_mut(key)
                && member.draw_state == DrawState::Waiting(wait)
            {
                member.draw_state = DrawState::Promised;
                self.waiting -= 1;
                self.promised += 1;
                let woken = Weak::clone(&member.waiter);
                return Some(self.other_waiter(key).unwrap_or(woken));
            }
        }
        None
    }

    /// A planted bug: the connection that is woken instead of this one.
    #[inline]
    fn other_waiter(&self, key: usize) -> Option<Weak<dyn Waiter>> {
        if !crate::planted!(OtherWaiterWoken) {
            return None;
        }
        let mut others = self.members.iter().filter(|(other, _)| *other != key);
        Some(Weak::clone(&others.next()?.1.waiter))
    }

    /// Ends a member's wait. Returns the member that gets the Receive promised to this member, if any.
    fn no_longer_wants(&mut self, key: usize) -> Option<Weak<dyn Waiter>> {
        let draw_state = std::mem::replace(&mut self.members[key].draw_state, DrawState::Satisfied);
        match draw_state {
            DrawState::Satisfied => None,
            DrawState::Waiting(_) => {
                self.waiting -= 1;
                None
            }
            DrawState::Promised => {
                self.promised -= 1;
                self.promise()
            }
        }
    }

    fn is_low(&self) -> bool {
        self.ring.count < self.threshold
    }
}

/// The most Receives that are drawn together. While this many Receives are copied, the queue is locked.
const AHEAD: usize = 64;

/// Receives that the driving thread has drawn together, in order. The list is empty except while a connection handles octets.
#[derive(Default)]
struct DrawnAhead {
    receives: Vec<Receive>,
    sges: Vec<Sge>,
    /// The numbers of Receives and of SGEs that the connection has taken.
    taken: usize,
    taken_sges: usize,
}

thread_local! {
    static DRAWN_AHEAD: RefCell<DrawnAhead> = const {
        RefCell::new(DrawnAhead {
            receives: Vec::new(),
            sges: Vec::new(),
            taken: 0,
            taken_sges: 0,
        })
    };
}

impl DrawnAhead {
    #[inline]
    fn push(&mut self, receive: Receive, sges: &[Sge]) {
        self.receives.push(receive);
        if let [one] = sges {
            self.sges.push(*one);
        } else {
            self.sges.extend_from_slice(sges);
        }
    }

    fn next(&mut self) -> Option<(Receive, &[Sge])> {
        let receive = *self.receives.get(self.taken)?;
        self.taken += 1;
        let from = self.taken_sges;
        self.taken_sges += receive.sges as usize;
        Some((receive, &self.sges[from..self.taken_sges]))
    }
}

impl SharedReceives {
    /// Makes a queue without Receives. When the number of Receives falls below `threshold`, [`take_low`](Self::take_low) reports this
    /// to a caller of [`arm`](Self::arm). With a threshold of 0, nothing is reported.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if there is not enough memory for a queue of these sizes.
    pub fn new(sizes: SharedReceiveSizes, threshold: u32) -> Result<Self, OutOfMemory> {
        let (depth, sges) = (sizes.depth as usize, sizes.sges as usize);
        Ok(Self {
            sges,
            max_transfer: sizes.max_transfer,
            state: Mutex::new(State {
                ring: Ring::new(depth, sges)?,
                depth,
                used: 0,
                members: Slab::new(),
                line: VecDeque::new(),
                waits: 0,
                waiting: 0,
                promised: 0,
                due: Vec::new(),
                threshold: threshold as usize,
                armed: false,
            }),
            results: Mutex::default(),
            low: AtomicBool::new(false),
            due: AtomicBool::new(false),
        })
    }

    /// The largest number of SGEs of a Receive.
    pub fn sges(&self) -> u32 {
        u32::try_from(self.sges).unwrap_or(u32::MAX)
    }

    /// Posts a Receive, and drives the connection that has waited longest for a Receive.
    ///
    /// # Errors
    ///
    /// [`PostError::TooManySges`], [`PostError::TooLong`] or [`PostError::QueueFull`]. The Receive is then not posted.
    #[inline]
    pub fn post(&self, context: u64, sges: &[Sge]) -> Result<(), PostError> {
        if sges.len() > self.sges {
            return Err(PostError::TooManySges);
        }
        let length = match sges {
            [one] => u64::from(one.length),
            sges => sges.iter().map(|sge| u64::from(sge.length)).sum(),
        };
        let length = u32::try_from(length).ok();
        let length = length.filter(|length| *length <= self.max_transfer);
        let length = length.ok_or(PostError::TooLong)?;
        let mut state = self.state.lock();
        if state.used >= state.depth {
            drop(state);
            state = self.free_slots();
            if state.used >= state.depth {
                return Err(PostError::QueueFull);
            }
        }
        state.used += 1;
        state.ring.push(context, length, sges, self.sges);
        let next = state.promise();
        drop(state);
        wake(next);
        Ok(())
    }

    /// Frees the slots of Receives whose results were taken since the last call.
    #[inline(never)]
    fn free_slots(&self) -> MutexGuard<'_, State> {
        let mut results = self.results.lock();
        let taken: u64 = results.iter().map(|results| results.take()).sum();
        if results.len() > 1 {
            // No connection places results there any more.
            results.retain(|results| !results.is_empty() || Arc::strong_count(results) > 1);
        }
        // Another thread that finds the queue full now waits for `results`, and sees the slots that are freed here.
        let mut state = self.state.lock();
        state.used -= usize::try_from(taken).unwrap_or(usize::MAX);
        state
    }

    /// The number of Receives that are posted and not drawn.
    pub fn outstanding(&self) -> usize {
        self.state.lock().ring.count
    }

    /// Changes the depth, the threshold, or both.
    ///
    /// # Errors
    ///
    /// See [`CannotModify`]; nothing has changed then.
    pub fn modify(&self, depth: Option<u32>, threshold: Option<u32>) -> Result<(), CannotModify> {
        let mut state = self.free_slots();
        if let Some(depth) = depth {
            let depth = depth as usize;
            if depth < state.used {
                return Err(CannotModify::TooMany);
            }
            if depth != state.depth {
                let mut ring = Ring::new(depth, self.sges)?;
                while let Some((receive, sges)) = state.ring.pop(self.sges) {
                    ring.push(receive.context, receive.length, sges, self.sges);
                }
                state.ring = ring;
                state.depth = depth;
            }
        }
        if let Some(threshold) = threshold {
            state.threshold = threshold as usize;
            self.note_low(&mut state);
        }
        Ok(())
    }

    /// Asks for one report when the number of Receives is below the threshold. [`take_low`](Self::take_low) then returns true once,
    /// immediately if the number is below the threshold already.
    pub fn arm(&self) {
        let mut state = self.state.lock();
        state.armed = true;
        self.note_low(&mut state);
    }

    /// Withdraws the request of [`arm`](Self::arm).
    pub fn disarm(&self) {
        self.state.lock().armed = false;
        self.low.store(false, Ordering::SeqCst);
    }

    fn note_low(&self, state: &mut State) {
        if state.armed && state.is_low() {
            state.armed = false;
            self.low.store(true, Ordering::SeqCst);
        }
    }

    /// Returns true if [`take_low`](Self::take_low) would.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Returns true, to one caller, if the number of Receives has fallen below the threshold since [`arm`](Self::arm) was called.
    pub fn take_low(&self) -> bool {
        self.is_low() && self.low.swap(false, Ordering::SeqCst)
    }

    /// Returns true if [`drive_due`](Self::drive_due) has connections to drive.
    #[inline]
    pub fn has_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// Drives the connections that get Receives that another connection has given back. Called with no lock held.
    pub fn drive_due(&self) {
        if self.has_due() && self.due.swap(false, Ordering::SeqCst) {
            let due = std::mem::take(&mut self.state.lock().due);
            due.iter().for_each(drive);
        }
    }

    /// Adds a connection to those that draw from this queue. The results of its Receives go to the completion queue `queue`.
    pub fn join(
        self: &Arc<Self>,
        waiter: Weak<dyn Waiter>,
        queue: Weak<dyn ResultQueue>,
    ) -> Membership {
        let results = self.results_in(queue);
        let member = Member {
            waiter,
            draw_state: DrawState::Satisfied,
            waits: true,
        };
        let key = self.state.lock().members.insert(member);
        Membership {
            queue: Arc::clone(self),
            key,
            results,
            drawn: AtomicUsize::new(0),
        }
    }

    fn results_in(&self, queue: Weak<dyn ResultQueue>) -> Arc<SharedResults> {
        let mut all = self.results.lock();
        let mut known = all.iter();
        if let Some(known) = known.find(|known| known.queue.ptr_eq(&queue)) {
            return Arc::clone(known);
        }
        let results = Arc::new(SharedResults {
            queue,
            oldest: AtomicU64::new(NO_RESULT),
            untaken: Mutex::default(),
        });
        all.push(Arc::clone(&results));
        results
    }
}

impl std::fmt::Debug for SharedReceives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("SharedReceives")
            .field("depth", &state.depth)
            .field("used", &state.used)
            .field("outstanding", &state.ring.count)
            .field("members", &state.members.len())
            .finish_non_exhaustive()
    }
}

/// One connection's right to draw from a queue. Dropping the membership ends the connection's wait, and passes on a Receive that was
/// promised to the connection. This drives another connection: drop the membership with no lock held that the drive may need.
#[derive(Debug)]
pub struct Membership {
    queue: Arc<SharedReceives>,
    key: usize,
    results: Arc<SharedResults>,
    /// The Receives that the connection has drawn and that have no result. Changes only while the connection is locked.
    drawn: AtomicUsize,
}

impl Membership {
    /// The queue.
    pub fn queue(&self) -> &Arc<SharedReceives> {
        &self.queue
    }

    /// These results of drawn Receives are placed in the completion queue, and can be taken once this call has returned. Called with the
    /// connection locked.
    pub fn placed(&self, first: u64, count: u64) {
        let results = &self.results;
        let mut untaken = results.untaken.lock();
        untaken.placed(first, count);
        if results.oldest.load(Ordering::Relaxed) > first {
            results.oldest.store(first, Ordering::Release);
        }
        drop(untaken);
        let drawn = self.drawn.load(Ordering::Relaxed);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.drawn
            .store(drawn.saturating_sub(count), Ordering::Relaxed);
    }

    /// A drawn Receive ends without a result. Its slot is free again. Called with the connection locked.
    #[cold]
    pub fn vanished(&self) {
        let drawn = self.drawn.load(Ordering::Relaxed);
        if let Some(left) = drawn.checked_sub(1) {
            self.drawn.store(left, Ordering::Relaxed);
            self.queue.state.lock().used -= 1;
        }
    }

    /// Results with these numbers were removed from the completion queue, because the connection is gone for its client. The slots of those
    /// that were of Receives are free again. Called without locks.
    pub fn removed(&self, numbers: &[u64]) {
        let freed = self.results.change(|untaken| {
            let known = numbers.iter().filter(|number| untaken.remove(**number));
            known.count()
        });
        self.queue.state.lock().used -= freed;
    }

    fn has_drawn(&self) {
        let drawn = self.drawn.load(Ordering::Relaxed);
        self.drawn.store(drawn + 1, Ordering::Relaxed);
    }

    /// Sets whether the connection waits if it finds no Receive. It does from the start.
    pub fn set_waits(&self, waits: bool) {
        self.queue.state.lock().members[self.key].waits = waits;
    }

    /// Ends the connection's wait, because the connection has ended. Returns the connection that gets the promised Receive, if any.
    /// The caller drives that connection with no lock held.
    #[must_use = "the returned connection has to be driven"]
    pub fn step_back(&self) -> Option<Weak<dyn Waiter>> {
        self.queue.state.lock().no_longer_wants(self.key)
    }

    /// Passes the oldest Receive to `take`, first of those that were drawn ahead. Without a Receive, the connection waits.
    #[inline(always)]
    fn draw_to(&self, take: impl FnOnce(Receive, &[Sge])) {
        with_value(&DRAWN_AHEAD, |drawn| {
            if let Some((receive, sges)) = drawn.next() {
                self.has_drawn();
                return take(receive, sges);
            }
            let mut state = self.queue.state.lock();
            if let Some((receive, sges)) = state.draw(self.key, self.queue.sges) {
                self.has_drawn();
                take(receive, sges);
                self.queue.note_low(&mut state);
            }
        });
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        let next = state.no_longer_wants(self.key);
        let member = state.members.remove(self.key);
        // Receives whose results were lost, or that the connection has not ended.
        state.used -= *self.drawn.get_mut();
        drop(state);
        drop(member);
        wake(next);
    }
}

/// The queue from which a connection takes its Receives.
#[derive(Clone, Copy, Debug)]
pub enum ReceiveSupply<'a> {
    /// The connection's own queue.
    Own,
    /// A queue that other connections draw from as well.
    Shared(&'a Membership),
}

impl ReceivesAhead for ReceiveSupply<'_> {
    #[inline(always)]
    fn draw_ahead(self, connection: &Connection, input: &[u8]) -> bool {
        match self {
            Self::Own => false,
            Self::Shared(membership) => membership.draw_for(connection, input),
        }
    }

    fn set_waits(self, waits: bool) {
        if let Self::Shared(membership) = self {
            membership.set_waits(waits);
        }
    }

    #[inline(never)]
    fn give_back(self) {
        if let Self::Shared(membership) = self {
            membership.give_back();
        }
    }
}

impl ReceiveSource for ReceiveSupply<'_> {
    #[inline]
    fn draw(self, slot: ReceiveSlot<'_>) {
        if let Self::Shared(membership) = self {
            membership.draw(slot);
        }
    }
}

impl Membership {
    #[inline(never)]
    fn draw(&self, slot: ReceiveSlot<'_>) {
        self.draw_to(|receive, sges| {
            // Every Receive fits, because a queue pair has the sizes of its shared queue.
            let filled = slot.fill_with_length(receive.context, sges, receive.length);
            debug_assert!(filled.is_ok(), "a shared Receive does not fit: {filled:?}");
        });
    }

    /// Draws ahead for this input, if it has several messages. Not inlined, so that connections with their own Receives do not pay for it.
    #[inline(never)]
    fn draw_for(&self, connection: &Connection, input: &[u8]) -> bool {
        let needed = connection.receives_needed(input, AHEAD);
        needed > 1 && self.draw_ahead(needed)
    }

    /// Takes up to `count` Receives out of the queue, in one go. Takes none while connections wait, whose turns come first. Returns true if
    /// it has taken any.
    fn draw_ahead(&self, count: usize) -> bool {
        if !is_there(&DRAWN_AHEAD) {
            return false;
        }
        DRAWN_AHEAD.with_borrow_mut(|drawn| {
            debug_assert!(drawn.receives.is_empty(), "some were not given back");
            let mut state = self.queue.state.lock();
            if state.waiting > 0 || state.promised > 0 {
                return false;
            }
            for _ in 0..count {
                let Some((receive, sges)) = state.ring.pop(self.queue.sges) else {
                    break;
                };
                drawn.push(receive, sges);
            }
            !drawn.receives.is_empty()
        })
    }

    /// Puts back the Receives that were drawn ahead and not taken.
    fn give_back(&self) {
        with_value(&DRAWN_AHEAD, |drawn| {
            if drawn.receives.is_empty() {
                return;
            }
            let mut state = self.queue.state.lock();
            if drawn.receives.len() > drawn.taken {
                self.put_back(drawn, &mut state);
            }
            self.queue.note_low(&mut state);
            drop(state);
            drawn.receives.clear();
            drawn.sges.clear();
            (drawn.taken, drawn.taken_sges) = (0, 0);
        });
    }

    #[cold]
    fn put_back(&self, drawn: &DrawnAhead, state: &mut State) {
        let mut end = drawn.sges.len();
        for receive in drawn.receives[drawn.taken..].iter().rev() {
            let from = end - receive.sges as usize;
            (state.ring).push_front(*receive, &drawn.sges[from..end], self.queue.sges);
            end = from;
        }
        // Other connections may have found the queue empty meanwhile.
        while let Some(waiter) = state.promise() {
            state.due.push(waiter);
            self.queue.due.store(true, Ordering::SeqCst);
        }
    }
}

/// Drives a connection to which a Receive was promised.
#[inline]
pub fn wake(waiter: Option<Weak<dyn Waiter>>) {
    if let Some(waiter) = waiter {
        drive(&waiter);
    }
}

#[cold]
fn drive(waiter: &Weak<dyn Waiter>) {
    if let Some(waiter) = waiter.upgrade() {
        waiter.receive_posted();
    }
}

#[cfg(test)]
mod tests;
