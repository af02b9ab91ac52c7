//! The slots of a table: found without a lock, made in chunks when they are first needed.

use std::sync::OnceLock;

use crate::{slot::Slot, stag::MAX_SLOTS};

/// Slots made at a time: what a registration may have to initialize under the lock stays small.
pub(crate) const CHUNK: u32 = 1024;

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

    /// The slot, if there ever was one of this number.
    pub(crate) fn get(&self, slot: u32) -> Option<&Slot> {
        let chunk = self.chunks.get((slot / CHUNK) as usize)?.get()?;
        chunk.get((slot % CHUNK) as usize)
    }

    /// The slot, made when need be. `None` above the capacity.
    pub(crate) fn make(&self, slot: u32) -> Option<&Slot> {
        let chunk = self.chunks.get((slot / CHUNK) as usize)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::new()).collect());
        chunk.get((slot % CHUNK) as usize)
    }
}
