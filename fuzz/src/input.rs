//! Reading decisions from a fuzzer's octets.

/// A cursor over the input. Behind the end everything reads as zero, so that a shortened input is valid too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) const fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most `len` octets.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (octets, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        octets
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let octets = self.take(N);
        out[..octets.len()].copy_from_slice(octets);
        out
    }

    pub(crate) fn octet(&mut self) -> u8 {
        let [octet] = self.array();
        octet
    }

    pub(crate) fn word16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// The eight bits of one octet, the highest first.
    pub(crate) fn flags(&mut self) -> [bool; 8] {
        let octet = self.octet();
        [128, 64, 32, 16, 8, 4, 2, 1].map(|bit| octet & bit != 0)
    }
}
