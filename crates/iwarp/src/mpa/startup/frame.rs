//! The two frames, RFC 5044 §7.1.1 and RFC 6581 §9: their fields and octets.

use core::fmt;

use crate::mpa::Ready;

/// Octets of a frame without its Private Data.
pub const HEADER_LEN: usize = 20;

/// The most Private Data that a frame may carry, RFC 6581's four octets included (MPA-012, MPA-013, MPA2-035).
pub const MAX_PRIVATE_DATA: usize = 512;

/// The longest frame.
pub const MAX_FRAME: usize = HEADER_LEN + MAX_PRIVATE_DATA;

/// IRD or ORD on the wire: "this value is not negotiated here" (RFC 6581 §9.1). Never sent except as the answer to itself
/// (MPA2-017, MPA2-018), because several peers take it for a number (PEER-014, PEER-072).
pub const NOT_NEGOTIATED: u16 = 0x3FFF;

pub(super) const KEY_LEN: usize = 16;
pub(super) const FLAGS: usize = 16;
pub(super) const REVISION: usize = 17;
pub(super) const ENHANCED_LEN: usize = 4;

const FLAG_MARKERS: u8 = 0x80;
const FLAG_CRC: u8 = 0x40;
pub(super) const FLAG_REJECTED: u8 = 0x20;
pub(super) const FLAG_ENHANCED: u8 = 0x10;

/// A in the IRD word, C in the ORD word.
const WORD_HIGH: u16 = 0x8000;
/// B in the IRD word, D in the ORD word.
const WORD_LOW: u16 = 0x4000;
const WORD_VALUE: u16 = 0x3FFF;

/// The kind of a start-up frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// The Initiator's.
    Request,
    /// The Responder's.
    Reply,
}

impl FrameKind {
    pub(super) const fn key(self) -> &'static [u8; KEY_LEN] {
        match self {
            Self::Request => b"MPA ID Req Frame",
            Self::Reply => b"MPA ID Rep Frame",
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Request => Self::Reply,
            Self::Reply => Self::Request,
        }
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "Request",
            Self::Reply => "Reply",
        })
    }
}

/// The four octets of RFC 6581 §9 in front of the Private Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enhanced {
    /// A: peer-to-peer, the Initiator's first FPDU is a ready-to-receive message. Without A, B, C and D mean nothing
    /// (MPA2-023).
    pub peer_to_peer: bool,
    /// B: ready-to-receive by a zero-length Send.
    pub rtr_send: bool,
    /// C: ready-to-receive by a zero-length Write.
    pub rtr_write: bool,
    /// D: ready-to-receive by a zero-length Read.
    pub rtr_read: bool,
    /// IRD of the sender of the frame, 14 bits, or [`NOT_NEGOTIATED`].
    pub ird: u16,
    /// ORD of the sender of the frame, 14 bits, or [`NOT_NEGOTIATED`].
    pub ord: u16,
}

impl Enhanced {
    fn parse([i0, i1, o0, o1]: [u8; ENHANCED_LEN]) -> Self {
        let (ird, ord) = (u16::from_be_bytes([i0, i1]), u16::from_be_bytes([o0, o1]));
        Self {
            peer_to_peer: ird & WORD_HIGH != 0,
            rtr_send: ird & WORD_LOW != 0,
            rtr_write: ord & WORD_HIGH != 0,
            rtr_read: ord & WORD_LOW != 0,
            ird: ird & WORD_VALUE,
            ord: ord & WORD_VALUE,
        }
    }

    /// MPA2-004.
    fn encode(self) -> [u8; ENHANCED_LEN] {
        let bit = |set: bool, bit: u16| if set { bit } else { 0 };
        let word = |high, low, value: u16| {
            let word: u16 = bit(high, WORD_HIGH) | bit(low, WORD_LOW) | (value & WORD_VALUE);
            word.to_be_bytes()
        };
        let [i0, i1] = word(self.peer_to_peer, self.rtr_send, self.ird);
        let [o0, o1] = word(self.rtr_write, self.rtr_read, self.ord);
        [i0, i1, o0, o1]
    }

    /// B, C and D.
    pub(super) const fn ready(self) -> ReadyKinds {
        ReadyKinds {
            send: self.rtr_send,
            write: self.rtr_write,
            read: self.rtr_read,
        }
    }
}

/// Types of ready-to-receive message: B, C and D of RFC 6581 §9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadyKinds {
    /// B: a zero-length Send. It takes a Receive of the Responder's application, which has to have one posted (MPA2-033).
    pub send: bool,
    /// C: a zero-length Write.
    pub write: bool,
    /// D: a zero-length Read.
    pub read: bool,
}

impl ReadyKinds {
    /// The types that no application notices.
    pub const UNSEEN: Self = Self {
        send: false,
        write: true,
        read: true,
    };

