//! What the owner of a queue brings: its entries, and the numbers for why a queue ends.

use std::fmt;
use std::num::NonZeroU32;

use crate::sync::{AtomicU64, Ordering};

/// What is placed in a queue.
///
/// A ring stores an entry as [`Word`]s and as a tag of four bits. Several threads may read and write the same words at the same
/// time. The ring finds out when that has happened and throws away what was loaded; `load` therefore has to accept any words.
pub trait Entry: Copy {
    /// What whoever takes an entry out of the queue gets.
    type Result;

    /// The words that an entry is stored in.
    type Words: Default + fmt::Debug;

    /// Why a queue breaks down when an entry finds no room.
    const OVERFLOW: Reason;

    /// Whether the entry satisfies a request that waits for a solicited one.
    fn wakes(&self) -> bool;

    /// What is stored beside the entry's number, and published with it: four bits.
    fn tag(&self) -> u64;

    /// Stores the rest. Words whose contents follow from the tag may be left as they are.
    fn store(&self, words: &Self::Words);

    /// Makes a result of what was stored.
    fn load(words: &Self::Words, tag: u64) -> Self::Result;
}

/// A word of a stored entry.
#[derive(Debug)]
pub struct Word(AtomicU64);

impl Default for Word {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Word {
    /// What the word holds.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the word.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyOn {
    /// The next entry.
    Any,
    /// The next entry that [wakes](Entry::wakes).
    Solicited,
    /// The end of the queue alone.
    Breakdown,
}

/// Why a queue broke down, or why its requests end without an entry: a number of the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub NonZeroU32);
