//! Rules about adapters, files, memory and completion queues.

use netdirect::Status;
use netdirect_conform::{Check, checks};

use super::connections::is_of_connections;
use super::requests::is_of_requests;
use super::{Table, status};
use crate::wrapper::{Break, Method};

/// All checks but one that only takes time, and those of requests and connections: what breaks a rule of these objects breaks
/// requests and connections too.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    checks().filter(|check| {
        let is_left_out = is_of_requests(check) || is_of_connections(check);
        !is_left_out && !SLOW.contains(&check.name)
    })
}

/// Checks that take time.
const SLOW: [&str; 2] = ["TST-090.sizes", "TST-091.many"];

/// The checks that take time.
pub(crate) fn slow() -> impl Iterator<Item = &'static Check> {
    checks().filter(|check| SLOW.contains(&check.name))
}

/// How many lines of each of the two tables a check meets by day besides those that are about it.
pub(crate) const SAMPLED: usize = 2;

/// Bugs that show only after very many calls.
pub(crate) const OFTEN: Table = &[(Break::RegistrationsRunOut, &["TST-090.sizes"])];

const SHORT: Status = Status::INSUFFICIENT_RESOURCES;
const GONE: Status = Status::DEVICE_REMOVED;

/// Statuses that are not what the row asks for.
pub(crate) const STATUSES: Table = &[
    (
        status(Method::Resolve, Status::NO_MEMORY),
        &["PROV-013.shortage"],
    ),
    (
        status(Method::Resolve, Status::INVALID_ADDRESS),
        &["PROV-014.unknown"],
    ),
    (
        status(Method::Open, Status::NO_MEMORY),
        &["PROV-018.shortage"],
    ),
    (
        status(Method::Open, Status::INVALID_PARAMETER),
        &["PROV-019.number"],
    ),
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
    (
        status(Method::Window, Status::NO_MEMORY),
        &["AMB-057.window"],
    ),
    (
        status(Method::QueuePair, Status::NO_MEMORY),
        &["AMB-057.queue-pair"],
    ),
    (
        status(Method::SharedQueuePair, Status::NO_MEMORY),
        &["AMB-057.shared"],
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
        &["ADPT-053.receives", "TST-080.depth"],
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
        &["CQ-022.broken", "CQ-022.overflow", "IW-041.overflow"],
    ),
    (
        Break::Status(Method::NotifySolicited, Status::CANCELED, Status::TIMEOUT),
        &["TST-008.sign"],
    ),
    (status(Method::Notify, SHORT), &["CQ-024.shortage"]),
    (
        status(Method::Notify, GONE),
        &["OVL-010.removed", "CQ-025.removed"],
    ),
];

/// Other wrong behaviour of a provider.
pub(crate) const BEHAVIOUR: Table = &[
    (Break::LimitsFollowLoad, &["ADPT-009.query"]),
    (
        Break::WrongAdapterId,
        &["DLL-014.scope", "ADPT-017.addresses"],
    ),
    (Break::ReadEntriesAboveAll, &["INFO-005.sizes"]),
    (Break::NoWindowSize, &["INFO-005.sizes", "AMB-058.whole"]),
    (Break::ThresholdAboveInline, &["INFO-005.sizes"]),
    (
        Break::ForeignAddress,
        &["DLL-014.scope", "ADPT-017.addresses"],
    ),
    (Break::AddressMissing, &["ADPT-017.addresses"]),
    (
        Break::LargestDepthRefused,
        &["ADPT-020.depths", "TST-019.two"],
    ),
    (
        Break::AffinityRefused,
        &["ADPT-026.affinity", "IW-043.wish"],
    ),
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
    (
        Break::AnyMeansSolicited,
        &["CQ-035.both", "TST-016.pattern"],
    ),
    (
        Break::SolicitedMeansErrors,
        &["CQ-028.solicited", "CQ-029.failure", "CQ-035.both"],
    ),
    (Break::CountsTooMany, &["CQ-040.count"]),
    (Break::ContextCut, &["CQ-041.context"]),
    (Break::NewestFirst, &["CQ-042.order", "IW-042.traffic"]),
    (Break::NotSilent, &["CQ-045.silent"]),
    (Break::PortCounts, &["PROV-012.resolve", "DLL-014.scope"]),
    (Break::ListWithPorts, &["PROV-006.list"]),
    (Break::AnyAddress, &["PROV-014.unknown"]),
    (Break::AnyNumber, &["PROV-019.number"]),
    (Break::ReadFlagsIgnored, &["PROV-005.flags"]),
    (Break::NoCalleeData, &["TST-088.fields"]),
    (Break::OneLargeQueue, &["TST-019.two"]),
    (Break::TwoEntriesRefused, &["TST-080.depth"]),
    (Break::LenienceUncounted, &["AMB-071.counted"]),
    (Break::FileGivenUp, &["GEN-020.order", "ADPT-004.given-up"]),
    (Break::WindowSmall, &["AMB-058.whole"]),
    (Break::AffinityEchoed, &["IW-043.wish"]),
    (
        Break::NotifyForNewOnly,
        &[
            "CQ-020.at-once",
            "CQ-040.count",
            "AMB-037.left",
            "TST-016.pattern",
        ],
    ),
    (Break::LookIsNotify, &["AMB-037.left", "TST-016.pattern"]),
    (
        Break::ResizeLoses,
        &["CQ-011.shortage", "CQ-017.results", "IW-042.traffic"],
    ),
    (Break::OneEngine, &["INFO-024.beside"]),
];
