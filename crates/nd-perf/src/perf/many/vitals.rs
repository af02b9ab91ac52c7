//! The resources that this process uses, as the operating system counts them, and its limits.

use std::time::{Duration, Instant};

use nd_base::errors::{Failure, Result};

/// Descriptors of a process besides those of its connections: for the standard streams, the control connection, two
/// adapters, their listeners, and a connection that comes or goes.
const OTHER_FILES: u64 = 64;

/// Measures the share of processor time from its creation on.
#[derive(Debug)]
pub(super) struct Stopwatch {
    begun: Instant,
    used: Option<Duration>,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self {
            begun: Instant::now(),
            used: system::processor_time(),
        }
    }

    /// The processor time that all threads of the process have used since, as a share of one core.
    pub(super) fn share(&self) -> Option<f64> {
        let used = system::processor_time()?.checked_sub(self.used?)?;
        Some(used.as_secs_f64() / self.begun.elapsed().as_secs_f64())
    }
}

/// Measures how the memory of the process grows.
#[derive(Debug)]
pub(super) struct Growth {
    before: Option<u64>,
    _filler: Filler,
}

impl Growth {
    pub(super) fn start() -> Self {
        let filler = fill_heap();
        Self {
            before: system::resident(),
            _filler: filler,
        }
    }

    /// Returns the growth since the start in octets, divided by this number of things. A decrease counts as 0.
    pub(super) fn per(&self, things: u32) -> Option<f64> {
        let grown = system::resident()?.saturating_sub(self.before?);
        (things > 0).then(|| grown as f64 / f64::from(things))
    }
}

/// Blocks of a size below which little is allocated.
type Filler = Vec<Vec<Box<[u8; 48]>>>;

/// Allocates the memory that the allocator holds free. Otherwise memory that an earlier row has freed would be used again,
/// and the process would seem to grow less than it does.
fn fill_heap() -> Filler {
    const BLOCKS: usize = 4096;
    const OCTETS: u64 = 48 * BLOCKS as u64;
    // If every block is new memory in this many steps in a row, little memory is free any more.
    const NEW: u32 = 8;
    let mut filler = Vec::new();
    let (mut new, mut before) = (0, system::resident());
    // At most the memory in use can be free.
    let most = before.unwrap_or(0) / OCTETS + u64::from(NEW);
    for _ in 0..most {
        filler.push((0..BLOCKS).map(|_| Box::new([1; 48])).collect());
        let after = system::resident();
        let grown = after
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        new = if grown >= Some(OCTETS) { new + 1 } else { 0 };
        if new == NEW {
            break;
        }
        before = after;
    }
    filler
}

/// Makes sure that the process may have as many files and sockets open as the connections need.
pub(super) fn allow_files(connections: u32) -> Result<()> {
    let needed = u64::from(connections) + OTHER_FILES;
    system::allow_files(needed).map_err(|Limit(most)| {
        Failure::new(
            format!(
                "{connections} connections need {needed} open files, and a process may have {most} here"
            ),
            format!("raise the hard limit to {needed} (ulimit -Hn), or choose fewer --connections"),
        )
    })
}

/// The limit that is too low.
struct Limit(u64);

#[cfg(target_os = "linux")]
mod system {
    use std::time::Duration;

    use rustix::process::{Resource, getrlimit, setrlimit};
    use rustix::time::{ClockId, clock_gettime};

    use super::Limit;

    /// `VmRSS` of proc(5).
    pub(super) fn resident() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    }

    /// User and system time of all threads: to the nanosecond, where `utime` and `stime` of proc(5) have 10 ms.
    pub(super) fn processor_time() -> Option<Duration> {
        clock_gettime(ClockId::ProcessCPUTime).try_into().ok()
    }

    /// Raises the soft limit as far as the hard one allows.
    pub(super) fn allow_files(needed: u64) -> Result<(), Limit> {
        let mut limits = getrlimit(Resource::Nofile);
        if limits.current.is_none_or(|soft| soft >= needed) {
            return Ok(());
        }
        if let Some(hard) = limits.maximum.filter(|hard| *hard < needed) {
            return Err(Limit(hard));
        }
        let soft = limits.current.replace(needed).unwrap_or_default();
        setrlimit(Resource::Nofile, limits).map_err(|_| Limit(soft))
    }
}

/// This system does not report it.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn resident() -> Option<u64> {
        None
    }

    pub(super) fn processor_time() -> Option<std::time::Duration> {
        None
    }

    pub(super) fn allow_files(_: u64) -> Result<(), super::Limit> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// This is one test, because two at a time would see each other's memory.
    #[test]
    fn memory_that_is_taken_is_growth_even_where_it_was_given_back_before() {
        const COUNT: u32 = 12_000;
        let take = || (0..COUNT).map(|_| vec![1_u8; 4000]).collect::<Vec<_>>();
        for _ in 0..3 {
            let growth = Growth::start();
            let mut taken = std::hint::black_box(take());
            let per = growth.per(COUNT).expect("memory is counted");
            // Half of it, because other tests free some memory meanwhile.
            assert!(per > 2000.0, "{per}");
            assert_eq!(growth.per(0), None);
            // The last one stays and keeps the allocator from giving the rest back to the system.
            std::mem::forget(taken.pop());
        }
    }

    #[test]
    fn work_takes_processor_time() {
        let watch = Stopwatch::start();
        let begun = system::processor_time().expect("time is counted");
        let mut sum = 0_u64;
        while system::processor_time().expect("time is counted") == begun {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(watch.share().expect("time is counted") > 0.0);
    }

    #[test]
    fn more_files_than_any_system_allows_are_refused_with_the_number() {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        if let Some(most) = most.filter(|most| *most < u64::from(u32::MAX)) {
            let text = allow_files(u32::MAX)
                .expect_err("over the limit")
                .to_string();
            let needed = u64::from(u32::MAX) + OTHER_FILES;
            assert!(text.contains(&needed.to_string()), "{text}");
            assert!(text.contains(&most.to_string()), "{text}");
        }
        assert!(allow_files(1).is_ok());
    }
}
