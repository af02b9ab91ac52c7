//! The fault plan of a process.

use std::sync::{Arc, Weak};

use iwarp_io::faults::Faults;
pub use iwarp_io::faults::{LoadError, Plan, PlanError};
use parking_lot::Mutex;

/// The name of the event that a plan writes for a completion queue that breaks down.
const QUEUE_EVENT: &str = "IBV_EVENT_CQ_ERR";

/// Checks that a plan has only rules that apply to programs for verbs: no calls of NetworkDirect, and datagrams only over UDP.
///
/// # Errors
///
/// The first rule that does not apply.
pub fn check(plan: &Plan, is_over_udp: bool) -> Result<(), PlanError> {
    const EVENTS: &str =
        "an event of connections or completions: programs for verbs make no calls of NetworkDirect";
    let is_event = |name: &str| match name {
        QUEUE_EVENT => Ok(()),
        _ => Err(format!(
            "`{QUEUE_EVENT}`, the event of a completion queue that breaks down"
        )),
    };
    plan.check_names(|_| Err(EVENTS.to_owned()), is_event)?;
    match is_over_udp {
        true => Ok(()),
        false => plan.check_without_datagrams("an event that is not only for connections over UDP"),
    }
}

/// A completion queue that a plan may break down.
pub(crate) trait BreakableQueue: Send + Sync {
    /// Breaks the queue down, as an overrun does. Called with no lock held.
    fn break_down(&self);
}

/// An effect beyond one connection, which takes place when no lock is held.
pub(crate) enum PlannedEffect {
    RemoveDevices,
    BreakQueue(Weak<dyn BreakableQueue>),
}

/// The plan of a process.
pub(crate) struct ProcessFaults {
    pub(crate) faults: Arc<Faults>,
    pub(crate) effects: Mutex<Vec<PlannedEffect>>,
}

impl ProcessFaults {
    /// `on_fault` is called for each fault, with a sentence.
    pub(crate) fn new(plan: Plan, on_fault: Option<fn(&str)>) -> Self {
        let faults = match on_fault {
            Some(on_fault) => Faults::telling(plan, on_fault),
            None => Faults::new(plan),
        };
        Self {
            faults,
            effects: Mutex::default(),
        }
    }
}
