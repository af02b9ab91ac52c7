//! The memory that all connections of one adapter send from and receive into.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crossbeam_queue::ArrayQueue;
use iwarp_mem::Table;

use crate::socket_buffer::SocketBuffer;

/// The most octets that one call of the engine adds to a batch of copies: as many as are worth summing before they are sent.
pub(crate) const COPIED: usize = 1088 * 1024;
/// The longest FPDU that can be cut: length, ULPDU, pad and CRC.
pub(crate) const LONGEST_FPDU: usize = 2 + 65_535 + 3 + 4;

/// Buffers kept for the next cut FPDU.
const SPARES: usize = 16;

/// The registered memory of one adapter, and the buffers that its connections share.
#[derive(Debug)]
pub struct Buffers {
    table: Arc<Table>,
    /// Octets of send buffers that wait for their sockets.
    pub(crate) waiting: Arc<AtomicUsize>,
    /// Buffers for cut FPDUs; a connection has one only while it holds something.
    spares: ArrayQueue<SocketBuffer>,
}

impl Buffers {
    /// No buffers yet, over the adapter's registered memory.
    pub fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            waiting: Arc::default(),
            spares: ArrayQueue::new(SPARES),
        }
    }

    /// The adapter's registered memory.
    #[inline]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Makes a buffer in advance, because the first use may be long after a connection was made. Memory that is never written to is not
    /// allocated by the system.
    pub(crate) fn provide_spare(&self) {
        if self.spares.is_empty() {
            self.return_spare(SocketBuffer::with_capacity(LONGEST_FPDU));
        }
    }

    /// Returns a buffer for an FPDU, with unspecified contents.
    pub(crate) fn take_spare(&self) -> SocketBuffer {
        let spare = self.spares.pop();
        spare.unwrap_or_else(|| SocketBuffer::with_capacity(LONGEST_FPDU))
    }

    pub(crate) fn return_spare(&self, spare: SocketBuffer) {
        // When the list is full, there are enough spare buffers without this one.
        let _ = self.spares.push(spare);
    }
}

#[cfg(test)]
mod tests {
    use iwarp_mem::Table;
    use rdma_buffer::Buffer;

    use super::*;

    #[test]
    fn spares_begin_where_copies_are_fast_also_when_they_are_used_again() {
        let buffers = Buffers::new(Arc::new(Table::new()));
        buffers.provide_spare();
        for octets in [100, 65_544, 200_000, 100] {
            let mut spare = buffers.take_spare();
            spare.set(&vec![7; octets]);
            let address = spare.octets().as_ptr().addr();
            assert_eq!(address % Buffer::PAGE, Buffer::PAGE_OFFSET);
            buffers.return_spare(spare);
        }
    }
}
