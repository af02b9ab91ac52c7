//! The slots of a table. They are found without a lock, and made in chunks when first needed.

use std::sync::OnceLock;

use crate::slot::Slot;

/// Slots made at a time. The number is small because a registration may have to initialize them under the lock.
pub(crate) const CHUNK: u32 = 1024;

/// The most slots that a table can have. With this many in use, one of 256 STags is valid.
pub(crate) const MAX_SLOTS: u32 = 1 << 24;

/// Chunks of slots, each made once and never moved or dropped before the table.
#[derive(Debug)]
pub(crate) struct Slots {
    chunks: Box<[OnceLock<Box<[Slot]>>]>,
    capacity: u32,
}

impl Slots {
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity.min(MAX_SLOTS);
        let chunks = (0..capacity.div_ceil(CHUNK))
            .map(|_| OnceLock::new())
            .collect();
        Self { chunks, capacity }
    }

    /// Slot numbers are below this.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The slot with this number, if it was ever made.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Slot> {
        let chunk = self.chunks.get((slot / CHUNK) as usize)?.get()?;
        chunk.get((slot % CHUNK) as usize)
    }

    /// The slot with this number, which is made if necessary. `None` above the capacity.
    pub(crate) fn make(&self, slot: u32) -> Option<&Slot> {
        let chunk = self.chunks.get((slot / CHUNK) as usize)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::new()).collect());
        chunk.get((slot % CHUNK) as usize)
    }
}
