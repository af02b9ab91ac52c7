//! The provider over verbs on the kernel's siw, in the guest.
//!
//! `cargo make verbs` runs these tests. The last one makes all transfers, those of 100 MiB included, runs both suites, and compares
//! the speed with that of perftest. With `SOFTND_REPORT=1` it writes the page `docs/reports/verbs-interop.md`, and what
//! `docs/reports/performance.md` and `docs/reports/performance-compared.md` say of this provider.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netdirect_conform::Deviations;
use serde_json::Value;
use softnd_tests::conformance::{self, Findings};
use softnd_tests::guest::Guest;
use softnd_tests::nd;
use softnd_tests::verbs::{self, Boot, Case, Suites};

const SOME: Boot = Boot {
    processors: 2,
    limit: Duration::from_secs(1800),
    groups: &["info", "cat_some", "tools", "perf"],
};

const ALL: Boot = Boot {
    limit: Duration::from_secs(5400),
    groups: &["info", "cat_matrix", "cat_large", "tools", "perf", "speed"],
    ..SOME
};

/// The NetworkDirect suite, alone and with softnd as either end.
const SUITE: Boot = Boot {
    groups: &["conform", "near", "far"],
    ..SOME
};

/// Checks of the NetworkDirect suite that siw's races may have ended in another way.
const AGAIN: Boot = Boot {
    groups: &["again"],
    ..SOME
};

/// Many transfers from softnd to siw.
const TO_SIW: Boot = Boot {
    limit: Duration::from_secs(7000),
    groups: &["transfers_to_siw"],
    ..SOME
};

/// Many transfers from siw to softnd.
const FROM_SIW: Boot = Boot {
    groups: &["transfers_from_siw"],
    ..TO_SIW
};

/// The wire suite. On more processors its peer can end a connection before siw has reported the beginning, which stops siw's kernel.
const WIRE: Boot = Boot {
    processors: 1,
    groups: &["wire"],
    ..SOME
};

/// Guests run one after another, because the driver's races show more where processors are few.
static GUEST: Mutex<()> = Mutex::new(());

/// The guest, if there is one, while nothing else runs in it.
fn alone() -> Option<(Guest, MutexGuard<'static, ()>)> {
    let guest = Guest::find()?;
    let alone = GUEST.lock().unwrap_or_else(PoisonError::into_inner);
    Some((guest, alone))
}

/// The reports that the NetworkDirect suite leaves.
const RUNS: [&str; 3] = ["siw", "siw-with-softnd", "softnd-with-siw"];

/// The reports that the wire suite leaves.
const WIRE_RUNS: [&str; 2] = ["wire-crc-on", "wire-crc-off"];

/// Returns how many checks of each row have passed, and how many have not, in a report of the suite.
fn rows(report: &str) -> BTreeMap<String, (usize, usize)> {
    let report: Value = serde_json::from_str(report).expect("a report");
    let mut rows = BTreeMap::<String, (usize, usize)>::new();
    for check in report["checks"].as_array().expect("checks") {
        for row in check["rows"].as_array().expect("rows") {
            let counts = rows
                .entry(row.as_str().expect("a row").to_owned())
                .or_default();
            match check["outcome"].as_str() {
                Some("pass") => counts.0 += 1,
                Some("skip") => {}
                _ => counts.1 += 1,
            }
        }
    }
    rows
}

/// The rows that some checks prove and none refutes.
fn proven(rows: &BTreeMap<String, (usize, usize)>) -> usize {
    let proven = rows
        .values()
        .filter(|(passed, failed)| *passed > 0 && *failed == 0);
    proven.count()
}

/// The known deviations of siw.
fn known() -> Deviations {
    let known = netdirect_conform::deviations::shipped("siw-6.1").expect("shipped");
    known.expect("and can be read")
}

