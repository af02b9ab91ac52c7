//! Memory of the reference target: shared regions, and a window for each connection.

use std::collections::HashMap;

use iwarp_conform::service::{Region, RegionKind};

#[derive(Debug)]
struct Place {
    region: Region,
    octets: Vec<u8>,
    /// Only this connection may use it.
    owner: Option<u64>,
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Stag,
    Stream,
    Rights,
    Bounds,
    Wrap,
}

/// All regions, by STag.
#[derive(Debug)]
pub(crate) struct Memory {
    places: HashMap<u32, Place>,
    /// The shared regions, in the order of the offer.
    shared: Vec<u32>,
    made: u32,
    sequential: bool,
}

impl Memory {
    pub(crate) fn new(sequential: bool) -> Self {
        let mut memory = Self {
            places: HashMap::new(),
            shared: Vec::new(),
            made: 0,
            sequential,
        };
        for (length, read, write) in [
            (70_000, false, true),
            (100_000, true, false),
            (4_096, false, false),
            (8_192, true, true),
        ] {
            let stag = memory.add(RegionKind::Shared, length, (read, write), None);
            memory.shared.push(stag);
        }
        memory
    }

    fn add(
        &mut self,
        kind: RegionKind,
        length: usize,
        (read, write): (bool, bool),
        owner: Option<u64>,
    ) -> u32 {
        self.made += 1;
        let stag = if self.sequential {
            0x1000 + self.made
        } else {
            self.made.wrapping_mul(0x9E37_79B1) ^ 0x5A5A_5A5A
        };
        let region = Region {
            kind,
            read,
            write,
            stag,
            to: 0x1_0000_0000 + u64::from(self.made) * 0x10_0000,
            length: length as u64,
        };
        let place = Place {
            region,
            octets: vec![0; length],
            owner,
        };
        self.places.insert(stag, place);
        stag
    }

    pub(crate) fn window(&mut self, owner: u64) -> u32 {
        self.add(RegionKind::Window, 4_096, (true, true), Some(owner))
    }

    pub(crate) fn remove(&mut self, stag: u32) {
        self.places.remove(&stag);
    }

    /// The regions that a connection with this window is offered.
    pub(crate) fn offered(&self, window: u32) -> Vec<Region> {
        let all = self.shared.iter().chain(std::iter::once(&window));
        all.filter_map(|stag| self.places.get(stag).map(|place| place.region))
            .collect()
    }

    pub(crate) fn shared(&mut self, index: u16) -> Option<&mut Vec<u8>> {
        let stag = *self.shared.get(usize::from(index))?;
        self.places.get_mut(&stag).map(|place| &mut place.octets)
    }

    /// Returns true if a peer may invalidate this STag.
    pub(crate) fn is_window_of(&self, stag: u32, owner: u64) -> bool {
        self.places
            .get(&stag)
            .is_some_and(|place| place.owner == Some(owner))
    }

    pub(crate) fn exists(&self, stag: u32) -> bool {
        self.places.contains_key(&stag)
    }

    /// The octets of an access, if it may be made.
    pub(crate) fn access(
        &mut self,
        (stag, to, length): (u32, u64, usize),
        write: bool,
        connection: u64,
    ) -> Result<&mut [u8], Refusal> {
        let place = self.places.get_mut(&stag).ok_or(Refusal::Stag)?;
        if place.owner.is_some_and(|owner| owner != connection) {
            return Err(Refusal::Stream);
        }
        if !(if write {
            place.region.write
        } else {
            place.region.read
        }) {
            return Err(Refusal::Rights);
        }
        let end = to.checked_add(length as u64).ok_or(Refusal::Wrap)?;
        if to < place.region.to || end > place.region.to + place.region.length {
            return Err(Refusal::Bounds);
        }
        let at = usize::try_from(to - place.region.to).map_err(|_| Refusal::Bounds)?;
        Ok(&mut place.octets[at..at + length])
    }

    /// Places as much of a Write as fits, whatever the rights: what a broken target may do.
    pub(crate) fn place_anyway(&mut self, stag: u32, to: u64, octets: &[u8]) {
        let Some(place) = self.places.get_mut(&stag) else {
            return;
        };
        let Some(at) = to.checked_sub(place.region.to) else {
            return;
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        for (i, octet) in octets.iter().enumerate() {
            if let Some(slot) = place.octets.get_mut(at.saturating_add(i)) {
                *slot = *octet;
            }
        }
    }
}
