//! The state under the table's lock: the free slots, the STags to come, the windows, and their bindings. Lookups, copies and
//! system calls do not touch this state.
//!
//! Slots may be used again at once, because no bit of an STag depends on its slot. The STags are not reused at once (SEC-009, `stag`).

use std::collections::{HashMap, HashSet};

use iwarp::{Pd, STag, Scope, StreamId, WindowId};

use crate::{
    error::RegisterError,
    index::Index,
    slot::{Slot, Use},
    slots::Slots,
    stag::Sequence,
};

/// A slot in a certain use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub(crate) region: Place,
    pub(crate) stream: StreamId,
}

/// One window object.
#[derive(Debug)]
pub(crate) struct WindowRecord {
    pub(crate) pd: Pd,
    /// Binds that are queued. Each ends when it is carried out or given back.
    pub(crate) prepared: Vec<Prepared>,
    pub(crate) bound: Option<Bound>,
    /// The stream of a binding that ended without an Invalidate of the window's owner, because its region was released, or
    /// the peer invalidated it. The owner's Invalidate, which may be queued already, still succeeds once.
    pub(crate) lapsed: Option<StreamId>,
    /// The window was released. The record stays until the last of `prepared` has ended, so that no STag returns to use
    /// while a queued Bind names it.
    pub(crate) released: bool,
}

impl WindowRecord {
    /// The first of the prepared Binds for which `matches` returns true.
    pub(crate) fn find(&self, matches: impl Fn(&Prepared) -> bool) -> Option<usize> {
        self.prepared.iter().position(matches)
    }

    /// Takes the binding, if it belongs to this stream.
    pub(crate) fn take_bound(&mut self, who: Scope) -> Option<Bound> {
        let in_scope = self.pd == who.pd;
        self.bound
            .take_if(|bound| in_scope && bound.stream == who.stream)
    }

    /// The STag of the latest Bind that is prepared or in force.
    pub(crate) fn stag(&self) -> Option<STag> {
        let prepared = self.prepared.last().map(|prepared| prepared.stag);
        prepared.or(self.bound.map(|bound| bound.stag))
    }
}

/// Everything under the lock.
#[derive(Debug)]
pub(crate) struct Admin {
    stags: Sequence,
    /// Freed slots. The one that was freed last is used first, because it is likely to be in the cache.
    free: Vec<u32>,
    /// Slots from here on were never used.
    fresh: u32,
    pub(crate) windows: HashMap<WindowId, WindowRecord>,
    /// Windows made so far. The low half is the number of the next one.
    windows_made: u64,
    /// How many bindings and prepared Binds each region has. Regions without any are not listed (MR-026).
    in_use: HashMap<Place, u32>,
    /// The protection domains that [`Admin::take_pd`] has made.
    pds: HashSet<Pd>,
    /// Looked at next for a protection domain.
    next_pd: u32,
}

impl Admin {
    pub(crate) fn new(stags: Sequence) -> Self {
        Self {
            stags,
            free: Vec::new(),
            fresh: 0,
            windows: HashMap::new(),
            windows_made: 0,
            in_use: HashMap::new(),
            pds: HashSet::new(),
            next_pd: 1,
        }
    }

    /// Takes a number for a protection domain. `None` if all are in use.
    pub(crate) fn take_pd(&mut self) -> Option<Pd> {
        if self.pds.len() as u64 > u64::from(u32::MAX) {
            return None;
        }
        loop {
            let pd = Pd(self.next_pd);
            self.next_pd = self.next_pd.wrapping_add(1);
            if self.pds.insert(pd) {
                return Some(pd);
            }
        }
    }

    /// Gives back the number of a protection domain.
    pub(crate) fn release_pd(&mut self, pd: Pd) {
        self.pds.remove(&pd);
    }

    /// Takes a free slot, and draws the STag of its next use.
    pub(crate) fn take<'s>(
        &mut self,
        slots: &'s Slots,
        index: &Index,
    ) -> Result<(u32, &'s Slot, STag), RegisterError> {
        let freed = self.free.last().copied();
        let number = freed.unwrap_or(self.fresh);
        if number >= slots.capacity() {
            return Err(RegisterError::Full);
        }
        let slot = slots.make(number).ok_or(RegisterError::Full)?;
        let in_use = self.fresh as usize - self.free.len();
        index.reserve(in_use + 1, |slot| Some(slots.get(slot)?.stag()));
        let stag = self.stags.draw(|stag| index.has_room(stag))?;
        if freed.is_some() {
            self.free.pop();
        } else {
            self.fresh += 1;
        }
        Ok((number, slot, stag))
    }

    /// Gives back a slot whose use is revoked and whose pins are gone.
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Adds a window object.
    pub(crate) fn add_window(&mut self, pd: Pd) -> WindowId {
        loop {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "ids in use are passed over"
            )]
            let id = WindowId(self.windows_made as u32);
            self.windows_made += 1;
            if let std::collections::hash_map::Entry::Vacant(entry) = self.windows.entry(id) {
                entry.insert(WindowRecord {
                    pd,
                    prepared: Vec::new(),
                    bound: None,
                    lapsed: None,
                    released: false,
                });
                return id;
            }
        }
    }

    /// Returns true if there is or was a window with this ID.
    pub(crate) fn has_made(&self, window: WindowId) -> bool {
        u64::from(window.0) < self.windows_made
    }

    /// Counts one more binding or prepared Bind of the region.
    pub(crate) fn begin_use(&mut self, region: Place) {
        *self.in_use.entry(region).or_default() += 1;
    }

    /// Counts one less. A region that was released has none.
    pub(crate) fn end_use(&mut self, region: Place) {
        if let Some(uses) = self.in_use.get_mut(&region) {
            *uses -= 1;
            if *uses == 0 {
                self.in_use.remove(&region);
            }
        }
    }

    /// Returns true if a window is bound to the region, or a Bind to it is prepared.
    pub(crate) fn is_in_use(&self, region: Place) -> bool {
        self.in_use.contains_key(&region)
    }

    /// Unbinds all windows from a region that is released, and returns the bindings.
    pub(crate) fn detach_all(&mut self, region: Place) -> Vec<Bound> {
        if self.in_use.remove(&region).is_none() {
            return Vec::new();
        }
        let lapse = |record: &mut WindowRecord| {
            let bound = record.bound.take_if(|bound| bound.region == region)?;
            record.lapsed = Some(bound.stream);
            Some(bound)
        };
        self.windows.values_mut().filter_map(lapse).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
