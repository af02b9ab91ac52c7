//! The cores that a process may use, and how long a cache line takes from one core to another.
//!
//! A host can move a virtual core at any time. Two cores that shared a cache a moment ago may then be on two dies, where everything
//! that one of them hands to the other takes several times as long. Figures from before and after such a move cannot be compared, so
//! a comparison watches for it: [`Watch`].

use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Cores are apart in another way than before if a cache line takes this many times as long, or as short, as before. On a processor of AMD
/// it takes 30 ns between two cores of one die, and 160 ns between two dies.
const MOVED: f64 = 2.0;

/// The times that a cache line took from one core to another, one for each look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// The times of all looks that count.
    pub looks: Vec<Duration>,
    /// How often the cores moved between two looks.
    pub moves: u32,
}

/// A part of a comparison during which the cores must not move.
#[derive(Debug)]
pub struct Span<'a> {
    cores: Option<[usize; 2]>,
    found: Vec<Duration>,
    watch: &'a mut Watch,
}

impl Watch {
    /// Begins something during which these cores must not move. With `None` there are no looks, and the cores count as unmoved.
    pub fn begin(&mut self, cores: Option<[usize; 2]>) -> Span<'_> {
        let mut span = Span {
            cores,
            found: Vec::new(),
            watch: self,
        };
        span.look();
        span
    }

    /// All that this and the other one saw.
    pub fn add(&mut self, other: &Self) {
        self.looks.extend(&other.looks);
        self.moves += other.moves;
    }

    /// The time at the median look.
    #[must_use]
    pub fn median(&self) -> Option<Duration> {
        let mut looks = self.looks.clone();
        looks.sort_unstable();
        looks.get(looks.len() / 2).copied()
    }

    /// Returns true if the cores were no further from each other at the last look than they usually are: at the median look.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        let last = self.looks.last().zip(self.median());
        last.is_none_or(|(last, usual)| !is_far(*last, usual))
    }

    /// The share of looks at which the cores were far from each other: at which a cache line took more than twice as long as in the
    /// nearest tenth.
    #[must_use]
    pub fn far(&self) -> Option<f64> {
        let mut looks = self.looks.clone();
        looks.sort_unstable();
        let near = *looks.get(looks.len() / 10)?;
        let far = looks.iter().filter(|look| is_far(**look, near));
        Some(far.count() as f64 / looks.len() as f64)
    }
}

/// The result of the looks, in a sentence or two.
impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = self.looks.iter().min().zip(self.looks.iter().max());
        if let (Some(median), Some((least, most)), Some(far)) = (self.median(), bounds, self.far())
        {
            let nanos = Duration::as_nanos;
            write!(
                f,
                "A cache line took {} ns from core to core ({} to {}), and at {:.0} % of all looks more than twice as long as usual.",
                nanos(&median),
                nanos(least),
                nanos(most),
                far * 100.0,
            )?;
        }
        match self.moves {
            0 => Ok(()),
            1 => f.write_str(" The cores moved once, and the turns of that time were taken again."),
            times => write!(
                f,
                " The cores moved {times} times, and the turns of those times were taken again."
            ),
        }
    }
}

impl Span<'_> {
    /// Looks how far the cores are from each other now.
    pub fn look(&mut self) {
        if let Some(time) = self.cores.and_then(handover) {
            self.found.push(time);
        }
    }

    /// Returns true if the cores were further from each other at any look than they usually are.
    #[must_use]
    pub fn is_far(&self, usual: Duration) -> bool {
        self.found.iter().any(|look| is_far(*look, usual))
    }

    /// Returns true if the cores stayed where they were, as far as the looks show. Only then the looks count.
    #[must_use]
    pub fn end(self) -> bool {
        let steady = stayed(&self.found);
        if steady {
            self.watch.looks.extend(self.found);
        } else {
            self.watch.moves += 1;
        }
        steady
    }
}

fn stayed(looks: &[Duration]) -> bool {
    let bounds = looks.iter().min().zip(looks.iter().max());
    bounds.is_none_or(|(least, most)| !is_far(*most, *least))
}

