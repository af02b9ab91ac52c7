//! Where whole words of a piece of memory lie.

/// The length of a word in octets. Words are always read and written as a whole.
pub(crate) const WORD: usize = size_of::<u64>();

/// The addresses of the whole memory of which a buffer is a part. Aligned words of 8 octets inside this memory are accessed as
/// words, and the octets around these words one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The address of the first octet.
    pub from: u64,
    /// The address behind the last octet.
    pub to: u64,
}

impl Extent {
    /// `len` octets at `start`.
    pub(crate) fn new(start: *const u8, len: usize) -> Self {
        let from = start.addr() as u64;
        Self {
            from,
            to: from.saturating_add(len as u64),
        }
    }

    /// The whole pages that hold an octet of this memory. Of no octets, no pages.
    pub(crate) fn in_pages(self, page: u64) -> Self {
        if self.from == self.to {
            return self;
        }
        Self {
            from: self.from - self.from % page,
            to: self.to.checked_next_multiple_of(page).unwrap_or(u64::MAX),
        }
    }

    /// Returns true if the whole word that contains the octet at `at` lies inside this memory.
    pub(crate) fn has_word(self, at: *const u8) -> bool {
        let word = (at.addr() - at.addr() % WORD) as u64;
        word >= self.from
            && word
                .checked_add(WORD as u64)
                .is_some_and(|end| end <= self.to)
    }
}
