//! When a posted request is sent.
//!
//! A single request must not wait, and a hundred requests in a row must not cost a hundred system calls. So requests posted since the last
//! poll are counted. The first few are sent at once, each in a separate call. The others are held back until the next poll, until enough
//! have gathered to be worth a call, or until the background thread finds that no thread polls. The clock distinguishes a client that never
//! polls from a client that posts in a row. It is read once per row.

use std::time::{Duration, Instant};

/// Requests after a poll that are sent at once.
const AT_ONCE: u32 = 2;
/// A client that has posted more requests than this between two polls, and has polled at most [`HARDLY`] times since, is expected to
/// post in a row again. Then its first requests are held back too.
const ROW: u32 = 3;
const HARDLY: u32 = 4;
/// Without polls, requests that are further apart than this are single requests.
const LARGEST_GAP: Duration = Duration::from_micros(5);
/// The most requests that are held back.
const REQUESTS: u32 = 96;

/// The requests posted since the last poll.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gather {
    polls: u32,
    posted: u32,
    /// The requests posted before that, if few polls came between.
    before: u32,
    held: u32,
    octets: u64,
    /// The time of the last reading of the clock.
    looked: Option<Instant>,
}

/// When a request is sent that was just posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// In a separate call, or with those held back before it.
    Now,
    /// With the next ones.
    Later {
        /// No request was held back before it.
        first: bool,
    },
}

impl Gather {
    /// Adds a request, or a list of `requests`, of `octets`, posted after `polls` polls of its completion queue; `most` octets are worth a
    /// call.
    #[inline]
    pub(super) fn add(
        &mut self,
        polls: u32,
        requests: u32,
        (octets, most): (u64, u64),
        clock: impl FnOnce() -> Instant,
    ) -> Leaves {
        let polled = self.polls != polls;
        if polled {
            let close = polls.wrapping_sub(self.polls) <= HARDLY;
            self.before = if close { self.posted } else { 0 };
            self.polls = polls;
            self.posted = 0;
        }
        self.posted = self.posted.saturating_add(1);
        if self.held + requests >= REQUESTS || self.octets + octets >= most {
            return Leaves::Now;
        }
        if self.held > 0 {
            self.hold(requests, octets);
            return Leaves::Later { first: false };
        }
        let lone = self.posted <= AT_ONCE && self.before <= ROW;
        if lone || (!polled && self.is_apart(clock())) {
            return Leaves::Now;
        }
        self.hold(requests, octets);
        Leaves::Later { first: true }
    }

    fn hold(&mut self, requests: u32, octets: u64) {
        self.held += requests;
        self.octets += octets;
    }

    /// A request was sent at once. Time spent inside our own calls does not count as a pause of the client. The first two posts after a
    /// poll do not read the clock.
    pub(super) fn sent(&mut self, clock: impl FnOnce() -> Instant) {
        if self.posted >= AT_ONCE {
            self.looked = Some(clock());
        }
    }

    /// Returns true if the clock was last read long ago. Every post that is sent at once, or might be, reads the clock.
    fn is_apart(&mut self, now: Instant) -> bool {
        let before = self.looked.replace(now);
        before.is_none_or(|before| now.saturating_duration_since(before) > LARGEST_GAP)
    }

    /// Everything posted so far was passed on for sending.
    pub(super) fn left(&mut self) {
        self.held = 0;
        self.octets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1 << 20;

    /// A clock that must not be read.
    fn never() -> Instant {
        unreachable!("the clock costs time")
    }

    #[test]
    fn lone_requests_leave_at_once_and_rows_are_gathered() {
        let start = Instant::now();
        let mut gather = Gather::default();
        for polls in 1..5 {
            assert_eq!(gather.add(polls, 1, (8, MOST), never), Leaves::Now);
            assert_eq!(gather.add(polls, 1, (8, MOST), never), Leaves::Now);
        }
        gather.sent(|| start);
        assert_eq!(
            gather.add(4, 1, (8, MOST), || start),
            Leaves::Later { first: true }
        );
        for _ in 2..REQUESTS {
            assert_eq!(
                gather.add(4, 1, (8, MOST), never),
                Leaves::Later { first: false }
            );
        }
        assert_eq!(gather.add(4, 1, (8, MOST), never), Leaves::Now);
        gather.left();
        // The next row is held back from its first request on; a request much later is a single one again.
        assert_eq!(
            gather.add(5, 1, (8, MOST), never),
            Leaves::Later { first: true }
        );
        gather.left();
        assert_eq!(gather.add(50, 1, (8, MOST), never), Leaves::Now);
        gather.sent(never);
    }

    #[test]
    fn a_list_counts_as_one_request_until_it_is_long() {
        let start = Instant::now();
        let mut gather = Gather::default();
        for _ in 0..2 {
            assert_eq!(gather.add(1, 16, (128, MOST), never), Leaves::Now);
        }
        gather.sent(|| start);
        for first in [true, false] {
            let leaves = gather.add(1, 40, (320, MOST), || start);
            assert_eq!(leaves, Leaves::Later { first });
        }
        assert_eq!(gather.add(1, 16, (128, MOST), never), Leaves::Now);
        gather.left();
        assert_eq!(gather.add(2, REQUESTS, (768, MOST), never), Leaves::Now);
        assert_eq!(gather.add(2, 2, (MOST, MOST), never), Leaves::Now);
    }

    #[test]
    fn without_polls_the_clock_tells_lone_requests_from_rows() {
        let start = Instant::now();
        let mut gather = Gather::default();
        assert_eq!(gather.add(0, 1, (8, MOST), never), Leaves::Now);
        assert_eq!(gather.add(0, 1, (8, MOST), never), Leaves::Now);
        let far = [0, 10, 20, 30].map(|us| start + Duration::from_micros(us));
        for now in far {
            assert_eq!(gather.add(0, 1, (8, MOST), || now), Leaves::Now);
            gather.left();
        }
        let near = far[3] + LARGEST_GAP;
        assert_eq!(
            gather.add(0, 1, (8, MOST), || near),
            Leaves::Later { first: true }
        );
    }

    #[test]
    fn large_requests_do_not_wait_for_company() {
        let mut gather = Gather::default();
        for _ in 0..10 {
            assert_eq!(gather.add(4, 1, (MOST, MOST), never), Leaves::Now);
        }
    }
}
