//! The Terminate header, RFC 5040 §4.8, read leniently: in the RFC's bit order and in that of little-endian hosts
//! (PEER-084), and by the octets that are there.

use super::{ReadRequest, header};

/// Layer, error type, error code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u8, pub u8, pub u8);

impl Code {
    /// Returns true if one of the RFCs lists the code.
    pub fn is_assigned(self) -> bool {
        match self {
            Self(0 | 1, 0, _) | Self(1, 3, _) => true,
            Self(0, 1, code) => matches!(code, 0..=4 | 9 | 0xFF),
            Self(0, 2, code) => matches!(code, 5..=9 | 0xFF),
            Self(1, 1, code) => code <= 4,
            Self(1, 2, code) => matches!(code, 1..=6),
            Self(2, 0, code) => matches!(code, 1..=7),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(layer, etype, code) = self;
        write!(f, "{layer:x}/{etype:x}/{code:02x}")
    }
}

/// A Terminate, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminate {
    /// Layer, type and code, corrected if the bits came in the other order.
    pub code: Code,
    /// The bits came in the order of a little-endian host (PEER-084).
    pub swapped: bool,
    /// M, D and R, corrected in the same way.
    pub flags: u8,
    /// The 13 bits behind M, D and R.
    pub reserved: u16,
    /// DDP Segment Length, if D is set and the octets are there.
    pub length: Option<u16>,
    /// Header of the offending segment, if D is set and the octets are there.
    pub header: Option<Vec<u8>>,
    /// The Read Request header, if R is set and the octets are there.
    pub read: Option<ReadRequest>,
    /// Octets behind all that is announced.
    pub surplus: usize,
    /// Whether all announced parts are there.
    pub whole: bool,
}

impl Terminate {
    /// M: the DDP Segment Length is valid.
    pub const M: u8 = 0x80;
    /// D: the DDP header is included.
    pub const D: u8 = 0x40;
    /// R: the Read Request header is included.
    pub const R: u8 = 0x20;

    /// Reads the octets behind the DDP header. `None` if the control word is not there. `first` says that this is the
    /// Initiator's first FPDU, where only 2/0/05 to 2/0/07 make sense.
    pub fn parse(payload: &[u8], first: bool) -> Option<Self> {
        let (&[octet, code, third, fourth], rest) = payload.split_first_chunk()?;
        let straight = Code(octet >> 4, octet & 0xF, code);
        let turned = Code(octet & 0xF, octet >> 4, code);
        let swapped = if third & 0x07 != 0 && third & 0xE0 == 0 {
            true
        } else if third & 0xE0 != 0 {
            false
        } else {
            let out_of_place = match straight {
                Code(2, 0, 5..=7) => !first,
                Code(0, 2, 5..=7) => first,
                _ => !straight.is_assigned(),
            };
            out_of_place && turned.is_assigned()
        };
        let flags = if swapped { third.reverse_bits() } else { third };
        let mut terminate = Self {
            code: if swapped { turned } else { straight },
            swapped,
            flags: flags & 0xE0,
            reserved: u16::from_be_bytes([flags & 0x1F, fourth]),
            length: None,
            header: None,
            read: None,
            surplus: 0,
            whole: true,
        };
        terminate.read_headers(rest);
        Some(terminate)
    }

    fn read_headers(&mut self, mut rest: &[u8]) {
        if self.flags & Self::D != 0 {
            let Some((length, behind)) = rest.split_first_chunk() else {
                self.whole = false;
                return;
            };
            self.length = Some(u16::from_be_bytes(*length));
            let len = match behind.first() {
                Some(control) if control & 0x80 != 0 => header::TAGGED,
                _ => header::UNTAGGED,
            };
            let Some((header, behind)) = behind.split_at_checked(len) else {
                self.whole = false;
                return;
            };
            self.header = Some(header.to_vec());
            rest = behind;
        }
        if self.flags & Self::R != 0 {
            self.read = ReadRequest::parse(rest);
            match rest.split_at_checked(ReadRequest::LEN) {
                Some((_, behind)) => rest = behind,
                None => self.whole = false,
            }
        }
        self.surplus = rest.len();
    }

    /// The payload of a Terminate with only a code.
    pub fn bare(Code(layer, etype, code): Code) -> [u8; 4] {
        [layer << 4 | etype & 0xF, code, 0, 0]
    }
}
