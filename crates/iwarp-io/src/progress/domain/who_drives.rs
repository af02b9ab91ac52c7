//! The driver of a domain: a thread that polls, a thread that sleeps and would be woken, or the background thread.

use std::sync::{Arc, OnceLock};

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The signs by which the background thread finds out if another thread attends a domain, and its own marks.
pub(super) struct WhoDrives {
    /// Counts polls, so that the background thread sees if another thread does its work.
    polls: AtomicU32,
    /// The value of `polls` that the background thread saw last.
    seen: AtomicU32,
    /// The value of `polls` when a thread that polled went to sleep last.
    ended: AtomicU32,
    /// The value of `polls` when a poll found what it looked for last.
    found: AtomicU32,
    /// No poll has followed such a poll lately: the thread waits for something that no poll shows.
    looks_elsewhere: AtomicBool,
    /// The thread that last polled the domain while it polled another one, and the value of `polls` then.
    helper: AtomicU64,
    /// Requests that make a parked thread drive this domain.
    interest: AtomicUsize,
    /// Threads parked in the waiters that drive this domain.
    parked: Arc<AtomicUsize>,
    /// The set that parked threads sleep in reports this domain.
    armed: AtomicBool,
    /// The background thread looks at this domain in every tick, or is about to.
    watched: AtomicBool,
    /// The background thread's token for this domain.
    background: OnceLock<u64>,
}

impl WhoDrives {
    /// Makes the state of a domain that no thread attends yet. `parked` counts the threads that sleep in the waiters which drive the
    /// domain.
    pub(super) fn new(parked: Arc<AtomicUsize>) -> Self {
        Self {
            polls: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            found: AtomicU32::new(0),
            looks_elsewhere: AtomicBool::new(false),
            helper: AtomicU64::new(0),
            interest: AtomicUsize::new(0),
            parked,
            armed: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            background: OnceLock::new(),
        }
    }

    /// Counts a poll. Two polls at the same time may count as one, because it only matters that the count changes while a thread polls.
    #[inline]
    pub(super) fn polled(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// A poll has found what it looked for. The thread may look elsewhere now, for instance at the memory into which its peer writes, so
    /// another poll may not follow.
    #[inline]
    pub(super) fn found(&self) {
        self.found.store(self.polls(), Ordering::Relaxed);
    }

    /// The number of the last poll that has found what it looked for.
    pub(super) fn found_at(&self) -> u32 {
        self.found.load(Ordering::Relaxed)
    }

    /// Returns true if the last poll has found what it looked for.
    pub(super) fn has_found(&self) -> bool {
        self.found.load(Ordering::Relaxed) == self.polls()
    }

    /// Returns true if a thread that polls another domain may also poll this one: no thread attends the domain, or only that thread has
    /// polled it since it last did so.
    pub(super) fn may_be_helped_by(&self, thread: u32) -> bool {
        let is_own = self.helper.load(Ordering::Relaxed) == of_helper(thread, self.polls());
        (is_own || !self.was_polled()) && !self.has_sleeper()
    }

    /// A thread that polls another domain has also polled this one, and has counted its poll.
    pub(super) fn helped_by(&self, thread: u32) {
        let helper = of_helper(thread, self.polls());
        self.helper.store(helper, Ordering::Relaxed);
    }

    /// The number of polls of the domain.
    #[inline]
    pub(super) fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }

    /// The thread that polled goes to sleep. Returns true if the background thread watches the domain.
    pub(super) fn polls_end(&self) -> bool {
        // Both with sequential consistency, because `polls_go_on` reads them in the other order: the background thread begins to watch, and
        // then checks if the polls have ended.
        self.ended.store(self.polls(), Ordering::SeqCst);
        self.watched.load(Ordering::SeqCst)
    }

    /// Returns false if the thread that made the last poll sleeps by now.
    pub(super) fn polls_go_on(&self) -> bool {
        self.ended.load(Ordering::SeqCst) != self.polls()
    }

    /// Returns true if a thread has polled since the last call.
    pub(super) fn take_polled(&self) -> bool {
        let polls = self.polls();
        self.seen.swap(polls, Ordering::Relaxed) != polls && self.polls_go_on()
    }

    /// Returns what [`take_polled`](Self::take_polled) would return now.
    pub(super) fn was_polled(&self) -> bool {
        self.seen.load(Ordering::Relaxed) != self.polls() && self.polls_go_on()
    }

