//! The processors that the process may use.

use std::thread;

/// Returns true if the process can use only one processor at a time: the machine has one, all threads are bound to the same one, or a
/// control group (cgroup v1 or v2) has a quota of less than two. Asks the system at each call, which takes some 10 µs.
///
/// A thread that is bound to one processor does not count as the process: other threads may use others.
#[must_use]
pub fn is_single() -> bool {
    // This is the smaller one of two numbers: the processors of this thread, and the quota, rounded down.
    let parallelism = thread::available_parallelism().map_or(usize::MAX, usize::from);
    rule(parallelism, system::of_thread, system::of_process)
}

/// `parallelism` is that of the calling thread. The processors of the thread and of the process are counted only if they matter.
fn rule(
    parallelism: usize,
    of_thread: impl FnOnce() -> Option<usize>,
    of_process: impl FnOnce() -> usize,
) -> bool {
    // If the thread may run on several processors, or no one knows, it is the quota that is below two.
    parallelism == 1 && (of_thread() != Some(1) || of_process() == 1)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;

    use rustix::thread::{CpuSet, Pid, sched_getaffinity};

    /// At most this many threads are looked at, so that the time is bounded.
    const THREADS: usize = 64;

    /// The number of processors on which the calling thread may run.
    pub(super) fn of_thread() -> Option<usize> {
        Some(count(&sched_getaffinity(None).ok()?))
    }

    /// The number of processors on which any thread of the process may run, at least 1; not exact beyond 1.
    pub(super) fn of_process() -> usize {
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
        let ids = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
        let sets = ids.filter_map(|id| sched_getaffinity(Some(Pid::from_raw(id)?)).ok());
        of_sets(sets.take(THREADS))
    }

    fn of_sets(sets: impl IntoIterator<Item = CpuSet>) -> usize {
        let mut all: Option<CpuSet> = None;
        for set in sets {
            if count(&set) > 1 || *all.get_or_insert(set) != set {
                return 2;
            }
        }
        1
    }

    fn count(set: &CpuSet) -> usize {
        usize::try_from(set.count()).unwrap_or(usize::MAX)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn set(cpus: &[usize]) -> CpuSet {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|cpu| set.set(*cpu));
            set
        }

        #[test]
        fn threads_on_two_processors_are_a_process_on_two() {
            assert_eq!(of_sets([]), 1);
            assert_eq!(of_sets([set(&[3])]), 1);
            assert_eq!(of_sets([set(&[3]), set(&[3]), set(&[3])]), 1);
            assert_eq!(of_sets([set(&[3]), set(&[5])]), 2);
            assert_eq!(of_sets([set(&[3]), set(&[3, 5])]), 2);
            assert_eq!(of_sets([set(&[3, 5])]), 2);
        }

        #[test]
        fn a_bound_thread_is_not_the_process() {
            let anywhere = of_process();
            let bound = std::thread::spawn(|| {
                let all = sched_getaffinity(None).unwrap();
                let one = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
                rustix::thread::sched_setaffinity(None, &set(&[one])).unwrap();
                (of_thread(), of_process(), super::super::is_single())
            });
            let (thread, process, is_single) = bound.join().unwrap();
            assert_eq!((thread, process), (Some(1), anywhere));
            // Also if the machine has one processor, or the tests have the time of one.
            assert!(!is_single || anywhere == 1 || super::super::is_single());
        }
    }
}

/// Where nothing is known about the processors of threads, the parallelism decides.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn of_thread() -> Option<usize> {
        None
    }

    pub(super) fn of_process() -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_is_one_of_the_machine_or_of_all_threads_or_of_the_quota() {
        // (parallelism, processors of the thread, processors of the process)
        for (found, is_single) in [
            ((1, Some(1), 1), true),        // bound, or the machine has one
            ((1, Some(1), 2), false),       // other threads may run elsewhere
            ((1, Some(8), 8), true),        // a quota below two
            ((1, None, 1), true),           // the system says no more
            ((2, Some(8), 8), false),       // a quota of two
            ((8, Some(8), 8), false),       // no quota
            ((usize::MAX, None, 1), false), // unknown
        ] {
            let (parallelism, of_thread, of_process) = found;
            assert_eq!(
                rule(parallelism, || of_thread, || of_process),
                is_single,
                "{found:?}"
            );
        }
    }

    #[test]
    fn nothing_more_is_asked_where_there_are_several() {
        assert!(!rule(2, || unreachable!(), || unreachable!()));
        assert!(rule(1, || Some(2), || unreachable!()));
    }
}
