//! Ensures that one thread at a time drives a source, and that no other thread waits for it.

use super::Edges;
use super::domain::Turn;
use crate::sync::{AtomicU8, Mutex, MutexGuard, Ordering, after_unlocking, fence};

/// A lock for an object that one thread drives at a time. A driver that finds it locked leaves its edges behind and returns. Every holder
/// looks for such edges after it has unlocked, however briefly it held the lock.
#[derive(Debug)]
pub struct Turns<T> {
    /// Edges that no thread has looked at yet.
    left: AtomicU8,
    state: Mutex<T>,
}

impl<T> Turns<T> {
    /// Makes an open lock, with no edges left behind.
    pub fn new(state: T) -> Self {
        Self {
            left: AtomicU8::new(0),
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
            self.left.fetch_or(edges.bits(), Ordering::SeqCst);
            // The holder of the lock may have looked for edges before that, and have unlocked since.
            fence(Ordering::SeqCst);
            held = self.state.try_lock();
        }
        while let Some(state) = held {
            if self.left.load(Ordering::SeqCst) != 0 {
                edges |= Edges::from_bits_truncate(self.left.swap(0, Ordering::SeqCst));
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
        self.left.load(Ordering::SeqCst) != 0
    }
}
