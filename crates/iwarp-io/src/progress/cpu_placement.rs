//! Chooses the core on which the background thread runs.
//!
//! The kernel wakes a thread on the core on which the thread last ran, unless another core is idle. When every application spins and no
//! core is idle, this may be the core on which the thread's own application spins. The thread then waits until the kernel preempts the
//! application. On the core that the data comes from, the thread runs at once, because a sender on this machine has just made a system call
//! there, or an interrupt of a network adapter has just been served there. So now and then the thread compares the two cores, and moves.
//! The thread is not bound to the core, and may still run wherever it was allowed to run before.

use parking_lot::Mutex;

/// The number of events between two comparisons of the cores: few at first, many if a move changes nothing.
const OFTEN: u32 = 8;
const SELDOM: u32 = 1024;

/// Held while a thread moves to a core, during which it is allowed on this core only. Each background thread has a separate lock. A lock
/// for the whole process could stay locked in the child of a fork, because the thread that held it does not exist there.
#[derive(Debug, Default)]
pub(crate) struct Moving(
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no thread moves"))] Mutex<()>,
);

/// Keeps the calling thread on the core that its data comes from.
#[derive(Debug)]
pub(crate) struct CpuPlacement {
    /// Events until the next comparison.
    left: u32,
    every: u32,
    /// The last comparison led to a move.
    moved: bool,
}

impl CpuPlacement {
    pub(crate) fn new() -> Self {
        Self {
            left: OFTEN,
            every: OFTEN,
            moved: false,
        }
    }

    /// Called when an event was served. `source` returns the core that the data came from.
    pub(crate) fn served(&mut self, source: impl FnOnce() -> Option<usize>, moving: &Moving) {
        self.count(source, system::current, |core| {
            system::move_to(core, moving)
        });
    }

    fn count(
        &mut self,
        source: impl FnOnce() -> Option<usize>,
        here: impl FnOnce() -> usize,
        move_to: impl FnOnce(usize) -> bool,
    ) {
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        let away = source().filter(|core| *core != here());
        // The last move did not last, because the system prefers another core.
        self.every = match away {
            Some(_) if self.moved => (self.every * 2).min(SELDOM),
            _ => OFTEN,
        };
        self.moved = away.is_some_and(move_to);
        self.left = self.every;
    }
}

pub(crate) use system::{ThreadId, allowed, this_thread};

#[cfg(target_os = "linux")]
mod system {
    use super::Moving;
    use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    pub(crate) type ThreadId = rustix::thread::Pid;

    pub(crate) fn this_thread() -> ThreadId {
        gettid()
    }

    /// The processors on which a thread may run: one bit for each of the first 64. `None` if it may run on none of these, or has ended.
    pub(crate) fn allowed(thread: ThreadId, moving: &Moving) -> Option<u64> {
        let _still = moving.0.lock();
        let set = sched_getaffinity(Some(thread)).ok()?;
        let first = 0..64.min(CpuSet::MAX_CPU);
        let mask = first.filter(|cpu| set.is_set(*cpu));
        let mask = mask.fold(0, |mask, cpu| mask | 1 << cpu);
        (mask != 0).then_some(mask)
    }

    pub(super) fn current() -> usize {
        sched_getcpu()
    }

    /// Moves the calling thread to a core, if the thread may run there.
    pub(super) fn move_to(core: usize, moving: &Moving) -> bool {
        let _moving = moving.0.lock();
        let Ok(allowed) = sched_getaffinity(None) else {
            return false;
        };
        if core >= CpuSet::MAX_CPU || !allowed.is_set(core) {
            return false;
        }
        let mut only = CpuSet::new();
        only.set(core);
        let moved = sched_setaffinity(None, &only).is_ok();
        // The thread must not keep the set of one core. Restoring the wider set cannot fail, because this set was in force
        // a moment ago.
        moved && sched_setaffinity(None, &allowed).is_ok()
    }
}

/// On other systems the core on which data arrived is unknown, so there is nothing to compare.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(crate) type ThreadId = ();

    pub(crate) fn this_thread() -> ThreadId {}

    pub(crate) fn allowed(_: ThreadId, _: &super::Moving) -> Option<u64> {
        None
    }

    pub(super) fn current() -> usize {
        0
    }

    pub(super) fn move_to(_: usize, _: &super::Moving) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of events until the core of the data is asked for next.
    fn until_look(
        cpu_placement: &mut CpuPlacement,
        from: Option<usize>,
        here: usize,
    ) -> (u32, Option<usize>) {
        let (mut events, mut looked, mut target) = (0, false, None);
        while !looked {
            events += 1;
            cpu_placement.count(
                || {
                    looked = true;
                    from
                },
                || here,
                |core| {
                    target = Some(core);
                    true
                },
            );
        }
        (events, target)
    }

    #[test]
    fn moves_that_do_not_last_become_rare() {
        let mut cpu_placement = CpuPlacement::new();
        assert_eq!(until_look(&mut cpu_placement, Some(1), 1), (OFTEN, None));
        assert_eq!(until_look(&mut cpu_placement, None, 1), (OFTEN, None));
        assert_eq!(until_look(&mut cpu_placement, Some(0), 1), (OFTEN, Some(0)));
        let mut every = OFTEN;
        while every < SELDOM {
            assert_eq!(until_look(&mut cpu_placement, Some(0), 1), (every, Some(0)));
            every *= 2;
        }
        assert_eq!(
            until_look(&mut cpu_placement, Some(0), 1),
            (SELDOM, Some(0))
        );
        assert_eq!(until_look(&mut cpu_placement, Some(1), 1), (SELDOM, None));
        assert_eq!(until_look(&mut cpu_placement, Some(0), 1), (OFTEN, Some(0)));
    }
}
