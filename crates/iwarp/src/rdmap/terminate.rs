//! The Terminate header, RFC 5040 section 4.8: why a stream ended, read and written.
//!
//! Peers write the header in two bit orders, leave headers out that they announce, and count the segment length in two ways
//! (PEER-024, PEER-025, PEER-084, OPEN-07, OPEN-08). [`Terminate::parse`] goes by the octets that are there.

use core::fmt;

use super::header::{self, Opcode};
use super::read::ReadRequest;
use crate::ddp;

/// M: the DDP Segment Length is valid.
const HAS_LENGTH: u8 = 0x80;
/// D: the DDP header is included.
const HAS_DDP: u8 = 0x40;
/// R: the Read Request header is included.
const HAS_READ: u8 = 0x20;
/// Where little-endian hosts put M, D and R (PEER-084).
const SWAPPED_FLAGS: u8 = 0x07;

/// Layer, error type and error code, RFC 5040 figure 9.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TerminateCode {
    /// 0 RDMAP, 1 DDP, 2 the lower layer.
    pub layer: u8,
    /// Error type within the layer.
    pub etype: u8,
    /// Error code within the type.
    pub code: u8,
}

/// The meaning of a Terminate to the requester whose message caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Access to memory was refused: layer 0 type 1 (RFC 5040 section 4.8), or layer 1 type 1 codes 0 to 3 (RFC 5041 section 7.2).
    Protection,
    /// A Send found no Receive: 1/2/02 (RFC 5041 section 7.2).
    NoBuffer,
    /// All other codes.
    Other,
}

impl TerminateCode {
    /// A local failure of the sender, not tied to any message.
    pub const LOCAL_CATASTROPHIC: Self = Self::new(0, 0, 0);

    /// The code `layer/etype/code`. Layer and type have four bits each on the wire.
    pub const fn new(layer: u8, etype: u8, code: u8) -> Self {
        Self {
            layer: layer & 0x0f,
            etype: etype & 0x0f,
            code,
        }
    }

    const fn octets(self) -> [u8; 2] {
        [self.layer << 4 | self.etype, self.code]
    }

    /// Returns true if one of the RFCs lists the code.
    pub const fn is_assigned(self) -> bool {
        match (self.layer, self.etype, self.code) {
            (0 | 1, 0, _) | (1, 3, _) => true,
            (0, 1, code) => matches!(code, 0..=4 | 9 | 0xff),
            (0, 2, code) => matches!(code, 5..=9 | 0xff),
            (1, 1, code) => code <= 4,
            (1, 2, code) => matches!(code, 1..=6),
            (2, 0, code) => matches!(code, 1..=7),
            _ => false,
        }
    }

    /// The meaning of the code to the requester.
    pub const fn class(self) -> Class {
        match (self.layer, self.etype, self.code) {
            (0, 1, _) | (1, 1, 0..=3) => Class::Protection,
            (1, 2, 2) => Class::NoBuffer,
            _ => Class::Other,
        }
    }

    /// The name that the RFC gives the code.
    pub const fn name(self) -> &'static str {
        match (self.layer, self.etype, self.code) {
            (0, 0, _) => "RDMAP local catastrophic error",
            (0, 1, 0x00) => "remote protection error: invalid STag",
            (0, 1, 0x01) => "remote protection error: base or bounds violation",
            (0, 1, 0x02) => "remote protection error: access rights violation",
            (0, 1, 0x03) => "remote protection error: STag not associated with RDMAP stream",
            (0, 1, 0x04) => "remote protection error: TO wrap",
            (0, 1 | 2, 0x09) => "STag cannot be invalidated",
            (0, 1, 0xff) => "remote protection error: unspecified",
            (0, 2, 0x05) => "remote operation error: invalid RDMAP version",
            (0, 2, 0x06) => "remote operation error: unexpected opcode",
            (0, 2, 0x07) => "catastrophic error, localized to RDMAP stream",
            (0, 2, 0x08) => "catastrophic error, global",
            (0, 2, 0xff) => "remote operation error: unspecified",
            (1, 0, _) => "DDP local catastrophic error",
            (1, 1, 0x00) => "tagged buffer error: invalid STag",
            (1, 1, 0x01) => "tagged buffer error: base or bounds violation",
            (1, 1, 0x02) => "tagged buffer error: STag not associated with DDP stream",
            (1, 1, 0x03) => "tagged buffer error: TO wrap",
            (1, 1, 0x04) => "tagged buffer error: invalid DDP version",
            (1, 2, 0x01) => "untagged buffer error: invalid QN",
            (1, 2, 0x02) => "untagged buffer error: no buffer available",
            (1, 2, 0x03) => "untagged buffer error: MSN range not valid",
            (1, 2, 0x04) => "untagged buffer error: invalid MO",
            (1, 2, 0x05) => "untagged buffer error: message too long for buffer",
            (1, 2, 0x06) => "untagged buffer error: invalid DDP version",
            (1, 3, _) => "error of the layer below DDP",
            (2, 0, 0x01) => "MPA: TCP connection closed, terminated or lost",
            (2, 0, 0x02) => "MPA: CRC error",
            (2, 0, 0x03) => "MPA: marker and ULPDU length mismatch",
            (2, 0, 0x04) => "MPA: invalid Request or Reply",
            (2, 0, 0x05) => "MPA: local catastrophic error",
            (2, 0, 0x06) => "MPA: insufficient IRD resources",
            (2, 0, 0x07) => "MPA: no matching RTR option",
            _ => "unassigned",
        }
    }
}

