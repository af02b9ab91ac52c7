//! A DDP segment of either kind, RFC 5041 section 4.

use core::fmt;

use super::control::{TAGGED, Truncated};
use super::tagged::{TaggedError, TaggedHeader, TaggedSegment};
use super::untagged::{UntaggedError, UntaggedHeader, UntaggedSegment};

/// A DDP header as it came, whatever its fields say. A Terminate returns it, and a dissector shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// T = 1.
    Tagged(TaggedHeader),
    /// T = 0.
    Untagged(UntaggedHeader),
}

impl Header {
    /// The header at the front of `ulpdu`, and the octets behind the header. Only the length is checked.
    ///
    /// # Errors
    ///
    /// If there are fewer octets than the T bit asks for.
    #[inline]
    pub fn split(ulpdu: &[u8]) -> Result<(Self, &[u8]), Truncated> {
        match ulpdu.first() {
            Some(control) if control & TAGGED != 0 => {
                TaggedHeader::split(ulpdu).map(|(header, rest)| (Self::Tagged(header), rest))
            }
            Some(_) => {
                UntaggedHeader::split(ulpdu).map(|(header, rest)| (Self::Untagged(header), rest))
            }
            None => Err(Truncated),
        }
    }

    /// The octets as they came.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Tagged(header) => header.as_bytes(),
            Self::Untagged(header) => header.as_bytes(),
        }
    }

    /// The DDP control octet.
    pub const fn control(&self) -> u8 {
        match self {
            Self::Tagged(header) => header.control(),
            Self::Untagged(header) => header.control(),
        }
    }

    /// The octet that RDMAP uses as its control octet.
    pub const fn ulp_control(&self) -> u8 {
        match self {
            Self::Tagged(header) => header.ulp_control(),
            Self::Untagged(header) => header.ulp_control(),
        }
    }
}

/// Why a ULPDU is not a DDP segment at all. DDP only reports this error; RDMAP ends the stream (DDP-081).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The ULPDU is shorter than the header that its T bit asks for.
    Truncated,
    /// A tagged segment with its own fault.
    Tagged(TaggedError),
    /// An untagged segment with its own fault.
    Untagged(UntaggedError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a ULPDU shorter than its DDP header"),
            Self::Tagged(error) => error.fmt(f),
            Self::Untagged(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

/// One DDP segment whose header is complete and of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Placed by STag and offset.
    Tagged(TaggedSegment<'a>),
    /// Placed by queue, message number and offset.
    Untagged(UntaggedSegment<'a>),
}

impl<'a> Segment<'a> {
    /// Reads a segment from a whole ULPDU.
    ///
    /// # Errors
    ///
    /// The ULPDU is too short (MPA-076), or has another version than 1 (DDP-024).
    #[inline]
    pub fn parse(ulpdu: &'a [u8]) -> Result<Self, Error> {
        let (header, payload) = Header::split(ulpdu).map_err(|Truncated| Error::Truncated)?;
        match header {
            Header::Tagged(header) => TaggedSegment::checked(header, payload)
                .map(Self::Tagged)
                .map_err(Error::Tagged),
            Header::Untagged(header) => UntaggedSegment::checked(header, payload)
                .map(Self::Untagged)
                .map_err(Error::Untagged),
        }
    }
}

impl fmt::Display for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tagged(segment) => segment.fmt(f),
            Self::Untagged(segment) => segment.fmt(f),
        }
    }
}
