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
    pub(super) verdict: Verdict,
}

impl Line {
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
