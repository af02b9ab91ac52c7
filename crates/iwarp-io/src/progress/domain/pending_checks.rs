//! The checks that a thread woken by the set still has to make.

use crate::sync::{AtomicU8, Ordering};

/// The checks that a woken thread still has to make before it sleeps again. The greater level includes the smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Level {
    UpToDate,
    /// Every source is hot and was asked once. They have to be asked again, because the end of a stream may share an event
    /// with data.
    Reprobe,
    /// The set may hold events that no thread has taken.
    Unlooked,
}

/// The [`Level`] of a domain.
pub(super) struct PendingChecks(AtomicU8);

impl PendingChecks {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(Level::UpToDate as u8))
    }

    pub(super) fn level(&self) -> Level {
        match self.0.load(Ordering::SeqCst) {
            0 => Level::UpToDate,
            1 => Level::Reprobe,
            _ => Level::Unlooked,
        }
    }

    /// The set is about to be asked for all events.
    #[inline]
    pub(super) fn set_is_asked(&self) {
        self.0.store(Level::UpToDate as u8, Ordering::SeqCst);
    }

    /// At least `level` has to be checked.
    pub(super) fn raise(&self, level: Level) {
        self.0.fetch_max(level as u8, Ordering::SeqCst);
    }

    /// Everything that `level` asks for was checked.
    #[inline]
    pub(super) fn seen_all(&self, level: Level) {
        if self.0.load(Ordering::SeqCst) != level as u8 {
            return; // most polls, for which the write below would be expensive
        }
        // Only from that level, because a thread that was woken meanwhile has more to look at.
        let (from, to) = (level as u8, Level::UpToDate as u8);
        let _ = self
            .0
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_level_rises_until_all_of_it_has_been_looked_at() {
        let behind = PendingChecks::new();
        assert_eq!(behind.level(), Level::UpToDate);
        behind.raise(Level::Reprobe);
        assert_eq!(behind.level(), Level::Reprobe);
        behind.seen_all(Level::Reprobe);
        assert_eq!(behind.level(), Level::UpToDate);
        behind.raise(Level::Unlooked);
        behind.raise(Level::Reprobe);
        assert_eq!(behind.level(), Level::Unlooked);
        behind.seen_all(Level::Reprobe);
        assert_eq!(behind.level(), Level::Unlooked);
        behind.set_is_asked();
        assert_eq!(behind.level(), Level::UpToDate);
    }
}
