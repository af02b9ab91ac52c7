//! Calls that a connector refuses, by state, and after the removal of the device.

use std::sync::Arc;

use conform_report::{Pass, Step, Verdict, ensure, fail};
use netdirect::{Connector, QueuePairOptions, Started, Status};

use super::new_check;
use crate::bench::Bench;
use crate::check::Check;
use crate::checks::common::remove;
use crate::checks::setup::{LIMITS, Setup, disconnect, ends, notification, quiet};
use crate::link::Queues;
use crate::need::Need;
use crate::side::Side;

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "CONN-007.removed",
        "calls each method of idle and bound connectors after the device was removed",
        removed_idle,
    )
    .also(&["CONN-019", "GEN-015"])
    .needs(&[Need::Connections, Need::Faults]),
    new_check(
        "CONN-045.removed",
        "completes and disconnects connections after the device was removed, which ends what is pending",
        removed_active,
    )
    .also(&["CONN-111", "GEN-015"])
    .needs(&[Need::Connections, Need::Faults]),
    new_check(
        "CONN-053.removed",
        "accepts and rejects a peer after the device was removed: the peer is refused",
        removed_passive,
    )
    .also(&["CONN-070", "GEN-015"])
    .needs(&[Need::Connections, Need::Faults]),
    new_check(
        "CONN-020.active",
        "connects and accepts with queue pairs that are connecting, accepting or connected",
        active_queue_pairs,
    )
    .also(&["CONN-054", "CONN-066", "TST-068"])
    .needs(&[Need::Connections]),
    new_check(
        "ADPT-063.one",
        "has a connector and its queue pair take no others, also after the peer has ended the connection, until Disconnect",
        one_at_a_time,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-040.used",
        "connects and accepts with queue pairs that were connected before, also with new connectors",
        used_queue_pairs,
    )
    .also(&["CONN-114", "AMB-035"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-044.early",
        "calls CompleteConnect on connectors that are new, connecting, offered, accepting or connected",
        early_completion,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-062.foreign",
        "connects and accepts with a queue pair of another adapter, and then with an own one",
        foreign_queue_pairs,
    )
    .also(&["GEN-022"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-104.never",
        "calls NotifyDisconnect and Disconnect on connectors that are new, connecting, refused, rejected or not yet complete",
        not_connected,
    )
    .also(&["CONN-112", "TST-025"])
    .needs(&[Need::Connections]),
];

fn removed_status<T>(side: &Side, what: &str, result: netdirect::Result<T>) -> Step {
    side.refused(
        format_args!("{what} after the removal"),
        result,
        Status::DEVICE_REMOVED,
    )
}

fn removed_idle(bench: &Bench) -> Verdict {
    let gone = bench.near.open_again()?;
    let setup = Setup::new(&gone, &bench.far)?;
    let bound = gone.connector()?;
    gone.expect("Bind", bound.bind(gone.address))?;
    remove(&gone)?;
    removed_status(&gone, "Bind", setup.here.bind(gone.address))?;
    removed_status(&gone, "Connect", setup.connect(LIMITS, &[]))?;
    let to = setup.listening.address;
    let started = bound.connect(&setup.asking.qp, to, 4, 4, &[], &quiet());
    removed_status(&gone, "Connect of a bound connector", started)?;
    let cancelled = setup.here.cancel_overlapped_requests();
    gone.expect("CancelOverlappedRequests", cancelled)?;
    Ok(Pass::Right)
}

/// Checks that a pending request has ended with `ND_DEVICE_REMOVED`.
fn ended(side: &Side, what: &str, request: &netdirect::Overlapped) -> Step {
    side.status(what, request.status(), Status::DEVICE_REMOVED)
}

fn removed_active(bench: &Bench) -> Verdict {
    let gone = bench.near.open_again()?;
    let answered = Setup::new(&gone, &bench.far)?;
    answered.answer()?;
    let connected = Setup::whole(&gone, &bench.far)?;
    let connecting = Setup::new(&gone, &bench.far)?;
    connecting.offer()?;
    remove(&gone)?;
    ended(&gone, "the end of Connect", &connecting.connected)?;
    removed_status(
        &gone,
        "CompleteConnect",
        answered.here.complete_connect(&quiet()),
    )?;
    removed_status(&gone, "Disconnect", connected.here.disconnect(&quiet()))?;
    let notified = crate::checks::setup::notification(&bench.far, &connected.there)?;
    let what = "NotifyDisconnect of the peer";
    crate::checks::setup::ends(&bench.far, what, &notified, Status::SUCCESS)?;
    Ok(Pass::Right)
}

fn removed_passive(bench: &Bench) -> Verdict {
    let gone = bench.near.open_again()?;
    let offered = Setup::new(&bench.far, &gone)?;
    offered.offer()?;
    let accepting = Setup::new(&bench.far, &gone)?;
    accepting.answer()?;
    remove(&gone)?;
    ended(&gone, "the end of Accept", &accepting.accepted)?;
    removed_status(&gone, "Accept", offered.accept(LIMITS, &[]))?;
    removed_status(&gone, "Reject", offered.there.reject(&[]))?;
    offered.connect_ends(Status::CONNECTION_REFUSED)?;
    Ok(Pass::Right)
}

fn connect(
    connector: &Arc<dyn Connector>,
    queues: &Queues,
    setup: &Setup<'_>,
) -> netdirect::Result<Started> {
    let to = setup.listening.address;
    connector.connect(&queues.qp, to, 4, 4, &[], &quiet())
}

fn active_queue_pairs(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let wanted = Status::CONNECTION_ACTIVE;
    let (here, there) = (Setup::near_connects(bench)?, Setup::near_accepts(bench)?);
    let another = Setup::near_accepts(bench)?;
    another.offer()?;
    let refused = |what: &str, setup: &Setup<'_>, queues: &Queues| {
        let connector = side.connector()?;
        let started = connect(&connector, queues, setup);
        side.refused(
            format_args!("Connect with a queue pair that is {what}"),
            started,
            wanted,
        )?;
        let started = another.there.accept(&queues.qp, 4, 4, &[], &quiet());
        side.refused(
            format_args!("Accept with a queue pair that is {what}"),
            started,
            wanted,
        )
    };
    here.offer()?;
    refused("connecting", &here, &here.asking)?;
    let started = connect(&here.here, &here.asking, &here);
    side.refused("Connect of a connector that connects", started, wanted)?;
    here.answer_pending()?;
    refused("answered", &here, &here.asking)?;
    let twice = here.here.bind(side.address);
    side.refused(
        "Bind before CompleteConnect",
        twice,
        Status::ADDRESS_ALREADY_ASSOCIATED,
    )?;
    here.complete()?;
    refused("connected", &here, &here.asking)?;
    here.works()?;

    there.answer()?;
    refused("accepting", &here, &there.answering)?;
    there.complete()?;
    refused("connected as the passive side", &here, &there.answering)?;
    there.works()?;
    // The offer is as it was.
    another.answer_pending()?;
    another.complete()?;
    Ok(Pass::Right)
}

