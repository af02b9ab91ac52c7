//! Which requests report their success, and the octet by which each side of a Write ping-pong notices the other's message.

use netdirect::OpFlags;

/// Requests of a turn. One in this many reports its success, and so does the last. The others keep their places in the queue until that one
/// completes (QP-073).
#[derive(Debug)]
pub(super) struct Signals {
    every: u64,
    posted: u64,
    reports: u64,
}

impl Signals {
    pub(super) fn one_in(every: u32) -> Self {
        Self {
            every: every.max(1).into(),
            posted: 0,
            reports: 0,
        }
    }

    /// Counts one more request, and returns its flags.
    #[inline]
    pub(super) fn post(&mut self, last: bool) -> OpFlags {
        self.posted += 1;
        if last || self.posted.is_multiple_of(self.every) {
            OpFlags::empty()
        } else {
            OpFlags::SILENT_SUCCESS
        }
    }

    /// Counts one more completion, which reports all requests up to its own.
    #[inline]
    pub(super) fn complete(&mut self) {
        self.reports += 1;
    }

    #[inline]
    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// Requests that are known to have completed.
    #[inline]
    pub(super) fn done(&self) -> u64 {
        (self.reports * self.every).min(self.posted)
    }

    /// Completions that are still to come, once the last request has been posted.
    pub(super) fn outstanding(&self) -> u64 {
        self.posted.div_ceil(self.every) - self.reports
    }
}

/// The next octet. It is never 0, which is the value between two turns, and never the same twice in a row.
#[inline]
pub(super) fn successor(value: u8) -> u8 {
    value % u8::MAX + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_never_zero_and_change_with_every_step() {
        let mut last = 0;
        for _ in 0..1000 {
            let value = successor(last);
            assert!(value != 0 && value != last);
            last = value;
        }
    }

    #[test]
    fn one_request_in_so_many_reports_and_the_last() {
        for (every, count) in [(1, 5), (4, 8), (4, 9), (4, 1), (16, 100)] {
            let mut signals = Signals::one_in(every);
            for i in 1..=count {
                if signals.post(i == count).is_empty() {
                    signals.complete();
                }
                assert!(signals.posted() - signals.done() < u64::from(every).max(1));
            }
            assert_eq!((signals.done(), signals.outstanding()), (count, 0));
        }
    }

    #[test]
    fn what_has_not_reported_is_outstanding() {
        let mut signals = Signals::one_in(4);
        assert_eq!(
            (1..=10)
                .filter(|i| signals.post(*i == 10).is_empty())
                .count(),
            3
        );
        assert_eq!((signals.done(), signals.outstanding()), (0, 3));
        signals.complete();
        assert_eq!((signals.done(), signals.outstanding()), (4, 2));
    }
}
