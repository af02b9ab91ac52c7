//! Work completions, and how they are stored in a completion queue's ring.

use std::num::NonZeroU32;

use iwarp_io::cq::{self, Reason, Word};
use iwarp_io::endpoint::{RequestKind, WqeStatus};

/// The status of a completion, with the values of `enum ibv_wc_status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WcStatus {
    /// `IBV_WC_SUCCESS`.
    #[default]
    Success = 0,
    /// `IBV_WC_LOC_LEN_ERR`: a message was longer than its Receive.
    LocalLength = 1,
    /// `IBV_WC_LOC_QP_OP_ERR`: the queue pair cannot carry the request out.
    LocalQpOperation = 2,
    /// `IBV_WC_LOC_PROT_ERR`: a local key or range is wrong.
    LocalProtection = 4,
    /// `IBV_WC_WR_FLUSH_ERR`: given up, because the queue pair is in error.
    Flushed = 5,
    /// `IBV_WC_REM_INV_REQ_ERR`: the peer does not carry out the Atomic, because the word is not aligned to 8 octets or the peer has no
    /// Atomics.
    RemoteInvalidRequest = 9,
    /// `IBV_WC_REM_ACCESS_ERR`: the peer refused access to its memory.
    RemoteAccess = 10,
    /// `IBV_WC_REM_OP_ERR`: the peer found another fault.
    RemoteOperation = 11,
    /// `IBV_WC_RETRY_EXC_ERR`: the peer is gone, or cannot be reached.
    RetryExceeded = 12,
    /// `IBV_WC_RNR_RETRY_EXC_ERR`: the peer had no Receive.
    NoReceive = 13,
    /// `IBV_WC_FATAL_ERR`.
    Fatal = 19,
}

/// All statuses.
const STATUSES: [WcStatus; 11] = [
    WcStatus::Success,
    WcStatus::LocalLength,
    WcStatus::LocalQpOperation,
    WcStatus::LocalProtection,
    WcStatus::Flushed,
    WcStatus::RemoteInvalidRequest,
    WcStatus::RemoteAccess,
    WcStatus::RemoteOperation,
    WcStatus::RetryExceeded,
    WcStatus::NoReceive,
    WcStatus::Fatal,
];

impl WcStatus {
    /// The status of a request that the engine has ended with `status`.
    pub(crate) fn from_engine(status: WqeStatus) -> Self {
        match status {
            WqeStatus::Success => Self::Success,
            WqeStatus::Flushed => Self::Flushed,
            WqeStatus::LocalAccess => Self::LocalProtection,
            WqeStatus::RemoteAccess => Self::RemoteAccess,
            WqeStatus::RemoteError => Self::RemoteOperation,
            WqeStatus::RemoteInvalidRequest => Self::RemoteInvalidRequest,
            WqeStatus::ReceiveTooShort => Self::LocalLength,
            WqeStatus::InvalidRequest => Self::LocalQpOperation,
            WqeStatus::NoReceive => Self::NoReceive,
            WqeStatus::PeerEnded => Self::RetryExceeded,
            WqeStatus::Internal => Self::Fatal,
        }
    }

    fn from_bits(bits: u8) -> Self {
        let mut statuses = STATUSES.into_iter();
        let known = statuses.find(|status| *status as u8 == bits);
        known.unwrap_or(Self::Fatal)
    }
}

/// The kind of a request, with the values of `enum ibv_wc_opcode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WcOpcode {
    /// `IBV_WC_SEND`.
    #[default]
    Send = 0,
    /// `IBV_WC_RDMA_WRITE`.
    Write = 1,
    /// `IBV_WC_RDMA_READ`.
    Read = 2,
    /// `IBV_WC_COMP_SWAP`.
    CompareSwap = 3,
    /// `IBV_WC_FETCH_ADD`.
    FetchAdd = 4,
    /// `IBV_WC_BIND_MW`.
    Bind = 5,
    /// `IBV_WC_LOCAL_INV`.
    LocalInvalidate = 6,
    /// `IBV_WC_RECV`.
    Receive = 128,
    /// `IBV_WC_RECV_RDMA_WITH_IMM`: a Receive that the peer's Write with Immediate Data has taken.
    ReceiveImmediate = 129,
}

