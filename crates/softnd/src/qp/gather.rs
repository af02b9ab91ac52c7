//! When a posted request leaves.
//!
//! A lone request must not wait, and a hundred in a row must not cost a hundred system calls. So requests posted since
//! the last poll are counted: the first few leave at once, each in a call of its own; the rest is held back until the
//! next poll, until enough has come together for one call to be worth its price, or until the background thread finds
//! that nobody polls.

/// Requests after a poll that leave at once.
const AT_ONCE: u32 = 2;
/// A client that posted more than this since the poll before, and has hardly polled since, is going to post a row again:
/// then even its first requests are worth holding back.
const ROW: u32 = 8;
const HARDLY: u32 = 4;
/// Held back at most, in requests and in octets.
const REQUESTS: u32 = 96;
const OCTETS: u64 = 512 * 1024;

/// What was posted since the last poll.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gather {
    polls: u32,
    posted: u32,
    /// What was posted before that, if the polls follow each other closely.
    before: u32,
    held: u32,
    octets: u64,
}

/// What becomes of a request just posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Now,
    /// With the next ones; `first` when nothing was held back before it.
    Later {
        first: bool,
    },
}

impl Gather {
    /// A request of `octets` was posted, after so many polls of its completion queue.
    pub(super) fn add(&mut self, polls: u32, octets: u64) -> Leaves {
        if self.polls != polls {
            let close = polls.wrapping_sub(self.polls) <= HARDLY;
            self.before = if close { self.posted } else { 0 };
            self.polls = polls;
            self.posted = 0;
        }
        self.posted = self.posted.saturating_add(1);
        let enough = self.held + 1 >= REQUESTS || self.octets + octets >= OCTETS;
        let lone = self.held == 0 && self.posted <= AT_ONCE && self.before <= ROW;
        if enough || lone {
            return Leaves::Now;
        }
        let first = self.held == 0;
        self.held += 1;
        self.octets += octets;
        Leaves::Later { first }
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

    #[test]
    fn lone_requests_leave_at_once_and_rows_are_gathered() {
        let mut gather = Gather::default();
        for polls in 1..5 {
            assert_eq!(gather.add(polls, 8), Leaves::Now);
            assert_eq!(gather.add(polls, 8), Leaves::Now);
        }
        assert_eq!(gather.add(4, 8), Leaves::Later { first: true });
        for _ in 2..REQUESTS {
            assert_eq!(gather.add(4, 8), Leaves::Later { first: false });
        }
        assert_eq!(gather.add(4, 8), Leaves::Now);
        gather.left();
        // The next row is gathered from its first request on, a request much later is a lone one again.
        assert_eq!(gather.add(5, 8), Leaves::Later { first: true });
        gather.left();
        assert_eq!(gather.add(50, 8), Leaves::Now);
    }

    #[test]
    fn large_requests_do_not_wait_for_company() {
        let mut gather = Gather::default();
        assert_eq!(gather.add(4, OCTETS), Leaves::Now);
        assert_eq!(gather.add(4, 8), Leaves::Now);
        assert_eq!(gather.add(4, OCTETS), Leaves::Now);
        gather.left();
        assert_eq!(gather.add(4, OCTETS / 2), Leaves::Later { first: true });
        assert_eq!(gather.add(5, OCTETS / 2), Leaves::Now);
    }
}
