//! What changes under the table's lock: which slots are free, and which windows there are and where they are bound.
//! Nothing here is touched by a lookup, a copy or a system call.

use std::collections::{HashMap, VecDeque};

use iwarp::{Pd, STag, StreamId, WindowId};

use crate::{
    slot::{Slot, Use},
    slots::{CHUNK, Slots},
    stag::{Keys, Permutation, Random},
};

/// A slot rests until this many others were freed after it (SEC-009), as long as there are fresh ones.
pub(crate) const REST: usize = 4096;

/// A slot in a certain use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: u32,
    pub(crate) r#use: Use,
}

/// A Bind that was prepared and has not executed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared {
    pub(crate) stag: STag,
    pub(crate) place: Place,
    pub(crate) region: Place,
}

/// A window that is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) stag: STag,
    pub(crate) place: Place,
    /// Slot of its region.
    pub(crate) region: u32,
    pub(crate) stream: StreamId,
}

/// One window object.
#[derive(Debug)]
pub(crate) struct WindowRecord {
    pub(crate) pd: Pd,
    pub(crate) prepared: Vec<Prepared>,
    pub(crate) bound: Option<Bound>,
}

impl WindowRecord {
    /// The STag of the latest Bind that is prepared or in force.
    pub(crate) fn stag(&self) -> Option<STag> {
        let prepared = self.prepared.last().map(|prepared| prepared.stag);
        prepared.or(self.bound.map(|bound| bound.stag))
    }
}

/// Everything under the lock.
#[derive(Debug)]
pub(crate) struct Admin {
    random: Random,
    /// Freed slots, the one that rested longest in front.
    free: VecDeque<u32>,
    /// Slots from here on were never used.
    fresh: u32,
    /// Keys each slot has had, in chunks like the slots.
    keys: Vec<Box<[Keys]>>,
    pub(crate) windows: HashMap<WindowId, WindowRecord>,
    next_window: u32,
    /// The windows bound to a region, by its slot; only regions that have some.
    on_region: HashMap<u32, Vec<WindowId>>,
}

impl Admin {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            random,
            free: VecDeque::new(),
            fresh: 0,
            keys: Vec::new(),
            windows: HashMap::new(),
            next_window: 0,
            on_region: HashMap::new(),
        }
    }

    /// Takes a free slot and draws the key of its next use. `None` when all are in use.
    pub(crate) fn take<'s>(
        &mut self,
        slots: &'s Slots,
        permutation: &Permutation,
    ) -> Option<(u32, &'s Slot, u8)> {
        let rested = if self.free.len() >= REST {
            self.free.pop_front()
        } else {
            None
        };
        let number = rested
            .or_else(|| self.take_fresh(slots, permutation))
            .or_else(|| self.free.pop_front())?;
        let slot = slots.make(number)?;
        let keys = self
            .keys
            .get_mut((number / CHUNK) as usize)?
            .get_mut((number % CHUNK) as usize)?;
        Some((number, slot, keys.draw(&mut self.random)))
    }

    fn take_fresh(&mut self, slots: &Slots, permutation: &Permutation) -> Option<u32> {
        // Index 0 is never used: the ready-to-receive message carries STag 0 or 1, and neither may name memory.
        if permutation.index(self.fresh) == 0 {
            self.fresh += 1;
        }
        let number = self.fresh;
        if number >= slots.capacity() {
            return None;
        }
        self.fresh += 1;
        while self.keys.len() <= (number / CHUNK) as usize {
            self.keys
                .push(vec![Keys::default(); CHUNK as usize].into_boxed_slice());
        }
        Some(number)
    }

    /// Gives back a slot whose use is revoked and whose pins are gone.
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.push_back(slot);
    }

    /// Adds a window object.
    pub(crate) fn add_window(&mut self, pd: Pd) -> WindowId {
        loop {
            let id = WindowId(self.next_window);
            self.next_window = self.next_window.wrapping_add(1);
            if let std::collections::hash_map::Entry::Vacant(entry) = self.windows.entry(id) {
                entry.insert(WindowRecord {
                    pd,
                    prepared: Vec::new(),
                    bound: None,
                });
                return id;
            }
        }
    }

    /// Notes that `window` is bound to the region in slot `region`.
    pub(crate) fn attach(&mut self, region: u32, window: WindowId) {
        self.on_region.entry(region).or_default().push(window);
    }

    /// Notes that `window` is bound to the region in slot `region` no more.
    pub(crate) fn detach(&mut self, region: u32, window: WindowId) {
        if let Some(windows) = self.on_region.get_mut(&region) {
            windows.retain(|other| *other != window);
            if windows.is_empty() {
                self.on_region.remove(&region);
            }
        }
    }

    /// Some window is bound to the region in this slot.
    pub(crate) fn has_windows(&self, region: u32) -> bool {
        self.on_region.contains_key(&region)
    }

    /// Takes all windows off the region in this slot, and returns what was bound.
    pub(crate) fn detach_all(&mut self, region: u32) -> Vec<Bound> {
        let windows = self.on_region.remove(&region).unwrap_or_default();
        windows
            .iter()
            .filter_map(|id| self.windows.get_mut(id)?.bound.take())
            .collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
