//! What the two machines have in common, for whoever drives them.

use std::time::{Duration, Instant};

use iwarp::StreamEnd;

/// A side of the set-up. Octets and time go in; what they lead to comes out.
pub trait Machine {
    /// What the machine tells.
    type Outcome;

    /// How many octets to read from the transport now, at most. An octet that is not wanted stays in the transport.
    fn wanted(&self) -> usize;

    /// Takes in octets from the transport, no more than are [wanted](Self::wanted).
    fn handle_bytes(&mut self, now: Instant, octets: &[u8]) -> Option<Self::Outcome>;

    /// Whether the peer has to be silent now. Whoever drives the machine looks for octets and for the peer's end without reading.
    fn expects_silence(&self) -> bool;

    /// There are octets in the transport that the machine does not want.
    fn handle_unwanted(&mut self) -> Option<Self::Outcome>;

    /// The peer has ended its direction of the stream, or the transport has failed.
    fn handle_end(&mut self, now: Instant, end: StreamEnd) -> Option<Self::Outcome>;

    /// When [`handle_timeout`](Self::handle_timeout) has to be called, unless something else happens before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// A deadline may have passed. Nothing happens before [`poll_timeout`](Self::poll_timeout).
    fn handle_timeout(&mut self, now: Instant) -> Option<Self::Outcome>;
}

/// The end of a time limit; `None` where there is no limit, or the clock cannot show its end.
pub(super) fn deadline(now: Instant, limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| now.checked_add(limit))
}