/// Returns true if this time is so much longer than usual that the cores must have been further from each other.
fn is_far(time: Duration, usual: Duration) -> bool {
    time.as_secs_f64() > usual.as_secs_f64() * MOVED
}

/// Waits until these cores are no further from each other than usual, but no longer than `patience`, from which the wait is taken.
///
/// # Errors
///
/// That of `check`, which is called now and then and ends the wait, as when the user interrupts it.
pub fn await_near<E>(
    cores: [usize; 2],
    usual: Duration,
    patience: &mut Duration,
    check: impl Fn() -> Result<(), E>,
) -> Result<(), E> {
    const PAUSE: Duration = Duration::from_millis(100);
    while !patience.is_zero() && handover(cores).is_some_and(|time| is_far(time, usual)) {
        check()?;
        let pause = PAUSE.min(*patience);
        thread::sleep(pause);
        *patience -= pause;
    }
    Ok(())
}

/// Returns how long a cache line takes from one of these cores to the other. `None` where no thread can be bound to each of them.
///
/// Two threads hand a number to and fro, some thousand times in some hundred microseconds. The median of short batches counts, so that
/// it changes nothing if a thread is interrupted now and then.
#[must_use]
pub fn handover([here, there]: [usize; 2]) -> Option<Duration> {
    if here == there {
        return None;
    }
    let (line, begin, refused) = (
        CacheLine::default(),
        Barrier::new(2),
        AtomicBool::new(false),
    );
    let refuse = || refused.store(true, Ordering::Relaxed);
    let ready = |core| {
        bind(&[core]).unwrap_or_else(|_| refuse());
        begin.wait();
        !refused.load(Ordering::Relaxed)
    };
    let echo = || {
        if ready(there) {
            (0..BATCHES * ROUNDS).for_each(|round| line.answer(round));
        }
    };
    let time = || ready(here).then(|| line.time());
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, echo).ok()?;
        let timed = thread::Builder::new().spawn_scoped(scope, time);
        let timed = timed.inspect_err(|_| {
            refuse();
            begin.wait();
        });
        timed.ok()?.join().ok()?
    })
}

/// How many batches are timed.
const BATCHES: u32 = 31;
/// How often the number goes to and fro in a batch.
const ROUNDS: u32 = 64;

/// A number alone in its two cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CacheLine(AtomicU32);

impl CacheLine {
    /// Awaits the question of a round, and answers it.
    fn answer(&self, round: u32) {
        self.await_number(2 * round + 1);
        self.0.store(2 * round + 2, Ordering::Release);
    }

    fn ask(&self, round: u32) {
        self.0.store(2 * round + 1, Ordering::Release);
        self.await_number(2 * round + 2);
    }

    fn await_number(&self, number: u32) {
        let mut spins = 0_u32;
        while self.0.load(Ordering::Acquire) != number {
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(1 << 14) {
                // The thread that has to answer may be waiting for this core.
                thread::yield_now();
            }
        }
    }

    /// The time one way in the median batch.
    fn time(&self) -> Duration {
        let mut times: Vec<_> = (0..BATCHES)
            .map(|batch| {
                let begun = Instant::now();
                (0..ROUNDS).for_each(|round| self.ask(batch * ROUNDS + round));
                begun.elapsed() / (2 * ROUNDS)
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    }
}

pub use system::{allowed, bind};

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::sync::OnceLock;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// The cores that the calling thread could use at the first call.
    pub fn allowed() -> &'static [usize] {
        static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
        ALLOWED.get_or_init(|| match sched_getaffinity(None) {
            Ok(set) => (0..CpuSet::MAX_CPU)
                .filter(|core| set.is_set(*core))
                .collect(),
            Err(_) => Vec::new(),
        })
    }

    /// Binds the calling thread, and those that it starts from now on, to these cores.
    ///
    /// # Errors
    ///
    /// If the system refuses, or knows no such cores.
    pub fn bind(cores: &[usize]) -> io::Result<()> {
        let mut set = CpuSet::new();
        let known = cores.iter().filter(|core| **core < CpuSet::MAX_CPU);
        known.for_each(|core| set.set(*core));
        Ok(sched_setaffinity(None, &set)?)
    }
}

