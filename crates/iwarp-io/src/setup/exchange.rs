//! The trait that the machines of both sides implement, for the code that drives them.

use std::time::{Duration, Instant};

use iwarp::StreamEnd;

/// A side of the set-up. Octets and time go in; outcomes come out.
pub trait Machine {
    /// The outcomes that the machine reports.
    type Outcome;

    /// The most octets to read from the transport now. Octets that are not wanted stay in the transport.
    fn wanted(&self) -> usize;

    /// Handles octets from the transport, no more than are [wanted](Self::wanted).
    fn handle_bytes(&mut self, now: Instant, octets: &[u8]) -> Option<Self::Outcome>;

    /// Returns true if the peer has to be silent now. The driver of the machine then checks for octets and for the peer's end without
    /// reading.
    fn expects_silence(&self) -> bool;

    /// There are octets in the transport that the machine does not want.
    fn handle_unwanted(&mut self) -> Option<Self::Outcome>;

    /// The peer has ended its direction of the stream, or the transport has failed.
    fn handle_end(&mut self, now: Instant, end: StreamEnd) -> Option<Self::Outcome>;

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) has to be called, unless another event comes before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// A deadline may have passed. Does nothing before [`poll_timeout`](Self::poll_timeout).
    fn handle_timeout(&mut self, now: Instant) -> Option<Self::Outcome>;
}

/// The end of a time limit; `None` if there is no limit, or if the clock cannot represent its end.
pub(super) fn deadline(now: Instant, limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| now.checked_add(limit))
}
