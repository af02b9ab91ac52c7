//! What both kinds of DDP segment share, RFC 5041 section 4.1.

use core::fmt;

use super::{Error, TaggedHeader, TaggedSegment, UntaggedHeader, UntaggedSegment};

/// T: the segment is tagged, and its header the shorter one (DDP-020).
pub const TAGGED: u8 = 0x80;
/// L: the last segment of its message.
pub const LAST: u8 = 0x40;
/// DV: the two bits of the version.
pub const VERSION_MASK: u8 = 0x03;
/// The version of RFC 5041, which belongs to both MPA revisions spoken here (MPA-028).
pub const VERSION: u8 = 0x01;

/// Queue number of an untagged segment, RFC 5041 section 4.3. RDMAP gives the first three their meaning (RFC 5040
/// section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qn(pub u32);

impl Qn {
    /// Send family.
    pub const SEND: Self = Self(0);
    /// Read Requests and Atomic Requests.
    pub const READ_REQUEST: Self = Self(1);
    /// The Terminate.
    pub const TERMINATE: Self = Self(2);
    /// Atomic Responses (RFC 7306 section 5.2).
    pub const ATOMIC_RESPONSE: Self = Self(3);
}

/// The ULPDU is too short for a DDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// A DDP header as it came, whatever it says: what a Terminate carries back, and what a dissector shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// T = 1.
    Tagged(TaggedHeader),
    /// T = 0.
    Untagged(UntaggedHeader),
}

impl Header {
    /// The header at the front of `ulpdu` and what stands behind it; nothing but the length is checked.
    ///
    /// # Errors
    ///
    /// When there are fewer octets than the T bit asks for.
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
    /// Too short (MPA-076), or another version than 1 (DDP-024).
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
