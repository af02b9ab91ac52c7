//! The results of a run of a suite.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::about::{About, Level};
use crate::deviations::Deviation;
use crate::outcome::{Failure, Outcome, Pass, Stop, Verdict};

/// One check with its outcome.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The check.
    pub check: About,
    /// How it came out.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// The results of a whole run.
#[derive(Clone, Debug)]
pub struct Run<F> {
    /// The target of the run, in words.
    pub target: String,
    /// Facts about the target.
    pub facts: F,
    /// A failing SHOULD counts.
    pub strict: bool,
    /// The checks, in their order.
    pub entries: Vec<Entry>,
    /// The target was gone: nothing ran behind this.
    pub lost: Option<String>,
    /// How many checks were not made, because the run was interrupted.
    pub interrupted: Option<usize>,
}

/// The parts of reports that belong to one suite. Implemented by the suite's type of facts about a target.
pub trait Suite {
    /// Heading prefix: `Wire conformance of`.
    const TITLE: &'static str;
    /// The key under which JSON has the trace of a failure.
    const TRACE: &'static str;
    /// The key under which JSON has what there is to say of an outcome.
    const REMARK: &'static str;
    /// Whether JSON has this key also where there is nothing to say.
    const REMARK_ALWAYS: bool;
    /// The word for a check that passed though the target is known for something else.
    const MENDED: &'static str;

    /// Adds the suite's own keys to the JSON object of the run.
    fn head(&self, target: &str, object: &mut Map<String, Value>);

    /// A sentence that is above the report, or nothing.
    fn preface(&self) -> String;

    /// Further notes about the target.
    fn notes(&self) -> &[String];

    /// The catalogue's text for this row.
    fn rule(&self, row: &str) -> Option<String>;
}

impl Entry {
    /// Returns true if the outcome makes the run a failure.
    pub fn counts(&self, strict: bool) -> bool {
        match self.outcome {
            Outcome::Fail(_) => strict || self.check.level == Level::Must,
            Outcome::Weak(_) => strict,
            Outcome::Pass
            | Outcome::Known(..)
            | Outcome::Mended(_)
            | Outcome::Skip(_)
            | Outcome::LeftOut(_) => false,
        }
    }
}

impl Outcome {
    /// Weighs how a check ended against what is known of the peer. `failure` makes the failure of what stopped it.
    pub fn judge(
        verdict: Verdict,
        known: Option<&Deviation>,
        failure: impl FnOnce(Stop) -> Failure,
    ) -> Self {
        match (verdict, known) {
            (Err(Stop::LeftOut(why)), _) => Self::LeftOut(why),
            (Ok(_), Some(known)) if known.intermittent.is_none() => Self::Mended(known.words()),
            (Ok(Pass::Right), _) => Self::Pass,
            (Ok(Pass::Weak(why)), _) => Self::Weak(why),
            (Err(Stop::Skip(why)), _) => Self::Skip(why),
            (Err(stop), Some(known)) => Self::Known(failure(stop), known.words()),
            (Err(stop), None) => Self::Fail(failure(stop)),
        }
    }
}

impl<F> Run<F> {
    /// Checks that failed, those known not counted.
    pub fn failures(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| entry.counts(self.strict))
    }

    /// Checks were made, all of them, nothing failed, and the target is still there.
    pub fn succeeded(&self) -> bool {
        let is_whole = self.lost.is_none() && self.interrupted.is_none();
        is_whole && !self.is_empty() && self.failures().next().is_none()
    }

    /// No check was made: those that were chosen are not part of the run.
    pub fn is_empty(&self) -> bool {
        self.made().next().is_none()
    }

    /// Why checks were not made, in words for the reports.
    pub fn ended_early(&self) -> Option<String> {
        let lost = self
            .lost
            .as_ref()
            .map(|why| format!("the target was lost {why}; nothing ran behind that"));
        lost.or_else(|| {
            let count = self.interrupted?;
            let checks = if count == 1 {
                "check was"
            } else {
                "checks were"
            };
            Some(format!(
                "the run was interrupted; {count} {checks} not made"
            ))
        })
    }

    /// The checks that were made, or skipped because of what the target lacks.
    pub fn made(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| !matches!(entry.outcome, Outcome::LeftOut(_)))
    }

    /// The checks that are not part of the run, each with the reason.
    pub fn left_out(&self) -> impl Iterator<Item = (&Entry, &str)> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.outcome {
                Outcome::LeftOut(why) => Some((entry, why.as_str())),
                _ => None,
            })
    }

    /// Returns the number of entries whose outcome satisfies `wanted`.
    pub fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.entries
            .iter()
            .filter(|entry| wanted(&entry.outcome))
            .count()
    }
}
