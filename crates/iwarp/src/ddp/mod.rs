//! DDP: direct data placement, RFC 5041. This module has the headers and the errors of segments. The connection places
//! segments ([`crate::conn`]), because RDMAP decides where a segment may go. This module has no state, and ends no stream
//! (DDP-081).
//!
//! - [`tagged`]: the 14-octet header of section 4.2.
//! - [`untagged`]: the 18-octet header of section 4.3.

mod control;
mod segment;
pub mod tagged;
pub mod untagged;

pub use control::{LAST, Qn, TAGGED, Truncated, VERSION, VERSION_MASK};
pub use segment::{Error, Header, Segment};
pub use tagged::{TaggedError, TaggedHeader, TaggedSegment};
pub use untagged::{UntaggedError, UntaggedHeader, UntaggedSegment};

#[cfg(test)]
mod tests;
