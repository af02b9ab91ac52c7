//! Why memory could not be registered or deregistered.

use std::fmt;

/// Why a region, a window or a table could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// Every slot of the table is in use (ND_INSUFFICIENT_RESOURCES, MR-008).
    Full,
    /// The operating system gave no random numbers. STags are made from them, because an STag must not be guessed
    /// (ND_INSUFFICIENT_RESOURCES).
    NoRandomness,
    /// The tagged offset of the first octet plus the length is 2^64 or more ([`Table::register_at`](crate::Table::register_at)).
    Wraps,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "no free entry in the STag table",
            Self::NoRandomness => "the operating system gave no random numbers",
            Self::Wraps => {
                "the tagged offsets of the region would not fit into 64 bits; register it at a lower offset"
            }
        })
    }
}

impl std::error::Error for RegisterError {}

/// The region cannot be deregistered: windows are bound to it, or Binds to it are prepared (ND_DEVICE_BUSY, MR-026).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory windows are bound to the region, or about to be")
    }
}

impl std::error::Error for Busy {}
