//! Memory into which the driving thread receives datagrams.

use std::cell::RefCell;

use super::plain_socket::{BATCH, LONGEST_TRAIN, Train};
use crate::socket_buffer::SocketBuffer;
use crate::thread_value::with_value;

thread_local! {
    /// Belongs to the driving thread and not to the socket.
    static RECEIVED: RefCell<(Option<SocketBuffer>, Vec<Train>)> = const { RefCell::new((None, Vec::new())) };
}

/// Runs `act` with memory for a batch of trains, and a list for what arrives.
pub(crate) fn with_memory<T>(act: impl FnOnce(&mut [u8], &mut Vec<Train>) -> T) -> T {
    // A thread that ends may drop an adapter after its memory.
    with_value(&RECEIVED, |(buffers, received)| {
        let buffers = buffers.get_or_insert_with(|| SocketBuffer::zeroed(BATCH * LONGEST_TRAIN));
        act(buffers.octets_mut(), received)
    })
}

#[cfg(test)]
mod tests {
    use rdma_buffer::Buffer;

    use super::*;

    #[test]
    fn memory_for_datagrams_begins_at_the_best_place_of_a_page() {
        with_memory(|buffers, _| {
            let trains: Vec<_> = buffers.chunks(LONGEST_TRAIN).collect();
            assert_eq!(trains.len(), BATCH);
            for train in trains {
                assert_eq!(train.as_ptr().addr() % Buffer::PAGE, Buffer::PAGE_OFFSET);
            }
        });
    }
}
