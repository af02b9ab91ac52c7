//! Deadlines: the calls that the background thread has to make, and their times.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Instant;

use parking_lot::Mutex;

/// An object that is called at a time.
pub trait Timed: Send + Sync {
    /// The deadline set under `key` has passed. The target may no longer need the call, and has to check that.
    fn expired(&self, key: TimerKey, now: Instant);

    /// Returns true if the deadline may only keep connections alive, so that it ends no wait by itself.
    fn is_upkeep(&self) -> bool {
        false
    }
}

/// Identifies one deadline, for [`Timers::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey(Instant, u64);

/// All deadlines of one adapter.
#[derive(Default)]
pub struct Timers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    serial: u64,
    queue: BTreeMap<TimerKey, Weak<dyn Timed>>,
    /// The time until which the background thread intends to sleep; `None`: without end.
    planned: Option<Instant>,
    /// The thread is a task of a simulated world, in which a wake-up is an event.
    simulated: bool,
}

impl Timers {
    /// Sets a deadline. Returns true if the background thread would sleep longer and has to be woken.
    #[must_use]
    pub fn add(&self, at: Instant, target: Weak<dyn Timed>) -> (TimerKey, bool) {
        let mut state = self.state.lock();
        state.serial += 1;
        let key = TimerKey(at, state.serial);
        state.queue.insert(key, target);
        let earlier = state.planned.is_none_or(|planned| at < planned);
        if earlier {
            // One wake-up is enough, no matter how many deadlines are added before the thread plans again.
            state.planned = Some(at);
        }
        (key, earlier)
    }

    /// Makes these the deadlines of a task of a simulated world. There a cancelled deadline is no event any more: it moves no clock.
    pub(super) fn in_simulation(&self) {
        self.state.lock().simulated = true;
    }

    /// Cancels a deadline. It is no error if the deadline has passed or was cancelled before. Returns true if the task of a simulated world
    /// has to plan anew.
    #[must_use]
    pub fn cancel(&self, key: TimerKey) -> bool {
        let mut state = self.state.lock();
        state.queue.remove(&key);
        let next = state.queue.first_key_value().map(|(key, _)| key.0);
        let is_withdrawn = state.planned == Some(key.0) && next != state.planned;
        if !state.simulated || !is_withdrawn {
            return false;
        }
        state.planned = next;
        true
    }

    /// Returns the time until which the background thread may sleep. The thread promises to wake then: at the next deadline, or sooner if
    /// it has promised that before. Most deadlines are taken back long before they pass, and later ones follow. The later ones find a
    /// promise that is early enough, so that they wake no thread. The task of a simulated world keeps no promises.
    pub fn plan(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state.lock();
        let next = state.queue.first_key_value().map(|(key, _)| key.0);
        let promised = state.planned.filter(|planned| *planned > now);
        let promised = promised.filter(|_| !state.simulated);
        state.planned = [next, promised].into_iter().flatten().min();
        state.planned
    }

    /// Returns true if all deadlines may only keep connections alive.
    pub fn are_upkeep(&self) -> bool {
        let state = self.state.lock();
        let mut targets = state.queue.values().filter_map(Weak::upgrade);
        targets.all(|target| target.is_upkeep())
    }

    /// Makes all calls that are due.
    pub fn run(&self, now: Instant) {
        while let Some((key, target)) = self.due(now) {
            if let Some(target) = target.upgrade() {
                target.expired(key, now);
            }
        }
    }

    fn due(&self, now: Instant) -> Option<(TimerKey, Weak<dyn Timed>)> {
        let mut state = self.state.lock();
        let first = state.queue.first_entry()?;
        (first.key().0 <= now).then(|| first.remove_entry())
    }
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers")
            .field("pending", &self.state.lock().queue.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Log(Mutex<Vec<TimerKey>>);

    impl Timed for Log {
        fn expired(&self, key: TimerKey, _: Instant) {
            self.0.lock().push(key);
        }
    }

    #[test]
    fn deadlines_fire_in_order_and_cancelled_ones_never() {
        let (timers, log, start) = (Timers::default(), Arc::new(Log::default()), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let target =
            || -> Weak<dyn Timed> { Arc::downgrade(&(Arc::clone(&log) as Arc<dyn Timed>)) };
        let (late, wake_late) = timers.add(at(30), target());
        let (early, wake_early) = timers.add(at(10), target());
        let (never, wake_never) = timers.add(at(20), target());
        assert!(wake_late && wake_early && !wake_never);
        assert!(!timers.cancel(never));
        assert_eq!(timers.plan(at(0)), Some(at(10)));
        timers.run(at(9));
        assert!(log.0.lock().is_empty());
        timers.run(at(30));
        assert_eq!(*log.0.lock(), [early, late]);
        assert_eq!(timers.plan(at(30)), None);
    }

    #[test]
    fn a_deadline_behind_one_that_was_taken_back_wakes_nobody() {
        let (timers, start) = (Timers::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let target = || -> Weak<dyn Timed> { Weak::<Log>::new() };
        let (first, wake) = timers.add(at(10), target());
        assert!(wake);
        assert_eq!(timers.plan(at(0)), Some(at(10)));
        assert!(!timers.cancel(first));
        // Another event has woken the thread. It sleeps again until the time that it has promised.
        assert_eq!(timers.plan(at(1)), Some(at(10)));
        let (second, wake) = timers.add(at(11), target());
        assert!(!wake);
        assert_eq!(timers.plan(at(2)), Some(at(10)));
        // An earlier deadline wakes the thread.
        let (third, wake) = timers.add(at(5), target());
        assert!(wake);
        assert!(!timers.cancel(third));
        assert_eq!(timers.plan(at(2)), Some(at(5)));
        // Once the thread has woken as promised, only the remaining deadlines count.
        assert_eq!(timers.plan(at(5)), Some(at(11)));
        assert!(!timers.cancel(second));
        assert_eq!(timers.plan(at(11)), None);
    }

    #[test]
    fn in_a_simulation_a_cancelled_deadline_is_withdrawn() {
        let (timers, start) = (Timers::default(), Instant::now());
        timers.in_simulation();
        let at = |ms| start + Duration::from_millis(ms);
        let target = || -> Weak<dyn Timed> { Weak::<Log>::new() };
        let (first, _) = timers.add(at(10), target());
        let (second, _) = timers.add(at(20), target());
        assert_eq!(timers.plan(at(0)), Some(at(10)));
        assert!(timers.cancel(first), "the task has planned for it");
        assert_eq!(timers.plan(at(0)), Some(at(20)));
        let (third, _) = timers.add(at(30), target());
        assert!(
            !timers.cancel(third),
            "the task has planned for another one"
        );
        let (twin, wake) = timers.add(at(20), target());
        assert!(!wake);
        assert!(!timers.cancel(second), "another one has the same time");
        assert!(timers.cancel(twin));
        assert_eq!(timers.plan(at(0)), None);
        assert!(!timers.cancel(twin));
    }
}
