//! Providers that break one rule each: exactly the checks for that rule fail.
//!
//! Each is softnd in a simulated network, wrapped. To add one: a line in `Break`, what it does in the wrapper, and a line in the
//! table below with the checks that have to fail, which should be one.

mod tables;
#[allow(dead_code, reason = "the wrapper breaks rules for the other test too")]
mod wrapper;

use std::sync::Arc;

use netdirect::{Provider, Status};
use netdirect_conform::{
    Check, End, Ends, Interface, Limits, Outcome, Run, Selection, Stop, Target, Wants, checks,
    run_these,
};
use softnd::Options;
use wrapper::{Break, Broken, Method};

/// softnd in a simulated network of its own, with one rule broken.
fn target(rule: Break) -> Target {
    Target::new("broken", None, move |wants| {
        let inner = softnd::simulation::provider("seed=7", options(wants));
        let inner = inner.map_err(|error| Stop::Broken(error.to_string()))?;
        let addresses = inner.query_address_list();
        let addresses = addresses.map_err(|error| Stop::Broken(error.to_string()))?;
        let provider: Arc<dyn Provider> = Arc::new(Broken { inner, rule });
        let end = |address| End {
            provider: Arc::clone(&provider),
            address,
        };
        Ok(Ends {
            near: end(addresses[0]),
            far: end(addresses[1]),
        })
    })
}

/// As a check wants the provider to be.
fn options(wants: &Wants) -> Options {
    let options = Options::default().timeouts(|limits| {
        if let Some(limit) = wants.time_limits.map(Some) {
            (limits.connect, limits.reply, limits.request) = (limit, limit, limit);
            (limits.ready, limits.hold_ready, limits.disconnect) = (limit, limit, limit);
        }
        if wants.patience.is_some() {
            limits.hold_ready = wants.patience;
        }
    });
    options.limits(|limits| {
        limits.registration_size = wants.largest_registration.unwrap_or(u64::MAX);
    })
}

/// All checks but one that only takes time, and those of requests and connections: what breaks a rule of these objects breaks
/// requests and connections too.
fn all() -> impl Iterator<Item = &'static Check> {
    checks().filter(|check| {
        let is_left_out =
            tables::requests::is_of_requests(check) || check.interface >= Interface::Connector;
        !is_left_out && check.name != "TST-091.many"
    })
}

fn found(rule: Break, checks: impl Iterator<Item = &'static Check>) -> Run {
    let selection = Selection {
        jobs: 2,
        ..Selection::default()
    };
    run_these(checks, &target(rule), &selection, |_| {}).unwrap()
}

fn failed(found: &Run) -> Vec<&'static str> {
    found.failures().map(|entry| entry.check.name).collect()
}

fn details(found: &Run) -> String {
    let failures = found.failures();
    let details = failures.map(|entry| format!("{}: {:#?}", entry.check.name, entry.outcome));
    details.collect::<Vec<_>>().join("\n")
}

/// A method answers with another status than it should.
const fn status(method: Method, from: Status) -> Break {
    Break::Status(method, from, Status::UNSUCCESSFUL)
}

const SHORT: Status = Status::INSUFFICIENT_RESOURCES;
const GONE: Status = Status::DEVICE_REMOVED;

