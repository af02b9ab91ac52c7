//! The first octets of a stream, before those of MPA, and the error codes of the mapping. `docs/internals/iwarp-over-quic.md` specifies
//! them.

use std::fmt;

/// The version of the mapping.
const VERSION: u8 = 1;

/// The length of a [`Preamble`] in octets.
pub const PREAMBLE: usize = 8;

/// The length of the answer to a preamble in octets.
pub const ANSWER: usize = 4;

/// The answer to a preamble: a listener has taken the stream.
pub const TAKEN: [u8; ANSWER] = [VERSION, 0, 0, 0];

/// The first octets from the side that opens a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// The port of the opener's NetworkDirect address.
    pub source: u16,
    /// The port of the NetworkDirect address that the opener connects to.
    pub destination: u16,
}

/// The reason why a stream is not taken, or is broken off: an application error code of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// The end is orderly: the stream is no longer read, or the connection no longer used.
    Closed = 0x100,
    /// A connection of NetworkDirect was broken off, as by a reset of TCP.
    Aborted = 0x101,
    /// There is no listener.
    NoListener = 0x102,
    /// The listener's queue is full.
    Busy = 0x103,
    /// The stream does not begin with a preamble.
    BadPreamble = 0x104,
    /// The version of the preamble is unknown.
    Version = 0x105,
    /// A limit of the receiver is exceeded.
    Limit = 0x106,
}

impl ErrorCode {
    /// The code with this number.
    pub fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0x100 => Self::Closed,
            0x101 => Self::Aborted,
            0x102 => Self::NoListener,
            0x103 => Self::Busy,
            0x104 => Self::BadPreamble,
            0x105 => Self::Version,
            0x106 => Self::Limit,
            _ => return None,
        })
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Aborted => "broken off",
            Self::NoListener => "nobody listens",
            Self::Busy => "the listener's queue is full",
            Self::BadPreamble => "no preamble of iWARP over QUIC",
            Self::Version => "unknown version of iWARP over QUIC",
            Self::Limit => "too much at once",
        })
    }
}

impl Preamble {
    /// Its octets.
    pub fn encode(self) -> [u8; PREAMBLE] {
        let ([s0, s1], [d0, d1]) = (self.source.to_be_bytes(), self.destination.to_be_bytes());
        [VERSION, 0, s0, s1, d0, d1, 0, 0]
    }

    /// Reads a preamble.
    ///
    /// # Errors
    ///
    /// The code with which the stream is to be refused.
    pub fn decode(octets: [u8; PREAMBLE]) -> Result<Self, ErrorCode> {
        let [version, flags, s0, s1, d0, d1, r0, r1] = octets;
        if version != VERSION {
            return Err(ErrorCode::Version);
        }
        let preamble = Self {
            source: u16::from_be_bytes([s0, s1]),
            destination: u16::from_be_bytes([d0, d1]),
        };
        // Port 0 is not valid.
        if flags != 0 || [r0, r1] != [0, 0] || preamble.source == 0 || preamble.destination == 0 {
            return Err(ErrorCode::BadPreamble);
        }
        Ok(preamble)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_preamble_has_the_octets_of_the_specification() {
        let preamble = Preamble {
            source: 0xC001,
            destination: 7174,
        };
        let octets = [1, 0, 0xC0, 0x01, 0x1C, 0x06, 0, 0];
        assert_eq!(preamble.encode(), octets);
        assert_eq!(Preamble::decode(octets), Ok(preamble));
    }

    #[test]
    fn error_codes_have_the_numbers_of_the_specification() {
        let page = include_str!("../../../pages/iwarp-over-quic.md");
        let names = [
            "CLOSED",
            "ABORTED",
            "NO_LISTENER",
            "BUSY",
            "BAD_PREAMBLE",
            "VERSION",
            "LIMIT",
        ];
        for (number, name) in (0x100..=0x106).zip(names) {
            let code = ErrorCode::from_number(number).expect("a code");
            assert_eq!(u64::from(code.number()), number);
            assert_eq!(format!("{code:?}").to_uppercase(), name.replace('_', ""));
            assert!(page.contains(&format!("\n| {number:#x} | {name} |")));
        }
        assert_eq!(
            (ErrorCode::from_number(0xFF), ErrorCode::from_number(0x107)),
            (None, None)
        );
    }

    proptest! {
        #[test]
        fn whatever_is_read_as_a_preamble_is_written_so(octets: [u8; PREAMBLE]) {
            match Preamble::decode(octets) {
                Ok(preamble) => prop_assert_eq!(preamble.encode(), octets),
                Err(ErrorCode::Version) => prop_assert_ne!(octets[0], VERSION),
                Err(code) => {
                    prop_assert_eq!(code, ErrorCode::BadPreamble);
                    let ports = [&octets[2..4], &octets[4..6]];
                    let named = ports.iter().all(|port| **port != [0, 0]);
                    prop_assert!(octets[1] != 0 || octets[6..] != [0, 0] || !named);
                }
            }
        }
    }
}
