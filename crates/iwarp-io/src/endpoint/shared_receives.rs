//! Receives that many connections share, and the connections that wait for one.
//!
//! A connection draws the oldest Receive when a message arrives. A connection that finds none waits in line, without a
//! deadline. A Receive that is posted while connections wait is promised to the connection that has waited longest: no other
//! connection can draw it. The poster then has that connection driven, outside the lock. A connection that leaves with a
//! promise passes the promise on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use iwarp::{OutOfMemory, PostError, ReceiveSlot, ReceiveSource, Sge};
use parking_lot::Mutex;
use slab::Slab;

/// A connection that can wait for a shared Receive.
pub trait Waiter: Send + Sync {
    /// A Receive was promised to this connection. Called with no lock held.
    fn receive_posted(&self);
}

/// How many Receives there can be, and how large each can be.
#[derive(Clone, Copy, Debug)]
pub struct SharedReceiveSizes {
    /// How many Receives can be posted and not drawn.
    pub depth: u32,
    /// The largest number of SGEs of one Receive.
    pub sges: u32,
    /// The largest length of one Receive, in octets.
    pub max_transfer: u32,
}

/// Why [`modify`](SharedReceives::modify) has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotModify {
    /// More Receives are posted than the new depth holds.
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
    /// The number of Receives has fallen below the threshold since [`arm`](Self::arm) was called.
    low: AtomicBool,
}

struct State {
    ring: Ring,
    depth: usize,
    members: Slab<Member>,
    /// The members that wait, the longest wait first, each with the number of the wait. A member that no longer waits stays here
    /// until [`promise`](Self::promise) reaches and skips the entry.
    line: VecDeque<(usize, u64)>,
    waits: u64,
    /// How many Receives are promised to members.
    promised: usize,
    threshold: usize,
    /// [`low`](SharedReceives::low) is set when the number of Receives falls below the threshold.
    armed: bool,
}

/// Receives in the order in which they were posted.
struct Ring {
    receives: Box<[Receive]>,
    sges: Box<[Sge]>,
    first: usize,
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Receive {
    context: u64,
    sges: usize,
}

struct Member {
    waiter: Weak<dyn Waiter>,
    draw_state: DrawState,
}

/// Whether a connection waits for a Receive.
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
        Ok(Self {
            receives: filled(Some(depth))?,
            sges: filled(depth.checked_mul(sges))?,
            first: 0,
            count: 0,
        })
    }

    fn push(&mut self, context: u64, sges: &[Sge], each: usize) {
        let at = (self.first + self.count) % self.receives.len();
        self.sges[at * each..][..sges.len()].copy_from_slice(sges);
        self.receives[at] = Receive {
            context,
            sges: sges.len(),
        };
        self.count += 1;
    }

    fn pop(&mut self, each: usize) -> Option<(u64, &[Sge])> {
        if self.count == 0 {
            return None;
        }
        let at = self.first;
        if !(crate::planted!(SharedReceiveTwice) && self.count % 4 == 3) {
            self.first = (at + 1) % self.receives.len();
        }
        self.count -= 1;
        let Receive { context, sges } = self.receives[at];
        Some((context, &self.sges[at * each..][..sges]))
    }
}

impl State {
    /// Takes the oldest Receive for a member, or has the member wait.
    fn draw(&mut self, key: usize, each: usize) -> Option<(u64, &[Sge])> {
        let member = &mut self.members[key];
        match member.draw_state {
            DrawState::Promised => self.promised -= 1,
            _ if self.ring.count > self.promised => {}
            DrawState::Waiting(_) => return None,
            DrawState::Satisfied => {
                self.waits += 1;
                member.draw_state = DrawState::Waiting(self.waits);
                self.line.push_back((key, self.waits));
                return None;
            }
        }
        member.draw_state = DrawState::Satisfied;
        self.ring.pop(each)
    }

