//! Ends short waits on time on Windows, whose waits for sockets and condition variables end at the system's next tick, up to 15.6 ms late. A
//! sleep of the standard library ends on time there. So threads of this process sleep on behalf of those that wait, and wake them.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Longer waits end at a tick.
pub(super) const LONGEST: Duration = Duration::from_millis(32);

/// The most threads that sleep at once. A thread cannot be told to wake up earlier, so an alarm that is due before all of them takes another
/// thread.
const THREADS: usize = 8;

/// What an alarm wakes.
pub(super) trait Wakes: Send + Sync {
    /// Ends the wait, if it has not ended yet.
    fn wake(&self);
}

/// An alarm that has not gone off. Whoever waits drops the other reference when the wait ends.
struct Alarm {
    due: Instant,
    wakes: Weak<dyn Wakes>,
}

/// The one that is due first is the greatest.
impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.cmp(&self.due)
    }
}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Alarm {}

#[derive(Default)]
struct Alarms {
    /// Those for which no thread sleeps yet.
    waiting: BinaryHeap<Alarm>,
    /// The times until which threads sleep.
    asleep: Vec<Instant>,
    threads: usize,
    /// Threads that sleep for no alarm.
    idle: usize,
}

static ALARMS: Mutex<Alarms> = Mutex::new(Alarms {
    waiting: BinaryHeap::new(),
    asleep: Vec::new(),
    threads: 0,
    idle: 0,
});
static IS_SET: Condvar = Condvar::new();

/// Sets an alarm. If the process can have no thread, the wait ends at a tick.
pub(super) fn set(due: Instant, wakes: &Arc<impl Wakes + 'static>) {
    let wakes = Arc::downgrade(wakes) as Weak<dyn Wakes>;
    let mut alarms = ALARMS.lock();
    alarms.waiting.push(Alarm { due, wakes });
    if alarms.idle > 0 {
        IS_SET.notify_one();
    } else if alarms.threads < THREADS && alarms.asleep.iter().all(|until| due < *until) {
        let thread = thread::Builder::new().name("softnd alarms".into());
        if thread.spawn(sleep_for_others).is_ok() {
            alarms.threads += 1;
        }
    }
}

/// What a thread of alarms does, as long as the process lives.
fn sleep_for_others() {
    let mut alarms = ALARMS.lock();
    loop {
        let Some(alarm) = alarms.waiting.pop() else {
            alarms.idle += 1;
            IS_SET.wait(&mut alarms);
            alarms.idle -= 1;
            continue;
        };
        // The wait may have ended meanwhile.
        if alarm.wakes.strong_count() == 0 {
            continue;
        }
        alarms.asleep.push(alarm.due);
        drop(alarms);
        thread::sleep(alarm.due.saturating_duration_since(Instant::now()));
        if let Some(waiting) = alarm.wakes.upgrade() {
            waiting.wake();
        }
        alarms = ALARMS.lock();
        let at = alarms.asleep.iter().position(|until| *until == alarm.due);
        at.map(|at| alarms.asleep.swap_remove(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Flag(Mutex<bool>, Condvar);

    impl Wakes for Flag {
        fn wake(&self) {
            *self.0.lock() = true;
            self.1.notify_all();
        }
    }

    impl Flag {
        fn until_woken(&self) {
            let mut is_woken = self.0.lock();
            while !*is_woken {
                self.1.wait(&mut is_woken);
            }
        }
    }

    /// The first ones are due last.
    #[test]
    fn an_alarm_goes_off_although_threads_sleep_for_later_ones() {
        let now = Instant::now();
        let later: Vec<_> = (1..=3).map(|_| Arc::<Flag>::default()).collect();
        for (flag, hours) in later.iter().zip([3, 2, 1]) {
            set(now + Duration::from_secs(hours * 3600), flag);
        }
        for _ in 0..3 {
            let soon = Arc::<Flag>::default();
            set(Instant::now() + Duration::from_millis(2), &soon);
            soon.until_woken();
            assert!(later.iter().all(|flag| !*flag.0.lock()));
        }
    }

    #[test]
    fn nobody_is_kept_for_an_alarm() {
        let flag = Arc::<Flag>::default();
        set(Instant::now() + LONGEST, &flag);
        assert_eq!(Arc::strong_count(&flag), 1);
    }
}
