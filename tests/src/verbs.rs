//! The provider over verbs on the kernel's siw in the guest: both suites, and the commands of `nd` with softnd or a program of
//! rdma-core at the other end.
//!
//! The guest's part is `tests/interop/verbs.sh`.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use conform_report::page;
use netdirect_conform::Deviations;

use crate::conformance::Findings;
use crate::guest::Guest;

/// Groups of cases that share a guest.
#[derive(Clone, Copy, Debug)]
pub struct Boot {
    /// The guest's processors.
    pub processors: u32,
    /// A limit that only ends a hang.
    pub limit: Duration,
    /// The groups.
    pub groups: &'static [&'static str],
}

/// One line of what the guest's script prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Whether it passed.
    pub passed: bool,
    /// The name of the case.
    pub name: String,
    /// The measured figure, or the reason of the failure.
    pub figure: String,
}

impl Case {
    /// The case of a line, if the line is about one.
    pub fn parse(line: &str) -> Option<Self> {
        let (verdict, rest) = line.split_once(' ')?;
        let passed = match verdict {
            "PASS" => true,
            "FAIL" => false,
            _ => return None,
        };
        let (name, figure) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self {
            passed,
            name: name.to_owned(),
            figure: figure.to_owned(),
        })
    }
}

/// Runs groups of cases in the guest, with copies of these programs. What they leave is in the folder `out`.
///
/// # Panics
/// If the guest or a case fails.
pub fn run(guest: &Guest, programs: &[PathBuf], boot: Boot, out: &Path) -> Vec<Case> {
    run_with(guest, programs, boot, "", out)
}

/// How often checks are made again that siw's own races may end in another way.
pub const ATTEMPTS: usize = 3;