fn one_at_a_time(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::whole(side, &bench.far)?;
    let (connector, queues) = (
        side.connector()?,
        side.queues(8, QueuePairOptions::default())?,
    );
    let stay_together = |when: &str| {
        let wanted = Status::CONNECTION_ACTIVE;
        let started = connect(&setup.here, &queues, &setup);
        let what = format!("Connect with another queue pair {when}");
        side.refused(what, started, wanted)?;
        let started = connect(&connector, &setup.asking, &setup);
        let what = format!("Connect with another connector {when}");
        side.refused(what, started, wanted)
    };
    stay_together("while the connection is there")?;
    setup.works()?;
    let notice = notification(side, &setup.here)?;
    disconnect(&bench.far, &setup.there)?;
    ends(side, "NotifyDisconnect", &notice, Status::SUCCESS)?;
    stay_together("after the peer's Disconnect")?;
    disconnect(side, &setup.here)?;
    let wanted = Status::INVALID_DEVICE_STATE;
    let started = connect(&setup.here, &queues, &setup);
    side.refused(
        "Connect of a connector that was disconnected",
        started,
        wanted,
    )?;
    let started = connect(&connector, &setup.asking, &setup);
    side.refused(
        "Connect with a queue pair that was disconnected",
        started,
        wanted,
    )?;
    Ok(Pass::Right)
}

