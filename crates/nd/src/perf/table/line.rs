//! A line of a table.

use super::judge::{Promise, Verdict};
use super::rows::Question;
use crate::perf::report;
use crate::perf::spec::Spec;
use crate::units;

/// One promise as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) question: Question,
    pub(super) title: String,
    /// The sizes of the messages; empty where there are none.
    pub(super) sizes: String,
    /// The promise.
    pub(super) wanted: String,
    /// Of several sizes the one that is furthest from what is promised.
    pub(super) worst: Option<u32>,
    /// Of several runs the worst one.
    pub(super) verdict: Verdict,
    pub(super) runs: Runs,
}

/// The number of measurements of a row, and how many of them held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) held: u32,
    pub(super) all: u32,
}

impl Runs {
    pub(super) fn one(verdict: &Verdict) -> Self {
        Self {
            held: u32::from(verdict.holds),
            all: 1,
        }
    }

    pub(super) const fn hold(self) -> bool {
        self.held == self.all
    }

    /// `yes` or `no`, or in how many of the runs the row did not hold.
    pub(super) fn told(self, yes: &str, no: &str) -> String {
        let missed = self.all - self.held;
        match missed {
            0 => yes.to_owned(),
            _ if self.held == 0 => no.to_owned(),
            _ => format!("{no} in {missed} of {}", self.all),
        }
    }
}

/// A size as it is shown.
pub(super) fn bytes(size: u32) -> String {
    units::bytes(size.into())
}

impl Line {
    /// Of a promise about these sizes, or about this one alone, with the verdict on it.
    pub(super) fn new(
        question: Question,
        spec: &Spec,
        sizes: Option<[u32; 2]>,
        promise: Promise,
        verdict: Verdict,
    ) -> Self {
        let title = report::title(spec);
        Self {
            question,
            title: match promise.part() {
                Some(part) => format!("{title}: {part}"),
                None => title,
            },
            sizes: match sizes {
                Some([least, most]) => format!("{} to {}", bytes(least), bytes(most)),
                None if spec.is_of_connections() => String::new(),
                None => bytes(spec.size),
            },
            wanted: promise.wanted(spec),
            worst: sizes.map(|_| spec.size),
            runs: Runs::one(&verdict),
            verdict,
        }
    }

    /// Adds another run of the same row.
    pub(super) fn add(&mut self, again: Self) {
        let runs = Runs {
            held: self.runs.held + again.runs.held,
            all: self.runs.all + again.runs.all,
        };
        if again.verdict.is_worse_than(&self.verdict) {
            *self = again;
        }
        self.runs = runs;
    }

    /// The measured value, and the size at which it was measured if there are several.
    pub(super) fn measured(&self) -> String {
        match self.worst {
            Some(size) => format!("{} at {}", self.verdict.measured, bytes(size)),
            None => self.verdict.measured.clone(),
        }
    }
}
