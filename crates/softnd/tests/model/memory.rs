//! The expected content of memory that a peer writes to.

use netdirect::Buffer;

/// A part of one end's memory that only the peer writes to. Writes are placed in order. The model knows only at certain moments how
/// many Writes have been placed.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) at: usize,
    /// The content after all Writes that are known to be placed.
    sure: Vec<u8>,
    /// Writes that may be placed, in part or wholly, with their numbers.
    open: Vec<(u64, usize, Vec<u8>)>,
}

impl Target {
    pub(crate) fn new(at: usize, len: usize) -> Self {
        Self {
            at,
            sure: vec![0; len],
            open: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sure.len()
    }

    /// A Write with this number was posted.
    pub(crate) fn posted(&mut self, number: u64, offset: usize, octets: &[u8]) {
        self.open.push((number, offset, octets.to_vec()));
    }

    /// All Writes up to this number are placed, and possibly later ones.
    pub(crate) fn placed(&mut self, number: u64, memory: &Buffer) {
        let later = self.open.partition_point(|(from, ..)| *from <= number);
        for (_, offset, octets) in self.open.drain(..later) {
            self.sure[offset..offset + octets.len()].copy_from_slice(&octets);
        }
        self.check(memory);
    }

    /// Asserts that each octet is a possible one.
    pub(crate) fn check(&self, memory: &Buffer) {
        let mut found = vec![0; self.len()];
        memory.read(self.at, &mut found);
        for (place, octet) in found.into_iter().enumerate() {
            let may = |(_, offset, octets): &(u64, usize, Vec<u8>)| {
                place.checked_sub(*offset).and_then(|at| octets.get(at)) == Some(&octet)
            };
            assert!(
                octet == self.sure[place] || self.open.iter().any(may),
                "octet {place} of a target is {octet:#04x}: {:#04x} or one of a later Write may be there",
                self.sure[place]
            );
        }
    }
}

/// A word that Atomics change in order.
#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) at: usize,
    /// Its values, from the first on: one more than Atomics were posted.
    values: Vec<u64>,
    /// The number of them that are known to be carried out.
    done: usize,
}

impl Word {
    pub(crate) fn new(at: usize) -> Self {
        Self {
            at,
            values: vec![0],
            done: 0,
        }
    }

    /// The value before the Atomic that is posted next.
    pub(crate) fn last(&self) -> u64 {
        *self.values.last().expect("never empty")
    }

    /// The number of Atomics that were posted.
    pub(crate) fn count(&self) -> usize {
        self.values.len() - 1
    }

    pub(crate) fn posted(&mut self, value: u64) {
        self.values.push(value);
    }

    /// The Atomic with this number has ended well and found this value.
    pub(crate) fn done(&mut self, number: usize, found: u64) {
        assert_eq!(
            found, self.values[number],
            "the value before Atomic {number}"
        );
        self.done = self.done.max(number + 1);
    }

    pub(crate) fn check(&self, memory: &Buffer) {
        let mut octets = [0; 8];
        memory.read(self.at, &mut octets);
        let found = u64::from_ne_bytes(octets);
        assert!(
            self.values[self.done..].contains(&found),
            "a word is {found:#x}, after {} of the Atomics {:x?}",
            self.done,
            self.values
        );
    }
}