/// Returns the errors of the runs: failures that are not known, and known deviations that show in none of them. With softnd at the other
/// end some of what is known does not show.
fn judge(runs: &[(&str, Findings)], known: &Deviations) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, run) in runs {
        for (check, outcome) in &run.outcomes {
            let with_softnd = *name != RUNS[0];
            match outcome.as_str() {
                "pass" | "skip" | "known" => {}
                "no longer deviates" if with_softnd => {}
                _ => {
                    let report = run.failures.get(check);
                    let report = report.map(|report| format!("{report:#}"));
                    let report = report.unwrap_or_default();
                    wrong.push(format!("{name}: {check}: {outcome} {report}"));
                }
            }
        }
        wrong.extend(run.lost.iter().map(|why| format!("{name} was lost {why}")));
    }
    for deviation in &known.deviation {
        let seen = runs.iter().any(|(_, run)| {
            let outcome = run.outcomes.get(&deviation.check);
            outcome.is_some_and(|outcome| outcome == "known")
        });
        if !seen && deviation.intermittent.is_none() {
            wrong.push(format!("{}: known, and not seen", deviation.check));
        }
    }
    wrong
}

/// The findings of a suite, by the names of the runs.
fn findings<const N: usize>(out: &Path, names: [&'static str; N]) -> [(&'static str, Findings); N] {
    names.map(|name| {
        let path = out.join(name).with_extension("json");
        (name, Findings::read(&path))
    })
}

/// The report of a run of the NetworkDirect suite.
fn report(out: &Path, run: &str) -> Value {
    let path = out.join(run).with_extension("json");
    let text = fs::read_to_string(path).expect("a report");
    serde_json::from_str(&text).expect("in JSON")
}

/// The checks that are not part of the run over siw alone, and the reasons. The strict profile is that of a provider in software which
/// behaves like the narrowest adapter; a device is as it is.
const LEFT_OUT: [(&str, &str); 3] = [
    ("AMB-015.narrow", "the run is not of the strict profile"),
    (
        "AMB-071.counted",
        "the provider counts no leniency (counters of the group `lenient`): it has one profile",
    ),
    ("IW-029.no-receive", "the run is not of the strict profile"),
];

