//! Untagged segments, RFC 5041 section 4.3.

use core::fmt;

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::control::{LAST, Qn, Truncated, VERSION, VERSION_MASK};

/// Errors of an untagged segment, RFC 5041 section 7.2, error type 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UntaggedError {
    /// There is no such queue, or it is not the queue of the message.
    InvalidQn,
    /// The message number has no buffer.
    NoBuffer,
    /// The message number is out of order.
    MsnRange,
    /// The offset is not where the message continues.
    InvalidMo,
    /// The message is longer than its buffer.
    TooLong,
    /// Invalid DDP version.
    Version,
}

impl fmt::Display for UntaggedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidQn => "untagged segment on a wrong queue",
            Self::NoBuffer => "untagged message without a buffer",
            Self::MsnRange => "untagged message out of order",
            Self::InvalidMo => "untagged segment at a wrong offset",
            Self::TooLong => "untagged message longer than its buffer",
            Self::Version => "untagged segment of an unknown DDP version",
        })
    }
}

/// DDP untagged header with the octets reserved for the ULP, as on the wire.
#[derive(
    Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug,
)]
#[repr(C)]
pub struct UntaggedHeader {
    control: u8,
    ulp: u8,
    ulp_word: U32,
    qn: U32,
    msn: U32,
    mo: U32,
}

const _: () = assert!(size_of::<UntaggedHeader>() == UntaggedHeader::LEN);

impl UntaggedHeader {
    /// Octets on the wire.
    pub const LEN: usize = 18;

    /// The header of one segment. Reserved bits are zero (DDP-023).
    pub const fn new(last: bool, ulp: u8, ulp_word: u32, qn: Qn, msn: u32, mo: u32) -> Self {
        Self {
            control: VERSION | if last { LAST } else { 0 },
            ulp,
            ulp_word: U32::new(ulp_word),
            qn: U32::new(qn.0),
            msn: U32::new(msn),
            mo: U32::new(mo),
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

    /// The four octets reserved for the ULP: RDMAP's Invalidate STag.
    pub const fn ulp_word(&self) -> u32 {
        self.ulp_word.get()
    }

    /// Queue number.
    pub const fn qn(&self) -> Qn {
        Qn(self.qn.get())
    }

    /// Message sequence number.
    pub const fn msn(&self) -> u32 {
        self.msn.get()
    }

    /// Message offset of the first octet of payload.
    pub const fn mo(&self) -> u32 {
        self.mo.get()
    }
}

/// An untagged segment of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UntaggedSegment<'a> {
    /// L: the last segment of its message.
    pub last: bool,
    /// The octet reserved for the ULP: RDMAP's control octet (DDP-051).
    pub ulp: u8,
    /// The four octets reserved for the ULP: RDMAP's Invalidate STag (DDP-051).
    pub ulp_word: u32,
    /// Queue number.
    pub qn: Qn,
    /// Message sequence number.
    pub msn: u32,
    /// Message offset of the first octet of payload.
    pub mo: u32,
    /// The octets to be placed. May be empty.
    pub payload: &'a [u8],
}

impl<'a> UntaggedSegment<'a> {
    pub(crate) fn checked(
        header: UntaggedHeader,
        payload: &'a [u8],
    ) -> Result<Self, UntaggedError> {
        if header.control & VERSION_MASK != VERSION {
            return Err(UntaggedError::Version); // RFC 5041 section 7.2
        }
        Ok(Self {
            last: header.control & LAST != 0,
            ulp: header.ulp,
            ulp_word: header.ulp_word(),
            qn: header.qn(),
            msn: header.msn(),
            mo: header.mo(),
            payload,
        })
    }
}

impl fmt::Display for UntaggedSegment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "untagged qn {} msn {} mo {}",
            self.qn.0, self.msn, self.mo
        )?;
        write!(f, " len {}", self.payload.len())?;
        if self.last {
            f.write_str(" last")
        } else {
            Ok(())
        }
    }
}