    /// Promises a Receive to the member that has waited longest, if an unpromised Receive is left. Returns that member.
    fn promise(&mut self) -> Option<Weak<dyn Waiter>> {
        while self.promised < self.ring.count {
            let (key, wait) = self.line.pop_front()?;
            if let Some(member) = self.members.get_mut(key)
                && member.draw_state == DrawState::Waiting(wait)
            {
                member.draw_state = DrawState::Promised;
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
        if draw_state != DrawState::Promised {
            return None;
        }
        self.promised -= 1;
        self.promise()
    }

    fn is_low(&self) -> bool {
        self.ring.count < self.threshold
    }
}

impl SharedReceives {
    /// Makes a queue without Receives. When the number of Receives falls below `threshold`, [`take_low`](Self::take_low) reports this
    /// to a caller of [`arm`](Self::arm). With a threshold of 0, nothing is reported.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] where there is no memory for a queue of these sizes.
    pub fn new(sizes: SharedReceiveSizes, threshold: u32) -> Result<Self, OutOfMemory> {
        let (depth, sges) = (sizes.depth as usize, sizes.sges as usize);
        Ok(Self {
            sges,
            max_transfer: sizes.max_transfer,
            state: Mutex::new(State {
                ring: Ring::new(depth, sges)?,
                depth,
                members: Slab::new(),
                line: VecDeque::new(),
                waits: 0,
                promised: 0,
                threshold: threshold as usize,
                armed: false,
            }),
            low: AtomicBool::new(false),
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
    pub fn post(&self, context: u64, sges: &[Sge]) -> Result<(), PostError> {
        if sges.len() > self.sges {
            return Err(PostError::TooManySges);
        }
        let octets: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
        if octets > u64::from(self.max_transfer) {
            return Err(PostError::TooLong);
        }
        let mut state = self.state.lock();
        if state.ring.count == state.depth {
            return Err(PostError::QueueFull);
        }
        state.ring.push(context, sges, self.sges);
        let next = state.promise();
        drop(state);
        wake(next);
        Ok(())
    }

    /// How many Receives are posted and not drawn.
    pub fn outstanding(&self) -> usize {
        self.state.lock().ring.count
    }

    /// Changes the depth, the threshold, or both.
    ///
    /// # Errors
    ///
    /// See [`CannotModify`]; nothing has changed then.
    pub fn modify(&self, depth: Option<u32>, threshold: Option<u32>) -> Result<(), CannotModify> {
        let mut state = self.state.lock();
        if let Some(depth) = depth {
            let depth = depth as usize;
            if depth < state.ring.count {
                return Err(CannotModify::TooMany);
            }
            if depth != state.depth {
                let mut ring = Ring::new(depth, self.sges)?;
                while let Some((context, sges)) = state.ring.pop(self.sges) {
                    ring.push(context, sges, self.sges);
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

    /// Whether [`take_low`](Self::take_low) would return true.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Whether the number of Receives has fallen below the threshold since [`arm`](Self::arm) was called. Returns true to one caller.
    pub fn take_low(&self) -> bool {
        self.is_low() && self.low.swap(false, Ordering::SeqCst)
    }

    /// Adds a connection to those that draw from this queue.
    pub fn join(self: &Arc<Self>, waiter: Weak<dyn Waiter>) -> Membership {
        let draw_state = DrawState::Satisfied;
        let key = self
            .state
            .lock()
            .members
            .insert(Member { waiter, draw_state });
        Membership {
            queue: Arc::clone(self),
            key,
        }
    }
}

impl std::fmt::Debug for SharedReceives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("SharedReceives")
            .field("depth", &state.depth)
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
}

impl Membership {
    /// The queue.
    pub fn queue(&self) -> &Arc<SharedReceives> {
        &self.queue
    }

    /// Ends the connection's wait, because the connection has ended. Returns the connection that gets the promised Receive, if any.
    /// The caller drives that connection with no lock held.
    #[must_use = "the returned connection has to be driven"]
    pub fn step_back(&self) -> Option<Weak<dyn Waiter>> {
        self.queue.state.lock().no_longer_wants(self.key)
    }

    /// Gives the oldest Receive to `take`. Without a Receive, the connection waits.
    fn draw_to(&self, take: impl FnOnce(u64, &[Sge])) {
        let mut state = self.queue.state.lock();
        if let Some((context, sges)) = state.draw(self.key, self.queue.sges) {
            take(context, sges);
            self.queue.note_low(&mut state);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        let next = state.no_longer_wants(self.key);
        let member = state.members.remove(self.key);
        drop(state);
        drop(member);
        wake(next);
    }
}

/// Where a connection takes its Receives from.
#[derive(Clone, Copy, Debug)]
pub enum ReceiveSupply<'a> {
    /// Its own queue.
    Own,
    /// A queue that other connections draw from as well.
    Shared(&'a Membership),
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
        self.draw_to(|context, sges| {
            // Every Receive fits, because a queue pair has the sizes of its shared queue.
            let filled = slot.fill(context, sges);
            debug_assert!(filled.is_ok(), "a shared Receive does not fit: {filled:?}");
        });
    }
}

/// Drives a connection to which a Receive was promised.
pub fn wake(waiter: Option<Weak<dyn Waiter>>) {
    if let Some(waiter) = waiter.and_then(|waiter| waiter.upgrade()) {
        waiter.receive_posted();
    }
}

#[cfg(test)]
mod tests;
