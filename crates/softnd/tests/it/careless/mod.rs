//! A careless client: any method of any object of two adapters, in any order and state, with any arguments, among them objects of
//! other adapters and of another provider. Nothing panics, and each call and each request ends with a status that the
//! documentation lists for its method (GEN-013, GEN-022).
//!
//! A run follows from its seed alone. A failure names the seed: `SOFTND_SEED=7 cargo test -p softnd --test it careless::one_seed`.

mod calls;
mod run;
mod stranger;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use run::Run;

/// How many seeds run by default.
const SEEDS: u64 = 100;

/// The coverage of the runs: for each method the number of calls, and the statuses that it has returned.
#[derive(Default)]
pub(crate) struct Coverage {
    calls: BTreeMap<&'static str, u64>,
    statuses: BTreeMap<&'static str, BTreeSet<String>>,
    /// What carried the connections, with how many there were.
    transports: BTreeMap<&'static str, u64>,
    /// Statuses that are not listed, with the first seed that met them.
    wrong: BTreeMap<String, u64>,
}

impl Coverage {
    pub(crate) fn add(&mut self, method: &'static str, status: netdirect::Status) {
        *self.calls.entry(method).or_default() += 1;
        let statuses = self.statuses.entry(method).or_default();
        statuses.insert(status.to_string());
    }

    pub(crate) fn wrong(&mut self, seed: u64, what: String) {
        self.wrong.entry(what).or_insert(seed);
    }

    pub(crate) fn connected(&mut self, transport: &'static str) {
        *self.transports.entry(transport).or_default() += 1;
    }

    fn assert_right(&self) {
        for (name, count) in &self.transports {
            println!("connections over {name}: {count}");
        }
        assert!(!self.transports.is_empty(), "nothing was connected");
        let wrong = self.wrong.iter();
        let wrong: Vec<_> = wrong
            .map(|(what, seed)| format!("seed {seed}: {what}"))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number")),
    )
}

/// Runs a seed; a panic names it.
fn checked(seed: u64, coverage: &mut Coverage) {
    let done = catch_unwind(AssertUnwindSafe(|| Run::new(seed, coverage).go()));
    if let Err(panic) = done {
        eprintln!(
            "seed {seed} has failed: SOFTND_SEED={seed} cargo test -p softnd --test it careless::one_seed"
        );
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn one_seed() {
    let mut coverage = Coverage::default();
    checked(number("SOFTND_SEED").unwrap_or(0), &mut coverage);
    coverage.assert_right();
}

#[test]
fn gen_013_gen_022_any_call_with_any_arguments_ends_with_a_status_of_its_method() {
    let mut coverage = Coverage::default();
    let seeds = number("SOFTND_SEEDS").unwrap_or(SEEDS);
    for seed in 0..seeds {
        checked(seed, &mut coverage);
    }
    coverage.assert_right();
    let mut missed = Vec::new();
    for method in table::ALL {
        let (calls, statuses) = (
            coverage.calls.get(method.name).copied().unwrap_or(0),
            coverage.statuses.get(method.name),
        );
        println!(
            "{} ({}): {calls} calls, {statuses:?}",
            method.name, method.rows
        );
        let met = statuses.is_some_and(|met| met.contains("ND_SUCCESS"));
        if calls < 50 || !met {
            missed.push(method.name);
        }
    }
    if seeds >= SEEDS {
        let met: usize = coverage.statuses.values().map(BTreeSet::len).sum();
        assert!(met >= 200, "{met} statuses of methods");
        assert!(
            missed.is_empty(),
            "hardly called, or never with success: {missed:?}"
        );
    }
}
