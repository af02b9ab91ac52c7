//! The fields of the headers of both kinds of DDP segment, RFC 5041 sections 4.1 and 4.3.

/// T: the segment is tagged, and has the shorter header (DDP-020).
pub const TAGGED: u8 = 0x80;
/// L: the last segment of its message.
pub const LAST: u8 = 0x40;
/// DV: the two bits of the version.
pub const VERSION_MASK: u8 = 0x03;
/// The version of RFC 5041, which belongs to both MPA revisions that softnd speaks (MPA-028).
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
