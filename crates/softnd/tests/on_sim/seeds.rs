//! The tests of this program under many seeds: a seed is told by the environment, so that each run is a process of its own.

use std::process::Command;
use std::time::{Duration, Instant};

/// Seeds that `cargo test` tries at least and at most, beside seed 1 of this run itself. `SOFTND_SEEDS` in the environment is
/// another number, however long it takes.
const SEEDS: std::ops::RangeInclusive<u64> = 4..=20;

/// No further seed begins after this time.
const TIME: Duration = Duration::from_secs(20);

/// Every so many seeds the network is harsh.
const HARSH: u64 = 4;

/// Tests that move so much data that they take long in segments of a few octets.
const LONG_MESSAGES: [&str; 4] = [
    "fairness::",
    "data::ddp_049",
    "data::mpa_032",
    "data::sec_038",
];

/// The environment in which the [planted failure](planted_failure) fails.
const PLANTED: &str = "SOFTND_PLANTED_FAILURE";

/// Runs all tests with a seed, with what else `also` says; what runs again each that has failed, and what was said, if any has.
fn run(seed: u64, harsh: bool, also: impl FnOnce(&mut Command)) -> Result<(), String> {
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.args(["--skip", "seeds::many", "--skip", "seeds::a_failing"]);
    tests.args(["--skip", "list::"]);
    tests.env("SOFTND_SEED", seed.to_string());
    tests.env_remove("SOFTND_NETWORK");
    let mut again = format!("SOFTND_SEED={seed}");
    if harsh {
        tests.env("SOFTND_NETWORK", "harsh");
        again.push_str(" SOFTND_NETWORK=harsh");
        for name in LONG_MESSAGES {
            tests.args(["--skip", name]);
        }
    }
    also(&mut tests);
    let done = tests.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    if done.status.success() && said.contains("test result: ok.") {
        return Ok(());
    }
    let failed: String = said
        .lines()
        .filter_map(failed)
        .map(|test| format!("    {again} cargo test -p softnd --test on_sim -- --exact {test}\n"))
        .collect();
    let errors = String::from_utf8_lossy(&done.stderr);
    let status = done.status;
    Err(format!(
        "seed {seed}: {status}. To run again:\n{failed}\n{said}{errors}"
    ))
}

/// The name of a test, of the line that says that it has failed.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[test]
fn many_seeds() {
    let number = |variable| {
        let set = std::env::var(variable).ok();
        set.map(|text| text.parse::<u64>().expect("a number"))
    };
    let asked = number("SOFTND_SEEDS");
    let begun = Instant::now();
    let mut seeds = 0;
    let first = number("SOFTND_SEED").unwrap_or(1) + 1;
    for seed in first..first + asked.unwrap_or(*SEEDS.end()) {
        if asked.is_none() && seeds >= *SEEDS.start() && begun.elapsed() > TIME {
            break;
        }
        run(seed, seed % HARSH == 0, |_| {}).unwrap_or_else(|failed| panic!("{failed}"));
        seeds += 1;
    }
    println!("{seeds} seeds in {:?}", begun.elapsed());
}

/// Fails where it is told to.
#[test]
fn planted_failure() {
    assert!(std::env::var_os(PLANTED).is_none(), "as planted");
}

#[test]
fn a_failing_test_is_named_with_its_seed() {
    let plant = |tests: &mut Command| {
        tests.env(PLANTED, "1").arg("planted_failure");
    };
    let told = run(77, true, plant).unwrap_err();
    let again = "SOFTND_SEED=77 SOFTND_NETWORK=harsh cargo test -p softnd --test on_sim -- --exact seeds::planted_failure\n";
    assert!(
        told.contains(again) && told.contains("as planted"),
        "{told}"
    );
}
