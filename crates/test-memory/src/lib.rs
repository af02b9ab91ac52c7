//! Memory that a test can take away from the process while it is registered.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use rdma_buffer::Buffer;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

/// Memory of the process, in blocks of [`BLOCK`](Self::BLOCK) octets that can be taken away, one at a time. The addresses are never used
/// for anything else, so the memory is not given back.
#[derive(Debug)]
pub struct Blocks {
    start: *mut u8,
    count: usize,
}

impl Blocks {
    /// The length of a block in octets: a multiple of the system's pages.
    pub const BLOCK: usize = 64 * 1024;

    /// Makes this many blocks, all zero.
    ///
    /// # Panics
    ///
    /// If the system does not give the memory.
    pub fn new(count: usize) -> Self {
        Self {
            start: system::map(count * Self::BLOCK),
            count,
        }
    }

    /// All blocks.
    pub fn buffer(&self) -> Buffer {
        // SAFETY: the memory is mapped for as long as the process lives, and accessed through buffers of this kind only. A block
        // that was taken away is never mapped again: a copy ends the process, and system calls fail.
        unsafe { Buffer::from_pages(self.start, self.count * Self::BLOCK) }
    }

    /// Takes the block at `index` away, as if the application had unmapped it: system calls on its memory fail with EFAULT (WSAEFAULT), and any other
    /// access ends the process.
    ///
    /// # Panics
    ///
    /// If there is no such block, or the system refuses.
    pub fn take_away(&self, index: usize) {
        assert!(index < self.count, "no block {index}");
        let start = self.start.wrapping_add(index * Self::BLOCK);
        // SAFETY: the block was mapped by `map`, and no reference to it exists. Its addresses stay reserved.
        unsafe { system::take_away(start, Self::BLOCK) };
    }
}
