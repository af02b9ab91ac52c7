//! MPA: the framing between TCP and DDP (RFC 5044), with the enhanced connection set-up of RFC 6581.
//!
//! - [`startup`]: Request and Reply frames, and what two sides agree on by these frames (RFC 5044 §7.1, RFC 6581).
//! - [`fpdu`]: framing of one ULPDU (RFC 5044 §4.1).
//! - [`crc`]: the CRC32c of an FPDU (RFC 5044 §4.4).
//! - [`marker`]: FPDUs in a direction with markers (RFC 5044 §4.2, §4.3).

pub mod crc;
pub mod fpdu;
pub mod marker;
mod role;
pub mod startup;

use core::fmt;

pub use crc::{Crc, crc32c};
pub use role::{Markers, Ready, Role};

/// The errors of MPA. One variant is one MPA error code, RFC 5044 §8 and RFC 6581 §8. All variants map to a Terminate of
/// layer 2, type 0, with [`Error::code`] as the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Error {
    /// The TCP connection was closed, terminated or lost.
    Closed = 1,
    /// The received CRC differs from the computed one.
    Crc = 2,
    /// Marker position and `ULPDU_Length` disagree about where an FPDU starts.
    Marker = 3,
    /// A Request or Reply frame is invalid.
    Startup = 4,
    /// A local failure ended the set-up (RFC 6581 §8).
    LocalCatastrophic = 5,
    /// The Initiator cannot provide the IRD that the Reply's ORD asks for (RFC 6581 §9.1).
    InsufficientIrd = 6,
    /// The Initiator can send none of the ready-to-receive messages that the Reply allows (RFC 6581 §9.2).
    NoReady = 7,
}

impl Error {
    /// The error code as it is in a Terminate of layer 2, type 0.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the connection was closed or lost in the middle of an FPDU",
            Self::Crc => "the CRC of an FPDU is wrong",
            Self::Marker => "a marker and an FPDU's length disagree",
            Self::Startup => "an MPA Request or Reply frame is invalid",
            Self::LocalCatastrophic => "a local failure ended the MPA set-up",
            Self::InsufficientIrd => "the Reply asks for more inbound Reads than can be provided",
            Self::NoReady => "the Reply allows no ready-to-receive message that can be sent",
        })
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
pub(crate) mod testing {
    //! Helpers for several tests.

    /// The octets written as hexadecimal digits; white space is skipped.
    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .bytes()
            .filter(|octet| !octet.is_ascii_whitespace())
            .map(|digit| {
                u8::try_from(char::from(digit).to_digit(16).expect("a hex digit")).unwrap()
            })
            .collect();
        let (pairs, rest) = digits.as_chunks::<2>();
        assert!(rest.is_empty(), "whole octets");
        pairs.iter().map(|[high, low]| high << 4 | low).collect()
    }
}
