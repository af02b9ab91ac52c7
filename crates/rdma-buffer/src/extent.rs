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
    /// Whether the whole word that contains the octet at `at` lies inside this memory.
    pub(crate) fn has_word(self, at: *const u8) -> bool {
        let word = (at.addr() - at.addr() % WORD) as u64;
        word >= self.from
            && word
                .checked_add(WORD as u64)
                .is_some_and(|end| end <= self.to)
    }
}
