//! rdma-core's own device tests, unmodified, over softnd's libraries.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::nd;

/// The text in front of the numbers in the book, and behind them.
pub const MARKS: [&str; 2] = [
    "<!-- the device tests begin -->\n",
    "<!-- the device tests end -->\n",
];

/// The ways in which devices present themselves.
const KINDS: [(&str, &[&str]); 2] = [("RoCE v2", &[]), ("iWARP", &["--as", "iwarp"])];

/// The end of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
}

impl Numbers {
    /// Reads what Python's `unittest` has printed. `None` if the run has not come to its end.
    fn read(output: &str) -> Option<Self> {
        let number = |text: &str| -> Option<usize> {
            let digits = text.trim_start().split(|c: char| !c.is_ascii_digit());
            digits.take(1).find_map(|digits| digits.parse().ok())
        };
        let mut lines = output.lines();
        let ran = lines.find_map(|line| number(line.strip_prefix("Ran ")?))?;
        let end = lines.find(|line| line.starts_with("OK") || line.starts_with("FAILED"))?;
        let skipped = end.split_once("skipped=");
        let skipped = skipped.and_then(|(_, rest)| number(rest)).unwrap_or(0);
        let failed: Vec<_> = output
            .lines()
            .filter_map(|line| {
                let name = line
                    .strip_prefix("ERROR: ")
                    .or_else(|| line.strip_prefix("FAIL: "))?;
                Some(name.split(' ').next()?.to_owned())
            })
            .collect();
        Some(Self {
            passed: ran.checked_sub(skipped + failed.len())?,
            failed,
            skipped,
        })
    }
}

/// Runs the tests of a folder, which has the tests' package, with both kinds of devices.
///
/// # Panics
/// If the tests do not come to their end.
pub fn run(folder: &Path) -> Vec<Numbers> {
    let of_kind = |(kind, options): &(&str, &[&str])| {
        let mut command = Command::new(nd::binary());
        command.arg("run").args(*options).arg("--");
        command.args(["/usr/bin/python3", "tests/run_tests.py", "-v"]);
        let output = command
            .args(["--dev", "softnd0"])
            .current_dir(folder)
            .output();
        let output = output.expect("nd starts");
        let said = String::from_utf8_lossy(&output.stderr);
        Numbers::read(&said).unwrap_or_else(|| panic!("the tests of {kind} have no end: {said}"))
    };
    KINDS.iter().map(of_kind).collect()
}

/// The tests that have failed.
pub fn failures(numbers: &[Numbers]) -> Vec<String> {
    let mut found = Vec::new();
    for ((kind, _), numbers) in KINDS.iter().zip(numbers) {
        let failed = numbers.failed.iter();
        found.extend(failed.map(|test| format!("{kind}: {test}")));
    }
    found
}

/// The numbers as a table.
pub fn table(numbers: &[Numbers]) -> String {
    let mut text = String::from("| devices | passed | failed | skipped |\n|---|--:|--:|--:|\n");
    for ((kind, _), numbers) in KINDS.iter().zip(numbers) {
        let Numbers {
            passed, skipped, ..
        } = numbers;
        let failed = numbers.failed.len();
        let _ = writeln!(text, "| {kind} | {passed} | {failed} | {skipped} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "test_a (tests.x.test_a) ... ok\n\
        ERROR: test_rdmacm_async_udp_traffic (tests.x.y)\nwhy\n\
        FAIL: test_new (tests.y.test_new)\n\
        Ran 10 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=5)\n";

    #[test]
    fn numbers_are_those_of_the_run() {
        let numbers = Numbers::read(OUTPUT).unwrap();
        assert_eq!((numbers.passed, numbers.skipped), (3, 5));
        assert_eq!(
            numbers.failed,
            ["test_rdmacm_async_udp_traffic", "test_new"]
        );
        let all = Numbers::read("Ran 4 tests in 0.1s\n\nOK\n").unwrap();
        assert_eq!((all.passed, all.skipped), (4, 0));
        assert_eq!(Numbers::read("Ran 4 tests in"), None);
        let both = [numbers, all];
        let failures = failures(&both);
        assert_eq!(failures[1], "RoCE v2: test_new");
        assert_eq!(failures.len(), 2);
        let table = table(&both);
        assert!(table.contains("| RoCE v2 | 3 | 2 | 5 |\n| iWARP | 4 | 0 | 0 |\n"));
    }
}
