//! Rules about requests on queue pairs and shared receive queues.

use netdirect::Status;
use netdirect_conform::{Check, Interface, checks};

use super::{Table, status};
use crate::wrapper::rule::PoolDeed;
use crate::wrapper::{Break, Method};

/// Returns true if a check is about requests.
pub(crate) fn is_of_requests(check: &Check) -> bool {
    matches!(
        check.interface,
        Interface::QueuePair | Interface::SharedReceiveQueue
    )
}

/// The checks of requests, but those that only take time.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    let checks = checks().filter(|check| is_of_requests(check));
    checks.filter(|check| !["TST-058.large", "SGE-002.lengths"].contains(&check.name))
}

/// How many lines of each table a check meets by day besides those that are about it.
pub(crate) const SAMPLED: usize = 2;

const fn pool(deed: PoolDeed) -> Break {
    Break::Pool(deed)
}

const UNCONNECTED: Status = Status::CONNECTION_INVALID;
const LONG: Status = Status::BUFFER_OVERFLOW;
const FULL: Status = Status::NO_MORE_ENTRIES;
const WIDE: Status = Status::DATA_OVERRUN;

/// Statuses that are not what the row asks for.
pub(crate) const STATUSES: Table = &[
    (
        status(Method::Send, UNCONNECTED),
        &["QP-011.unconnected", "AMB-046.disconnected"],
    ),
    (
        status(Method::Read, UNCONNECTED),
        &["QP-011.unconnected", "AMB-046.disconnected"],
    ),
    (
        status(Method::Write, UNCONNECTED),
        &["QP-011.unconnected", "AMB-046.disconnected"],
    ),
    (status(Method::Bind, UNCONNECTED), &["QP-036.unconnected"]),
    (
        status(Method::Invalidate, UNCONNECTED),
        &["QP-036.unconnected"],
    ),
    (status(Method::Send, LONG), &["QP-012.too-long"]),
    (status(Method::Receive, LONG), &["QP-012.too-long"]),
    (status(Method::Read, LONG), &["QP-012.too-long"]),
    (status(Method::Write, LONG), &["QP-012.too-long"]),
    (
        status(Method::Send, FULL),
        &["QP-013.full", "AMB-036.nothing"],
    ),
    (status(Method::Read, FULL), &["QP-013.full"]),
    (
        status(Method::Write, FULL),
        &["QP-013.full", "QP-037.full", "QP-013.taken"],
    ),
    (
        status(Method::Receive, FULL),
        &["QP-028.full", "QP-028.taken", "AMB-036.nothing"],
    ),
    (status(Method::Bind, FULL), &["QP-037.full"]),
    (status(Method::Invalidate, FULL), &["QP-037.full"]),
    (
        status(Method::Send, WIDE),
        &["QP-014.entries", "AMB-036.nothing"],
    ),
    (
        status(Method::Receive, WIDE),
        &["QP-014.entries", "AMB-036.nothing"],
    ),
    (status(Method::Read, WIDE), &["QP-014.entries"]),
    (status(Method::Write, WIDE), &["QP-014.entries"]),
    (
        status(Method::Send, Status::INVALID_PARAMETER_4),
        &["QP-015.flags"],
    ),
    (
        status(Method::Read, Status::INVALID_PARAMETER_6),
        &["QP-015.flags"],
    ),
    (
        status(Method::Write, Status::INVALID_PARAMETER_6),
        &["QP-015.flags"],
    ),
    (
        status(Method::Bind, Status::INVALID_PARAMETER_6),
        &["QP-072.windows"],
    ),
    (
        status(Method::Invalidate, Status::INVALID_PARAMETER_3),
        &["QP-072.windows"],
    ),
    (
        status(Method::Bind, Status::ACCESS_VIOLATION),
        &["QP-038.rights"],
    ),
    (status(Method::SendInline, LONG), &["QP-025.inline"]),
    (status(Method::WriteInline, LONG), &["QP-025.inline"]),
    (
        status(Method::Receive, Status::INVALID_DEVICE_REQUEST),
        &["QP-032.own-receive"],
    ),
    (status(Method::PoolReceive, WIDE), &["SRQ-028.refused"]),
    (status(Method::PoolReceive, LONG), &["SRQ-028.refused"]),
    (
        status(Method::PoolModify, Status::INVALID_PARAMETER),
        &["SRQ-009.modify"],
    ),
    (status(Method::PoolModify, LONG), &["SRQ-009.modify"]),
    (
        status(Method::PoolModify, Status::INSUFFICIENT_RESOURCES),
        &["SRQ-012.shortage"],
    ),
    (
        status(Method::PoolNotify, Status::INSUFFICIENT_RESOURCES),
        &["SRQ-021.shortage"],
    ),
    (
        status(Method::PoolNotify, Status::DEVICE_REMOVED),
        &["SRQ-022.removed"],
    ),
    (
        status(Method::PoolAffinity, Status::DEVICE_REMOVED),
        &["SRQ-022.removed"],
    ),
];

