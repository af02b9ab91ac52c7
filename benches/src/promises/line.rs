//! A line of a table.

use nd_base::units;

use super::judge::{Promise, Verdict};
use super::rows::{PromisedRow, Question};

/// One promise as it is shown.
#[derive(Clone, Debug)]
pub struct Line {
    /// The table that has it.
    pub question: Question,
    /// What was measured.
    pub title: String,
    /// The sizes of the messages; empty where there are none.
    pub sizes: String,
    /// The promise.
    pub wanted: String,
    /// Of several sizes the one that is furthest from what is promised.
    pub worst: Option<u32>,
    /// Of several runs the worst one.
    pub verdict: Verdict,
    /// In how many runs it held.
    pub runs: Runs,
}

/// The number of measurements of a row, and how many of them held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Those that held.
    pub held: u32,
    /// All of them.
    pub all: u32,
}

impl Runs {
    /// One run.
    #[must_use]
    pub fn one(verdict: &Verdict) -> Self {
        Self {
            held: u32::from(verdict.holds),
            all: 1,
        }
    }

    /// Returns true if all held.
    #[must_use]
    pub const fn hold(self) -> bool {
        self.held == self.all
    }

    /// `yes` or `no`, or in how many of the runs the row did not hold.
    #[must_use]
    pub fn verdict(self, yes: &str, no: &str) -> String {
        let missed = self.all - self.held;
        match missed {
            0 => yes.to_owned(),
            _ if self.held == 0 => no.to_owned(),
            _ => format!("{no} in {missed} of {}", self.all),
        }
    }
}

/// A size as it is shown.
#[must_use]
pub fn bytes(size: u32) -> String {
    units::bytes(size.into())
}

impl Line {
    /// Of a promise of a row, with the verdict on it at one of the row's sizes.
    #[must_use]
    pub fn new(row: &PromisedRow, promise: Promise, size: Option<u32>, verdict: Verdict) -> Self {
        Self {
            question: row.question,
            title: match promise.part() {
                Some(part) => format!("{}: {part}", row.title),
                None => row.title.clone(),
            },
            sizes: match &*row.sizes {
                [] => String::new(),
                [one] => bytes(*one),
                [least, .., most] => format!("{} to {}", bytes(*least), bytes(*most)),
            },
            wanted: promise.wanted(row.is_over_udp()),
            worst: size.filter(|_| row.sizes.len() > 1),
            runs: Runs::one(&verdict),
            verdict,
        }
    }

    /// Adds another run of the same row.
    pub fn add(&mut self, again: Self) {
        let runs = Runs {
            held: self.runs.held + again.runs.held,
            all: self.runs.all + again.runs.all,
        };
        if again.verdict.is_worse_than(&self.verdict) {
            *self = again;
        }
        self.runs = runs;
    }

    /// Returns false if there is no figure to judge.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        !self.verdict.margin.is_nan()
    }

    /// The measured value, and the size at which it was measured if there are several.
    #[must_use]
    pub fn measured(&self) -> String {
        match self.worst {
            Some(size) => format!("{} at {}", self.verdict.measured, bytes(size)),
            None => self.verdict.measured.clone(),
        }
    }
}
