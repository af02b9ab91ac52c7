//! Sources with work left that no edge will report.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::hot::HOT;
use crate::sync::{AtomicU32, AtomicUsize, Mutex, Ordering};

/// Sources that have used up their edge and have not finished. They get a turn before the set is asked. A source is here at
/// most once.
pub(super) struct Unfinished<T: ?Sized> {
    sources: Mutex<VecDeque<Weak<T>>>,
    /// The number of `sources`, to be read without the lock.
    left: AtomicUsize,
    /// Counts the times that the sources got their turns.
    resumed: AtomicU32,
    /// Counts the sources that were left here.
    deferred: AtomicU32,
}

impl<T: ?Sized> Unfinished<T> {
    pub(super) fn new() -> Self {
        Self {
            sources: Mutex::new(VecDeque::with_capacity(HOT)),
            left: AtomicUsize::new(0),
            resumed: AtomicU32::new(0),
            deferred: AtomicU32::new(0),
        }
    }

    /// Leaves a source here. A source that is left twice still gets one turn: both the event and the turn of an endless stream leave it, so
    /// it would otherwise get more turns each time.
    pub(super) fn defer(&self, source: Weak<T>) {
        let mut sources = self.sources.lock();
        let count = self.deferred.load(Ordering::Relaxed);
        if iwarp::planted!(WorkForgotten) && count % 4 == 3 {
            self.deferred.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if !sources.iter().any(|left| left.ptr_eq(&source)) {
            sources.push_back(source);
            self.left.fetch_add(1, Ordering::SeqCst);
        }
        self.deferred.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the sources out, and gives each a turn by `drive`.
    pub(super) fn resume(&self, mut drive: impl FnMut(&Arc<T>)) {
        // Only the sources that were there at the start: a source that is unfinished again has its next turn in the next call.
        let count = self.left.load(Ordering::SeqCst);
        for _ in 0..count {
            let next = self.sources.lock().pop_front();
            if next.is_some() {
                self.left.fetch_sub(1, Ordering::SeqCst);
            }
            if let Some(source) = next.and_then(|source| source.upgrade()) {
                drive(&source);
            }
        }
        self.resumed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if there is a source.
    pub(super) fn has_any(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    /// The number of times that a source was left here, and the number of times that the sources got their turns.
    pub(super) fn counts(&self) -> (u32, u32) {
        (
            self.deferred.load(Ordering::Relaxed),
            self.resumed.load(Ordering::Relaxed),
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the sources that get turns in one call.
    fn turns(unfinished: &Unfinished<u32>) -> Vec<u32> {
        let mut turns = Vec::new();
        unfinished.resume(|source| turns.push(**source));
        turns
    }

    #[test]
    fn sources_get_one_turn_each_in_their_order() {
        let unfinished = Unfinished::new();
        let sources = [1, 2].map(Arc::new);
        for source in [&sources[0], &sources[1], &sources[0]] {
            unfinished.defer(Arc::downgrade(source));
        }
        assert!(unfinished.has_any());
        assert_eq!(turns(&unfinished), [1, 2]);
        assert!(!unfinished.has_any());
        assert_eq!(turns(&unfinished), []);
        assert_eq!(unfinished.counts(), (3, 2));
    }

    #[test]
    fn a_source_that_is_left_again_has_its_turn_in_the_next_call() {
        let unfinished = Unfinished::new();
        let source = Arc::new(1);
        unfinished.defer(Arc::downgrade(&source));
        for _ in 0..3 {
            let mut turns = 0;
            unfinished.resume(|source| {
                turns += 1;
                unfinished.defer(Arc::downgrade(source));
            });
            assert_eq!(turns, 1);
            assert!(unfinished.has_any());
        }
    }

    #[test]
    fn a_source_that_is_gone_gets_no_turn() {
        let unfinished = Unfinished::new();
        unfinished.defer(Arc::downgrade(&Arc::new(1)));
        assert_eq!(turns(&unfinished), []);
        assert!(!unfinished.has_any());
    }
}
