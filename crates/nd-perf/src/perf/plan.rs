//! How rows are measured, and how many steps of progress they have.

use std::time::Duration;

use clap::ValueEnum;
use nd_base::provider::OVER_TCP;

use super::link::Choices;
use super::spec::{Spec, Test};
use crate::cores::Watch;

/// Steps of progress while connections are made, and while nothing happens.
pub(super) const STEPS: u64 = 10;

/// The baseline of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Baseline {
    /// A bare TCP socket
    Tcp,
    /// A bare QUIC stream over UDP
    Quic,
    /// The same adapter with Receives of each queue pair's own, memory at the best place of a page, and segments that begin outside
    /// CRC fields, at both sides, for --receives shared, --page-offset and --boundaries
    Plain,
    /// The same adapter over TCP, also within this machine, for --same-host
    #[value(name = OVER_TCP)]
    OverTcp,
}

/// The plan by which rows are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The baseline that takes turns with the row.
    pub(crate) baseline: Option<Baseline>,
    /// Turns of each side of the comparison.
    pub(crate) turns: u32,
    /// The length that turns should have.
    pub(crate) length: Duration,
    /// How long connections are idle where the cost of idle connections is measured.
    pub(crate) idle: Duration,
    /// The adapter of this side, where the command line names one.
    pub(crate) url: Option<String>,
    /// The fault plan of this side's adapters.
    pub(crate) fault: Option<String>,
    /// The fingerprint of the other side's certificate, for rows over UDP.
    pub(crate) pin: Option<String>,
    /// How long nothing may complete before the run is given up.
    pub(crate) timeout: Duration,
    /// Whether turns wait until the cores are as near to each other as they usually are.
    pub(crate) steady: bool,
    /// How long a cache line usually takes from core to core, if turns have to wait until it does.
    pub(crate) usual: Option<Duration>,
}

impl Plan {
    /// The plan of the next row. It uses the looks at the cores in the rows before, unless the user has named their distance.
    pub(super) fn after(&self, seen: &Watch) -> Self {
        Self {
            usual: self.usual.or(seen.median()).filter(|_| self.steady),
            ..self.clone()
        }
    }

    /// Returns the choices of this side for its adapters.
    pub(super) fn choices(&self) -> Choices<'_> {
        Choices {
            url: self.url.as_deref(),
            fault: self.fault.as_deref(),
            pin: self.pin.as_deref(),
            timeout: self.timeout.into(),
        }
    }

    /// Returns how often `progress` is called for a row.
    pub(super) fn steps(&self, spec: &Spec) -> u64 {
        u64::from(self.turns) + extra_steps(spec)
    }
}

/// Steps of progress in addition to the turns.
fn extra_steps(spec: &Spec) -> u64 {
    let connecting = if spec.connections > 0 { STEPS } else { 0 };
    let idling = if spec.test == Test::Scale { STEPS } else { 0 };
    connecting + idling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_steady_plan_waits_for_the_cores() {
        let mut plan = Plan {
            baseline: None,
            turns: 9,
            length: Duration::from_millis(50),
            idle: Duration::ZERO,
            url: None,
            fault: None,
            pin: None,
            timeout: Duration::from_secs(60),
            steady: true,
            usual: None,
        };
        let mut seen = Watch::default();
        assert_eq!(plan.after(&seen).usual, None);
        seen.looks = [30, 160, 31].map(Duration::from_nanos).into();
        assert_eq!(plan.after(&seen).usual, Some(Duration::from_nanos(31)));
        let said = Some(Duration::from_nanos(40));
        plan.usual = said;
        assert_eq!(plan.after(&seen).usual, said);
        assert_eq!(plan.after(&Watch::default()).usual, said);
        plan.steady = false;
        assert_eq!(plan.after(&seen).usual, None);
    }
}
