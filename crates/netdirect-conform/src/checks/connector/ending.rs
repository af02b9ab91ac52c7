//! NotifyDisconnect, Disconnect, and other ends of a connection.

use conform_report::{Pass, Step, Verdict, ensure, fail};
use netdirect::{OpFlags, Overlapped, RequestType, Started, Status};

use super::new_check;
use crate::bench::Bench;
use crate::check::Check;
use crate::checks::common::{exchange, pattern, sink, source};
use crate::checks::setup::{Setup, ends, notification, quiet};
use crate::need::Need;

/// How often something is tried that depends on which of two things comes first.
const TRIES: u32 = 40;

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "CONN-037.both",
        "disconnects with Receives posted on both sides: all of them end canceled, and both clients learn of the end",
        both_sides,
    )
    .also(&["CONN-108", "CONN-113", "CONN-115", "AMB-001", "LSTN-003", "TST-086", "TST-095"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-102.peer",
        "asks for the end of a connection, which stays pending until the peer disconnects",
        |bench| {
            let link = bench.link()?;
            let notified = quiet();
            let started = link.near.connector.notify_disconnect(&notified);
            let started = bench.near.started("NotifyDisconnect", started)?;
            let seen = format!("{started:?}");
            ensure(started == Started::Pending, "NotifyDisconnect to be pending", seen)?;
            exchange(&link)?;
            bench.near.stays("NotifyDisconnect", &notified)?;
            link.far.disconnect()?;
            ends(&bench.near, "NotifyDisconnect", &notified, Status::SUCCESS)?;
            Ok(Pass::Right)
        },
    )
    .also(&["CONN-103"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-105.canceled",
        "cancels a pending NotifyDisconnect; those that follow are told of the end",
        cancelled_notification,
    )
    .also(&["TST-113"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-105.released",
        "releases a connector with NotifyDisconnect pending: it ends canceled, and the connection goes on",
        released_connector,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-106.order",
        "watches NotifyDisconnect and a posted Receive while the peer disconnects: the Receive ends after NotifyDisconnect",
        |bench| order(bench, false),
    )
    .also(&["IW-022", "IW-023"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-106.data",
        "has the peer send and disconnect: the message arrives, then NotifyDisconnect ends, then the other Receive",
        |bench| order(bench, true),
    )
    .also(&["AMB-001", "IW-021", "TST-041"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-107.late",
        "asks for the end of a connection whose peer has disconnected already, and disconnects then",
        late_notification,
    )
    .also(&["IW-025", "TST-043"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-109.open",
        "disconnects from a peer that has a NotifyDisconnect pending: it has ended when Disconnect has",
        notified_in_time,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-110.released",
        "releases the queue pair of a pending Disconnect",
        released_while_disconnecting,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-116.released",
        "releases the queue pair of a connection: its Receives come back, and both sides are told of the end",
        released,
    )
    .needs(&[Need::Connections]),
    new_check(
        "AMB-033.own",
        "disconnects with NotifyDisconnect pending on the same connector",
        |bench| {
            let link = bench.link()?;
            let first = notification(&bench.near, &link.near.connector)?;
            let second = notification(&bench.near, &link.near.connector)?;
            link.near.disconnect()?;
            for notified in [first, second] {
                let status = notified.status();
                bench.near.status("NotifyDisconnect when Disconnect has ended", status, Status::SUCCESS)?;
            }
            Ok(Pass::Right)
        },
    )
    .also(&["CONN-105"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-044.canceled",
        "cancels the requests of a connector after Disconnect: none of them is left pending",
        cancelled_disconnect,
    )
    .needs(&[Need::Connections]),
    new_check(
        "TST-055.together",
        "disconnects on both sides at the same time, and both requests succeed",
        together,
    )
    .also(&["IW-024", "TST-043"])
    .needs(&[Need::Connections]),
];

fn both_sides(bench: &Bench) -> Verdict {
    for active in [true, false] {
        let link = bench.link()?;
        exchange(&link)?;
        let (here, there) = (sink(&bench.near, 64)?, sink(&bench.far, 64)?);
        for context in [11, 12, 13] {
            link.near.receive(context, &[here.sge(..)])?;
            link.far.receive(context, &[there.sge(..)])?;
        }
        let notices = [
            notification(&bench.near, &link.near.connector)?,
            notification(&bench.far, &link.far.connector)?,
        ];
        let (ending, other) = if active {
            (&link.near, &link.far)
        } else {
            (&link.far, &link.near)
        };
        ending.disconnect()?;
        for end in [ending, other] {
            let results = end
                .side
                .results("the posted Receives", &end.queues.receives, 3)?;
            let seen: Vec<_> = results
                .iter()
                .map(|r| (r.request_context, r.status))
                .collect();
            let wanted: Vec<_> = [11, 12, 13]
                .map(|context| (context, Status::CANCELED))
                .into();
            end.side.equal("the posted Receives", seen, wanted)?;
        }
        for notified in notices {
            ends(&bench.near, "NotifyDisconnect", &notified, Status::SUCCESS)?;
        }
        other.disconnect()?;
    }
    Ok(Pass::Right)
}

fn cancelled_notification(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let connector = &link.near.connector;
    let first = notification(&bench.near, connector)?;
    let cancelled = connector.cancel_overlapped_requests();
    bench.near.expect("CancelOverlappedRequests", cancelled)?;
    bench
        .near
        .status("NotifyDisconnect", first.status(), Status::CANCELED)?;
    // The connection is as it was.
    exchange(&link)?;
    let second = notification(&bench.near, connector)?;
    link.far.disconnect()?;
    ends(
        &bench.near,
        "the second NotifyDisconnect",
        &second,
        Status::SUCCESS,
    )?;
    Ok(Pass::Right)
}

fn released_connector(bench: &Bench) -> Verdict {
    let setup = Setup::whole(&bench.near, &bench.far)?;
    let own = notification(&bench.near, &setup.here)?;
    let other = notification(&bench.far, &setup.there)?;
    bench.near.stays("NotifyDisconnect", &own)?;
    bench.near.step("release the connector");
    let Setup {
        here,
        there,
        asking,
        answering,
        ..
    } = setup;
    drop(here);
    ends(&bench.near, "NotifyDisconnect", &own, Status::CANCELED)?;
    bench.far.stays("NotifyDisconnect of the peer", &other)?;
    // The queue pair keeps the connection.
    let data = source(&bench.near, 64)?;
    let room = sink(&bench.far, 64)?;
    let received = answering.qp.receive(1, &[room.sge(..)]);
    bench.far.expect("Receive", received)?;
    let sent = asking.qp.send(2, &[data.sge(..)], OpFlags::empty());
    bench.near.expect("Send", sent)?;
    let result = bench.far.result("the message", &answering.receives)?;
    bench
        .far
        .status("the message", result.status, Status::SUCCESS)?;
    bench.near.step("release the queue pair");
    drop(asking);
    ends(
        &bench.far,
        "NotifyDisconnect of the peer",
        &other,
        Status::SUCCESS,
    )?;
    drop(there);
    Ok(Pass::Right)
}

/// The peer disconnects, perhaps after a message.
fn order(bench: &Bench, sends: bool) -> Verdict {
    let link = bench.link()?;
    let (near, far) = (&link.near, &link.far);
    exchange(&link)?;
    let (room, data) = (sink(&bench.near, 64)?, source(&bench.far, 64)?);
    near.receive(1, &[room.sge(..)])?;
    near.receive(2, &[room.sge(..)])?;
    let notified = notification(&bench.near, &near.connector)?;
    if sends {
        far.send(3, &[data.sge(..)], OpFlags::empty())?;
        far.succeeds(RequestType::Send)?;
    }
    let ended = quiet();
    let started = far.connector.disconnect(&ended);
    let _ = bench.far.started("Disconnect of the peer", started)?;
    if sends {
        let taken = near.takes()?;
        bench
            .near
            .equal("the Receive of the message", taken.request_context, 1)?;
        bench
            .near
            .equal("the message", room.octets(0, 64), pattern(64))?;
    }
    let flushed = near.received("a Receive that the end flushes")?;
    // Asked before anything else makes progress.
    let status = notified.status();
    bench
        .near
        .status("the flushed Receive", flushed.status, Status::CANCELED)?;
    bench.near.status(
        "NotifyDisconnect when a flushed Receive is there",
        status,
        Status::SUCCESS,
    )?;
    ends(
        &bench.far,
        "Disconnect of the peer",
        &ended,
        Status::SUCCESS,
    )?;
    Ok(Pass::Right)
}

fn late_notification(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let first = notification(&bench.near, &link.near.connector)?;
    link.far.disconnect()?;
    ends(&bench.near, "NotifyDisconnect", &first, Status::SUCCESS)?;
    let second = notification(&bench.near, &link.near.connector)?;
    bench.near.status(
        "NotifyDisconnect after the end",
        second.status(),
        Status::SUCCESS,
    )?;
    link.near.disconnect()?;
    let third = notification(&bench.near, &link.near.connector)?;
    bench.near.status(
        "NotifyDisconnect after Disconnect",
        third.status(),
        Status::SUCCESS,
    )?;
    Ok(Pass::Right)
}

fn notified_in_time(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let room = sink(&bench.far, 64)?;
    link.far.receive(1, &[room.sge(..)])?;
    let notice = notification(&bench.far, &link.far.connector)?;
    let ended = quiet();
    let started = link.near.connector.disconnect(&ended);
    let _ = bench.near.started("Disconnect", started)?;
    ends(&bench.near, "Disconnect", &ended, Status::SUCCESS)?;
    // The peer is disconnected too by now, whether or not its client has looked.
    ends(
        &bench.far,
        "NotifyDisconnect of the peer",
        &notice,
        Status::SUCCESS,
    )?;
    let flushed = link.far.received("the peer's Receive")?;
    bench
        .far
        .status("the peer's Receive", flushed.status, Status::CANCELED)?;
    Ok(Pass::Right)
}

/// The peer has much to send, so that its end takes some time.
fn released_while_disconnecting(bench: &Bench) -> Verdict {
    const MUCH: usize = 1 << 20;
    let (room, data) = (sink(&bench.near, MUCH)?, source(&bench.far, MUCH)?);
    for _ in 0..TRIES {
        let setup = Setup::whole(&bench.near, &bench.far)?;
        setup.works()?;
        for context in 0..8 {
            setup.asking_end().receive(context, &[room.sge(..)])?;
            setup
                .answering_end()
                .send(context, &[data.sge(..)], OpFlags::empty())?;
        }
        let ended = quiet();
        let started = setup.here.disconnect(&ended);
        let started = bench.near.started("Disconnect", started)?;
        bench.near.step("release the queue pair");
        drop(setup.asking);
        match bench.near.end_of("Disconnect", &ended)? {
            Status::CANCELED if started == Started::Pending => return Ok(Pass::Right),
            // The peer was quicker.
            Status::SUCCESS => {}
            other => return Err(fail("ND_CANCELED of Disconnect", other.to_string())),
        }
    }
    Err(fail(
        "ND_CANCELED of Disconnect",
        format!("success, {TRIES} times"),
    ))
}

fn released(bench: &Bench) -> Verdict {
    let setup = Setup::whole(&bench.near, &bench.far)?;
    setup.works()?;
    let room = sink(&bench.near, 64)?;
    setup.asking_end().receive(5, &[room.sge(..)])?;
    let own = notification(&bench.near, &setup.here)?;
    let other = notification(&bench.far, &setup.there)?;
    let receives = setup.asking.receives.clone();
    bench.near.step("release the queue pair");
    drop(setup.asking);
    ends(
        &bench.near,
        "the own NotifyDisconnect",
        &own,
        Status::SUCCESS,
    )?;
    ends(
        &bench.far,
        "the peer's NotifyDisconnect",
        &other,
        Status::SUCCESS,
    )?;
    let result = bench.near.result("the posted Receive", &receives)?;
    let seen = (result.request_context, result.status);
    bench
        .near
        .equal("the posted Receive", seen, (5, Status::CANCELED))?;
    Ok(Pass::Right)
}

/// The connection may end this very moment, and another thread of the provider may be about to report the end. Such an attempt is
/// inconclusive.
fn cancelled_disconnect(bench: &Bench) -> Verdict {
    for _ in 0..TRIES {
        let link = bench.link()?;
        let notice = notification(&bench.near, &link.near.connector)?;
        let ended = quiet();
        let started = link.near.connector.disconnect(&ended);
        let _ = bench.near.started("Disconnect", started)?;
        let cancelled = link.near.connector.cancel_overlapped_requests();
        bench.near.expect("CancelOverlappedRequests", cancelled)?;
        let at_once = [&notice, &ended].map(Overlapped::status);
        for (what, request) in [("NotifyDisconnect", &notice), ("Disconnect", &ended)] {
            let status = bench.near.end_of(what, request)?;
            let right = [Status::SUCCESS, Status::CANCELED].contains(&status);
            ensure(
                right,
                format!("ND_SUCCESS or ND_CANCELED of {what}"),
                status.to_string(),
            )?;
        }
        let notice = notification(&bench.far, &link.far.connector)?;
        ends(
            &bench.far,
            "the peer's NotifyDisconnect",
            &notice,
            Status::SUCCESS,
        )?;
        if !at_once.contains(&Status::PENDING) {
            return Ok(Pass::Right);
        }
    }
    Err(fail(
        "the ends of NotifyDisconnect and Disconnect",
        format!("a pending one after CancelOverlappedRequests, {TRIES} times"),
    ))
}

fn together(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    exchange(&link)?;
    let requests = [&link.near, &link.far].map(|end| {
        let ended = quiet();
        let started = end.connector.disconnect(&ended);
        (end, ended, started)
    });
    for (end, ended, started) in requests {
        end.side.done("Disconnect", started, &ended)?;
    }
    for end in [&link.near, &link.far] {
        still_disconnected(end)?;
    }
    Ok(Pass::Right)
}

fn still_disconnected(end: &crate::link::LinkEnd<'_>) -> Step {
    let again = end.connector.disconnect(&quiet());
    end.side
        .refused("Disconnect again", again, Status::CONNECTION_INVALID)?;
    disconnect_refuses_posts(end)
}

fn disconnect_refuses_posts(end: &crate::link::LinkEnd<'_>) -> Step {
    let data = source(end.side, 8)?;
    let posted = end.queues.qp.send(1, &[data.sge(..)], OpFlags::empty());
    end.side
        .refused("Send after Disconnect", posted, Status::CONNECTION_INVALID)
}
