//! Two adapters in a simulated network run arbitrary calls. A simple model checks the results.
//!
//! A run follows from its seed alone. It opens two adapters under random conditions, makes connections both ways, posts requests of all
//! kinds, and disconnects, cancels, releases and breaks objects. The model knows the requests in flight, the order in which they have to
//! end, their possible statuses, and the expected contents of memory. Some queue pairs have shared receive queues: the model knows the
//! Receives that a message may have taken, and that each queue pair takes Receives in the order in which they were posted. A run that ends
//! otherwise panics and names its seed:
//!
//! ```text
//! SOFTND_SEED=1234 cargo test -p softnd --test model -- --exact one_seed --nocapture
//! ```
//!
//! With `SOFTND_TRACE=1` such a run prints each call and each result. With `SOFTND_CAPTURE=FILE` the run writes a capture of its
//! streams.
//!
//! `SOFTND_SEEDS=1000000 cargo test --release -p softnd --test model many_seeds` runs 1,000,000 seeds.
//!
//! Runs over UDP follow the same model: the network loses, doubles, reorders and corrupts datagrams, cuts the hosts off from each other for
//! times shorter and longer than connections last without an answer, and changes the address of the side that connects, as a NAT does.
//! These are the tests `one_seed_over_udp` and `seeds_over_udp`.

/// Prints the steps of a run, if `SOFTND_TRACE` is set.
macro_rules! trace {
    ($($what:tt)+) => {
        if *crate::TRACE {
            eprintln!($($what)+);
        }
    };
}

mod connection;
mod coverage;
mod memory;
#[cfg(planted_bugs)]
mod planted;
mod pool;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use coverage::Coverage;
use run::run;

static TRACE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("SOFTND_TRACE").is_some());

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number")),
    )
}

/// The kind of network that connects the hosts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Streams,
    Udp,
}

impl Links {
    /// The test that runs one seed.
    fn test(self) -> &'static str {
        match self {
            Self::Streams => "one_seed",
            Self::Udp => "one_seed_over_udp",
        }
    }
}

/// Runs a seed; a panic names it.
fn checked(seed: u64, links: Links, coverage: &mut Coverage) {
    let mut octets = std::env::var_os("SOFTND_CAPTURE").map(|path| (path, Vec::new()));
    let captured = octets.as_mut().map(|(_, octets)| octets);
    let done = catch_unwind(AssertUnwindSafe(|| run(seed, links, coverage, captured)));
    if let Some((path, octets)) = octets {
        std::fs::write(path, octets).unwrap();
    }
    if let Err(panic) = done {
        let test = links.test();
        eprintln!(
            "seed {seed} has failed: SOFTND_SEED={seed} cargo test -p softnd --test model -- --exact {test}"
        );
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn one_seed() {
    let seed = number("SOFTND_SEED").unwrap_or(0);
    checked(seed, Links::Streams, &mut Coverage::default());
}

#[test]
fn one_seed_over_udp() {
    let seed = number("SOFTND_SEED").unwrap_or(0);
    checked(seed, Links::Udp, &mut Coverage::default());
}

/// The number of seeds that are enough to meet all situations that have to be met.
const ENOUGH: u64 = 500;

/// Runs this many seeds, or as many as the environment says.
fn many(links: Links, seeds: u64) {
    let seeds = number("SOFTND_SEEDS").unwrap_or(seeds);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let all = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|first| {
                let seeds = (first..seeds).step_by(usize::try_from(threads).unwrap());
                scope.spawn(move || {
                    let mut coverage = Coverage::default();
                    for seed in seeds {
                        checked(seed, links, &mut coverage);
                    }
                    coverage
                })
            })
            .collect();
        let mut all = Coverage::default();
        for run in runs {
            match run.join() {
                Ok(coverage) => all.add(&coverage),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    println!("{all}");
    if seeds >= ENOUGH {
        all.assert_whole(links);
    }
}

#[test]
fn many_seeds() {
    // The rarest of the situations, a shared Receive that a lost connection cancels, is met between seed 500 and seed 800.
    many(Links::Streams, 800);
}

#[test]
fn seeds_over_udp() {
    many(Links::Udp, 500);
}

/// Runs each seed twice, and compares the captures of its streams, with their times, octet for octet.
fn repeated(links: Links, seeds: u64) {
    let mut octets = 0;
    for seed in 0..seeds {
        let captures = [(); 2].map(|()| {
            let mut captured = Vec::new();
            run(seed, links, &mut Coverage::default(), Some(&mut captured));
            captured
        });
        let [first, second] = captures;
        octets += first.len();
        let differs = first.iter().zip(&second).position(|(a, b)| a != b);
        assert_eq!(
            differs, None,
            "seed {seed}: two runs differ from this octet on"
        );
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
    assert!(octets > 100_000, "the runs are captured");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    repeated(Links::Streams, 100);
}

#[test]
fn a_seed_gives_the_same_run_again_over_udp() {
    repeated(Links::Udp, 100);
}