/// Statuses that are not what the row asks for.
const STATUSES: &[(Break, &[&str])] = &[
    (
        status(Method::File, Status::NO_MEMORY),
        &["ADPT-002.shortage"],
    ),
    (status(Method::File, GONE), &["ADPT-003.removed"]),
    (
        status(Method::Cq, Status::NO_MEMORY),
        &["ADPT-021.shortage"],
    ),
    (status(Method::Cq, SHORT), &["ADPT-021.shortage"]),
    (
        status(Method::Cq, Status::INVALID_PARAMETER_3),
        &["ADPT-023.depths"],
    ),
    (status(Method::Cq, GONE), &["ADPT-024.removed"]),
    (
        status(Method::Cq, Status::INVALID_HANDLE),
        &["ADPT-086.file"],
    ),
    (
        status(Method::Region, Status::NO_MEMORY),
        &["ADPT-030.shortage"],
    ),
    (status(Method::Region, SHORT), &["ADPT-030.shortage"]),
    (status(Method::Region, GONE), &["ADPT-032.removed"]),
    (
        status(Method::Region, Status::INVALID_HANDLE),
        &["ADPT-086.file"],
    ),
    (status(Method::Window, SHORT), &["ADPT-035.shortage"]),
    (status(Method::Window, GONE), &["ADPT-036.removed"]),
    (
        Break::Status(
            Method::QueuePair,
            Status::INVALID_PARAMETER_2,
            Status::INVALID_PARAMETER_3,
        ),
        &["ADPT-051.foreign"],
    ),
    (
        Break::Status(
            Method::QueuePair,
            Status::INVALID_PARAMETER_3,
            Status::INVALID_PARAMETER_2,
        ),
        &["ADPT-051.foreign"],
    ),
    (
        status(Method::QueuePair, Status::INVALID_PARAMETER_5),
        &["ADPT-053.receives"],
    ),
    (
        status(Method::QueuePair, Status::INVALID_PARAMETER_6),
        &["ADPT-054.requests"],
    ),
    (
        status(Method::QueuePair, Status::INVALID_PARAMETER_7),
        &["ADPT-055.entries"],
    ),
    (
        status(Method::QueuePair, Status::INVALID_PARAMETER_8),
        &["ADPT-056.entries"],
    ),
    (
        status(Method::QueuePair, Status::INVALID_PARAMETER_9),
        &["ADPT-057.inline"],
    ),
    (status(Method::QueuePair, SHORT), &["ADPT-058.shortage"]),
    (status(Method::QueuePair, GONE), &["ADPT-059.removed"]),
    (
        status(Method::SharedQueuePair, Status::INVALID_PARAMETER_2),
        &["ADPT-067.foreign"],
    ),
    (
        status(Method::SharedQueuePair, Status::INVALID_PARAMETER_4),
        &["ADPT-067.foreign"],
    ),
    (
        status(Method::SharedQueuePair, Status::INVALID_PARAMETER_7),
        &["ADPT-070.limits"],
    ),
    (
        status(Method::SharedQueuePair, SHORT),
        &["ADPT-073.shortage"],
    ),
    (status(Method::SharedQueuePair, GONE), &["ADPT-074.removed"]),
    (
        status(Method::LocalAddress, Status::CONNECTION_INVALID),
        &["ADPT-078.idle"],
    ),
    (
        status(Method::PeerAddress, Status::CONNECTION_INVALID),
        &["ADPT-078.idle"],
    ),
    (
        status(Method::Connector, Status::NO_MEMORY),
        &["ADPT-079.shortage"],
    ),
    (status(Method::Connector, GONE), &["ADPT-081.removed"]),
    (
        status(Method::Connector, Status::INVALID_HANDLE),
        &["ADPT-086.file"],
    ),
    (
        status(Method::ListenerAddress, Status::INVALID_DEVICE_STATE),
        &["ADPT-082.idle"],
    ),
    (
        status(Method::Listen, Status::INVALID_DEVICE_STATE),
        &["ADPT-082.idle"],
    ),
    (status(Method::Listener, SHORT), &["ADPT-083.shortage"]),
    (status(Method::Listener, GONE), &["ADPT-085.removed"]),
    (
        status(Method::Connect, Status::INVALID_PARAMETER_1),
        &["GEN-022.foreign"],
    ),
    (
        status(Method::GetConnectionRequest, Status::INVALID_PARAMETER_1),
        &["GEN-022.foreign"],
    ),
    (
        status(Method::GetConnectionRequest, Status::INVALID_DEVICE_STATE),
        &["GEN-009.refused"],
    ),
    (
        status(Method::GetConnectionRequest, GONE),
        &["OVL-010.removed"],
    ),
    (
        Break::Status(
            Method::Receive,
            Status::NO_MORE_ENTRIES,
            Status::DATA_OVERRUN,
        ),
        &["GEN-017.warning"],
    ),
    (
        status(Method::Register, Status::INVALID_DEVICE_STATE),
        &["MR-001.second"],
    ),
    (status(Method::Register, SHORT), &["MR-008.shortage"]),
    (
        status(Method::Register, Status::INVALID_PARAMETER),
        &["MR-011.largest"],
    ),
    (status(Method::Register, GONE), &["MR-010.removed"]),
    (
        status(Method::Register, Status::INVALID_PARAMETER_3),
        &["MR-020.flags"],
    ),
    (
        status(Method::Register, Status::INVALID_BUFFER_SIZE),
        &["AMB-012.empty"],
    ),
    (
        status(Method::Deregister, Status::INVALID_DEVICE_STATE),
        &["ADPT-029.empty", "MR-027.empty"],
    ),
    (
        status(Method::Deregister, Status::DEVICE_BUSY),
        &["MR-026.busy", "MW-011.busy", "MW-012.no-rights"],
    ),
    (
        status(Method::Bind, Status::INVALID_PARAMETER_2),
        &["MW-004.foreign"],
    ),
    (
        status(Method::Bind, Status::INVALID_PARAMETER_3),
        &["MW-004.foreign"],
    ),
    (status(Method::Affinity, GONE), &["CQ-007.removed"]),
    (status(Method::Resize, SHORT), &["CQ-011.shortage"]),
    (
        status(Method::Resize, Status::INVALID_PARAMETER),
        &["CQ-012.limits"],
    ),
    (status(Method::Resize, GONE), &["CQ-014.removed"]),
    (
        status(Method::Resize, Status::BUFFER_OVERFLOW),
        &["CQ-016.smaller"],
    ),
    (
        Break::Status(Method::Notify, Status::INTERNAL_ERROR, Status::SUCCESS),
        &["CQ-021.broken"],
    ),
    (
        Break::Status(
            Method::Notify,
            Status::BUFFER_OVERFLOW,
            Status::INTERNAL_ERROR,
        ),
        &["CQ-022.broken", "CQ-022.overflow"],
    ),
    (status(Method::Notify, SHORT), &["CQ-024.shortage"]),
    (
        status(Method::Notify, GONE),
        &["OVL-010.removed", "CQ-025.removed"],
    ),
];

