//! How rows are measured, and how much progress that makes.

use std::time::Duration;

use super::spec::{Spec, Test};

/// Steps of progress while connections are made, and while nothing happens.
pub(super) const STEPS: u64 = 10;

/// How rows are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whether a bare TCP connection takes turns with the row.
    pub(crate) baseline: bool,
    /// Turns of each side of the comparison.
    pub(crate) turns: u32,
    /// The length that turns aim at.
    pub(crate) length: Duration,
    /// How long nothing happens where it is measured what that costs.
    pub(crate) idle: Duration,
}

impl Plan {
    /// How often `progress` hears of a row.
    pub(super) fn steps(&self, spec: &Spec) -> u64 {
        u64::from(self.turns) + extra_steps(spec)
    }
}

/// Steps of progress beside the turns.
fn extra_steps(spec: &Spec) -> u64 {
    let connecting = if spec.connections > 0 { STEPS } else { 0 };
    let idling = if spec.test == Test::Scale { STEPS } else { 0 };
    connecting + idling
}
