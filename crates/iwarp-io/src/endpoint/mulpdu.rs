//! The maximum length of FPDUs.

use crate::transport::stream::Stream;

/// The longest ULPDU that fits into a segment of the path. It changes while a connection lives (MPA-080): routes change, and while the
/// peer's window is small TCP makes segments of at most half of it.
pub(super) struct Mulpdu {
    value: u32,
    /// Octets to be sent before the path is asked again, and the length of the stretch after that.
    left: u64,
    next: u64,
}

impl Mulpdu {
    /// The shortest and the longest stretch between two questions, in octets. Each question is a system call.
    const FIRST: u64 = 16 * 1024;
    const LONGEST: u64 = 4 * 1024 * 1024;

    pub(super) fn from_stream(stream: &Stream) -> Self {
        Self {
            value: stream.mulpdu(),
            left: Self::FIRST,
            next: 2 * Self::FIRST,
        }
    }

    /// A length that does not change.
    #[cfg(all(test, unix))]
    pub(super) const fn fixed(value: u32) -> Self {
        Self {
            value,
            left: u64::MAX,
            next: 0,
        }
    }

    /// Returns the length that the path had when it was last asked, or asks it now.
    pub(super) fn get(&mut self, stream: &Stream) -> u32 {
        if self.left == 0 {
            self.value = stream.mulpdu();
            self.left = self.next;
            self.next = (2 * self.next).min(Self::LONGEST);
        }
        self.value
    }

    /// Counts octets that were sent.
    pub(super) fn sent(&mut self, octets: u64) {
        self.left = self.left.saturating_sub(octets);
    }
}
