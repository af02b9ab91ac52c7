//! When a posted request leaves.
//!
//! A lone request must not wait, and a hundred in a row must not cost a hundred system calls. So requests posted since
//! the last poll are counted: the first few leave at once, each in a call of its own; the rest is held back until the
//! next poll, until enough has come together for one call to be worth its price, or until the background thread finds
//! that nobody polls. A client that never polls is told from one that posts a row by the clock, which is looked at once
//! per row.

use std::time::{Duration, Instant};

/// Requests after a poll that leave at once.
const AT_ONCE: u32 = 2;
/// A client that posted more than this since the poll before, and has hardly polled since, is going to post a row again:
/// then even its first requests are worth holding back.
const ROW: u32 = 3;
const HARDLY: u32 = 4;
/// Without a poll between them, requests that are further apart than this are lone ones.
const APART: Duration = Duration::from_micros(5);
/// Requests held back at most.
const REQUESTS: u32 = 96;

/// What was posted since the last poll.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gather {
    polls: u32,
    posted: u32,
    /// What was posted before that, if the polls follow each other closely.
    before: u32,
    held: u32,
    octets: u64,
    /// When the clock was looked at last.
    looked: Option<Instant>,
}

/// What becomes of a request just posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// In a call of its own, or with those held back before it.
    Now,
    /// With the next ones.
    Later {
        /// Nothing was held back before it.
        first: bool,
    },
}

impl Gather {
    /// A request of `octets` was posted, after so many polls of its completion queue; `most` octets are worth a call.
    pub(super) fn add(
        &mut self,
        polls: u32,
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
        if self.held + 1 >= REQUESTS || self.octets + octets >= most {
            return Leaves::Now;
        }
        if self.held > 0 {
            self.hold(octets);
            return Leaves::Later { first: false };
        }
        let lone = self.posted <= AT_ONCE && self.before <= ROW;
        if lone || (!polled && self.is_apart(clock())) {
            return Leaves::Now;
        }
        self.hold(octets);
        Leaves::Later { first: true }
    }

    fn hold(&mut self, octets: u64) {
        self.held += 1;
        self.octets += octets;
    }

    /// A request has left at once. The time that took is none that the client let pass. What is the first one after a
    /// poll asks for no time, nor does the next.
    pub(super) fn sent(&mut self, clock: impl FnOnce() -> Instant) {
        if self.posted >= AT_ONCE {
            self.looked = Some(clock());
        }
    }

    /// Whether it is long ago that the clock was looked at, which every post does that leaves at once, or might.
    fn is_apart(&mut self, now: Instant) -> bool {
        let before = self.looked.replace(now);
        before.is_none_or(|before| now.saturating_duration_since(before) > APART)
    }

    /// Everything posted so far is on its way.
    pub(super) fn left(&mut self) {
        self.held = 0;
        self.octets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1 << 20;

    /// A clock that must not be looked at.
    fn never() -> Instant {
        unreachable!("the clock costs time")
    }

    #[test]
    fn lone_requests_leave_at_once_and_rows_are_gathered() {
        let start = Instant::now();
        let mut gather = Gather::default();
        for polls in 1..5 {
            assert_eq!(gather.add(polls, (8, MOST), never), Leaves::Now);
            assert_eq!(gather.add(polls, (8, MOST), never), Leaves::Now);
        }
        gather.sent(|| start);
        assert_eq!(
            gather.add(4, (8, MOST), || start),
            Leaves::Later { first: true }
        );
        for _ in 2..REQUESTS {
            assert_eq!(
                gather.add(4, (8, MOST), never),
                Leaves::Later { first: false }
            );
        }
        assert_eq!(gather.add(4, (8, MOST), never), Leaves::Now);
        gather.left();
        // The next row is gathered from its first request on, a request much later is a lone one again.
        assert_eq!(
            gather.add(5, (8, MOST), never),
            Leaves::Later { first: true }
        );
        gather.left();
        assert_eq!(gather.add(50, (8, MOST), never), Leaves::Now);
        gather.sent(never);
    }

    #[test]
    fn without_polls_the_clock_tells_lone_requests_from_rows() {
        let start = Instant::now();
        let mut gather = Gather::default();
        assert_eq!(gather.add(0, (8, MOST), never), Leaves::Now);
        assert_eq!(gather.add(0, (8, MOST), never), Leaves::Now);
        let far = [0, 10, 20, 30].map(|us| start + Duration::from_micros(us));
        for now in far {
            assert_eq!(gather.add(0, (8, MOST), || now), Leaves::Now);
            gather.left();
        }
        let near = far[3] + APART;
        assert_eq!(
            gather.add(0, (8, MOST), || near),
            Leaves::Later { first: true }
        );
    }

    #[test]
    fn large_requests_do_not_wait_for_company() {
        let mut gather = Gather::default();
        for _ in 0..10 {
            assert_eq!(gather.add(4, (MOST, MOST), never), Leaves::Now);
        }
    }
}