impl fmt::Debug for TerminateCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}/{:x}/{:02x}", self.layer, self.etype, self.code)
    }
}

impl fmt::Display for TerminateCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} ({})", self.name())
    }
}

/// A Terminate: the code and as much of the offending message as it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminate {
    /// Layer, type and code.
    pub code: TerminateCode,
    /// Length of the offending DDP segment. Some peers count only the payload (OPEN-07).
    pub segment_length: Option<u16>,
    /// Header of the offending DDP segment.
    pub ddp: Option<ddp::Header>,
    /// Header of the offending Read Request, advanced by the octets that were answered already (RDMAP-079).
    pub read: Option<ReadRequest>,
    /// The Terminate came in the bit order of a little-endian host (PEER-084).
    pub swapped: bool,
}

impl Terminate {
    /// Octets of the longest Terminate header.
    pub const MAX_LEN: usize = 4 + 2 + ddp::UntaggedHeader::LEN + ReadRequest::LEN;

    /// A Terminate without headers, with M, D and R clear (RDMAP-081).
    pub const fn new(code: TerminateCode) -> Self {
        Self {
            code,
            segment_length: None,
            ddp: None,
            read: None,
            swapped: false,
        }
    }

    /// Reads the octets behind the DDP header. `None` if not even the control word is there. Its reserved bits are ignored (RDMAP-080),
    /// except for three that show the bit order.
    ///
    /// `first` says that this is the Initiator's first FPDU. Only there do 2/0/05 to 2/0/07 make sense. Elsewhere they are
    /// RDMAP's 0/2/05 to 0/2/07 in the other bit order (PEER-084).
    pub fn parse(payload: &[u8], first: bool) -> Option<Self> {
        let (&[octet, code, flags, _], rest) = payload.split_first_chunk()?;
        let straight = TerminateCode::new(octet >> 4, octet, code);
        let turned = TerminateCode::new(octet, octet >> 4, code);
        let without_headers = flags & (HAS_LENGTH | HAS_DDP | HAS_READ | SWAPPED_FLAGS) == 0;
        let swapped = if flags & SWAPPED_FLAGS != 0 {
            true
        } else if !straight.is_assigned() {
            turned.is_assigned()
        } else {
            without_headers
                && match (straight.layer, straight.etype, straight.code) {
                    (2, 0, 5..=7) => !first,
                    (0, 2, 5..=7) => first,
                    _ => false,
                }
        };
        let flags = if swapped { flags.reverse_bits() } else { flags };
        let mut terminate = Self::new(if swapped { turned } else { straight });
        terminate.swapped = swapped;
        terminate.read_headers(flags, rest);
        Some(terminate)
    }

    /// RDMAP-077, RDMAP-078, by the octets that are there.
    fn read_headers(&mut self, flags: u8, rest: &[u8]) {
        if flags & HAS_DDP == 0 {
            return;
        }
        let Some((length, rest)) = rest.split_first_chunk() else {
            return;
        };
        let Ok((header, rest)) = ddp::Header::split(rest) else {
            return;
        };
        if flags & HAS_LENGTH != 0 {
            self.segment_length = Some(u16::from_be_bytes(*length));
        }
        self.ddp = Some(header);
        if flags & HAS_READ != 0 {
            self.read = ReadRequest::parse_prefix(rest);
        }
    }

    /// The header as it is on the wire, and how many octets of it are used.
    pub fn to_bytes(&self) -> ([u8; Self::MAX_LEN], usize) {
        let mut out = [0; Self::MAX_LEN]; // and with it the reserved bits (RDMAP-080)
        let mut len = 4;
        out[..2].copy_from_slice(&self.code.octets());
        if let Some(header) = &self.ddp {
            out[2] = HAS_DDP;
            if let Some(length) = self.segment_length {
                out[2] |= HAS_LENGTH;
                out[4..6].copy_from_slice(&length.to_be_bytes());
            }
            let octets = header.as_bytes();
            len = 6 + octets.len();
            out[6..len].copy_from_slice(octets);
            if let Some(request) = &self.read {
                out[2] |= HAS_READ;
                out[len..len + ReadRequest::LEN].copy_from_slice(&request.to_bytes());
                len += ReadRequest::LEN;
            }
        }
        (out, len)
    }

    /// The opcode of the message whose headers these are.
    pub(crate) fn opcode(&self) -> Option<Opcode> {
        if self.read.is_some() {
            return Some(Opcode::ReadRequest);
        }
        // The version may be what was wrong with the message.
        let control = self.ddp?.ulp_control() & !header::VERSION_MASK | header::VERSION;
        Opcode::parse(control).ok()
    }
}

impl fmt::Display for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(f)?;
        if let Some(opcode) = self.opcode() {
            write!(f, " about a {}", opcode.name())?;
        }
        if let Some(request) = &self.read {
            write!(f, " that {request}")?;
        }
        if self.swapped {
            f.write_str(", bits swapped")?;
        }
        Ok(())
    }
}
