//! From an STag to its slot, without a lock.

use std::sync::OnceLock;

use iwarp::STag;

use crate::{
    slots::{CHUNK, MAX_SLOTS},
    sync::{AtomicU32, Ordering},
};

/// Entries of the first table. The last one has two for each slot that there can be.
const FIRST: usize = CHUNK as usize;
const TABLES: usize = (2 * MAX_SLOTS as usize / FIRST).ilog2() as usize + 1;

/// The slots in use, by the low bits of their STags.
///
/// No two STags in use have the same low bits, because a new STag is drawn until its entry is free. So an STag can be in one
/// place only. Entries are changed under the table's lock. A reader may find the slot of another STag, or one that has just
/// been freed, so it compares the STag with the slot's own.
///
/// A table that is three quarters full is followed by one twice as large, with which an STag is drawn 1.6 to 4 times. A smaller table
/// would need more draws, and a larger one leaves the cache sooner: with 100,000 regions in use it has 512 KiB. Older tables stay
/// for readers that have just found them. All of them together are smaller than the last one.
#[derive(Debug)]
pub(crate) struct Index {
    tables: [OnceLock<Box<[AtomicU32]>>; TABLES],
    /// The table that is in use.
    current: AtomicU32,
}

/// Slots begin at 1 in the entries, because 0 is a free entry.
const FREE: u32 = 0;

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            tables: [const { OnceLock::new() }; TABLES],
            current: AtomicU32::new(0),
        }
    }

    /// The slot that has this STag, if any slot has it. The slot may have another STag.
    #[inline]
    pub(crate) fn find(&self, stag: STag) -> Option<u32> {
        // Acquire: pairs with `insert` and `grow`.
        self.entry(stag)?.load(Ordering::Acquire).checked_sub(1)
    }

    /// Returns true if a slot can get this STag.
    pub(crate) fn has_room(&self, stag: STag) -> bool {
        self.find(stag).is_none()
    }

    /// Makes the STag lead to a slot. [`Index::has_room`] has been true for this STag, and [`Index::reserve`] was called for it.
    pub(crate) fn insert(&self, stag: STag, slot: u32) {
        if let Some(entry) = self.entry(stag) {
            // Release: a thread that finds the slot by the STag also sees what was published there before.
            entry.store(slot + 1, Ordering::Release);
        }
    }

    /// Frees the entry of an STag that leads to a slot.
    pub(crate) fn remove(&self, stag: STag) {
        if let Some(entry) = self.entry(stag) {
            entry.store(FREE, Ordering::Relaxed);
        }
    }

    /// Makes room for this many STags in all. `stag_of` is the STag of a slot in use.
    pub(crate) fn reserve(&self, stags: usize, stag_of: impl Fn(u32) -> Option<STag>) {
        let current = self.current.load(Ordering::Relaxed) as usize;
        let entries = self.tables[current].get_or_init(|| table(FIRST));
        if 4 * stags <= 3 * entries.len() || current + 1 == TABLES {
            return;
        }
        let larger = table(2 * entries.len());
        let slots = entries.iter().map(|entry| entry.load(Ordering::Relaxed));
        for slot in slots.filter(|slot| *slot != FREE) {
            if let Some(stag) = stag_of(slot - 1) {
                larger[place(stag, larger.len())].store(slot, Ordering::Relaxed);
            }
        }
        if self.tables[current + 1].set(larger).is_ok() {
            // Release: readers of the larger table find all its entries.
            self.current.fetch_add(1, Ordering::Release);
        }
    }

    #[inline]
    fn entry(&self, stag: STag) -> Option<&AtomicU32> {
        let current = self.current.load(Ordering::Acquire) as usize;
        let entries = self.tables.get(current)?.get()?;
        entries.get(place(stag, entries.len()))
    }
}

fn table(entries: usize) -> Box<[AtomicU32]> {
    (0..entries).map(|_| AtomicU32::new(FREE)).collect()
}

/// The place of an STag among this many entries, a power of two.
#[inline]
fn place(stag: STag, entries: usize) -> usize {
    stag.0 as usize & entries.wrapping_sub(1)
}

#[cfg(all(test, not(loom)))]
mod tests;
