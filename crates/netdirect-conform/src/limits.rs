//! How long checks wait.

use std::time::Duration;

use conform_report::{Stop, fail};

use crate::steps::Steps;

/// The time limits of a check. In a simulation the first two are times of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For something that has to come. Only a hang reaches the limit.
    pub answer: Duration,
    /// For something that must not come.
    pub quiet: Duration,
    /// For a whole check, by the wall clock.
    pub check: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(40),
            quiet: Duration::from_millis(30),
            check: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// All of them longer by a factor, or shorter.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            answer: self.answer.mul_f64(factor),
            quiet: self.quiet.mul_f64(factor),
            check: self.check.mul_f64(factor),
        }
    }
}

/// The failure of a check that hangs in the step under way.
pub(crate) fn hang(steps: &Steps, limit: Duration) -> Stop {
    fail(
        "the step to end",
        format!(
            "a hang in the step \"{}\": nothing for {} s",
            steps.current(),
            limit.as_secs_f64()
        ),
    )
}