/// Deeds that are not what the row asks for.
pub(crate) const BEHAVIOUR: Table = &[
    (Break::Nothing, &[]),
    (
        Break::FlushForgotten,
        &[
            "QP-028.taken",
            "QP-001.released",
            "RES-015.sets",
            "QP-004.flush",
            "QP-007.own",
            "QP-009.unconnected",
            "TST-051.refused",
        ],
    ),
    (
        Break::FenceForgotten,
        &["QP-057.past-the-end", "IW-034.fence"],
    ),
    (Break::SolicitForgotten, &["QP-021.solicited"]),
    (Break::NotSilent, &["QP-015.flags", "QP-019.silent"]),
    (Break::CountCut, &["QP-010.messages"]),
    (Break::NoEmptyRead, &["QP-060.nothing"]),
    (
        Break::ReleasedPairStays,
        &["QP-074.release", "QP-074.unconnected"],
    ),
    (Break::InlineInOnePiece, &["QP-025.inline", "QP-023.inline"]),
    (
        Break::ShortIsSuccess,
        &["QP-034.short", "RES-014.remote", "SRQ-036.short"],
    ),
    (Break::ContextCut, &["QP-010.messages", "SRQ-031.empty"]),
    (
        Break::NoQueuePairContext,
        &["RES-006.kinds", "QP-007.own", "SRQ-033.whose"],
    ),
    (Break::BindNeedsRights, &["QP-040.nothing", "TST-082.first"]),
    (
        Break::WindowWritable,
        &[
            "QP-041.read",
            "QP-038.rights",
            "QP-040.nothing",
            "TST-076.read-only",
        ],
    ),
    (Break::WindowReadable, &["QP-042.write"]),
    (
        Break::WindowIsRegion,
        &[
            "TST-062.both",
            "QP-038.rights",
            "TST-074.past-the-end",
            "TST-075.past-the-end",
        ],
    ),
    (Break::ModifyNeedsDepth, &["SRQ-009.modify"]),
    (Break::ThresholdForgotten, &["SRQ-009.modify"]),
    (Break::PoolCancelForgotten, &["SRQ-020.canceled"]),
    (Break::PoolContextCut, &["SRQ-031.empty"]),
    (Break::SlotFreeEarly, &["QP-013.taken", "QP-028.taken"]),
    (
        pool(PoolDeed::SlotFreeEarly),
        &["IW-021.waiting", "SRQ-029.taken"],
    ),
    (
        pool(PoolDeed::EmptyEndsConnection),
        &["QP-013.full", "IW-027.empty", "IW-021.waiting"],
    ),
    (
        pool(PoolDeed::NotifiedNeverAtOnce),
        &["SRQ-009.modify", "SRQ-021.shortage", "SRQ-017.below"],
    ),
    (pool(PoolDeed::NotifiedNeverLater), &["SRQ-023.falls"]),
    (
        pool(PoolDeed::NotifiedEarly),
        &["SRQ-009.modify", "SRQ-017.below", "SRQ-023.falls"],
    ),
    (
        pool(PoolDeed::NotifiedWithoutThreshold),
        &["SRQ-022.removed", "SRQ-020.canceled"],
    ),
    (pool(PoolDeed::ReceivesLostAtRelease), &["SRQ-039.stay"]),
    (pool(PoolDeed::BreakdownUntold), &["SRQ-019.broken"]),
    (pool(PoolDeed::BreakdownSparesPairs), &["SRQ-019.broken"]),
    (pool(PoolDeed::ResultsReversed), &["SRQ-033.order"]),
    (pool(PoolDeed::ShortEndsAll), &["SRQ-036.short"]),
    (
        pool(PoolDeed::DepthExceeded),
        &[
            "SRQ-009.modify",
            "SRQ-012.shortage",
            "SRQ-028.refused",
            "SRQ-029.taken",
        ],
    ),
];
