//! Providers that break one rule of connections each: exactly the checks for that rule fail, among those of connectors,
//! listeners and all behind them.

#[allow(dead_code, reason = "the wrapper breaks rules for the other test too")]
mod wrapper;

use std::sync::Arc;

use netdirect::{Provider, Status};
use netdirect_conform::{
    Check, End, Ends, Interface, Selection, Stop, Target, Wants, checks, run_these,
};
use softnd::Options;
use wrapper::rule::Deed;
use wrapper::{Break, Broken, Method};

fn options(wants: &Wants) -> Options {
    Options::default().timeouts(|limits| {
        if let Some(limit) = wants.time_limits.map(Some) {
            (limits.connect, limits.reply, limits.request) = (limit, limit, limit);
            (limits.ready, limits.hold_ready, limits.disconnect) = (limit, limit, limit);
        }
        if wants.patience.is_some() {
            limits.hold_ready = wants.patience;
        }
    })
}

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

/// The checks of connectors and of all interfaces behind them, but one that only takes time.
fn connections() -> impl Iterator<Item = &'static Check> {
    checks().filter(|check| check.interface >= Interface::Connector && check.name != "IW-054.many")
}

const fn status(method: Method, from: Status) -> Break {
    Break::Status(method, from, Status::UNSUCCESSFUL)
}

const GONE: Status = Status::DEVICE_REMOVED;