/// Runs the NetworkDirect suite. Only what is known fails, a skip names what the device lacks, and at least half of the rows that are
/// proven on softnd are proven on siw.
fn suite(guest: &Guest, out: &Path) -> (Vec<Case>, Vec<(&'static str, Findings)>) {
    let cases = verbs::run(guest, &[nd::optimized()], SUITE, out);
    let mut runs = findings(out, RUNS);
    verbs::try_races_again(guest, &[nd::optimized()], AGAIN, &known(), &mut runs);
    assert_eq!(judge(&runs, &known()), Vec::<String>::new());
    for (name, run) in &runs {
        let vague = conformance::vague_skips(&report(out, name));
        assert_eq!(vague, Vec::<String>::new(), "{name}");
        let left_out = run.left_out.iter();
        let left_out: Vec<_> = left_out.map(|(check, why)| (&**check, &**why)).collect();
        if *name == RUNS[0] {
            assert_eq!(left_out, LEFT_OUT);
        }
    }

    let on_siw = fs::read_to_string(out.join("siw.json")).expect("a report");
    let on_softnd = nd::run(["conform", "softnd+sim://seed=1", "--format", "json"]);
    on_softnd.assert_success();
    let (on_siw, on_softnd) = (proven(&rows(&on_siw)), proven(&rows(&on_softnd.stdout)));
    assert!(
        2 * on_siw >= on_softnd,
        "{on_siw} rows of {on_softnd} are proven on siw"
    );
    (cases, runs.into())
}

/// Runs the wire suite. It fails exactly in what is known. What siw does not survive is left out.
fn wire_suite(guest: &Guest, out: &Path) -> (Vec<Case>, Vec<(&'static str, Findings)>) {
    let cases = verbs::run(guest, &[nd::optimized()], WIRE, out);
    let known = iwarp_conform::Deviations::shipped("siw-6.1").expect("siw's are shipped");
    let mut known: Deviations = (*known.expect("and can be read")).clone();
    known.deviation.retain(|deviation| !deviation.fatal);
    let runs = findings(out, WIRE_RUNS);
    let found = runs.each_ref().map(|(_, found)| found);
    assert_eq!(conformance::judge(&found, &known), Ok(()));
    (cases, runs.into())
}

fn write_report(guest: &Guest, cases: &[Case], runs: &Suites) {
    let version = Command::new(nd::optimized())
        .arg("--version")
        .output()
        .expect("nd starts");
    let versions = [
        (
            "softnd",
            String::from_utf8_lossy(&version.stdout).trim().to_owned(),
        ),
        ("Linux, with siw", guest.version("linux-image-")),
        ("rdma-core", guest.version("rdmacm-utils")),
        ("perftest", guest.version("perftest")),
    ];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reports/verbs-interop.md");
    fs::write(path, verbs::report(&versions, cases, runs, &known()))
        .expect("the report is written");
}

/// Runs groups of cases, and checks that there are some of each kind.
fn run(guest: &Guest, programs: &[PathBuf], boot: Boot, out: &Path) -> Vec<Case> {
    let cases = verbs::run(guest, programs, boot, out);
    for kind in [
        "info",
        "cat/verbs-sends",
        "cat/softnd-sends",
        "rping/",
        "perftest/",
        "perf/",
    ] {
        let found = cases.iter().any(|case| case.name.starts_with(kind));
        assert!(found, "no case of {kind}: {cases:?}");
    }
    cases
}

#[test]
#[ignore = "needs a guest: cargo make verbs"]
fn kernel_siw_is_an_adapter_like_softnd() {
    let Some((guest, _alone)) = alone() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    run(&guest, &[nd::optimized()], SOME, folder.path());
}

/// No transfer fails, and none is tried again. TCP cuts the stream in a different way in each.
fn transfers(boot: Boot) {
    let Some((guest, _alone)) = alone() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let cases = verbs::run(&guest, &[nd::optimized()], boot, folder.path());
    // Three operations, with and without CRC.
    assert_eq!(cases.len(), 6 * verbs::transfers());
}

#[test]
#[ignore = "needs a guest, and takes an hour without KVM: .ci/night transfers-to-siw"]
fn transfers_to_siw_never_fail() {
    transfers(TO_SIW);
}

#[test]
#[ignore = "needs a guest, and takes an hour without KVM: .ci/night transfers-from-siw"]
fn transfers_from_siw_never_fail() {
    transfers(FROM_SIW);
}

#[test]
#[ignore = "needs a guest: cargo make verbs"]
fn kernel_siw_follows_networkdirect_as_far_as_is_known() {
    let Some((guest, _alone)) = alone() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    suite(&guest, folder.path());
}

#[test]
#[ignore = "needs a guest, and takes 25 minutes: cargo make verbs"]
fn kernel_siw_moves_all_data_and_follows_both_suites() {
    let Some((guest, _alone)) = alone() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path();
    let [compare, promises] = nd::of_benches();
    let programs = [nd::optimized(), compare, promises];
    let mut cases = run(&guest, &programs, ALL, out);
    let left = |page| fs::read_to_string(out.join(page)).expect("a page of the speed");
    let pages = [verbs::SPEED, verbs::COMPARED].map(|page| (page, left(page)));
    let [(_, speed), (_, compared)] = &pages;
    assert_eq!(verbs::speed_rows(speed).len(), 5, "{speed}");
    let sizes = verbs::compared_sizes(compared);
    // Of each size half a round trip, and one way.
    let whole = sizes.len() > 3 && sizes.values().all(|tables| *tables == 2);
    assert!(whole, "{sizes:?}");
    let (of_suite, networkdirect) = suite(&guest, out);
    let (of_wire, wire) = wire_suite(&guest, out);
    cases.extend(of_suite.into_iter().chain(of_wire));
    if env::var_os("SOFTND_REPORT").is_some() {
        for (page, text) in &pages {
            fs::write(verbs::speed_page(page), text).expect("a page of the speed is written");
        }
        write_report(
            &guest,
            &cases,
            &Suites {
                networkdirect,
                wire,
            },
        );
    }
}
