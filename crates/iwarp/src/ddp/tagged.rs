//! Tagged segments, RFC 5041 section 4.2.

use core::fmt;

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::control::{LAST, TAGGED, Truncated, VERSION, VERSION_MASK};
use crate::types::STag;

/// Errors of a tagged segment, RFC 5041 section 7.2, error type 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaggedError {
    /// There is no such STag, it was invalidated, or it does not admit this segment (OPEN-03).
    InvalidSTag,
    /// Base or bounds violation.
    Bounds,
    /// The STag is not associated with the DDP stream.
    NotAssociated,
    /// The tagged offset wraps.
    Wrap,
    /// Invalid DDP version.
    Version,
}

impl fmt::Display for TaggedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidSTag => "tagged segment with an invalid STag",
            Self::Bounds => "tagged segment outside its buffer",
            Self::NotAssociated => "tagged segment with an STag of another stream or domain",
            Self::Wrap => "tagged segment whose offset wraps",
            Self::Version => "tagged segment of an unknown DDP version",
        })
    }
}

/// DDP tagged header with the octet reserved for the ULP, as on the wire.
#[derive(
    Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug,
)]
#[repr(C)]
pub struct TaggedHeader {
    control: u8,
    ulp: u8,
    stag: U32,
    to: U64,
}

const _: () = assert!(size_of::<TaggedHeader>() == TaggedHeader::LEN);

impl TaggedHeader {
    /// Octets on the wire.
    pub const LEN: usize = 14;

    /// The header of one segment. Reserved bits are zero (DDP-023).
    pub const fn new(last: bool, ulp: u8, stag: STag, to: u64) -> Self {
        Self {
            control: TAGGED | VERSION | if last { LAST } else { 0 },
            ulp,
            stag: U32::new(stag.0),
            to: U64::new(to),
        }
    }

    pub(crate) fn split(ulpdu: &[u8]) -> Result<(Self, &[u8]), Truncated> {
        Self::read_from_prefix(ulpdu).map_err(|_| Truncated)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        IntoBytes::as_bytes(self)
    }

    /// The header as it is on the wire.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(*self)
    }

    /// T, L, reserved bits and DV.
    pub const fn control(&self) -> u8 {
        self.control
    }

    /// The octet reserved for the ULP.
    pub const fn ulp_control(&self) -> u8 {
        self.ulp
    }

    /// Steering tag.
    pub const fn stag(&self) -> STag {
        STag(self.stag.get())
    }

    /// Tagged offset of the first octet of payload.
    pub const fn to(&self) -> u64 {
        self.to.get()
    }
}

/// A tagged segment of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaggedSegment<'a> {
    /// L: the last segment of its message.
    pub last: bool,
    /// The octet reserved for the ULP: RDMAP's control octet (DDP-051).
    pub ulp: u8,
    /// Steering tag (DDP-051).
    pub stag: STag,
    /// Tagged offset of the first octet of payload.
    pub to: u64,
    /// The octets to be placed. May be empty.
    pub payload: &'a [u8],
}

impl<'a> TaggedSegment<'a> {
    pub(crate) fn checked(header: TaggedHeader, payload: &'a [u8]) -> Result<Self, TaggedError> {
        if header.control & VERSION_MASK != VERSION {
            return Err(TaggedError::Version); // RFC 5041 section 7.2
        }
        Ok(Self {
            last: header.control & LAST != 0,
            ulp: header.ulp,
            stag: header.stag(),
            to: header.to(),
            payload,
        })
    }
}

impl fmt::Display for TaggedSegment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tagged stag {} to {:#x}", self.stag, self.to)?;
        write!(f, " len {}", self.payload.len())?;
        if self.last {
            f.write_str(" last")
        } else {
            Ok(())
        }
    }
}