const RULES: &[(Break, &[&str])] = &[
    (
        status(Method::BindConnector, Status::SHARING_VIOLATION),
        &["CONN-008.taken", "AMB-030.listener"],
    ),
    (
        status(Method::BindConnector, Status::ADDRESS_ALREADY_ASSOCIATED),
        &["CONN-011.twice", "AMB-034.bound", "CONN-020.active"],
    ),
    (
        status(Method::BindConnector, Status::INVALID_ADDRESS),
        &["CONN-012.foreign"],
    ),
    (
        status(Method::BindConnector, Status::TOO_MANY_ADDRESSES),
        &["CONN-009.ports"],
    ),
    (status(Method::BindConnector, GONE), &["CONN-007.removed"]),
    (
        status(Method::BindListener, Status::SHARING_VIOLATION),
        &["LSTN-006.taken"],
    ),
    (
        status(Method::BindListener, Status::ADDRESS_ALREADY_ASSOCIATED),
        &["LSTN-011.twice"],
    ),
    (
        status(Method::BindListener, Status::INVALID_ADDRESS),
        &["LSTN-012.foreign"],
    ),
    (
        status(Method::BindListener, Status::INSUFFICIENT_RESOURCES),
        &["LSTN-007.shortage"],
    ),
    (
        status(Method::BindListener, Status::TOO_MANY_ADDRESSES),
        &["LSTN-008.ports"],
    ),
    (
        status(Method::Listen, Status::INSUFFICIENT_RESOURCES),
        &["LSTN-007.shortage"],
    ),
    (
        status(Method::ListenerAddress, Status::INVALID_DEVICE_STATE),
        &["LSTN-018.unbound"],
    ),
    (
        status(Method::GetConnectionRequest, Status::INVALID_DEVICE_STATE),
        &["LSTN-018.unbound"],
    ),
    (
        status(Method::GetConnectionRequest, Status::CONNECTION_ACTIVE),
        &["LSTN-031.busy"],
    ),
    (
        status(Method::GetConnectionRequest, Status::CANCELED),
        &["LSTN-025.canceled", "LSTN-025.released"],
    ),
    (
        status(Method::GetConnectionRequest, GONE),
        &["LSTN-026.removed"],
    ),
    (
        status(Method::GetConnectionRequest, Status::INVALID_PARAMETER_1),
        &["GEN-022.connector"],
    ),
    (
        status(Method::Connect, Status::INVALID_BUFFER_SIZE),
        &["CONN-017.data"],
    ),
    (
        status(Method::Connect, Status::NETWORK_UNREACHABLE),
        &["CONN-021.family"],
    ),
    (
        status(Method::Connect, Status::BAD_NETWORK_NAME),
        &["CONN-026.unspecified"],
    ),
    (status(Method::Connect, GONE), &["CONN-007.removed"]),
    (
        status(Method::Connect, Status::INVALID_PARAMETER_1),
        &["CONN-062.foreign"],
    ),
    (
        status(Method::Accept, Status::INVALID_BUFFER_SIZE),
        &["CONN-058.data"],
    ),
    (
        status(Method::Accept, Status::CONNECTION_INVALID),
        &["CONN-036.rejected", "CONN-052.canceled", "CONN-060.nothing"],
    ),
    (
        status(Method::Accept, Status::INVALID_PARAMETER_1),
        &["CONN-062.foreign"],
    ),
    (status(Method::Accept, GONE), &["CONN-053.removed"]),
    (
        status(Method::CompleteConnect, Status::CONNECTION_INVALID),
        &["CONN-003.rejects", "CONN-044.early"],
    ),
    (status(Method::CompleteConnect, GONE), &["CONN-045.removed"]),
    (
        status(Method::Reject, Status::CONNECTION_ABORTED),
        &["CONN-071.gone"],
    ),
    (
        status(Method::Reject, Status::CONNECTION_INVALID),
        &["CONN-076.nothing"],
    ),
    (
        status(Method::Reject, Status::INVALID_BUFFER_SIZE),
        &["CONN-073.data"],
    ),
    (status(Method::Reject, GONE), &["CONN-053.removed"]),
    (status(Method::Disconnect, GONE), &["CONN-045.removed"]),
    (
        status(Method::NotifyDisconnect, Status::CONNECTION_INVALID),
        &["CONN-104.never", "TST-039.directly"],
    ),
    (
        Break::Connection(Deed::LimitsSwapped),
        &["CONN-002.limits", "CONN-002.accepts"],
    ),
    (
        Break::Connection(Deed::PrivateDataCut),
        &[
            "CONN-017.data",
            "CONN-084.data",
            "CONN-036.rejected",
            "CONN-058.data",
            "CONN-073.data",
        ],
    ),
    (
        Break::Connection(Deed::RejectDataLost),
        &["CONN-036.rejected", "CONN-073.data", "LSTN-015.backlog"],
    ),
    (
        Break::Connection(Deed::PeerPortLost),
        &[
            "CONN-004.address",
            "CONN-010.exists",
            "AMB-034.bound",
            "CONN-097.addresses",
            "LSTN-023.waiting",
            "IW-067.held",
        ],
    ),
    (
        Break::Connection(Deed::BacklogIgnored),
        &["LSTN-015.backlog", "TST-037.busy"],
    ),
    (
        Break::Connection(Deed::ConnectorStays),
        &["CONN-035.released", "CONN-056.released", "CONN-055.gone"],
    ),
    (
        Break::Connection(Deed::CancelForgotten),
        &[
            "CONN-018.canceled",
            "CONN-046.gone",
            "CONN-052.canceled",
            "CONN-055.gone",
            "CONN-105.canceled",
            "TST-044.canceled",
        ],
    ),
    (
        Break::Connection(Deed::NotifiedAtOnce),
        &[
            "CONN-102.peer",
            "CONN-105.canceled",
            "IW-019.written",
            "TST-003.pending",
        ],
    ),
];

#[test]
fn a_broken_connection_fails_the_checks_for_it() {
    let mut wrong = String::new();
    for (rule, expected) in RULES {
        let selection = Selection {
            jobs: 2,
            ..Selection::default()
        };
        let found = run_these(connections(), &target(*rule), &selection, |_| {}).unwrap();
        let failed: Vec<_> = found.failures().map(|entry| entry.check.name).collect();
        if failed != *expected {
            wrong += &format!("{rule:?}: {failed:?} instead of {expected:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