    /// All types.
    pub const ALL: Self = Self {
        send: true,
        write: true,
        read: true,
    };

    /// The types that both have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            send: self.send && other.send,
            write: self.write && other.write,
            read: self.read && other.read,
        }
    }

    /// The type to use: a Write rather than a Read, and a Send only if there is no other.
    #[must_use]
    pub const fn preferred(self) -> Option<Ready> {
        if self.write {
            Some(Ready::Write)
        } else if self.read {
            Some(Ready::Read)
        } else if self.send {
            Some(Ready::Send)
        } else {
            None
        }
    }
}

impl fmt::Display for Enhanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IRD {} ORD {}", self.ird, self.ord)?;
        let flags = [
            self.peer_to_peer,
            self.rtr_send,
            self.rtr_write,
            self.rtr_read,
        ];
        for (name, _) in ["A", "B", "C", "D"]
            .iter()
            .zip(flags)
            .filter(|(_, set)| *set)
        {
            write!(f, " {name}")?;
        }
        Ok(())
    }
}

/// One Request or Reply frame. Reserved bits, and R in a Request, are neither read nor written (MPA-006, MPA-007, MPA-008),
/// so that an answer never echoes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Request or Reply.
    pub kind: FrameKind,
    /// M: the sender of the frame wants markers in what it receives.
    pub markers: bool,
    /// C: the sender of the frame wants CRC.
    pub crc: bool,
    /// R: the Responder refuses. Never set in a Request.
    pub rejected: bool,
    /// Rev: 1 or 2.
    pub revision: u8,
    /// RFC 6581's words, when S = 1.
    pub enhanced: Option<Enhanced>,
    /// The application's Private Data, at most [`Frame::max_private_data`] octets.
    pub private_data: Vec<u8>,
}

impl Frame {
    /// The most Private Data that the application can put into a frame. RFC 6581's words take four octets of the Private
    /// Data (MPA2-035).
    #[must_use]
    pub const fn max_private_data(enhanced: bool) -> usize {
        if enhanced {
            MAX_PRIVATE_DATA - ENHANCED_LEN
        } else {
            MAX_PRIVATE_DATA
        }
    }

    /// Reads the fields of a whole frame that has passed the checks.
    pub(super) fn parse_checked(kind: FrameKind, octets: &[u8]) -> Self {
        let flags = octets[FLAGS];
        let mut private_data = &octets[HEADER_LEN..];
        let enhanced = match private_data.split_first_chunk() {
            Some((words, rest)) if flags & FLAG_ENHANCED != 0 => {
                private_data = rest;
                Some(Enhanced::parse(*words))
            }
            _ => None,
        };
        Self {
            kind,
            markers: flags & FLAG_MARKERS != 0,
            crc: flags & FLAG_CRC != 0,
            rejected: kind == FrameKind::Reply && flags & FLAG_REJECTED != 0, // MPA-008
            revision: octets[REVISION],
            enhanced,
            private_data: private_data.to_vec(), // MPA-013
        }
    }

    /// Appends the frame to `out`, without CRC, markers and padding (MPA-018). Write the frame in one piece, below the
    /// segment size, with nothing behind it, because several peers read it with one call (PEER-010, PEER-053, PEER-080).
    ///
    /// # Panics
    ///
    /// If the Private Data exceeds [`Frame::max_private_data`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(
            self.private_data.len() <= Self::max_private_data(self.enhanced.is_some()),
            "Private Data of {} octets does not fit an MPA {} frame",
            self.private_data.len(),
            self.kind,
        );
        let enhanced = self.enhanced.map(Enhanced::encode);
        let words = enhanced.as_ref().map_or(&[][..], |words| &words[..]);
        // MPA-011
        let len = u16::try_from(words.len() + self.private_data.len()).expect("at most 512");
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.extend_from_slice(self.kind.key());
        out.push(
            flag(self.markers, FLAG_MARKERS)
                | flag(self.crc, FLAG_CRC)
                | flag(
                    self.rejected && self.kind == FrameKind::Reply,
                    FLAG_REJECTED,
                )
                | flag(self.enhanced.is_some(), FLAG_ENHANCED),
        );
        out.push(self.revision);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(words);
        out.extend_from_slice(&self.private_data);
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MPA {} Rev {}", self.kind, self.revision)?;
        for (name, _) in [
            ("markers", self.markers),
            ("CRC", self.crc),
            ("rejected", self.rejected),
        ]
        .iter()
        .filter(|(_, set)| *set)
        {
            write!(f, " {name}")?;
        }
        if let Some(enhanced) = self.enhanced {
            write!(f, ", {enhanced}")?;
        }
        write!(f, ", {} octets of Private Data", self.private_data.len())
    }
}
