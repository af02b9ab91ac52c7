//! Compares what `nd wire-conform` finds with a peer's known deviations: it has to find all of them, and no others.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use netdirect_conform::Deviations;
use serde_json::Value;

/// A run of the suite, read from its report in JSON.
#[derive(Debug)]
pub struct Findings {
    /// The outcome of each check, in the words of the report.
    pub outcomes: BTreeMap<String, String>,
    /// The reports of the checks that have failed.
    pub failures: BTreeMap<String, Value>,
    /// The checks that are not part of the run, each with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Why the run broke off.
    pub lost: Option<String>,
}

impl Findings {
    /// Reads a report.
    ///
    /// # Panics
    /// If the file is not a report.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("the report is there");
        Self::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let report: Value = serde_json::from_str(text).expect("a report in JSON");
        let checks = report["checks"].as_array().expect("checks");
        let left_out = report["left_out"].as_array().into_iter().flatten();
        let word = |value: &Value| value.as_str().expect("a word").to_owned();
        Self {
            outcomes: checks
                .iter()
                .map(|check| (word(&check["name"]), word(&check["outcome"])))
                .collect(),
            failures: checks
                .iter()
                .filter(|check| check["outcome"] == "fail")
                .map(|check| (word(&check["name"]), check.clone()))
                .collect(),
            left_out: left_out
                .map(|check| (word(&check["name"]), word(&check["why"])))
                .collect(),
            lost: report["lost"].as_str().map(str::to_owned),
        }
    }

    /// Replaces the outcomes of some checks by those of another run.
    ///
    /// # Panics
    /// If the other run has not made one of them.
    pub fn take_over(&mut self, checks: &[String], other: &Self) {
        for check in checks {
            let outcome = other.outcomes.get(check);
            let outcome = outcome.unwrap_or_else(|| panic!("{check} was not made again"));
            self.outcomes.insert(check.clone(), outcome.clone());
            self.failures.remove(check);
            let failure = other.failures.get(check);
            self.failures
                .extend(failure.map(|failure| (check.clone(), failure.clone())));
        }
    }

    /// The number of checks with each outcome.
    pub fn figure(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for outcome in self.outcomes.values() {
            *counts.entry(outcome).or_default() += 1;
        }
        let parts: Vec<_> = counts
            .iter()
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        parts.join(", ")
    }

    fn outcomes_of<'a>(&'a self, check: &'a str) -> impl Iterator<Item = &'a str> {
        let meant = move |name: &str| name.split('.').next() == Some(check) || name == check;
        self.outcomes
            .iter()
            .filter(move |(name, _)| meant(name))
            .map(|(_, outcome)| outcome.as_str())
    }
}

/// The skips in a report of the NetworkDirect suite that do not name what the adapter lacks, or a limit of the adapter.
pub fn vague_skips(report: &Value) -> Vec<String> {
    let checks = report["checks"].as_array().into_iter().flatten();
    let skipped = checks.filter(|check| check["outcome"] == "skip");
    let skips = skipped.map(|check| format!("{}: {}", check["name"], check["detail"]));
    let names_it = |skips: &String| {
        ["\"the adapter ", "\"the far adapter ", ": \"Max"]
            .iter()
            .any(|begins| skips.contains(begins))
    };
    skips.filter(|skips| !names_it(skips)).collect()
}

