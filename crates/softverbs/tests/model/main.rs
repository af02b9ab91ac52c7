//! Two hosts with two devices each, in a simulated network, run arbitrary programs of verbs. A plain model checks the results.
//!
//! A run follows from its seed alone. Listeners have a backlog, and programs connect in both directions, with private data, accept, reject,
//! complete a connection later or never, post requests, arm completion queues, and disconnect. Queue pairs share completion queues and
//! receive queues. Identifiers move between event channels and are destroyed in every phase, calls are made in wrong states, processes end
//! and begin again, and the network resets streams, delays them, or is cut. A fifth of the runs is over UDP. In a sixth the
//! devices of the two hosts are of different kinds, which do not know each other.
//!
//! The model knows the outstanding requests, the order in which they end, the one outcome of each connection at each end, the reasons for
//! which a connection may fail, the earliest time at which it may fail by a time limit, and the expected contents of memory. At the end it
//! destroys all objects, and nothing is left of them. A run that ends otherwise panics and names its seed:
//!
//! ```text
//! SOFTND_SEED=1234 cargo test -p softverbs --test model -- --exact one_seed --nocapture
//! ```
//!
//! With `SOFTND_TRACE=1` such a run prints the events of connections, and the calls that set them up and end them.
//!
//! `SOFTND_SEEDS=10000 cargo test --release -p softverbs --test model many_seeds` runs 10,000 seeds.

/// Prints the steps of a run, if `SOFTND_TRACE` is set.
macro_rules! trace {
    ($($what:tt)+) => {
        if *crate::TRACE {
            eprintln!($($what)+);
        }
    };
}

mod connection;
mod end;
mod host;
#[cfg(planted_bugs)]
mod planted;
mod random;
mod run;
mod seen;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use run::run;
use seen::Seen;

static TRACE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("SOFTND_TRACE").is_some());

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Runs a seed; a panic names it.
fn checked(seed: u64, seen: &mut Seen) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed, seen))) {
        eprintln!(
            "seed {seed} has failed: SOFTND_SEED={seed} cargo test -p softverbs --test model -- --exact one_seed"
        );
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn one_seed() {
    checked(number("SOFTND_SEED").unwrap_or(0), &mut Seen::default());
}

/// The number of seeds that are enough to meet all situations that have to be met.
const ENOUGH: u64 = 300;

#[test]
fn many_seeds() {
    let seeds = number("SOFTND_SEEDS").unwrap_or(ENOUGH);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let all = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|first| {
                let seeds = (first..seeds).step_by(usize::try_from(threads).unwrap());
                scope.spawn(move || {
                    let mut seen = Seen::default();
                    seeds.for_each(|seed| checked(seed, &mut seen));
                    seen
                })
            })
            .collect();
        let mut all = Seen::default();
        for run in runs {
            match run.join() {
                Ok(seen) => all.add(&seen),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    println!("{all}");
    if seeds >= ENOUGH {
        all.assert_whole();
    }
}
