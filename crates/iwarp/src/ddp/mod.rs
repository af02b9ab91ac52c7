//! DDP: direct data placement, RFC 5041. Headers and what can be wrong with a segment; placing is the connection's work
//! ([`crate::conn`]), because RDMAP decides where a segment may go. Nothing here has a state, or ends a stream
//! (DDP-081).
//!
//! - [`tagged`]: the 14-octet header of section 4.2.
//! - [`untagged`]: the 18-octet header of section 4.3.

mod header;
pub mod tagged;
pub mod untagged;

pub use header::{Header, LAST, Qn, Segment, TAGGED, Truncated, VERSION, VERSION_MASK};
pub use tagged::{TaggedError, TaggedHeader, TaggedSegment};
pub use untagged::{UntaggedError, UntaggedHeader, UntaggedSegment};

use core::fmt;

/// Why a ULPDU is not a DDP segment at all. It is told and no more: RDMAP ends the stream, not DDP (DDP-081).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Shorter than the header its T bit asks for.
    Truncated,
    /// A tagged segment with a fault of its own.
    Tagged(TaggedError),
    /// An untagged segment with a fault of its own.
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

#[cfg(test)]
mod tests;