/// Checks that the runs have found exactly the known deviations: only known ones fail, and each known one is seen in one of
/// the runs. Checks of intermittent deviations have to run, whatever their outcome. A deviation that breaks the peer ends
/// the run that is about it.
///
/// # Errors
/// The differences.
pub fn judge<R: Borrow<Findings>>(runs: &[R], known: &Deviations) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    // Nothing of the wire suite is made again.
    faults.extend(
        known
            .race
            .iter()
            .map(|race| format!("{}: a race", race.check)),
    );
    for run in runs.iter().map(Borrow::borrow) {
        for (name, outcome) in &run.outcomes {
            if !matches!(outcome.as_str(), "pass" | "weak" | "known" | "skip") {
                faults.push(format!("{name}: {outcome}"));
            }
        }
        if let Some(why) = &run.lost {
            let fatal = known.deviation.iter().any(|deviation| {
                deviation.fatal
                    && run
                        .outcomes_of(&deviation.check)
                        .any(|outcome| outcome == "known")
            });
            if !fatal {
                faults.push(format!("the target was lost {why}"));
            }
        }
    }
    for deviation in &known.deviation {
        let check = &deviation.check;
        let mut outcomes = runs.iter().flat_map(|run| run.borrow().outcomes_of(check));
        let seen = if deviation.intermittent.is_some() {
            outcomes.any(|outcome| outcome != "skip")
        } else {
            outcomes.any(|outcome| outcome == "known")
        };
        if !seen {
            faults.push(format!("{check}: known, and not seen"));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_names_what_the_adapter_lacks() {
        let count_of = |outcome: &str, detail: &str| {
            let check = serde_json::json!({"name": "x", "outcome": outcome, "detail": detail});
            vague_skips(&serde_json::json!({"checks": [check]})).len()
        };
        for named in [
            "the adapter lacks the capability MEMORY_WINDOWS",
            "the far adapter has no shared receive queues",
            "MaxReadSge is the largest number there is",
        ] {
            assert_eq!(count_of("skip", named), 0, "{named}");
        }
        assert_eq!(count_of("skip", "the run is not of the strict profile"), 1);
        assert_eq!(count_of("pass", ""), 0);
    }

    const KNOWN: &str = "
        peer = 'x'
        [[deviation]]
        check = 'MPA-033.wanted'
        reason = 'a'
        source = 'b'
        [[deviation]]
        check = 'MPA2-032'
        reason = 'a'
        source = 'b'
        intermittent = 'c'
        [[deviation]]
        check = 'SEC-031.half-open'
        reason = 'a'
        source = 'b'
        fatal = true
    ";

    fn run(lost: bool, checks: &[(&str, &str)]) -> Findings {
        let checks: Vec<_> = checks
            .iter()
            .map(|(name, outcome)| serde_json::json!({"name": name, "outcome": outcome}))
            .collect();
        let lost = lost.then_some("behind it");
        Findings::parse(&serde_json::json!({"lost": lost, "checks": checks}).to_string())
    }

    #[test]
    fn all_that_is_known_has_to_be_seen_and_nothing_else() {
        let known = iwarp_conform::Deviations::parse(KNOWN).expect("known");
        let whole = [("MPA-033.wanted", "known"), ("MPA2-032.read", "pass")];
        let fatal = [("SEC-031.half-open", "known")];
        let judged = |whole: &[(&str, &str)], lost, fatal: &[(&str, &str)], gone| {
            judge(&[run(lost, whole), run(gone, fatal)], &known)
        };
        assert_eq!(judged(&whole, false, &fatal, true), Ok(()));
        for (whole, lost, fatal, fault) in [
            (&whole[..1], false, &fatal[..], "MPA2-032"),
            (&whole[1..], false, &fatal[..], "MPA-033"),
            (&whole[..], true, &fatal[..], "lost"),
            (&whole[..], false, &[], "SEC-031"),
        ] {
            let faults = judged(whole, lost, fatal, true).expect_err(fault);
            assert!(faults.iter().any(|text| text.contains(fault)), "{faults:?}");
        }
        for outcome in ["fail", "no longer deviates"] {
            let more = [whole[0], whole[1], ("MPA-021.garbage", outcome)];
            let faults = judged(&more, false, &fatal, true).expect_err(outcome);
            assert_eq!(faults, [format!("MPA-021.garbage: {outcome}")]);
        }
        assert_eq!(run(false, &whole).figure(), "1 known, 1 pass");
    }
}
