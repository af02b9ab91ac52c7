//! Rules about connectors, listeners, and what connections mean to clients.

use netdirect::Status;
use netdirect_conform::{Check, Interface, checks};

use super::{Table, status};
use crate::wrapper::rule::Deed;
use crate::wrapper::{Break, Method};

/// Returns true if a check is about connections.
pub(crate) fn is_of_connections(check: &Check) -> bool {
    check.interface >= Interface::Connector
}

/// The checks of connections, but one that only takes time.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    checks().filter(|check| is_of_connections(check) && check.name != "IW-054.many")
}

/// How many lines a check meets by day besides those that are about it.
pub(crate) const SAMPLED: usize = 3;

const GONE: Status = Status::DEVICE_REMOVED;

/// An unknown status.
const UNKNOWN: Status = Status::from_bits(0xC123_4567);

/// Statuses and deeds that are not what the row asks for.
pub(crate) const RULES: Table = &[
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
        &["LSTN-018.unbound", "LSTN-031.dead"],
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
        status(Method::Connect, Status::IO_TIMEOUT),
        &["CONN-024.unanswered"],
    ),
    (
        status(Method::Connect, Status::CANCELED),
        &[
            "CONN-018.released",
            "CONN-018.canceled",
            "CONN-035.released",
            "LSTN-031.dead",
        ],
    ),
    (
        status(Method::Connect, Status::ADDRESS_ALREADY_EXISTS),
        &["CONN-010.exists"],
    ),
    (
        Break::Status(Method::Reject, Status::CONNECTION_INVALID, UNKNOWN),
        &["CONN-076.nothing", "GEN-013.statuses"],
    ),
    (Break::NoLoopback, &["IW-049.own"]),
    (Break::LargestQueuePairRefused, &["TST-021.depths"]),
    (Break::OwnRequestsOnly, &["TST-114.loop"]),
    (
        Break::Connection(Deed::ReadsForAll),
        &["CONN-063.offer", "IW-014.none"],
    ),
    (
        status(Method::Connect, Status::HOST_UNREACHABLE),
        &["CONN-022.host"],
    ),
    (
        status(Method::Connect, Status::CONNECTION_ACTIVE),
        &["CONN-020.active", "ADPT-063.one"],
    ),
    (
        status(Method::Connect, Status::NETWORK_UNREACHABLE),
        &["CONN-021.family"],
    ),
    (
        status(Method::Connect, Status::BAD_NETWORK_NAME),
        &["CONN-026.unspecified"],
    ),
    (
        status(Method::Connect, GONE),
        &["CONN-007.removed", "CONN-045.removed"],
    ),
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
        Break::Connection(Deed::PortNeverBack),
        &["LSTN-005.address", "LSTN-006.restart", "LSTN-011.twice"],
    ),
    (
        Break::Connection(Deed::ConnectorStays),
        &[
            "CONN-035.released",
            "CONN-056.released",
            "CONN-055.gone",
            "CONN-105.released",
        ],
    ),
    (
        Break::Connection(Deed::CancelForgotten),
        &[
            "CONN-018.canceled",
            "CONN-046.gone",
            "CONN-052.canceled",
            "CONN-055.gone",
            "CONN-071.gone",
            "CONN-105.canceled",
            "TST-044.canceled",
            "LSTN-031.dead",
        ],
    ),
    (
        Break::Connection(Deed::NotifiedAtOnce),
        &[
            "CONN-102.peer",
            "CONN-105.canceled",
            "CONN-105.released",
            "IW-019.written",
            "TST-003.pending",
        ],
    ),
];
