//! Requests that ND2 does not have and some providers do: Atomics and Immediate Data, on iWARP as in RFC 7306.

use std::fmt::Debug;

use crate::{Immediate, OpFlags, RemoteAddress, Result, Sge};

/// The operation of an Atomic on a word of 64 bits in the peer's memory (RFC 7306 section 5.1). The word is a number in the
/// byte order of the peer's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AtomicOp {
    /// Adds a number. Each bit set in `mask` is the highest bit of a field; no carry leaves a field. With a mask of 0 the whole
    /// word is one field.
    FetchAdd {
        /// The number to add.
        add: u64,
        /// The highest bit of each field.
        mask: u64,
    },
    /// Compares the word with `compare`, in the bits that are set in `compare_mask`. If these bits are equal, the bits that are
    /// set in `swap_mask` are replaced by those of `swap`. Otherwise the word stays unchanged.
    CompareSwap {
        /// The number to compare the word with.
        compare: u64,
        /// The bits to compare. With a mask of 0 every word counts as equal.
        compare_mask: u64,
        /// The new bits.
        swap: u64,
        /// The bits to replace.
        swap_mask: u64,
    },
}

impl AtomicOp {
    /// Adds a number of 64 bits, without a mask.
    #[must_use]
    pub const fn add(add: u64) -> Self {
        Self::FetchAdd { add, mask: 0 }
    }

    /// Compares and replaces all 64 bits.
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

/// Requests that ND2 does not have, from [`QueuePair::extensions`](crate::QueuePair::extensions).
///
/// These are initiator requests like Send and Write: they take a place in the initiator queue, complete in the order of
/// posting, and follow all rules for requests of a [`QueuePair`](crate::QueuePair). The wire protocol has no way to ask
/// whether the peer supports these requests (RFC 7306 section 1.1), so applications have to agree on their use. A peer that
/// does not support them ends the connection, as for any unknown message ([`REMOTE_ERROR`](crate::Status::REMOTE_ERROR)).
///
/// ```
/// # use netdirect::{AtomicOp, OpFlags, QueuePair, RemoteAddress, Result, Sge};
/// /// Increments a counter in the peer's memory. When the request has completed, `sink` holds the old value.
/// fn next_ticket(qp: &dyn QueuePair, counter: RemoteAddress, sink: Sge) -> Result<bool> {
///     let Some(extensions) = qp.extensions() else {
///         return Ok(false); // this provider has no Atomics
///     };
///     extensions.atomic(1, AtomicOp::add(1), &sink, counter, OpFlags::empty())?;
///     Ok(true)
/// }
/// ```
pub trait QueuePairExtensions: Debug + Send + Sync {
    /// Sends octets that the peer's application finds in
    /// [`CompletionResult::immediate`](crate::CompletionResult::immediate), in order with earlier Sends and Writes
    /// (RFC 7306 section 6). The message uses one of the peer's Receives and places no data in its memory. The result has the
    /// type [`SendImmediate`](crate::RequestType::SendImmediate).
    ///
    /// iWARP carries 8 octets ([`IMMEDIATE_8`](crate::Capabilities::IMMEDIATE_8)), and InfiniBand carries 4
    /// ([`IMMEDIATE_4`](crate::Capabilities::IMMEDIATE_4)).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the queue pair is not connected.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): the adapter cannot send `data` of this length.
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `flags` has a flag other than `SILENT_SUCCESS`,
    ///   `READ_FENCE` and `SEND_AND_SOLICIT_EVENT`.
    fn send_immediate(&self, context: u64, data: Immediate, flags: OpFlags) -> Result<()>;

    /// Changes a word of the peer's memory and fetches its old value, in one indivisible step with regard to all other
    /// Atomics on the peer's adapter (RFC 7306 section 5). The word's address in the peer's memory has to be a multiple of 8,
    /// and the peer's token has to allow both reading and writing. An Atomic uses none of the peer's Receives.
    ///
    /// The old value is placed in `sink`: eight octets, in the byte order of this side's processor, in memory that may be the
    /// sink of a Read. An Atomic counts as a Read for the outbound read limit and for [`READ_FENCE`](OpFlags::READ_FENCE).
    /// The result has the type [`Atomic`](crate::RequestType::Atomic). The request completes with
    /// [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION) if the peer refuses the access, with
    /// [`REMOTE_ERROR`](crate::Status::REMOTE_ERROR) if the word is not aligned, and with
    /// [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST) if the outbound read limit is 0.
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the queue pair is not connected.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): the queue pair was created for requests without entries.
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter cannot do `op`
    ///   ([`Capabilities::needed_for`](crate::Capabilities::needed_for)).
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `sink` does not have 8 octets.
    /// - [`INVALID_PARAMETER_5`](crate::Status::INVALID_PARAMETER_5): `flags` has a flag other than `SILENT_SUCCESS` and
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
