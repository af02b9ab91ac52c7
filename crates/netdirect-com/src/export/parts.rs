//! The parts of an adapter that its objects share.

use std::sync::Arc;

use netdirect::{Adapter, AdapterInfo, Status};

use super::pointers::MostEntries;

/// The parts of an adapter that its objects share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) adapter: Arc<dyn Adapter>,
    /// The most octets of inline data that a queue pair of the adapter can have.
    pub(super) max_inline: usize,
    /// The most octets of private data.
    pub(super) max_private_data: u32,
    /// The most entries of a Send, Write or Read.
    pub(super) initiator_entries: MostEntries,
    /// The most pieces of inline data. There is no limit but that of the octets (AMB-049), and each piece has one, unless it is empty.
    pub(super) inline_entries: MostEntries,
    /// The most entries of a Receive.
    pub(super) receive_entries: MostEntries,
}

impl Parts {
    pub(super) fn new(adapter: Arc<dyn Adapter>, info: &AdapterInfo) -> Self {
        // A queue pair that was created for one entry takes two (AMB-009).
        let entries = |count: u32| MostEntries {
            count: count.max(2),
            beyond: Status::DATA_OVERRUN,
        };
        let initiator = entries(info.max_initiator_sge.max(info.max_read_sge));
        Self {
            adapter,
            max_inline: info.max_inline_data_size as usize,
            max_private_data: info.max_caller_data.max(info.max_callee_data),
            initiator_entries: initiator,
            inline_entries: MostEntries {
                count: initiator.count.max(info.max_inline_data_size),
                beyond: Status::BUFFER_OVERFLOW,
            },
            receive_entries: entries(info.max_receive_sge),
        }
    }
}
