//! Compares softnd with raw TCP, UCX and libfabric in one run, in short alternating turns.
//!
//! Every turn runs each program for a moment, one after the other, and the order rotates from turn to turn. Figures are
//! compared within a turn, and the result is the median of these ratios. The machine drifts within seconds, so that figures
//! of different moments cannot be compared.
//!
//! A program that is not installed is left out by name.

pub mod calls;
pub mod congestion;
pub mod machine;
pub mod memcpy;
pub mod nd;
pub mod numbers;
pub mod one_machine;
pub mod page;
pub mod pairs;
pub mod peers;
pub mod plot;
pub mod programs;
pub mod shm;
pub mod turns;

use std::fmt;

/// A failure: what happened, and to what.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure, described in one sentence.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<nd_perf::process::ProgramFailure> for Failure {
    fn from(failure: nd_perf::process::ProgramFailure) -> Self {
        Self(failure.to_string())
    }
}

/// Half a round trip, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The median, if the program reports it.
    pub p50: Option<f64>,
    /// Mean.
    pub mean: f64,
}

/// The median; `None` without a number.
#[must_use]
pub fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.into_iter().filter(|n| n.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], upper)
    } else {
        upper
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_of_what_is_a_number() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0]), Some(2.5));
    }
}
