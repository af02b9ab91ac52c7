//! How long a thread that waits asks its hot streams before it sleeps.
//!
//! To wake a thread takes longer than a peer on the same machine needs to answer through shared memory, and asking a ring costs no system call.
//! So a thread asks for a while where its last waits were short. Each time that nothing comes halves the while, down to none; then waits have to
//! be short again, more often each time. An idle thread never asks.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The longest time for which a thread asks.
const LONGEST: Duration = Duration::from_micros(50);
/// A thread does not ask for less than this.
const SHORTEST: Duration = Duration::from_micros(5);
/// A sleep that ends within this time is short. The peer may have slept as well, so two wake-ups are in it.
const SHORT: Duration = Duration::from_micros(100);
/// How many short sleeps in a row make a thread ask, at first and at most.
const SHORT_IN_A_ROW: [u32; 2] = [2, 1 << 16];

/// What the last waits for requests with one overlapped file have shown. Threads that wait at the same time may overwrite what they note,
/// which costs one of them a sleep, or some microseconds.
pub(super) struct Asking {
    /// In nanoseconds; 0: a thread sleeps at once.
    limit: AtomicU64,
    /// Short sleeps since the last long one.
    short: AtomicU32,
    /// How many of them make a thread ask.
    wanted: AtomicU32,
}

impl Asking {
    pub(super) fn new() -> Self {
        let [first, _] = SHORT_IN_A_ROW;
        Self {
            limit: AtomicU64::new(0),
            short: AtomicU32::new(0),
            wanted: AtomicU32::new(first),
        }
    }

    /// For how long a thread asks before it sleeps. `None`: not at all.
    #[inline]
    pub(super) fn limit(&self) -> Option<Duration> {
        match self.limit.load(Ordering::Relaxed) {
            0 => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }

    fn set_limit(&self, limit: Duration) {
        let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.limit.store(nanoseconds, Ordering::Relaxed);
    }

    /// A request ended while its thread asked.
    pub(super) fn answered(&self) {
        let [first, _] = SHORT_IN_A_ROW;
        self.set_limit(LONGEST);
        self.wanted.store(first, Ordering::Relaxed);
    }

    /// No request ended while a thread asked for this long.
    pub(super) fn missed(&self, limit: Duration) {
        let half = limit / 2;
        if half >= SHORTEST {
            self.set_limit(half);
            return;
        }
        let [_, most] = SHORT_IN_A_ROW;
        let wanted = self.wanted.load(Ordering::Relaxed);
        self.wanted.store((wanted * 2).min(most), Ordering::Relaxed);
        self.short.store(0, Ordering::Relaxed);
        self.set_limit(Duration::ZERO);
    }

    /// A request ended after this time. Its thread slept, because threads do not ask.
    pub(super) fn slept(&self, took: Duration) {
        if took > SHORT {
            self.short.store(0, Ordering::Relaxed);
            return;
        }
        let short = self.short.load(Ordering::Relaxed) + 1;
        if short >= self.wanted.load(Ordering::Relaxed) {
            self.short.store(0, Ordering::Relaxed);
            self.set_limit(LONGEST);
        } else {
            self.short.store(short, Ordering::Relaxed);
        }
    }

    /// Makes threads ask for this long.
    #[cfg(all(test, any(loom, target_os = "linux")))]
    pub(super) fn ask_for(&self, limit: Duration) {
        self.set_limit(limit);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slept(asking: &Asking, times: u32, took: Duration) {
        (0..times).for_each(|_| asking.slept(took));
    }

    #[test]
    fn short_waits_make_a_thread_ask_and_each_miss_halves_the_time() {
        let asking = Asking::new();
        assert_eq!(asking.limit(), None);
        slept(&asking, 1, SHORT);
        slept(&asking, 1, SHORT * 2);
        slept(&asking, 1, SHORT);
        assert_eq!(asking.limit(), None);
        slept(&asking, 1, SHORT);
        let mut limits = Vec::new();
        while let Some(limit) = asking.limit() {
            limits.push(limit);
            asking.missed(limit);
        }
        let expected = [50_000, 25_000, 12_500, 6_250].map(Duration::from_nanos);
        assert_eq!(limits, expected);
    }

    #[test]
    fn a_thread_that_asked_in_vain_asks_less_and_less_often() {
        let asking = Asking::new();
        for wanted in [2, 4, 8, 16] {
            slept(&asking, wanted - 1, SHORT);
            assert_eq!(asking.limit(), None);
            slept(&asking, 1, SHORT);
            while let Some(limit) = asking.limit() {
                asking.missed(limit);
            }
        }
        // Until something comes while it asks.
        slept(&asking, 32, SHORT);
        asking.missed(asking.limit().unwrap());
        asking.answered();
        assert_eq!(asking.limit(), Some(LONGEST));
        while let Some(limit) = asking.limit() {
            asking.missed(limit);
        }
        slept(&asking, 4, SHORT);
        assert_eq!(asking.limit(), Some(LONGEST));
    }
}
