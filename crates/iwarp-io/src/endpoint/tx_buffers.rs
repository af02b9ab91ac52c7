//! The buffers that FPDUs are sent from.
//!
//! A buffer belongs to the driving thread, which uses it for one stream after the other, and stays with a stream only while that stream's
//! socket is full. The octets of waiting buffers are counted over the whole adapter: peers that do not read, however many there are, hold a
//! bounded number of full-size buffers, and one FPDU each beyond that.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use iwarp::TxBatch;

use crate::buffers::{COPIED, LONGEST_FPDU};
use crate::socket_buffer::SocketBuffer;
use crate::thread_value::with_value;

/// Payload shorter than this is copied next to its header, so that the kernel copies an FPDU from one place (`StreamConfig::copied_below`).
/// Copying from three places costs the kernel as much as a copy of 12 KiB costs here.
pub const COPIED_BELOW: u32 = 12 * 1024;
/// The most FPDUs in one batch.
pub(super) const BATCH_FPDUS: usize = 128;
/// Room for copies in one batch.
const BATCH_OCTETS: usize = COPIED;
/// While buffers of this many octets in total wait for their sockets, new batches are small.
const WAITING_MOST: usize = 32 * 1024 * 1024;
/// A small batch has room for one FPDU of any length.
const SMALL_FPDUS: usize = 1;
const SMALL_OCTETS: usize = LONGEST_FPDU;

thread_local! {
    static BATCHES: RefCell<Vec<TxBatch>> = const { RefCell::new(Vec::new()) };
}

fn new_batch(octets: usize, fpdus: usize) -> TxBatch {
    let (bytes, from) = SocketBuffer::zeroed(octets).into_parts();
    TxBatch::in_buffer(bytes, from, fpdus)
}

/// One stream's share of the waiting buffers of its adapter.
#[derive(Debug)]
pub(super) struct TxBuffers {
    /// Octets of the buffers of all streams that wait for their sockets.
    total: Arc<AtomicUsize>,
    /// Octets of the buffers of this stream.
    waiting: usize,
}

impl TxBuffers {
    pub(super) fn new(total: Arc<AtomicUsize>) -> Self {
        Self { total, waiting: 0 }
    }

    /// An empty batch.
    pub(super) fn take(&self) -> TxBatch {
        if self.total.load(Ordering::Relaxed) >= WAITING_MOST {
            return new_batch(SMALL_OCTETS, SMALL_FPDUS);
        }
        let spare = with_value(&BATCHES, Vec::pop);
        spare.unwrap_or_else(|| new_batch(BATCH_OCTETS, BATCH_FPDUS))
    }

    /// Takes back a batch that is no longer needed.
    pub(super) fn give_back(&self, batch: TxBatch) {
        debug_assert!(batch.is_settled(), "a batch that is still of use");
        // A small batch, or one that has grown, which may have moved it in its page.
        if batch.capacity() != BATCH_OCTETS {
            return;
        }
        with_value(&BATCHES, |spare| {
            if spare.len() < 2 {
                spare.push(batch);
            }
        });
    }

    /// Counts the octets that stay with the stream until its socket accepts more.
    pub(super) fn keeps(&mut self, batch: Option<&TxBatch>) {
        let waiting = batch.map_or(0, TxBatch::capacity);
        if waiting != self.waiting {
            self.total.fetch_add(waiting, Ordering::Relaxed);
            self.total.fetch_sub(self.waiting, Ordering::Relaxed);
            self.waiting = waiting;
        }
    }
}

impl Drop for TxBuffers {
    fn drop(&mut self) {
        self.keeps(None);
    }
}

#[cfg(test)]
mod tests {
    use rdma_buffer::Buffer;

    use super::*;

    #[test]
    fn streams_that_wait_hold_large_buffers_up_to_a_limit_and_small_ones_beyond() {
        let total = Arc::new(AtomicUsize::new(0));
        let mut waiting = Vec::new();
        for _ in 0..2 * WAITING_MOST / BATCH_OCTETS {
            let mut tx_buffers = TxBuffers::new(Arc::clone(&total));
            let batch = tx_buffers.take();
            assert_eq!(batch.address() % Buffer::PAGE, Buffer::PAGE_OFFSET);
            tx_buffers.keeps(Some(&batch));
            tx_buffers.keeps(Some(&batch));
            waiting.push((tx_buffers, batch));
        }
        let large = waiting
            .iter()
            .filter(|(_, batch)| batch.capacity() >= BATCH_OCTETS);
        assert_eq!(large.count(), WAITING_MOST.div_ceil(BATCH_OCTETS));
        let sum: usize = waiting.iter().map(|(_, batch)| batch.capacity()).sum();
        assert_eq!(total.load(Ordering::Relaxed), sum);
        for (mut tx_buffers, batch) in waiting {
            tx_buffers.keeps(None);
            tx_buffers.give_back(batch);
        }
        assert_eq!(total.load(Ordering::Relaxed), 0);
        let tx_buffers = TxBuffers::new(total);
        assert!(tx_buffers.take().capacity() >= BATCH_OCTETS);
    }
}
