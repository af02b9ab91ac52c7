//! Octets that are read past a Send which waits for a Receive, so that Responses behind it can be handled.
//!
//! A connection keeps at most [`KEPT`] octets, the Send among them, and all connections of the process together at most
//! [`KEPT_BY_PROCESS`]. At either limit the stream is not read any further, so the transport slows the peer down as it does without this.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most octets that a connection keeps.
pub(in crate::endpoint) const KEPT: usize = 1 << 20;
/// The most octets that all connections of the process keep.
const KEPT_BY_PROCESS: usize = 64 << 20;
/// The room for which a read is worth its call.
const ROOM: usize = 4096;

/// The octets that connections may still keep.
#[derive(Debug)]
pub(super) struct KeptAccount {
    left: AtomicUsize,
}

/// The account of the process.
pub(super) static OF_PROCESS: KeptAccount = KeptAccount::new(KEPT_BY_PROCESS);

impl KeptAccount {
    pub(super) const fn new(octets: usize) -> Self {
        Self {
            left: AtomicUsize::new(octets),
        }
    }

    /// Takes memory for this many octets. Returns false if there is less.
    fn take(&self, octets: usize) -> bool {
        let take = |left: usize| left.checked_sub(octets);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    fn give_back(&self, octets: usize) {
        self.left.fetch_add(octets, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

/// The octets that one connection keeps. The account has given the whole memory.
#[derive(Debug)]
pub(super) struct KeptOctets {
    memory: Vec<u8>,
    from: usize,
    end: usize,
    account: &'static KeptAccount,
}

impl KeptOctets {
    /// Keeps these octets, if the account has memory for them and for more.
    pub(super) fn new(octets: &[u8], account: &'static KeptAccount) -> Option<Self> {
        let mut kept = Self {
            memory: Vec::new(),
            from: 0,
            end: 0,
            account,
        };
        kept.grow(octets.len() + ROOM).then(|| {
            kept.memory[..octets.len()].copy_from_slice(octets);
            kept.end = octets.len();
            kept
        })
    }

    /// The octets.
    pub(super) fn octets(&self) -> &[u8] {
        &self.memory[self.from..self.end]
    }

    /// The size of the memory.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.memory.len()
    }

    /// The first octets are not needed any more.
    pub(super) fn consume(&mut self, octets: usize) {
        self.from += octets;
    }

    /// Memory for the next octets. Empty at the limit of the connection or of the account.
    pub(super) fn space(&mut self) -> &mut [u8] {
        let size = self.memory.len();
        if self.end == size {
            if self.from >= size / 4 {
                // Each octet is moved a few times at most.
                self.memory.copy_within(self.from..self.end, 0);
                self.end -= std::mem::take(&mut self.from);
            } else {
                self.grow(2 * size);
            }
        }
        &mut self.memory[self.end..]
    }

    /// The next octets were written to the [space](Self::space).
    pub(super) fn filled(&mut self, octets: usize) {
        self.end += octets;
    }

    /// Provides memory for this many octets, or for as many as a connection may keep. Returns false if the account has not enough.
    fn grow(&mut self, size: usize) -> bool {
        let size = size.min(KEPT).max(self.end);
        let more = size - self.memory.len();
        if !self.account.take(more) {
            return false;
        }
        if self.memory.try_reserve_exact(more).is_err() {
            self.account.give_back(more);
            return false;
        }
        self.memory.resize(size, 0);
        true
    }
}

impl Drop for KeptOctets {
    fn drop(&mut self) {
        self.account.give_back(self.memory.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(octets: usize) -> &'static KeptAccount {
        Box::leak(Box::new(KeptAccount::new(octets)))
    }

    fn fill(kept: &mut KeptOctets, octets: &[u8]) -> usize {
        let mut filled = 0;
        while filled < octets.len() {
            let space = kept.space();
            let now = space.len().min(octets.len() - filled);
            if now == 0 {
                break;
            }
            space[..now].copy_from_slice(&octets[filled..filled + now]);
            kept.filled(now);
            filled += now;
        }
        filled
    }

    #[test]
    fn a_connection_keeps_octets_in_order_up_to_its_limit() {
        let account = account(2 * KEPT);
        let octets: Vec<u8> = (0..2 * KEPT).map(|at| at.to_le_bytes()[at % 3]).collect();
        let mut kept = KeptOctets::new(&octets[..100], account).unwrap();
        assert_eq!(account.left(), 2 * KEPT - 100 - ROOM);
        assert_eq!(fill(&mut kept, &octets[100..]), KEPT - 100);
        assert_eq!(account.left(), KEPT);
        // Room comes back when a good part is used, so that octets are moved a few times at most.
        kept.consume(1000);
        assert_eq!(fill(&mut kept, &octets[KEPT..]), 0);
        kept.consume(KEPT / 4);
        assert_eq!(fill(&mut kept, &octets[KEPT..]), 1000 + KEPT / 4);
        assert_eq!(kept.octets(), &octets[1000 + KEPT / 4..][..KEPT]);
        drop(kept);
        assert_eq!(account.left(), 2 * KEPT);
    }

    #[test]
    fn all_connections_keep_no_more_than_the_account_has() {
        let account = account(3 * ROOM);
        assert!(KeptOctets::new(&[0; 2 * ROOM + 1], account).is_none());
        let mut first = KeptOctets::new(&[1; 10], account).unwrap();
        let second = KeptOctets::new(&[2; 10], account).unwrap();
        assert!(KeptOctets::new(&[3; 10], account).is_none());
        assert_eq!(fill(&mut first, &[1; 3 * ROOM]), ROOM, "there is no more");
        drop(second);
        assert!(!first.space().is_empty());
        drop(first);
        assert_eq!(account.left(), 3 * ROOM);
    }
}
