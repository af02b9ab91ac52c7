//! Two hosts in a simulated network run arbitrary programs of verbs. A plain model checks the results.
//!
//! A run follows from its seed alone. It makes connections both ways, posts requests, arms completion queues, rejects, disconnects and
//! destroys. The model knows the outstanding requests, the order in which they end, the number of events for the start and the end of each
//! connection, and the expected contents of memory. A run that ends otherwise panics and names its seed:
//!
//! ```text
//! SOFTND_SEED=1234 cargo test -p softverbs --test model -- --exact one_seed --nocapture
//! ```
//!
//! `SOFTND_SEEDS=10000 cargo test --release -p softverbs --test model many_seeds` runs 10,000 seeds.

mod end;
#[cfg(feature = "planted-bugs")]
mod planted;
mod random;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};

use run::{Seen, run};

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

#[test]
fn many_seeds() {
    let seeds = number("SOFTND_SEEDS").unwrap_or(40);
    let mut seen = Seen::default();
    for seed in 0..seeds {
        checked(seed, &mut seen);
    }
    println!("{seen:?}");
    if seeds >= 200 {
        seen.assert_whole();
    }
}
