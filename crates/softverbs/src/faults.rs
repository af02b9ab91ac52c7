//! The fault plan of a process.

pub use iwarp_io::faults::{LoadError, Plan, PlanError};

/// The name of the event that a plan writes for a completion queue that breaks down.
const QUEUE_EVENT: &str = "IBV_EVENT_CQ_ERR";

/// Checks that a plan has only rules that apply to programs for verbs: no calls of NetworkDirect, and datagrams only where there are some: on
/// devices for RoCE, and over UDP.
///
/// # Errors
///
/// The first rule that does not apply.
pub fn check(plan: &Plan, has_datagrams: bool) -> Result<(), PlanError> {
    const EVENTS: &str =
        "an event of connections or completions: programs for verbs make no calls of NetworkDirect";
    let is_event = |name: &str| match name {
        QUEUE_EVENT => Ok(()),
        _ => Err(format!(
            "`{QUEUE_EVENT}`, the event of a completion queue that breaks down"
        )),
    };
    plan.check_names(|_| Err(EVENTS.to_owned()), is_event)?;
    match has_datagrams {
        true => Ok(()),
        false => plan.check_without_datagrams(
            "an event that is not about datagrams: devices for iWARP send some over UDP alone",
        ),
    }
}