fn used_queue_pairs(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let wanted = Status::INVALID_DEVICE_STATE;
    let (here, there) = (
        Setup::whole(&bench.near, &bench.far)?,
        Setup::whole(&bench.far, &bench.near)?,
    );
    disconnect(side, &here.here)?;
    disconnect(side, &there.there)?;
    let another = Setup::near_accepts(bench)?;
    another.offer()?;
    for queues in [&here.asking, &there.answering] {
        let connector = side.connector()?;
        let started = connect(&connector, queues, &here);
        side.refused("Connect with a queue pair that was used", started, wanted)?;
        let started = another.there.accept(&queues.qp, 4, 4, &[], &quiet());
        side.refused("Accept with a queue pair that was used", started, wanted)?;
    }
    let fresh = side.queues(8, netdirect::QueuePairOptions::default())?;
    side.step("Connect of a connector that was used");
    let Err(error) = connect(&here.here, &fresh, &here) else {
        return Err(fail(
            "a failure of Connect of a connector that was used",
            "success",
        ));
    };
    let status = error.status();
    ensure(!status.is_success(), "a failure", status.to_string())?;
    another.answer_pending()?;
    another.complete()?;
    Ok(Pass::Right)
}

fn early_completion(bench: &Bench) -> Verdict {
    let (near, far) = (&bench.near, &bench.far);
    let setup = Setup::near_connects(bench)?;
    let wanted = Status::CONNECTION_INVALID;
    let refused = |side: &Side, connector: &Arc<dyn Connector>, state: &str| {
        let started = connector.complete_connect(&quiet());
        let what = format!("CompleteConnect on a connector that is {state}");
        side.refused(what, started, wanted)
    };
    refused(near, &setup.here, "new")?;
    setup.offer()?;
    refused(near, &setup.here, "connecting")?;
    refused(far, &setup.there, "offered")?;
    setup.answer_pending()?;
    refused(far, &setup.there, "accepting")?;
    setup.complete()?;
    refused(near, &setup.here, "connected")?;
    setup.works()?;
    Ok(Pass::Right)
}

fn foreign_queue_pairs(bench: &Bench) -> Verdict {
    let other = bench.other()?;
    let foreign = other.queues(8, netdirect::QueuePairOptions::default())?;
    let wanted = Status::INVALID_PARAMETER_1;
    let setup = Setup::near_connects(bench)?;
    let started = connect(&setup.here, &foreign, &setup);
    bench
        .near
        .refused("Connect with a foreign queue pair", started, wanted)?;
    setup.answer()?;
    setup.complete()?;
    let setup = Setup::near_accepts(bench)?;
    setup.offer()?;
    let started = setup.there.accept(&foreign.qp, 4, 4, &[], &quiet());
    bench
        .near
        .refused("Accept with a foreign queue pair", started, wanted)?;
    setup.answer_pending()?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

fn not_connected(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let wanted = Status::CONNECTION_INVALID;
    let refused = |connector: &Arc<dyn Connector>, state: &str| {
        let started = connector.notify_disconnect(&quiet());
        let what = format!("NotifyDisconnect on a connector that is {state}");
        side.refused(what, started, wanted)?;
        let started = connector.disconnect(&quiet());
        side.refused(
            format!("Disconnect on a connector that is {state}"),
            started,
            wanted,
        )
    };
    let mut setup = Setup::near_connects(bench)?;
    refused(&setup.here, "new")?;
    setup.offer()?;
    refused(&setup.here, "connecting")?;
    bench.far.expect("Reject", setup.there.reject(&[]))?;
    setup.connect_ends(Status::CONNECTION_REFUSED)?;
    refused(&setup.here, "refused")?;
    setup.there = bench.far.connector()?;
    setup.answer()?;
    refused(&setup.here, "not yet complete")?;
    side.expect("Reject", setup.here.reject(&[]))?;
    refused(&setup.here, "rejected")?;
    let setup = Setup::near_accepts(bench)?;
    setup.offer()?;
    refused(&setup.there, "offered")?;
    setup.answer_pending()?;
    refused(&setup.there, "accepting")?;
    setup.complete()?;
    disconnect(side, &setup.there)?;
    let again = setup.there.disconnect(&quiet());
    side.refused(
        "Disconnect on a connector that is disconnected",
        again,
        wanted,
    )?;
    Ok(Pass::Right)
}
