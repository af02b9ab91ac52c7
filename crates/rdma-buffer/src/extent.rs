//! Where whole words of a piece of memory lie.

/// Octets of a word: what is always reached as a whole.
pub(crate) const WORD: usize = size_of::<u64>();

/// All of the memory that a buffer is a part of, as addresses: aligned words of 8 octets that lie inside as a whole are reached
/// as words, the octets around them one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Of the first octet.
    pub from: u64,
    /// Behind the last octet.
    pub to: u64,
}

impl Extent {
    /// The word that contains the octet at `at` lies inside as a whole.
    pub(crate) fn has_word(self, at: *const u8) -> bool {
        let word = (at.addr() - at.addr() % WORD) as u64;
        word >= self.from
            && word
                .checked_add(WORD as u64)
                .is_some_and(|end| end <= self.to)
    }
}
