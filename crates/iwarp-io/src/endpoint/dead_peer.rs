//! A peer whose host is gone: nothing that was sent is acknowledged for a time, although there is room for it at the peer.
//!
//! The user timeout of TCP would not do. It also ends a live peer that has no Receives, whose window is closed. So the system is asked now
//! and then while a request is open. Octets that wait for room at the peer do not count as sent.

use std::time::{Duration, Instant};

use crate::transport::stream::Stream;

/// The looks within a time limit.
const LOOKS: u32 = 4;

/// The observation of a peer while a request is open.
#[derive(Debug)]
pub(super) struct DeadPeerWatch {
    limit: Duration,
    /// The time of the next look.
    pub(super) next: Instant,
    /// The peer was seen to be there at this time.
    since: Instant,
    /// The octets that it had acknowledged then.
    octets: Option<u64>,
    /// The system asks the peer, because nothing is on its way.
    asks: bool,
}

impl DeadPeerWatch {
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self {
            limit,
            next: now + limit / LOOKS,
            since: now,
            octets: None,
            asks: false,
        }
    }

    /// Looks at the stream. Returns true if the peer's host is gone, and `None` if nobody can say.
    pub(super) fn look(&mut self, stream: &Stream, now: Instant) -> Option<bool> {
        let seen = stream.acknowledgements()?;
        self.next = now + self.limit / LOOKS;
        let is_silent = seen.open_segments > 0 && self.octets == Some(seen.octets);
        if is_silent {
            return Some(now.saturating_duration_since(self.since) >= self.limit);
        }
        if seen.open_segments == 0 && !std::mem::replace(&mut self.asks, true) {
            stream.ask_within(Some(self.limit));
        }
        self.since = now;
        self.octets = Some(seen.octets);
        Some(false)
    }

    /// No request is open any more.
    pub(super) fn end(self, stream: &Stream) {
        if self.asks {
            stream.ask_within(None);
        }
    }
}