    /// Returns true if the thread that polled waits for something that no poll shows, as far as the background thread has seen.
    pub(super) fn looks_elsewhere(&self) -> bool {
        self.looks_elsewhere.load(Ordering::Relaxed)
    }

    pub(super) fn set_looks_elsewhere(&self, looks: bool) {
        self.looks_elsewhere.store(looks, Ordering::Relaxed);
    }

    /// Returns true if a thread sleeps that an event in the domain's set would wake.
    pub(super) fn has_sleeper(&self) -> bool {
        self.has_interest()
            && self.parked.load(Ordering::SeqCst) > 0
            && self.armed.load(Ordering::SeqCst)
    }

    pub(super) fn set_armed(&self, armed: bool) {
        self.armed.store(armed, Ordering::SeqCst);
    }

    pub(super) fn add_interest(&self) {
        self.interest.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn drop_interest(&self) {
        self.interest.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns true if requests make a parked thread drive the domain.
    #[inline]
    pub(super) fn has_interest(&self) -> bool {
        self.interest.load(Ordering::SeqCst) > 0
    }

    /// Sets whether the background thread watches the domain. Returns the former value.
    pub(super) fn set_watched(&self, watched: bool) -> bool {
        self.watched.swap(watched, Ordering::SeqCst)
    }

    pub(super) fn set_background_token(&self, token: u64) {
        // A domain is added to one background thread, once.
        let _ = self.background.set(token);
    }

    pub(super) fn background_token(&self) -> Option<u64> {
        self.background.get().copied()
    }
}

fn of_helper(thread: u32, polls: u32) -> u64 {
    u64::from(thread) << 32 | u64::from(polls)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_poll_is_seen_once() {
        let attendance = WhoDrives::new(Arc::default());
        assert!(!attendance.was_polled());
        attendance.polled();
        attendance.polled();
        assert!(attendance.was_polled() && attendance.was_polled());
        assert!(attendance.take_polled());
        assert!(!attendance.was_polled() && !attendance.take_polled());
    }

    #[test]
    fn a_thread_may_help_where_nobody_else_polls() {
        let attendance = WhoDrives::new(Arc::default());
        for _ in 0..3 {
            assert!(attendance.may_be_helped_by(1));
            attendance.polled();
            attendance.helped_by(1);
            assert!(!attendance.may_be_helped_by(2));
        }
        assert!(attendance.take_polled(), "its polls count");
        // The owner polls.
        attendance.polled();
        assert!(!attendance.may_be_helped_by(1));
        // The owner no longer polls.
        assert!(attendance.take_polled());
        assert!(attendance.may_be_helped_by(2));
    }

    #[test]
    fn the_end_of_the_polls_is_told_to_a_background_thread_that_watches() {
        let attendance = WhoDrives::new(Arc::default());
        attendance.polled();
        assert!(!attendance.polls_end());
        assert!(!attendance.take_polled());
        assert!(!attendance.set_watched(true));
        attendance.polled();
        assert!(attendance.polls_end());
        assert!(!attendance.take_polled());
        assert!(attendance.set_watched(false));
    }

    /// The polling thread goes to sleep between the two looks of the background thread, and finds the domain not watched.
    #[test]
    fn polls_that_end_before_the_background_thread_watches_are_found_to_have_ended() {
        let attendance = WhoDrives::new(Arc::default());
        attendance.polled();
        assert!(attendance.take_polled() && attendance.polls_go_on());
        assert!(!attendance.polls_end());
        assert!(!attendance.set_watched(true));
        assert!(!attendance.polls_go_on() && !attendance.was_polled());
        attendance.polled();
        assert!(attendance.polls_go_on() && attendance.take_polled());
    }

    #[test]
    fn a_sleeper_has_a_request_and_a_set_that_reports_the_domain() {
        let parked = Arc::new(AtomicUsize::new(0));
        let attendance = WhoDrives::new(Arc::clone(&parked));
        for missing in 0..4 {
            if missing != 1 {
                attendance.add_interest();
            }
            parked.store(usize::from(missing != 2), Ordering::SeqCst);
            attendance.set_armed(missing != 3);
            assert_eq!(attendance.has_interest(), missing != 1);
            assert_eq!(attendance.has_sleeper(), missing == 0);
            if missing != 1 {
                attendance.drop_interest();
            }
        }
        assert!(!attendance.has_interest());
    }
}
