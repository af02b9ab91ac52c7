//! Private memory that sockets are read into and written from.

use rdma_buffer::Buffer;

/// Octets that begin at [`Buffer::PAGE_OFFSET`] of a page, because the kernel, and the C library's `memcpy`, copy fast there.
#[derive(Debug)]
pub struct SocketBuffer {
    /// The first `from` octets are not used.
    bytes: Vec<u8>,
    from: usize,
}

impl SocketBuffer {
    /// Makes an empty buffer with room for `octets`. Room that is never written to costs no memory.
    pub fn with_capacity(octets: usize) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(octets + Buffer::PAGE - 1);
        let from = Buffer::to_page_offset(bytes.as_ptr().addr());
        bytes.resize(from, 0);
        Self { bytes, from }
    }

    /// Makes a buffer of `octets`, all zero.
    pub fn zeroed(octets: usize) -> Self {
        let mut bytes = vec![0; octets + Buffer::PAGE - 1];
        let from = Buffer::to_page_offset(bytes.as_ptr().addr());
        bytes.truncate(from + octets);
        Self { bytes, from }
    }

    /// The octets of the buffer.
    pub fn octets(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// The octets of the buffer, to be changed.
    #[inline]
    pub fn octets_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..]
    }

    /// Replaces the octets of the buffer, in the same memory if there is room.
    pub fn set(&mut self, octets: &[u8]) {
        if self.bytes.capacity() - self.from < octets.len() {
            *self = Self::with_capacity(octets.len());
        }
        self.bytes.truncate(self.from);
        self.bytes.extend_from_slice(octets);
    }

    /// The memory, and the position in it where the octets begin.
    pub fn into_parts(self) -> (Vec<u8>, usize) {
        (self.bytes, self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins_well(buffer: &SocketBuffer) -> bool {
        buffer.octets().as_ptr().addr() % Buffer::PAGE == Buffer::PAGE_OFFSET
    }

    #[test]
    fn every_way_to_memory_begins_at_the_same_offset_of_a_page() {
        for octets in [1, 100, 5000, 65_544, 1 << 20] {
            let mut zeroed = SocketBuffer::zeroed(octets);
            assert!(begins_well(&zeroed), "{octets} octets");
            assert_eq!(zeroed.octets(), vec![0; octets]);
            zeroed.octets_mut().fill(7);
            assert_eq!(zeroed.octets(), vec![7; octets]);
            let (bytes, from) = zeroed.into_parts();
            assert_eq!(bytes.len() - from, octets);

            let mut empty = SocketBuffer::with_capacity(octets);
            assert!(empty.octets().is_empty());
            let at = empty.octets().as_ptr();
            empty.set(&vec![9; octets]);
            assert_eq!(empty.octets(), vec![9; octets]);
            assert_eq!(empty.octets().as_ptr(), at, "the room was there");
            empty.set(&vec![8; octets + 5000]);
            assert!(begins_well(&empty), "grown from {octets}");
            assert_eq!(empty.octets(), vec![8; octets + 5000]);
            empty.set(&[]);
            assert!(empty.octets().is_empty());
        }
    }
}