/// What a provider does wrong in other ways.
const BEHAVIOUR: &[(Break, &[&str])] = &[
    (Break::LimitsFollowLoad, &["ADPT-009.query"]),
    (Break::WrongAdapterId, &["ADPT-017.addresses"]),
    (Break::ReadEntriesAboveAll, &["INFO-005.sizes"]),
    (Break::NoWindowSize, &["INFO-005.sizes"]),
    (Break::ThresholdAboveInline, &["INFO-005.sizes"]),
    (Break::ForeignAddress, &["ADPT-017.addresses"]),
    (Break::AddressMissing, &["ADPT-017.addresses"]),
    (Break::LargestDepthRefused, &["ADPT-020.depths"]),
    (Break::AffinityRefused, &["ADPT-026.affinity"]),
    (Break::LargestQueuePairRefused, &["ADPT-050.limits"]),
    (Break::ShallowInitiator, &["ADPT-060.granted"]),
    (Break::ShallowReceives, &["ADPT-060.granted"]),
    (
        Break::NoQueuePairContext,
        &["ADPT-062.context", "ADPT-075.roles"],
    ),
    (Break::NoLoopback, &["INFO-026.loopback"]),
    (Break::TwoPackets, &["GEN-007.notified"]),
    (Break::RefusedNotifies, &["GEN-009.refused"]),
    (Break::NothingToCancel, &["OVL-004.nothing"]),
    (Break::NewerCancels, &["OVL-009.newer", "CQ-032.all"]),
    (Break::FailureIsSuccess, &["OVL-005.status"]),
    (Break::PendingIsSuccess, &["OVL-005.status"]),
    (Break::WaitForgotten, &["OVL-011.wait"]),
    (Break::OwnRequestsOnly, &["OVL-023.any-object"]),
    (Break::RegisterAtOnce, &["MR-007.pending"]),
    (Break::DeregisterAtOnce, &["MR-007.pending"]),
    (Break::AlignedOnly, &["MR-012.sizes"]),
    (Break::SecureOnly, &["MR-018.secure"]),
    (Break::FlagsIgnored, &["MR-020.flags"]),
    (Break::LocalIsReadable, &["MR-003.rights"]),
    (
        Break::LocalWriteForAll,
        &["MR-013.local-write", "MR-019.no-rights"],
    ),
    (Break::ReadableIsWritable, &["MR-016.no-local"]),
    (Break::SinkIsReadable, &["MR-017.sink"]),
    (Break::WritableIsReadable, &["MR-014.remote-read"]),
    (Break::RemoteReadForNone, &["MR-014.remote-read"]),
    (Break::RemoteWriteForNone, &["MR-015.remote-write"]),
    (Break::DeregisterLocalLate, &["MR-024.deregister"]),
    (Break::DeregisterRemoteLate, &["MR-034.untouched"]),
    (Break::ReleasedRegionStays, &["MR-028.released"]),
    (Break::RegisterOnce, &["MR-029.again"]),
    (Break::WindowIsRegion, &["MW-001.bound"]),
    (Break::WindowWritable, &["MW-006.rights"]),
    (Break::WindowReadable, &["MW-006.rights"]),
    (Break::BindNeedsRights, &["MW-012.no-rights"]),
    (Break::ReleasedWindowStays, &["MW-014.released"]),
    (Break::LateToken, &["MW-008.token"]),
    (Break::ResizeForgotten, &["CQ-010.resize"]),
    (Break::ErrorsMeanAny, &["CQ-026.errors"]),
    (Break::SolicitedMeansAny, &["CQ-028.solicited"]),
    (Break::AnyMeansSolicited, &["CQ-035.both"]),
    (
        Break::SolicitedMeansErrors,
        &["CQ-028.solicited", "CQ-029.failure", "CQ-035.both"],
    ),
    (Break::CountsTooMany, &["CQ-040.count"]),
    (Break::ContextCut, &["CQ-041.context"]),
    (Break::NewestFirst, &["CQ-042.order"]),
    (Break::NotSilent, &["CQ-045.silent"]),
];

