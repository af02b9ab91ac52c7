//! The memory that the rings of an adapter's connections may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limit of an adapter, and what is taken of it.
#[derive(Debug)]
pub(super) struct Budget {
    most: u64,
    taken: AtomicU64,
}

impl Budget {
    /// A budget of this many octets.
    pub(super) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: AtomicU64::new(0),
        })
    }

    /// Takes octets, if they are left.
    pub(super) fn take(self: &Arc<Self>, octets: u64) -> Option<Share> {
        let more = |taken: u64| taken.checked_add(octets).filter(|all| *all <= self.most);
        let (done, seen) = (Ordering::Relaxed, Ordering::Relaxed);
        self.taken.fetch_update(done, seen, more).ok()?;
        Some(Share {
            budget: Arc::clone(self),
            octets: AtomicU64::new(octets),
        })
    }
}

/// Octets that were taken, and are given back when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    octets: AtomicU64,
}

impl Share {
    /// Makes this as many octets, also if fewer are left. One thread at a time does that.
    pub(super) fn set(&self, octets: u64) {
        let before = self.octets.swap(octets, Ordering::Relaxed);
        let taken = &self.budget.taken;
        if octets >= before {
            taken.fetch_add(octets - before, Ordering::Relaxed);
        } else {
            taken.fetch_sub(before - octets, Ordering::Relaxed);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = Budget::new(100);
        let first = budget.take(60).unwrap();
        assert!(budget.take(41).is_none() && budget.take(u64::MAX).is_none());
        let second = budget.take(40).unwrap();
        assert!(budget.take(1).is_none());
        drop(first);
        assert!(budget.take(60).is_some());
        drop(second);
    }

    #[test]
    fn what_is_taken_grows_beyond_the_limit_but_nothing_more_is_taken() {
        let budget = Budget::new(100);
        let first = budget.take(10).unwrap();
        first.set(200);
        assert!(budget.take(1).is_none());
        first.set(60);
        let second = budget.take(40).unwrap();
        assert!(budget.take(1).is_none());
        drop((first, second));
        assert!(budget.take(100).is_some());
    }
}