/// Nothing is known about cores here.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    /// None.
    pub fn allowed() -> &'static [usize] {
        &[]
    }

    /// Does nothing.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn bind(_: &[usize]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::from_nanos(30);
    const FAR: Duration = Duration::from_nanos(160);

    #[test]
    fn a_move_is_a_time_beyond_the_double() {
        assert!(is_far(FAR, NEAR) && !is_far(NEAR, FAR) && !is_far(2 * NEAR, NEAR));
        assert!(stayed(&[]));
        assert!(stayed(&[NEAR]));
        assert!(stayed(&[NEAR, 2 * NEAR]));
        assert!(!stayed(&[NEAR, NEAR, 2 * NEAR + Duration::from_nanos(1)]));
        assert!(!stayed(&[FAR, NEAR, FAR]));
    }

    #[test]
    fn what_was_seen_while_the_cores_moved_does_not_count() {
        let mut watch = Watch::default();
        for (found, steady) in [
            (vec![NEAR; 9], true),
            (vec![NEAR, FAR], false),
            (vec![FAR], true),
        ] {
            let mut span = watch.begin(None);
            span.found = found;
            assert_eq!(span.end(), steady);
        }
        assert_eq!((watch.looks.len(), watch.moves), (10, 1));
        assert_eq!((watch.median(), watch.far()), (Some(NEAR), Some(0.1)));
        assert!(!watch.is_usual());
        assert_eq!(
            watch.to_string(),
            "A cache line took 30 ns from core to core (30 to 160), and at 10 % of all looks more than twice as long as usual. \
             The cores moved once, and the turns of that time were taken again."
        );
        let mut all = watch.clone();
        all.add(&watch);
        assert_eq!((all.looks.len(), all.moves), (20, 2));
    }

    #[test]
    fn nearer_than_usual_is_as_good_as_usual() {
        let mut watch = Watch {
            looks: vec![FAR, FAR, NEAR],
            moves: 0,
        };
        assert!(watch.is_usual());
        let mut span = watch.begin(None);
        span.found = vec![NEAR, FAR];
        assert!(span.is_far(NEAR) && !span.is_far(FAR));
    }

    #[test]
    fn patience_is_used_up_by_waiting_alone() {
        let mut patience = Duration::from_millis(1);
        let go_on = || Ok::<(), ()>(());
        // The distance of these cores is not known, so the function does not wait.
        assert_eq!(await_near([0, 0], NEAR, &mut patience, go_on), Ok(()));
        assert_eq!(patience, Duration::from_millis(1));
        if let (Some(cores), Ok(())) = (allowed().first_chunk(), bind(allowed())) {
            // Any time is longer than zero. An interrupt ends the wait before the first sleep.
            let mut long = Duration::from_secs(3600);
            let ended = await_near(*cores, Duration::ZERO, &mut long, || Err("interrupted"));
            assert_eq!((ended, long.as_secs()), (Err("interrupted"), 3600));
            assert_eq!(
                await_near(*cores, Duration::ZERO, &mut patience, go_on),
                Ok(())
            );
            assert_eq!(patience, Duration::ZERO);
        }
    }

    #[test]
    fn nobody_looks_where_there_are_no_cores() {
        let mut watch = Watch::default();
        let mut span = watch.begin(None);
        span.look();
        assert!(span.end());
        assert_eq!(watch, Watch::default());
        assert_eq!((watch.median(), watch.far()), (None, None));
        assert_eq!(watch.to_string(), "");
        assert!(watch.is_usual());
    }

    #[test]
    fn one_core_hands_nothing_over() {
        assert_eq!(handover([0, 0]), None);
        // As many cores as no system has.
        assert_eq!(handover([1 << 20, 1 << 21]), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn two_cores_take_time_to_hand_over() {
        // Where the system lets threads choose.
        if let (Some(cores), Ok(())) = (allowed().first_chunk(), bind(allowed())) {
            assert!(handover(*cores).is_some_and(|time| !time.is_zero()));
        }
    }
}
