//! The traits and types by which the owner of a queue defines its entries and the reasons for which a queue ends.

use std::fmt;
use std::num::NonZeroU32;

use crate::sync::{AtomicU64, Ordering};

/// An entry of a queue.
///
/// A ring stores an entry as [`Word`]s and as a tag of four bits. Several threads may read and write the same words at the same
/// time. The ring finds out when that has happened and throws away what was loaded; `load` therefore has to accept any words.
pub trait Entry: Copy {
    /// The form in which a caller takes the entry out of the queue.
    type Result;

    /// The words that an entry is stored in.
    type Words: Default + fmt::Debug;

    /// The reason with which a queue breaks down when there is no room for an entry.
    const OVERFLOW: Reason;

    /// The reason of a breakdown for which a fault plan has this name, if there is such a reason.
    fn reason(_name: &str) -> Option<Reason> {
        Some(Self::OVERFLOW)
    }

    /// Returns true if the entry satisfies a request that waits for a solicited one.
    fn wakes(&self) -> bool;

    /// Four bits that are stored in the same word as the entry's number, and published with it.
    fn tag(&self) -> u64;

    /// Stores the other parts of the entry. Words whose contents follow from the tag may be left unchanged.
    fn store(&self, words: &Self::Words);

    /// Makes a result from the stored words and the tag.
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
    /// Returns the value of the word.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the value of the word.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The result or event that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyOn {
    /// The next entry.
    Any,
    /// The next entry that [wakes](Entry::wakes).
    Solicited,
    /// Only the end of the queue.
    Breakdown,
}

/// The reason why a queue broke down, or why its requests end without an entry: a number that the owner defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub NonZeroU32);
