//! Memory for bare streams at the best place of a page.

use std::ops::{Deref, DerefMut};

use nd_base::errors::Result;
use nd_base::memory;
use netdirect::Buffer;

/// Memory that begins at the same offset in a page as the adapter's memory, so that the place that an allocator chooses
/// makes no difference.
#[derive(Debug)]
pub(super) struct PlacedMemory {
    octets: Vec<u8>,
    /// The first octet that is used.
    from: usize,
}

impl PlacedMemory {
    pub(super) fn new(len: usize) -> Result<Self> {
        let mut octets = memory::zeroed(len + Buffer::PAGE - 1)?;
        let from = Buffer::to_page_offset(octets.as_ptr().addr());
        octets.truncate(from + len);
        Ok(Self { octets, from })
    }
}

impl Deref for PlacedMemory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.octets[self.from..]
    }
}

impl DerefMut for PlacedMemory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.octets[self.from..]
    }
}

impl AsRef<[u8]> for PlacedMemory {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
