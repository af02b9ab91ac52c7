//! Requests that ND2 has no word for and some providers carry out: Atomics and Immediate Data, RFC 7306 on iWARP.

use std::fmt::Debug;

use crate::{Immediate, OpFlags, RemoteAddress, Result, Sge};

/// What an Atomic does to a word of 64 bits in the peer's memory (RFC 7306 section 5.1). Numbers are as the target's processor
/// reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Adds. Each bit set in `mask` is the highest of a field, out of which nothing is carried; with a mask of 0 the word is
    /// one field.
    FetchAdd {
        /// What is added.
        add: u64,
        /// The ends of fields.
        mask: u64,
    },
    /// If the word equals `compare` where `compare_mask` is set, its bits become those of `swap` where `swap_mask` is set;
    /// otherwise it stays as it is.
    CompareSwap {
        /// What the word is compared with.
        compare: u64,
        /// Which bits are compared; all equal if none.
        compare_mask: u64,
        /// What is put in.
        swap: u64,
        /// Which bits of it.
        swap_mask: u64,
    },
}

impl AtomicOp {
    /// A plain addition of 64 bits.
    #[must_use]
    pub const fn add(add: u64) -> Self {
        Self::FetchAdd { add, mask: 0 }
    }

    /// A plain comparison and exchange of 64 bits.
    #[must_use]
    pub const fn compare_swap(compare: u64, swap: u64) -> Self {
        Self::CompareSwap {
            compare,
            compare_mask: u64::MAX,
            swap,
            swap_mask: u64::MAX,
        }
    }
}

/// Requests that ND2 does not have, found by [`QueuePair::extensions`](crate::QueuePair::extensions).
///
/// They are initiator requests like the others: they take a place in the initiator queue, complete in posting order, and what
/// holds for all requests of a [`QueuePair`](crate::QueuePair) holds for them. Nothing tells whether the peer knows them
/// (RFC 7306 section 1.1): applications agree on their use beforehand, and a peer without them ends the connection, as for any
/// message it does not understand ([`REMOTE_ERROR`](crate::Status::REMOTE_ERROR)).
///
/// ```
/// # use netdirect::{AtomicOp, OpFlags, QueuePair, RemoteAddress, Result, Sge};
/// /// Takes the next ticket of a counter at the peer; the old value is in `sink` when the result has come.
/// fn next_ticket(qp: &dyn QueuePair, counter: RemoteAddress, sink: Sge) -> Result<bool> {
///     let Some(extensions) = qp.extensions() else {
///         return Ok(false); // this provider has no Atomics
///     };
///     extensions.atomic(1, AtomicOp::add(1), &sink, counter, OpFlags::empty())?;
///     Ok(true)
/// }
/// ```
pub trait QueuePairExtensions: Debug + Send + Sync {
    /// Sends octets that come to the peer's application in
    /// [`CompletionResult::immediate`](crate::CompletionResult::immediate), in order with what was sent and written before
    /// (RFC 7306 section 6). It uses up one of the peer's Receives and places nothing there. The result is of type
    /// [`SendImmediate`](crate::RequestType::SendImmediate).
    ///
    /// iWARP carries 8 octets, InfiniBand 4: [`IMMEDIATE_8`](crate::Capabilities::IMMEDIATE_8),
    /// [`IMMEDIATE_4`](crate::Capabilities::IMMEDIATE_4).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not connected.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): `data` has a length that the adapter cannot send.
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `flags` has others than `SILENT_SUCCESS`, `READ_FENCE` and
    ///   `SEND_AND_SOLICIT_EVENT`.
    fn send_immediate(&self, context: u64, data: Immediate, flags: OpFlags) -> Result<()>;

    /// Changes a word of the peer's memory, indivisibly for all other Atomics on its adapter, and fetches what it held before
    /// (RFC 7306 section 5). The word has to be aligned to 8 octets where it lies, and the peer's token has to allow
    /// both reading and writing. Not used by an Atomic are the peer's Receives.
    ///
    /// The old value arrives in `sink`, eight octets in the order of this side's processor, of memory that may be the sink of a
    /// Read. It counts as a Read against the outbound read limit and for [`READ_FENCE`](OpFlags::READ_FENCE). The result is
    /// of type [`Atomic`](crate::RequestType::Atomic); where the peer refuses the access it is
    /// [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION), for a word that is not aligned
    /// [`REMOTE_ERROR`](crate::Status::REMOTE_ERROR), with an outbound read limit of 0
    /// [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not connected.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): the queue pair was made for Reads without entries.
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter cannot do `op`
    ///   ([`Capabilities::needed_for`](crate::Capabilities::needed_for)).
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `sink` has other than 8 octets.
    /// - [`INVALID_PARAMETER_5`](crate::Status::INVALID_PARAMETER_5): `flags` has others than `SILENT_SUCCESS` and
    ///   `READ_FENCE`.
    fn atomic(
        &self,
        context: u64,
        op: AtomicOp,
        sink: &Sge,
        target: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()>;
}
