//! MPA start-up frames, and what two sides agree on by these frames: RFC 5044 §7.1 (Rev 1) and RFC 6581 (Rev 2).
//!
//! ```text
//!  0                16      17    18          20
//!  | key, 16 octets | flags | Rev | PD_Length | Private Data, 0..512 |
//!                                             | A B IRD | C D ORD | …   with S = 1
//! ```
//!
//! The Initiator sends [`Offer::request`]. The Responder answers with [`accept`] or [`reject`]. The Initiator evaluates the
//! answer with [`Offer::conclude`]. [`FrameReader`] takes a frame off the stream on either side. Nothing here waits.
//! Callers handle errors: a malformed frame closes the connection without an answer (MPA-021, MPA-022).
//!
//! Rev 0 (RFC 5044 appendix C) is refused (MPA-010, MPA-029).

mod frame;
mod negotiate;
mod reader;

pub use frame::{
    Enhanced, Frame, FrameKind, HEADER_LEN, MAX_FRAME, MAX_PRIVATE_DATA, NOT_NEGOTIATED, ReadyKinds,
};
pub use negotiate::{Acceptance, Agreed, ConcludeError, Offer, accept, peer_limits, reject};
pub use reader::{FrameReader, StartupError};

#[cfg(test)]
mod tests;
