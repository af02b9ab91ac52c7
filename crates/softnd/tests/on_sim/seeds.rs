//! The tests of this program under many seeds: the environment gives the seed, so each run is a separate process.

use std::io::{self, Read};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender};

/// The number of seeds that `cargo test` tries in addition to seed 1 of this run itself. `SOFTND_SEEDS` in the environment gives another
/// number.
const SEEDS: u64 = 4;

/// Longer than the tests take under one seed on the slowest machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Every 4th seed has a harsh network.
const HARSH: u64 = 4;

/// Tests that take long in segments of a few octets, because they move much data.
const LONG_MESSAGES: [&str; 5] = [
    "fairness::",
    "data::ddp_049",
    "data::mpa_032",
    "data::sec_038",
    "fault_streams::much_data",
];

/// Tests whose networks have fixed seeds, so that each run would be the same.
const ONCE: [&str; 1] =
    ["addresses::conn_009_lstn_008_iw_052_no_port_is_left_when_all_of_the_range_are_bound"];

/// The variable that makes the [planted failure](planted_failure) fail, or hang if its value is `hang`.
const PLANTED: &str = "SOFTND_PLANTED_FAILURE";

/// Runs all tests with a seed, changed by `also`. If any fails, or hangs until the limit, returns the command that repeats it, and its
/// output.
fn run(
    seed: u64,
    harsh: bool,
    limit: Duration,
    also: impl FnOnce(&mut Command),
) -> Result<(), String> {
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.args(["--skip", "seeds::many", "--skip", "seeds::a_failing"]);
    tests.args(["--skip", "list::"]);
    for name in ONCE {
        tests.args(["--skip", name]);
    }
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
    let done = output(&mut tests, limit);
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

/// Runs a process, and kills it at the limit.
fn output(command: &mut Command, limit: Duration) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let (open, closed) = crossbeam_channel::bounded::<()>(0);
    let stdout = read_all(child.stdout.take().unwrap(), open.clone());
    let stderr = read_all(child.stderr.take().unwrap(), open);
    // Nothing is ever sent: the channel ends when both pipes have ended, that is, when the process ends.
    if closed.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
        child.kill().unwrap();
    }
    let octets = |reader: Reader| reader.join().unwrap().unwrap();
    Output {
        status: child.wait().unwrap(),
        stdout: octets(stdout),
        stderr: octets(stderr),
    }
}

/// A thread that reads a pipe.
type Reader = thread::JoinHandle<io::Result<Vec<u8>>>;

/// Reads a pipe in a thread, which drops `open` at the pipe's end.
fn read_all(mut pipe: impl Read + Send + 'static, open: Sender<()>) -> Reader {
    thread::spawn(move || {
        let mut octets = Vec::new();
        let read = pipe.read_to_end(&mut octets);
        drop(open);
        read.map(|_| octets)
    })
}

/// The name of a test, from the line that reports that it has failed or does not end.
fn failed(line: &str) -> Option<&str> {
    let line = line.strip_prefix("test ")?;
    line.strip_suffix(" ... FAILED")
        .or_else(|| line.strip_suffix(" has been running for over 60 seconds"))
}

#[test]
fn many_seeds() {
    let number = |variable| {
        let set = std::env::var(variable).ok();
        set.map(|text| text.parse::<u64>().expect("a number"))
    };
    let seeds = number("SOFTND_SEEDS").unwrap_or(SEEDS);
    let begun = Instant::now();
    let first = number("SOFTND_SEED").unwrap_or(1) + 1;
    for seed in first..first + seeds {
        run(seed, seed % HARSH == 0, LIMIT, |_| {}).unwrap_or_else(|failed| panic!("{failed}"));
    }
    println!("{seeds} seeds in {:?}", begun.elapsed());
}

/// Fails or hangs if the environment says so.
#[test]
fn planted_failure() {
    let planted = std::env::var(PLANTED).ok();
    while planted.as_deref() == Some("hang") {
        thread::park();
    }
    assert!(planted.is_none(), "as planted");
}

#[test]
fn a_failing_test_is_named_with_its_seed() {
    let plant = |how| {
        move |tests: &mut Command| {
            tests.env(PLANTED, how).arg("planted_failure");
        }
    };
    let report = run(77, true, LIMIT, plant("fail")).unwrap_err();
    let again = "SOFTND_SEED=77 SOFTND_NETWORK=harsh cargo test -p softnd --test on_sim -- --exact seeds::planted_failure\n";
    assert!(
        report.contains(again) && report.contains("as planted"),
        "{report}"
    );
    let report = run(78, false, Duration::ZERO, plant("hang")).unwrap_err();
    let killed = if cfg!(unix) {
        "signal: 9"
    } else {
        "exit code: 1"
    };
    assert!(
        report.starts_with(&format!("seed 78: {killed}")),
        "{report}"
    );
}
