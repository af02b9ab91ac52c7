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
    /// Of several sizes the worst one.
    pub(super) spec: Spec,
    /// The smallest and the largest size, if there are several.
    pub(super) sizes: Option<[u32; 2]>,
    pub(super) promise: Promise,
    /// Of several runs the worst one.
    pub(super) verdict: Verdict,
    pub(super) runs: Runs,
}

/// How often a row was measured, and how often it held.
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

impl Line {
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

    /// The sizes of the messages; empty where there are none.
    pub(super) fn sizes(&self) -> String {
        let bytes = |size: u32| units::bytes(size.into());
        match self.sizes {
            Some([least, most]) => format!("{} to {}", bytes(least), bytes(most)),
            None if self.spec.is_of_connections() => String::new(),
            None => bytes(self.spec.size),
        }
    }

    /// What was measured, and of several sizes at which one.
    pub(super) fn measured(&self) -> String {
        match self.sizes {
            Some(_) => {
                let at = units::bytes(self.spec.size.into());
                format!("{} at {at}", self.verdict.measured)
            }
            None => self.verdict.measured.clone(),
        }
    }

    pub(super) fn title(&self) -> String {
        let title = report::title(&self.spec);
        match self.promise.part() {
            Some(part) => format!("{title}: {part}"),
            None => title,
        }
    }
}