/// All kinds.
const OPCODES: [WcOpcode; 9] = [
    WcOpcode::Send,
    WcOpcode::Write,
    WcOpcode::Read,
    WcOpcode::CompareSwap,
    WcOpcode::FetchAdd,
    WcOpcode::Bind,
    WcOpcode::LocalInvalidate,
    WcOpcode::Receive,
    WcOpcode::ReceiveImmediate,
];

impl WcOpcode {
    pub(crate) fn from_engine(kind: RequestKind) -> Self {
        match kind {
            RequestKind::Receive => Self::Receive,
            RequestKind::Send | RequestKind::Immediate => Self::Send,
            RequestKind::Write => Self::Write,
            RequestKind::Read => Self::Read,
            RequestKind::CompareSwap => Self::CompareSwap,
            RequestKind::FetchAdd => Self::FetchAdd,
            RequestKind::Bind => Self::Bind,
            RequestKind::Invalidate => Self::LocalInvalidate,
        }
    }

    fn from_bits(bits: u8) -> Self {
        let mut opcodes = OPCODES.into_iter();
        let known = opcodes.find(|opcode| *opcode as u8 == bits);
        known.unwrap_or_default()
    }
}

/// The end of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The number that the program gave the request.
    pub wr_id: u64,
    /// The status with which the request ended.
    pub status: WcStatus,
    /// The kind of the request. C programs may rely on it in successful completions only.
    pub opcode: WcOpcode,
    /// The octets moved, in successful completions; in others [`vendor_err`](Self::vendor_err).
    pub(crate) detail: u32,
    /// The number of the queue pair.
    pub qp_num: u32,
    /// The key of this side that the peer's message has invalidated (`IBV_WC_WITH_INV`).
    pub invalidated: Option<u32>,
    /// The number in the peer's Write or Send (`IBV_WC_WITH_IMM`).
    pub immediate: Option<[u8; 4]>,
    /// The number of the queue pair that has sent the datagram (`src_qp`). The Receive of a datagram begins with a global routing header
    /// of 40 octets (`IBV_WC_GRH`).
    pub source: Option<u32>,
}

/// The bits of [`WorkCompletion::vendor_err`] above the code of the Terminate.
pub mod vendor_err {
    /// The connection ended by a Terminate, whose code is in the 16 bits below as in the message: layer (4 bits), type (4), code (8).
    pub const TERMINATE: u32 = 0x1_0000;
    /// The peer sent the Terminate. Without this bit this side did.
    pub const FROM_PEER: u32 = 0x2_0000;
}

impl WorkCompletion {
    /// The octets moved. 0 in completions that are not successful.
    #[inline]
    #[must_use]
    pub fn byte_len(&self) -> u32 {
        match self.status {
            WcStatus::Success => self.detail,
            _ => 0,
        }
    }

    /// The reason why the connection ended, in completions that are not successful: 0, or a number that has the bits of [`vendor_err`] and
    /// the code of the Terminate. 0 if the connection ended without a Terminate, or has not ended.
    #[inline]
    #[must_use]
    pub fn vendor_err(&self) -> u32 {
        match self.status {
            WcStatus::Success => 0,
            _ => self.detail,
        }
    }
}

/// One completion on its way into a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CqEntry {
    pub(crate) completion: WorkCompletion,
    /// A Receive whose Send asked for an event.
    pub(crate) solicited: bool,
}

/// A completion in the ring.
#[derive(Debug, Default)]
pub(crate) struct CqEntryWords {
    wr_id: Word,
    /// The status in the highest 8 bits, the number of a datagram's sender in the 24 bits behind it, and the detail in the lower half.
    outcome: Word,
    /// The kind in the highest 8 bits and the number of the queue pair in the 24 bits behind it, then the invalidated key or the number that
    /// came with the message, depending on the tag.
    queue_pair: Word,
}

