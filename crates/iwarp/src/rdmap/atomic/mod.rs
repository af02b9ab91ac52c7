//! Atomic operations and their two headers, RFC 7306 section 5.

use core::fmt;

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::OperationError;
use crate::types::{RemoteAddress, STag};

const FETCH_ADD: u32 = 0x0;
const COMPARE_SWAP: u32 = 0x2;
/// Bits 28 to 31 of the first word (RDMAPX-028).
const AOPCODE_MASK: u32 = 0x0f;

/// The operation of an Atomic on a 64-bit word of the peer's memory. The Atomic returns the word's old value. Numbers are as the target's
/// processor reads them (RFC 7306 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Adds. Each bit set in `mask` is the highest bit of a field, and no carry leaves a field (RFC 7306 section 5.1.1).
    /// With a mask of 0 the word is one field.
    FetchAdd {
        /// The number to add.
        add: u64,
        /// The highest bits of the fields.
        mask: u64,
    },
    /// Compares the bits of `compare_mask`. If all these bits are equal, replaces the bits of `swap_mask` (RFC 7306 section
    /// 5.1.2).
    CompareSwap {
        /// The value to compare the word with.
        compare: u64,
        /// The bits that are compared. With 0 the comparison always succeeds.
        compare_mask: u64,
        /// The new value.
        swap: u64,
        /// The bits of the new value that are stored.
        swap_mask: u64,
    },
}

impl AtomicOp {
    /// Octets of the word.
    pub const LEN: u32 = 8;

    /// A plain addition of 64 bits.
    pub const fn add(add: u64) -> Self {
        Self::FetchAdd { add, mask: 0 }
    }

    /// A plain comparison and exchange of 64 bits.
    pub const fn compare_swap(compare: u64, swap: u64) -> Self {
        Self::CompareSwap {
            compare,
            compare_mask: u64::MAX,
            swap,
            swap_mask: u64::MAX,
        }
    }

    /// The new value of a word with this value (RDMAPX-019, RDMAPX-020).
    #[must_use]
    pub const fn apply(self, value: u64) -> u64 {
        match self {
            // If the highest bit of each field is left out, no sum leaves its field. These bits are then added without a
            // carry.
            Self::FetchAdd { add, mask } => {
                (value & !mask).wrapping_add(add & !mask) ^ ((value ^ add) & mask)
            }
            Self::CompareSwap {
                compare,
                compare_mask,
                swap,
                swap_mask,
            } => {
                if (compare ^ value) & compare_mask == 0 {
                    value & !swap_mask | swap & swap_mask
                } else {
                    value
                }
            }
        }
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WireRequest {
    aopcode: U32,
    id: U32,
    stag: U32,
    to: U64,
    data: U64,
    data_mask: U64,
    compare: U64,
    compare_mask: U64,
}

const _: () = assert!(size_of::<WireRequest>() == AtomicRequest::LEN);

/// The Atomic Request header, RFC 7306 section 5.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicRequest {
    /// The requester's identifier of the Request, which the Response repeats (RDMAPX-012).
    pub id: u32,
    /// The operation.
    pub op: AtomicOp,
    /// The word.
    pub target: RemoteAddress,
}

impl AtomicRequest {
    /// Octets on the wire, behind the untagged DDP header.
    pub const LEN: usize = 52;

    /// Reads the header. Reserved bits, and the compare words of a FetchAdd, are ignored (RDMAPX-028).
    ///
    /// # Errors
    ///
    /// The length is wrong, or the AOpCode is not one of the two. Implementing one of the two means implementing both
    /// (RDMAPX-002, RDMAPX-009, OPEN-16).
    pub fn parse(payload: &[u8]) -> Result<Self, OperationError> {
        let wire =
            WireRequest::ref_from_bytes(payload).map_err(|_| OperationError::UnexpectedOpcode)?;
        let op = match wire.aopcode.get() & AOPCODE_MASK {
            FETCH_ADD => AtomicOp::FetchAdd {
                add: wire.data.get(),
                mask: wire.data_mask.get(),
            },
            COMPARE_SWAP => AtomicOp::CompareSwap {
                compare: wire.compare.get(),
                compare_mask: wire.compare_mask.get(),
                swap: wire.data.get(),
                swap_mask: wire.data_mask.get(),
            },
            _ => return Err(OperationError::UnexpectedOpcode),
        };
        Ok(Self {
            id: wire.id.get(),
            op,
            target: RemoteAddress {
                stag: STag(wire.stag.get()),
                to: wire.to.get(),
            },
        })
    }

    /// The header as it is on the wire.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let (aopcode, data, data_mask, compare, compare_mask) = match self.op {
            // These are the compare words of a FetchAdd (RFC 7306 section 5.2.1).
            AtomicOp::FetchAdd { add, mask } => (FETCH_ADD, add, mask, 0, u64::MAX),
            AtomicOp::CompareSwap {
                compare,
                compare_mask,
                swap,
                swap_mask,
            } => (COMPARE_SWAP, swap, swap_mask, compare, compare_mask),
        };
        zerocopy::transmute!(WireRequest {
            aopcode: U32::new(aopcode),
            id: U32::new(self.id),
            stag: U32::new(self.target.stag.0),
            to: U64::new(self.target.to),
            data: U64::new(data),
            data_mask: U64::new(data_mask),
            compare: U64::new(compare),
            compare_mask: U64::new(compare_mask),
        })
    }
}

impl fmt::Display for AtomicRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            AtomicOp::FetchAdd { add, mask } => write!(f, "adds {add:#x} mask {mask:#x}")?,
            AtomicOp::CompareSwap {
                compare,
                compare_mask,
                swap,
                swap_mask,
            } => write!(
                f,
                "swaps {compare:#x} mask {compare_mask:#x} for {swap:#x} mask {swap_mask:#x}"
            )?,
        }
        let Self { id, target, .. } = self;
        write!(f, " at {} to {:#x}, id {id:#x}", target.stag, target.to)
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WireResponse {
    id: U32,
    value: U64,
}

const _: () = assert!(size_of::<WireResponse>() == AtomicResponse::LEN);

/// The Atomic Response header, RFC 7306 section 5.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicResponse {
    /// The identifier of the Request.
    pub id: u32,
    /// The previous value of the word.
    pub value: u64,
}

impl AtomicResponse {
    /// Octets on the wire, behind the untagged DDP header (OPEN-15).
    pub const LEN: usize = 12;

    /// Reads the header. `None` unless `payload` is exactly one header.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let wire = WireResponse::ref_from_bytes(payload).ok()?;
        Some(Self {
            id: wire.id.get(),
            value: wire.value.get(),
        })
    }

    /// The header as it is on the wire.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(WireResponse {
            id: U32::new(self.id),
            value: U64::new(self.value),
        })
    }
}

impl fmt::Display for AtomicResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {:#x}, id {:#x}", self.value, self.id)
    }
}

#[cfg(test)]
mod tests;
