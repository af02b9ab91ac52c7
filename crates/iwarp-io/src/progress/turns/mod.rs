//! Ensures that one thread at a time drives an object, and that no other thread waits for it.
//!
//! A *turn* is one call in which a thread drives an object: it handles the readiness that was reported until a budget ends. A thread that
//! comes while another one has the turn leaves its readiness behind as bits, and goes on; the thread with the turn takes the bits up.

use super::Edges;
use super::domain::Turn;
use crate::sync::{AtomicU8, Mutex, MutexGuard, Ordering, after_unlocking, fence};

/// Bits that threads leave for the thread that holds a lock. Every holder takes them up after it has unlocked, however briefly it held the
/// lock, so no thread waits for another one.
#[derive(Debug)]
pub struct HandOff(AtomicU8);

impl Default for HandOff {
    fn default() -> Self {
        Self(AtomicU8::new(0))
    }
}

impl HandOff {
    /// Leaves bits for the holder of the lock. The caller [attends](Self::attend) afterwards, because there may be no holder.
    pub fn leave(&self, bits: u8) {
        self.0.fetch_or(bits, Ordering::SeqCst);
    }

    /// Takes all bits that were left. Called with the lock held.
    pub fn take(&self) -> u8 {
        self.0.swap(0, Ordering::SeqCst)
    }

    /// Takes up bits until none are left or another thread holds the lock, which then does it. `visit` takes the lock if that is free, handles
    /// the bits that it [takes](Self::take), and unlocks; it returns false if another thread holds the lock. Called with the lock free, also
    /// after each unlocking.
    pub fn attend(&self, mut visit: impl FnMut(&Self) -> bool) {
        while self.has_left() && visit(self) {}
    }

    /// Returns true if bits were left that no thread has taken. A thread that leaves bits and then finds the lock held, and a holder that
    /// unlocks and then looks here, both have a fence between the two, so that at least one of them sees the change of the other one.
    fn has_left(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::SeqCst) != 0
    }
}

/// A lock for an object that one thread drives at a time. A driver that finds it locked leaves its edges behind and returns. Every holder
/// looks for such edges after it has unlocked, however briefly it held the lock.
#[derive(Debug)]
pub struct Turns<T> {
    /// Edges that no thread has looked at yet.
    left: HandOff,
    state: Mutex<T>,
}

impl<T> Turns<T> {
    /// Makes an open lock, with no edges left behind.
    pub fn new(state: T) -> Self {
        Self {
            left: HandOff::default(),
            state: Mutex::new(state),
        }
    }

    /// Waits for the lock. After unlocking, the caller checks if [edges were left](Self::has_left) meanwhile, and then
    /// [drives](Self::drive).
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock()
    }

    /// Takes the lock, unless another thread holds it. After unlocking, the caller does as after [`lock`](Self::lock).
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.state.try_lock()
    }

    /// Calls `visit` with these edges and those that others have left, or leaves these edges to the holder of the lock.
    /// `visit` unlocks before it returns. It is called again if more edges were left meanwhile. Returns the result of all
    /// visits.
    #[inline]
    pub fn drive(
        &self,
        mut edges: Edges,
        mut visit: impl FnMut(MutexGuard<'_, T>, Edges) -> Turn,
    ) -> Turn {
        let mut all = Turn::default();
        // In most cases the lock is free, and no edges are left behind.
        let mut held = self.state.try_lock();
        if held.is_none() {
            self.left.leave(edges.bits());
            // The holder of the lock may have looked for edges before that, and have unlocked since.
            fence(Ordering::SeqCst);
            held = self.state.try_lock();
        }
        while let Some(state) = held {
            if self.left.0.load(Ordering::SeqCst) != 0 {
                edges |= Edges::from_bits_truncate(self.left.take());
            }
            let turn = visit(state, edges);
            all = Turn {
                // The next visit may not have looked at the work that one visit has left.
                unfinished: all.unfinished || turn.unfinished,
                blocked: turn.blocked,
                work: all.work + turn.work,
            };
            edges = Edges::empty();
            held = if self.has_left() {
                self.state.try_lock()
            } else {
                None
            };
        }
        all
    }

    /// Returns true if a thread that did not get the lock has left edges. Every holder asks this after it has unlocked.
    pub fn has_left(&self) -> bool {
        after_unlocking();
        self.left.0.load(Ordering::SeqCst) != 0
    }
}

#[cfg(all(test, loom))]
mod loom_model;
