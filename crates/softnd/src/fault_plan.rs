//! The names of calls and statuses in fault plans, and the fault plan in the environment.

use iwarp_io::faults::{Plan, PlanError};
use netdirect::{Call, Status};
use rdma_buffer::environment;

/// The environment variable with the fault plan of adapters whose options have no plan. Its value is the text of the plan, or `@` and
/// the name of a file.
pub(crate) const VARIABLE: &str = "SOFTND_FAULTS";

/// The calls that a plan can make fail. These calls ask [`Device::admit`](crate::device::Device::admit).
const CALLS: [Call; 20] = [
    Call::Any,
    Call::ResolveAddress,
    Call::OpenAdapter,
    Call::CreateOverlappedFile,
    Call::CreateCompletionQueue,
    Call::CreateMemoryRegion,
    Call::CreateMemoryWindow,
    Call::CreateSharedReceiveQueue,
    Call::CreateQueuePair,
    Call::CreateQueuePairWithSrq,
    Call::CreateConnector,
    Call::CreateListener,
    Call::ResizeCompletionQueue,
    Call::NotifyCompletionQueue,
    Call::ModifySharedReceiveQueue,
    Call::NotifySharedReceiveQueue,
    Call::Register,
    Call::BindListener,
    Call::Listen,
    Call::BindConnector,
];

/// The call with this name in a plan.
pub(crate) fn call(name: &str) -> Option<Call> {
    CALLS.into_iter().find(|call| call_name(*call) == name)
}

/// The name of a call in a plan.
pub(crate) fn call_name(call: Call) -> String {
    format!("{call:?}")
}

/// The status with this name in a plan: the name in ND2, or `0x` and the bits in hex.
pub(crate) fn status(name: &str) -> Option<Status> {
    let mut known = Status::ALL.iter();
    let named = known.find(|status| status.name() == Some(name));
    let bits = || u32::from_str_radix(name.strip_prefix("0x")?, 16).ok();
    named.copied().or_else(|| bits().map(Status::from_bits))
}

/// The name of a status in a plan.
pub(crate) fn status_name(status: Status) -> String {
    let name = status.name().map(str::to_owned);
    name.unwrap_or_else(|| format!("{:#010x}", status.bits()))
}

/// Checks that the plan names only known calls and error statuses.
pub(crate) fn check(plan: &Plan) -> Result<(), PlanError> {
    let is_call = |name: &str| match call(name) {
        Some(_) => Ok(()),
        None => {
            let names = CALLS.map(|call| format!("`{}`", call_name(call)));
            Err(format!("a call: one of {}", names.join(", ")))
        }
    };
    let is_error = |name: &str| match status(name) {
        Some(status) if !status.is_success() => Ok(()),
        Some(_) => Err("a status that is an error".to_owned()),
        None => Err("the name of a status, such as `ND_NO_MEMORY`".to_owned()),
    };
    plan.check_names(is_call, is_error)
}

/// Checks that a plan has no rule about datagrams, for adapters whose streams do not run over datagrams.
pub(crate) fn check_streams(plan: &Plan) -> Result<(), PlanError> {
    plan.check_without_datagrams("an event that is not only for adapters of `softnd+udp://`")
}

/// The fault plan in the environment, if there is one. The error describes the problem of the plan.
pub(crate) fn of_environment() -> Result<Option<Plan>, String> {
    let Some(given) = environment::variable(VARIABLE) else {
        return Ok(None);
    };
    let given = given
        .into_string()
        .map_err(|_| format!("{VARIABLE} is not UTF-8"))?;
    let plan = Plan::load(&given).map_err(|error| format!("{VARIABLE}: {error}"))?;
    check(&plan).map_err(|error| format!("{VARIABLE}: fault plan, {error}"))?;
    Ok(Some(plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_and_every_error_can_be_named() {
        for known in CALLS {
            assert_eq!(call(&call_name(known)), Some(known));
        }
        for known in Status::ALL {
            assert_eq!(status(&status_name(*known)), Some(*known));
        }
        let other = Status::from_bits(0xC123_4567);
        assert_eq!(status_name(other), "0xc1234567");
        assert_eq!(status("0xc1234567"), Some(other));
    }

    #[test]
    fn names_are_checked_where_they_stand() {
        for (text, column, problem) in [
            (
                "when 1st Regster called: fail with ND_NO_MEMORY",
                10,
                "a call: one of `Any`, ",
            ),
            (
                "when 1st Register called: fail with ND_NO_MEMRY",
                37,
                "the name of a status",
            ),
            (
                "when 1st Register called: fail with ND_SUCCESS",
                37,
                "a status that is an error",
            ),
            (
                "when 1st ModifyQueuePair called: remove device",
                10,
                "a call: one of `Any`, ",
            ),
        ] {
            let error = check(&text.parse().unwrap()).unwrap_err();
            assert_eq!(error.column(), column, "{error}");
            assert!(
                error.problem().starts_with(&format!("expected {problem}")),
                "{error}"
            );
        }
    }
}
