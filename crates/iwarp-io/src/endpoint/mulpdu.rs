//! How long FPDUs may be.

use crate::transport::stream::Stream;

/// The longest ULPDU that the path takes, which changes while a connection lives (MPA-080): routes do, and as long as the
/// peer's window is small TCP makes segments of half of it at most.
pub(super) struct Mulpdu {
    value: u32,
    /// Octets to be sent before it is asked for again, and how many it will be then.
    left: u64,
    next: u64,
}

impl Mulpdu {
    /// The first and the longest stretch between two questions: each is a system call.
    const FIRST: u64 = 16 * 1024;
    const LONGEST: u64 = 4 * 1024 * 1024;

    pub(super) fn of(stream: &Stream) -> Self {
        Self {
            value: stream.mulpdu(),
            left: Self::FIRST,
            next: 2 * Self::FIRST,
        }
    }

    /// One that does not change.
    #[cfg(test)]
    pub(super) const fn fixed(value: u32) -> Self {
        Self {
            value,
            left: u64::MAX,
            next: 0,
        }
    }

    /// As the path was when it was last asked, or is now.
    pub(super) fn get(&mut self, stream: &Stream) -> u32 {
        if self.left == 0 {
            self.value = stream.mulpdu();
            self.left = self.next;
            self.next = (2 * self.next).min(Self::LONGEST);
        }
        self.value
    }

    /// So many octets have gone out.
    pub(super) fn sent(&mut self, octets: u64) {
        self.left = self.left.saturating_sub(octets);
    }
}
