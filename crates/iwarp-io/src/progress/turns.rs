//! Who drives a source: one thread at a time, and nobody waits for it.

use super::Edges;
use super::domain::Turn;
use crate::sync::{AtomicU8, Mutex, MutexGuard, Ordering, after_unlocking, fence};

/// A lock for what one thread drives at a time. A driver that finds it locked leaves its edges behind and goes: every
/// holder, however short it holds the lock, looks for them when it has unlocked.
#[derive(Debug)]
pub struct Turns<T> {
    /// Edges that nobody has looked at yet.
    left: AtomicU8,
    state: Mutex<T>,
}

impl<T> Turns<T> {
    /// Unlocked, with nothing left behind.
    pub fn new(state: T) -> Self {
        Self {
            left: AtomicU8::new(0),
            state: Mutex::new(state),
        }
    }

    /// Waits for the lock. Who has unlocked it looks whether [something was left](Self::has_left) meanwhile, and then
    /// [drives](Self::drive).
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock()
    }

    /// The lock, unless somebody has it. Who has unlocked it looks as after [`lock`](Self::lock).
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.state.try_lock()
    }

    /// Has `visit` look at these edges and at those that others have left, or leaves these to whoever is at it. `visit`
    /// unlocks before it returns; it is called again when more was left meanwhile. Returns what all visits came to.
    pub fn drive(
        &self,
        mut edges: Edges,
        mut visit: impl FnMut(MutexGuard<'_, T>, Edges) -> Turn,
    ) -> Turn {
        let mut all = Turn::default();
        // Mostly nobody is at it, and nothing is left to anybody.
        let mut held = self.state.try_lock();
        if held.is_none() {
            self.left.fetch_or(edges.bits(), Ordering::SeqCst);
            // Who holds the lock may have looked for edges before that, and gone since.
            fence(Ordering::SeqCst);
            held = self.state.try_lock();
        }
        while let Some(state) = held {
            if self.left.load(Ordering::SeqCst) != 0 {
                edges |= Edges::from_bits_truncate(self.left.swap(0, Ordering::SeqCst));
            }
            let turn = visit(state, edges);
            all = Turn {
                // What one visit has left, the next one may not have looked at.
                unfinished: all.unfinished || turn.unfinished,
                blocked: turn.blocked,
                octets: all.octets + turn.octets,
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

    /// Somebody who did not get the lock has left edges: asked by everybody who has unlocked it.
    pub fn has_left(&self) -> bool {
        after_unlocking();
        self.left.load(Ordering::SeqCst) != 0
    }
}
