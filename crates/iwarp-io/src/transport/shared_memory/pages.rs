//! The memory of this end's ring: counted as it is written, and given back when the connection is quiet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::environment::Environment;
use crate::transport::same_host::SharedRing;

/// A ring into which nothing was written between two looks, this far apart, is quiet.
const BETWEEN_LOOKS: Duration = Duration::from_secs(3);

/// What is known of the pages of one end's ring. The thread that has locked the stream uses it.
#[derive(Debug)]
pub(super) struct Pages {
    made: Instant,
    /// The octets that had been written when the ring had no pages last.
    since: AtomicU64,
    /// As long as no more octets than this were written, all pages are counted. `u64::MAX`: the whole ring is.
    counted: AtomicU64,
    /// The octets that had been written at the last look.
    looked: AtomicU64,
    /// The time of the next look, in nanoseconds after `made`. 0: there is none, because there are no pages.
    next_look: AtomicU64,
}

impl Pages {
    pub(super) fn new() -> Self {
        Self {
            made: Environment::System.now(),
            since: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            next_look: AtomicU64::new(0),
        }
    }

    /// Octets may have been written.
    #[inline]
    pub(super) fn written(&self, ring: &SharedRing) {
        if ring.written() > self.counted.load(Ordering::Relaxed) {
            self.count(ring);
        }
    }

    #[cold]
    fn count(&self, ring: &SharedRing) {
        let (since, written) = (self.since.load(Ordering::Relaxed), ring.written());
        let (octets, counted) = ring.memory_of(since, written);
        ring.set_memory(octets);
        self.counted.store(counted, Ordering::Relaxed);
        if self.next_look().is_none() {
            self.looked.store(written, Ordering::Relaxed);
            self.look_after(Environment::System.now());
        }
    }

    fn look_after(&self, now: Instant) {
        let at = now + BETWEEN_LOOKS - self.made;
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        self.next_look.store(at, Ordering::Relaxed);
    }

    /// The time of the next [`look`](Self::look).
    #[inline]
    pub(super) fn next_look(&self) -> Option<Instant> {
        match self.next_look.load(Ordering::Relaxed) {
            0 => None,
            nanoseconds => Some(self.made + Duration::from_nanos(nanoseconds)),
        }
    }

    /// Gives the memory back if nothing was written since the last look, and the peer has read everything.
    pub(super) fn look(&self, ring: &SharedRing, now: Instant) {
        if self.next_look().is_none_or(|at| now < at) {
            return;
        }
        let written = ring.written();
        if self.looked.swap(written, Ordering::Relaxed) != written {
            self.look_after(now);
            return;
        }
        match ring.give_back() {
            Ok(true) => {
                self.since.store(written, Ordering::Relaxed);
                self.counted.store(written, Ordering::Relaxed);
                self.next_look.store(0, Ordering::Relaxed);
                ring.set_memory(0);
            }
            Ok(false) => self.look_after(now),
            // It stays until the connection ends.
            Err(_) => {
                self.counted.store(u64::MAX, Ordering::Relaxed);
                self.next_look.store(0, Ordering::Relaxed);
            }
        }
    }
}