/// The bits of the number of a queue pair.
const QUEUE_PAIR: u32 = (1 << 24) - 1;

/// The bits of a tag.
const INVALIDATED: u64 = 1;
const IMMEDIATE: u64 = 2;
const DATAGRAM: u64 = 4;

impl cq::Entry for CqEntry {
    type Result = WorkCompletion;
    type Words = CqEntryWords;

    const OVERFLOW: Reason = Reason(NonZeroU32::MIN);

    /// A failed request satisfies a program that waits for solicited completions as well.
    fn wakes(&self) -> bool {
        self.solicited || self.completion.status != WcStatus::Success
    }

    fn tag(&self) -> u64 {
        let completion = &self.completion;
        let invalidated = u64::from(completion.invalidated.is_some()) * INVALIDATED;
        let immediate = u64::from(completion.immediate.is_some()) * IMMEDIATE;
        let datagram = u64::from(completion.source.is_some()) * DATAGRAM;
        invalidated | immediate | datagram
    }

    fn store(&self, words: &CqEntryWords) {
        let completion = &self.completion;
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        words.wr_id.set(completion.wr_id);
        let status = completion.status as u32;
        let source = completion.source.unwrap_or(0) & QUEUE_PAIR;
        words
            .outcome
            .set(pair(status << 24 | source, completion.detail));
        let immediate = completion.immediate.map(u32::from_ne_bytes);
        let besides = completion.invalidated.or(immediate).unwrap_or(0);
        debug_assert!(completion.qp_num <= QUEUE_PAIR, "a number of 24 bits");
        let kind = completion.opcode as u32;
        let queue_pair = (kind << 24) | (completion.qp_num & QUEUE_PAIR);
        words.queue_pair.set(pair(queue_pair, besides));
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "each part of a word is one value"
    )]
    fn load(words: &CqEntryWords, tag: u64) -> WorkCompletion {
        let halves = |word: &Word| ((word.get() >> 32) as u32, word.get() as u32);
        let (status, detail) = halves(&words.outcome);
        let (queue_pair, besides) = halves(&words.queue_pair);
        WorkCompletion {
            wr_id: words.wr_id.get(),
            status: WcStatus::from_bits((status >> 24) as u8),
            opcode: WcOpcode::from_bits((queue_pair >> 24) as u8),
            detail,
            qp_num: queue_pair & QUEUE_PAIR,
            invalidated: (tag & INVALIDATED != 0).then_some(besides),
            immediate: (tag & IMMEDIATE != 0).then_some(besides.to_ne_bytes()),
            source: (tag & DATAGRAM != 0).then_some(status & QUEUE_PAIR),
        }
    }
}

#[cfg(test)]
mod tests {
    use iwarp_io::cq::Entry as _;

    use super::*;

    #[test]
    fn a_completion_is_loaded_as_it_was_stored() {
        let words = CqEntryWords::default();
        for status in STATUSES {
            for opcode in OPCODES {
                for (invalidated, immediate, source) in [
                    (None, None, None),
                    (Some(0), None, None),
                    (Some(u32::MAX), None, None),
                    (None, Some([0; 4]), None),
                    (None, Some([1, 2, 3, 4]), Some(0)),
                    (None, None, Some(0x00FF_FFFF)),
                ] {
                    let completion = WorkCompletion {
                        wr_id: u64::MAX - opcode as u64,
                        status,
                        opcode,
                        detail: 1 << 30,
                        qp_num: 0x00FF_FFFF,
                        invalidated,
                        immediate,
                        source,
                    };
                    let entry = CqEntry {
                        completion,
                        solicited: false,
                    };
                    entry.store(&words);
                    assert!(entry.tag() < 16);
                    let loaded = CqEntry::load(&words, entry.tag());
                    assert_eq!(loaded, completion);
                    let halves = match status {
                        WcStatus::Success => (1 << 30, 0),
                        _ => (0, 1 << 30),
                    };
                    assert_eq!((loaded.byte_len(), loaded.vendor_err()), halves);
                    assert_eq!(entry.wakes(), status != WcStatus::Success);
                }
            }
        }
    }
}