/// Makes the checks again that have failed in runs of the NetworkDirect suite and are known to be racy, by name, in another guest, and
/// writes into the runs how they ended. A check that fails in all attempts remains failed.
///
/// # Panics
/// If the guest fails, or leaves no report.
pub fn try_races_again(
    guest: &Guest,
    programs: &[PathBuf],
    boot: Boot,
    known: &Deviations,
    runs: &mut [(&'static str, Findings)],
) {
    for attempt in 1..=ATTEMPTS {
        let failed = failed_races(runs, known);
        if failed.is_empty() {
            return;
        }
        let mut lines = String::new();
        for (run, checks) in &failed {
            let _ = writeln!(lines, "{run} {}", checks.join(","));
        }
        // Not `eprintln!`, because the test harness hides its output when the test passes.
        let _ = write!(
            std::io::stderr(),
            "siw's races: once more, attempt {attempt} of {ATTEMPTS}: {lines}"
        );
        let folder = tempfile::tempdir().expect("a folder");
        run_with(guest, programs, boot, &lines, folder.path());
        for (name, checks) in failed {
            let report = folder.path().join(format!("again-{name}.json"));
            let found = Findings::read(&report);
            let run = runs.iter_mut().find(|(run, _)| *run == name);
            let (_, run) = run.expect("a run that has failed");
            run.take_over(&checks, &found);
        }
    }
}

/// The checks that have failed and are known to be racy, by the names of the runs.
fn failed_races(
    runs: &[(&'static str, Findings)],
    known: &Deviations,
) -> Vec<(&'static str, Vec<String>)> {
    let of_run = |(name, run): &(&'static str, Findings)| {
        let races = known.race.iter().map(|race| &race.check);
        let failed = races.filter(|check| run.failures.contains_key(*check));
        let failed: Vec<_> = failed.cloned().collect();
        (!failed.is_empty()).then_some((*name, failed))
    };
    runs.iter().filter_map(of_run).collect()
}

/// Returns how many transfers of each kind the group `transfers` makes: 200, or `SOFTND_TRANSFERS`.
///
/// # Panics
/// If the variable is no number.
pub fn transfers() -> usize {
    let chosen = env::var("SOFTND_TRANSFERS");
    chosen.map_or(200, |number| number.parse().expect("a number of transfers"))
}

const RACES: &str = "
These checks may end in another way by a race inside of siw. The test makes them again by name, at most three times:

| check | what siw does | source |
|---|---|---|
";

fn run_with(guest: &Guest, programs: &[PathBuf], boot: Boot, again: &str, out: &Path) -> Vec<Case> {
    let folder = tempfile::tempdir().expect("a folder");
    let share = folder.path();
    fs::write(share.join("groups"), boot.groups.join(" ")).expect("the groups are named");
    fs::write(share.join("again"), again).expect("the checks are named");
    fs::write(share.join("transfers"), transfers().to_string()).expect("a number is written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/verbs.sh");
    fs::copy(script, share.join("main")).expect("the guest's script is copied");
    for program in programs {
        let name = program.file_name().expect("a program has a name");
        fs::copy(program, share.join(name)).expect("a program is copied");
    }
    for page in [SPEED, COMPARED] {
        fs::copy(speed_page(page), share.join(page)).expect("a page of the speed is copied");
    }
    fs::write(share.join("commit"), commit()).expect("the commit is named");
    // By its absence the script that runs the guest knows that a guest has failed.
    let _ = fs::remove_file(out.join("status"));
    let said = guest.run(boot.processors, boot.limit, share, out);
    let cases: Vec<_> = said.text.lines().filter_map(Case::parse).collect();
    let all = !cases.is_empty() && cases.iter().all(|case| case.passed);
    assert!(
        said.status.success() && all,
        "guest: {}\n{}\n{}",
        said.status,
        said.text,
        said.errors
    );
    cases
}

/// The name of the page that has the table of the speed, in the guest and in what it leaves.
pub const SPEED: &str = "performance.md";

/// The name of the page that has the comparison of all sizes.
pub const COMPARED: &str = "performance-compared.md";

/// A page of the book about the speed.
#[must_use]
pub fn speed_page(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.join("../docs/reports").join(name)
}

/// The name of this state by git; empty where this is no clone.
fn commit() -> Vec<u8> {
    let mut git = Command::new("git");
    git.args(["-C", env!("CARGO_MANIFEST_DIR")]);
    let said = git.args(["describe", "--always", "--dirty"]).output();
    said.map_or_else(|_| Vec::new(), |output| output.stdout)
}

/// The rows of the table of the speed in a page that the guest has left: the test, the size, what is required, what was measured and
/// whether it holds.
///
/// # Panics
///
/// If the page does not have the table, or a row of it has no figure.
#[must_use]
pub fn speed_rows(page: &str) -> Vec<String> {
    let part = page::part(page, "table of verbs").expect("a table of verbs");
    let rows = part.lines().filter_map(page::cells).skip(2);
    let row = |cells: Vec<&str>| {
        let measured = cells.get(3).copied().unwrap_or_default();
        let figure = measured.trim_start_matches("p50 ");
        let figure = figure.split(' ').next().unwrap_or_default();
        let figure: Result<f64, _> = figure.parse();
        assert!(
            figure.is_ok_and(|figure| figure > 0.0),
            "no figure: {cells:?}"
        );
        cells.join(" | ")
    };
    rows.map(row).collect()
}

/// The sizes in a comparison that a guest has left: how many tables have each.
///
/// # Panics
///
/// If the page does not have the comparison, or a cell of a size is no figure.
#[must_use]
pub fn compared_sizes(page: &str) -> BTreeMap<String, usize> {
    let part = page::part(page, "compare of verbs").expect("a comparison");
    let mut sizes = BTreeMap::new();
    for cells in part.lines().filter_map(page::cells) {
        let [size, figures @ ..] = &*cells else {
            continue;
        };
        if !size.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        for figure in figures {
            let number = figure.split(' ').next().unwrap_or_default();
            let number: Result<f64, _> = number.parse();
            assert!(
                number.is_ok_and(|number| number > 0.0),
                "no figure: {cells:?}"
            );
        }
        *sizes.entry((*size).to_owned()).or_default() += 1;
    }
    sizes
}

/// The runs of both suites, with their names.
#[derive(Debug)]
pub struct Suites {
    /// Of the NetworkDirect suite.
    pub networkdirect: Vec<(&'static str, Findings)>,
    /// Of the wire suite.
    pub wire: Vec<(&'static str, Findings)>,
}

fn table_of_runs(runs: &[(&str, Findings)]) -> String {
    let mut table = String::from("| run | checks |\n|---|---|\n");
    for (name, findings) in runs {
        let _ = writeln!(table, "| {name} | {} |", findings.figure());
    }
    table
}

/// The page `docs/reports/verbs-interop.md`. `versions` are programs and their versions; `known` are the known deviations that the
/// NetworkDirect suite finds.
pub fn report(
    versions: &[(&str, String)],
    cases: &[Case],
    runs: &Suites,
    known: &Deviations,
) -> String {
    let mut page = String::from(INTRODUCTION);
    for (program, version) in versions {
        let _ = writeln!(page, "| {program} | {version} |");
    }
    page.push_str("\n## The NetworkDirect suite\n\n");
    page.push_str(&table_of_runs(&runs.networkdirect));
    page.push_str(
        "\nA skip names a capability that siw lacks. These checks are not part of a run, for reasons that are not siw's:\n\n\
         | run | check | why |\n|---|---|---|\n",
    );
    for (name, findings) in &runs.networkdirect {
        for (check, why) in &findings.left_out {
            let _ = writeln!(page, "| {name} | `{check}` | {why} |");
        }
    }
    page.push_str(
        "\nThe checks that fail have to be exactly those that `crates/netdirect-conform/deviations/siw-6.1.toml` lists:\n\n\
         | check | what siw does | source |\n|---|---|---|\n",
    );
    for deviation in &known.deviation {
        let (check, reason, source) = (&deviation.check, &deviation.reason, &deviation.source);
        let _ = writeln!(page, "| `{check}` | {reason} | {source} |");
    }
    if !known.race.is_empty() {
        page.push_str(RACES);
    }
    for race in &known.race {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            race.check, race.reason, race.source
        );
    }
    page.push_str("\n## The wire suite\n\n");
    page.push_str(WIRE);
    page.push_str(&table_of_runs(&runs.wire));
    page.push_str("\n## Commands of `nd`\n\n| case | figure |\n|---|---|\n");
    for case in cases {
        let _ = writeln!(page, "| {} | {} |", case.name, case.figure);
    }
    page
}

const WIRE: &str = "`nd wire-conform` against `nd wire-conform target verbs://siw0`. What fails is known of siw, and
[listed](../check/iwarp-stack.md) in `crates/iwarp-conform/deviations/siw-6.1.toml`. siw has no memory windows, so that the checks of
invalidation are skipped.

";

const INTRODUCTION: &str = "# `verbs://` on the kernel's siw

<!-- Written by a run of the tests: SOFTND_REPORT=1 cargo make verbs -->

What [the provider over verbs](../check/your-nic.md) does on siw, the soft-iWARP driver of the Linux kernel, in the guest of the tests.
softnd, siw and programs of rdma-core are on both ends of connections. Figures are of an emulated machine, and say only that data
moved.

| program | version |
|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_speed_has_a_figure() {
        let page = |measured| {
            format!(
                "<!-- table of verbs: begin -->\n| what | size | required | One | holds |\n|---|---|---|---|---|\n\
                 | Send | 64 B | p50 at most 1 | {measured} | missed |\n<!-- table of verbs: end -->"
            )
        };
        let rows = speed_rows(&page("p50 1.38 (1.24–1.49)"));
        assert_eq!(
            rows,
            ["Send | 64 B | p50 at most 1 | p50 1.38 (1.24–1.49) | missed"]
        );
        assert_eq!(speed_rows(&page("1.05 (1.00–1.50)")).len(), 1);
        for bad in ["", "ib_send_lat ended", "p50 NaN", "0.00"] {
            let failed = std::panic::catch_unwind(|| speed_rows(&page(bad)));
            assert!(failed.is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_of_the_comparison_has_figures_only() {
        let page = |cell| {
            format!(
                "<!-- compare of verbs: begin -->\n| date | 2026-11-24 |\n| size | perftest Send | of perftest |\n|--:|--:|--:|\n\
                 | 8 B | 100 | 0.90 (0.80–1.00) |\n| 8 B | {cell} | 1.00 (1.00–1.00) |\n<!-- compare of verbs: end -->"
            )
        };
        let sizes = compared_sizes(&page("0.0001"));
        assert_eq!(sizes, BTreeMap::from([("8 B".to_owned(), 2)]));
        for bad in ["–", "NaN", "0.0"] {
            let failed = std::panic::catch_unwind(|| compared_sizes(&page(bad)));
            assert!(failed.is_err(), "{bad}");
        }
    }

    #[test]
    fn only_failed_checks_that_are_racy_are_made_again() {
        let known = netdirect_conform::deviations::parse(
            "[[race]]\ncheck = 'MR-015.remote-write'\nreason = 'a'\nsource = 'b'\n",
        );
        let known = known.expect("known");
        let found = |racy: &str, other: &str| {
            let checks = serde_json::json!([
                {"name": "MR-015.remote-write", "outcome": racy},
                {"name": "MR-014.remote-read", "outcome": other},
            ]);
            Findings::parse(&serde_json::json!({"checks": checks}).to_string())
        };
        let mut runs = [
            ("passes", found("pass", "fail")),
            ("fails", found("fail", "fail")),
        ];
        let again = failed_races(&runs, &known);
        let racy = vec!["MR-015.remote-write".to_owned()];
        assert_eq!(again, [("fails", racy.clone())]);
        let (_, run) = &mut runs[1];
        run.take_over(&racy, &found("fail", "pass"));
        assert_eq!(run.outcomes["MR-015.remote-write"], "fail");
        assert_eq!(run.outcomes["MR-014.remote-read"], "fail", "is not racy");
        run.take_over(&racy, &found("pass", "pass"));
        assert_eq!(run.outcomes["MR-015.remote-write"], "pass");
        assert_eq!(run.failures.len(), 1, "{run:?}");
        assert!(failed_races(&runs, &known).is_empty());
    }

    #[test]
    fn lines_of_the_script_are_cases_and_others_are_not() {
        let case = |passed, name: &str, figure: &str| {
            Some(Case {
                passed,
                name: name.to_owned(),
                figure: figure.to_owned(),
            })
        };
        for (line, wanted) in [
            ("PASS info", case(true, "info", "")),
            (
                "PASS rping/a-to-b 132 ms",
                case(true, "rping/a-to-b", "132 ms"),
            ),
            (
                "FAIL x the suite ends with 2",
                case(false, "x", "the suite ends with 2"),
            ),
            ("== client.log", None),
            ("PASSED by", None),
        ] {
            assert_eq!(Case::parse(line), wanted, "{line}");
        }
    }
}
