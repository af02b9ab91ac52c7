//! Lets other threads run where polls find nothing and the process has one processor.
//!
//! A thread that polls keeps its processor busy. If there is no other, the peer, the background thread or the thread that is to post next
//! cannot run before the system preempts the thread that polls, which takes milliseconds. So after a few polls that have found nothing the
//! thread yields. With several processors nothing is counted: a poll reads one flag.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::processors;
use crate::thread_value::with_value;

/// The process has one processor, as far as the last look has shown.
static ONE_PROCESSOR: AtomicBool = AtomicBool::new(false);

/// The time between two looks at the processors that the process may use.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The thread yields at this one of the polls in a row that find nothing, and at those that follow.
const SEVERAL: u32 = 3;
/// A yield that takes less time than this has let no other thread run.
const UNUSED: Duration = Duration::from_micros(2);
/// After this many unused yields in a row, the thread yields only at one poll in [`SELDOM`]: a thread that has a processor to itself polls
/// at nearly its full rate.
const UNUSED_IN_A_ROW: u32 = 8;
const SELDOM: u32 = 16;

/// Asks the system what the process may use. Called when an adapter is opened, and by [`Looks`].
pub(crate) fn look() {
    ONE_PROCESSOR.store(processors::is_single(), Ordering::Relaxed);
}

/// The looks of one background thread, which runs now and then while other threads poll.
#[derive(Debug, Default)]
pub(crate) struct Looks(Option<Instant>);

impl Looks {
    /// Looks if it is time for that.
    #[inline]
    pub(crate) fn at(&mut self, now: Instant) {
        if self.is_due(now) {
            look();
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let next = *self.0.get_or_insert(now + BETWEEN_LOOKS);
        let is_due = now >= next;
        if is_due {
            self.0 = Some(now + BETWEEN_LOOKS);
        }
        is_due
    }
}

/// Returns false if a thread that asks again and again would keep the only processor from those that it waits for.
#[inline]
pub(crate) fn may_spin() -> bool {
    !ONE_PROCESSOR.load(Ordering::Relaxed)
}

/// A poll by this thread has found nothing.
#[inline]
pub fn polled_in_vain() {
    if ONE_PROCESSOR.load(Ordering::Relaxed) {
        count_and_yield();
    }
}

/// A poll by this thread has found what it looked for.
#[inline]
pub(crate) fn found() {
    if ONE_PROCESSOR.load(Ordering::Relaxed) {
        restart();
    }
}

#[cold]
fn count_and_yield() {
    if with_value(&VAIN_POLLS, VainPolls::count) {
        let begun = Instant::now();
        thread::yield_now();
        let took = begun.elapsed();
        with_value(&VAIN_POLLS, |polls| polls.yielded(took));
    }
}

#[cold]
fn restart() {
    with_value(&VAIN_POLLS, VainPolls::found);
}

thread_local! {
    static VAIN_POLLS: RefCell<VainPolls> = const { RefCell::new(VainPolls { in_a_row: 0, unused: 0 }) };
}

/// The polls of one thread that find nothing.
#[derive(Debug, Default)]
struct VainPolls {
    in_a_row: u32,
    /// Yields in a row that have let no other thread run.
    unused: u32,
}

impl VainPolls {
    /// Counts one more poll. Returns true if the thread is to yield.
    fn count(&mut self) -> bool {
        self.in_a_row = self.in_a_row.wrapping_add(1);
        if self.unused < UNUSED_IN_A_ROW {
            self.in_a_row >= SEVERAL
        } else {
            self.in_a_row.is_multiple_of(SELDOM)
        }
    }

    /// The thread has yielded, and runs again after this time.
    fn yielded(&mut self, took: Duration) {
        self.unused = match took < UNUSED {
            true => self.unused.saturating_add(1),
            false => 0,
        };
    }

    fn found(&mut self) {
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A yield that has let another thread run.
    const USED: Duration = Duration::from_micros(5);

    /// The yields among this many polls that find nothing.
    fn yields(polls: &mut VainPolls, count: u32, took: Duration) -> u32 {
        (0..count).fold(0, |yields, _| {
            if !polls.count() {
                return yields;
            }
            polls.yielded(took);
            yields + 1
        })
    }

    #[test]
    fn a_thread_yields_after_several_polls_in_a_row_that_find_nothing() {
        let mut polls = VainPolls::default();
        for _ in 0..100 {
            assert_eq!(yields(&mut polls, SEVERAL - 1, USED), 0);
            polls.found();
        }
        assert_eq!(yields(&mut polls, SEVERAL - 1, USED), 0);
        assert_eq!(yields(&mut polls, 100, USED), 100);
        polls.found();
        assert_eq!(yields(&mut polls, SEVERAL, USED), 1);
    }

    #[test]
    fn a_thread_alone_on_its_processor_seldom_yields() {
        let mut polls = VainPolls::default();
        let first = SEVERAL - 1 + UNUSED_IN_A_ROW;
        assert_eq!(yields(&mut polls, first, Duration::ZERO), UNUSED_IN_A_ROW);
        let seldom = yields(&mut polls, 100 * SELDOM, Duration::ZERO);
        assert_eq!(seldom, 100);
        // Another thread has run: it may have to run again.
        assert_eq!(yields(&mut polls, SELDOM, USED), first % SELDOM + 1);
        assert_eq!(yields(&mut polls, 100, USED), 100);
    }

    #[test]
    fn the_count_does_not_end() {
        let mut polls = VainPolls {
            in_a_row: u32::MAX - 1,
            unused: 0,
        };
        assert!(yields(&mut polls, 10, USED) > 0);
    }

    #[test]
    fn a_look_is_due_from_time_to_time() {
        let (begin, mut looks) = (Instant::now(), Looks::default());
        let mut due = |millis| looks.is_due(begin + Duration::from_millis(millis));
        let found = [0, 500, 999, 1_000, 1_001, 1_999, 2_000, 5_000, 5_500, 6_000].map(&mut due);
        assert_eq!(
            found,
            [
                false, false, false, true, false, false, true, true, false, true
            ]
        );
    }
}