/// Each broken provider fails the checks of its line, and no others.
fn verify<I: Iterator<Item = &'static Check>>(table: &[(Break, &[&str])], checks: fn() -> I) {
    let mut wrong = String::new();
    for (rule, expected) in table {
        let found = found(*rule, checks());
        let failed = failed(&found);
        if failed != *expected {
            wrong += &format!("{rule:?}: {failed:?} instead of {expected:?}\n");
            if std::env::var_os("DETAILS").is_some() {
                wrong += &details(&found);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_wrapper_itself_breaks_nothing() {
    let found = found(Break::Nothing, checks());
    assert!(found.succeeded(), "{}", details(&found));
    let passed = found.count(|outcome| *outcome == Outcome::Pass);
    assert!(passed > 120, "{passed}");
}

#[test]
fn a_wrong_status_fails_the_check_for_it() {
    verify(STATUSES, all);
}

#[test]
fn a_wrong_deed_fails_the_check_for_it() {
    verify(BEHAVIOUR, all);
}

#[test]
fn a_wrong_status_of_a_request_fails_the_check_for_it() {
    verify(tables::requests::STATUSES, tables::requests::all);
}

#[test]
fn a_wrong_deed_with_requests_fails_the_check_for_it() {
    verify(tables::requests::BEHAVIOUR, tables::requests::all);
}

#[test]
fn many_rules_are_broken() {
    let rows: std::collections::HashSet<_> = STATUSES
        .iter()
        .chain(BEHAVIOUR)
        .flat_map(|(_, names)| names.iter())
        .map(|name| name.split('.').next())
        .collect();
    assert!(rows.len() >= 60, "{}", rows.len());
}

/// What makes a check panic or hang is a failure of this check, and the others go on.
#[test]
fn a_panic_and_a_hang_of_the_provider_are_failures_with_their_step() {
    let only = || all().filter(|check| check.name == "CQ-041.context");
    let panics = found(Break::FlushPanics, only());
    assert_eq!(failed(&panics), ["CQ-041.context"]);
    let told = details(&panics);
    assert!(told.contains("not implemented yet"), "{told}");
    let selection = Selection {
        limits: Limits {
            check: std::time::Duration::from_secs(1),
            ..Limits::default()
        },
        ..Selection::default()
    };
    let hangs = run_these(only(), &target(Break::FlushHangs), &selection, |_| {}).unwrap();
    assert_eq!(failed(&hangs), ["CQ-041.context"]);
    let told = details(&hangs);
    assert!(told.contains("a hang in the step"), "{told}");
}
