//! Flush, the end of the connection, and what becomes of requests then.

use std::sync::Arc;

use conform_report::{Pass, Step, Verdict, ensure, fail};
use netdirect::{
    CompletionQueue, CompletionResult, NotifyType, OpFlags, Overlapped, QueuePairOptions,
    RequestType, Started, Status,
};

use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::checks::common::{remove, shared, sink, source};
use crate::checks::requests::{
    BLOCKED, Blocked, NONE, begun, blocked, expect_result, initiated, message, over, received,
    stale, two_way,
};
use crate::link::{Link, Queues};
use crate::need::Need;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::QueuePair, name, title, run)
}

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "QP-001.released",
        "releases a queue pair and then fetches its results",
        results_of_released,
    )
    .also(&["CQ-044"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-003.failure",
        "has one of several requests fail: those before it succeed, those behind it are cancelled, the connection ends",
        failure,
    )
    .also(&["SGE-004", "RES-005", "RES-009", "RES-010", "QP-076", "AMB-046"])
    .needs(&[Need::Connections]),
    new_check(
        "RES-015.sets",
        "has requests of all kinds fail and be cancelled, and finds no status that a kind cannot have",
        sets,
    )
    .also(&["RES-001", "RES-005", "RES-010"])
    .needs(&[Need::Connections, Need::FarSharedReceiveQueues, Need::Windows]),
    new_check(
        "QP-004.flush",
        "flushes a connected queue pair, whose requests all end as cancelled, and disconnects it",
        flush,
    )
    .also(&["QP-005", "QP-006", "QP-008", "RES-010", "TST-014"])
    .needs(&[Need::Connections, Need::FarSharedReceiveQueues]),
    new_check(
        "QP-007.own",
        "flushes one of two queue pairs that share a completion queue",
        flush_own,
    ),
    new_check(
        "QP-009.unconnected",
        "flushes two Receives of a queue pair that was never connected: one Notify ends, one look finds both",
        flush_unconnected,
    )
    .also(&["QP-005", "QP-006", "TST-014", "TST-085"]),
    new_check(
        "QP-008.disconnect",
        "disconnects with requests outstanding, all of which end as cancelled",
        disconnect_flushes,
    )
    .also(&["RES-010", "IW-020"])
    .needs(&[Need::Connections, Need::FarSharedReceiveQueues]),
    new_check(
        "QP-074.release",
        "releases a connected queue pair: its requests end as cancelled, and the peer sees the end",
        release,
    )
    .also(&["CQ-044"])
    .needs(&[Need::Connections, Need::FarSharedReceiveQueues]),
    new_check(
        "QP-074.unconnected",
        "releases a queue pair that was never connected: its Receives end as cancelled",
        release_unconnected,
    ),
    new_check(
        "QP-076.gone",
        "posts requests after the peer has disconnected, which are taken and end as cancelled",
        posts_after_peer,
    )
    .also(&["AMB-046", "AMB-047"])
    .needs(&[Need::Connections]),
    new_check(
        "AMB-046.disconnected",
        "posts requests after its own disconnect: a Receive ends as cancelled, the others are refused",
        posts_after_disconnect,
    )
    .also(&["QP-076", "AMB-047"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-021.last-messages",
        "has the peer send and disconnect at once: the messages arrive, then the end is told, then Receives are cancelled",
        last_messages,
    )
    .also(&["IW-022", "IW-023", "AMB-001", "TST-040", "TST-041", "TST-086", "TST-095", "TST-096"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-026.lost",
        "loses the stream with requests outstanding, all of which end, and the end is told",
        lost,
    )
    .also(&["RES-010"])
    .needs(&[
        Need::Connections,
        Need::TwoAdapters,
        Need::Faults,
        Need::FarSharedReceiveQueues,
    ]),
    new_check(
        "IW-064.dropped",
        "disconnects, and has the peer write afterwards: no octet is placed",
        dropped,
    )
    .also(&["IW-020"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-051.refused",
        "posts two Receives, has Connect refused, and flushes: both come back, and a pending Notify ends",
        refused_connect,
    )
    .also(&["QP-009", "QP-005"])
    .needs(&[Need::Connections]),
];

const CANCELED: Status = Status::CANCELED;

fn results_of_released(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    let options = QueuePairOptions::default();
    for context in 0..3 {
        link.far.receive(context, &[into.sge(..)])?;
        link.near.send(context, &[from.sge(..)], NONE)?;
        link.far.takes()?;
    }
    // The Sends have been carried out; a Bind would show that by its result, which would take a result away.
    let cq = link.near.queues.initiator.clone();
    let Queues { qp, .. } = link.near.queues;
    bench.step("release the queue pair and its connector");
    drop(qp);
    drop(link.near.connector);
    let results = bench.near.results("of the released queue pair", &cq, 3)?;
    for (result, context) in results.iter().zip(0..) {
        let got = (result.request_type, result.request_context);
        let wanted = (RequestType::Send, context);
        bench.near.equal("the result", got, wanted)?;
    }
    // The queue goes on to serve others.
    let qp = bench.near.qp(&cq, &cq, options)?;
    bench.near.expect("post a Receive", qp.receive(7, &[]))?;
    bench.near.expect("flush", qp.flush())?;
    let result = bench.near.result("of another queue pair", &cq)?;
    bench.near.equal("the result", result.request_context, 7)?;
    Ok(Pass::Right)
}

fn failure(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (target, from) = (shared(&bench.far, 1 << 20)?, source(&bench.near, 64)?);
    let (into, bad) = (sink(&bench.near, 1 << 20)?, stale(&bench.near, 64)?);
    let there = sink(&bench.far, 64)?;
    let remote = target.remote();
    link.far.receive(20, &[there.sge(..)])?;
    for context in [10, 11] {
        link.near.receive(context, &[into.sge(..)])?;
    }
    let qp = &link.near.queues.qp;
    // The Read keeps the fenced Send from failing before all are posted; if it does so, that changes nothing.
    link.near.read(1, &[into.sge(..)], remote)?;
    let fence = OpFlags::READ_FENCE;
    link.near.send(2, &[bad], fence)?;
    link.near.send(3, &[from.sge(..)], NONE)?;
    link.near.write(4, &[from.sge(..)], remote)?;
    link.near.read(5, &[into.sge(..)], remote)?;
    let silent = OpFlags::SILENT_SUCCESS;
    let posted = qp.send(6, &[from.sge(..)], silent);
    bench.near.expect("post a silent Send", posted)?;
    let wanted = [
        (RequestType::Read, 1, Status::SUCCESS),
        (RequestType::Send, 2, Status::ACCESS_VIOLATION),
        (RequestType::Send, 3, CANCELED),
        (RequestType::Write, 4, CANCELED),
        (RequestType::Read, 5, CANCELED),
        (RequestType::Send, 6, CANCELED),
    ];
    initiated(&link.near, &wanted)?;
    received(&link.near, &[(10, CANCELED), (11, CANCELED)])?;
    over(&link.near)?;
    link.near.send(7, &[from.sge(..)], NONE)?;
    initiated(&link.near, &[(RequestType::Send, 7, CANCELED)])?;
    over(&link.far)?;
    received(&link.far, &[(20, CANCELED)])?;
    Ok(Pass::Right)
}

fn allowed(side: &crate::side::Side, results: &[CompletionResult]) -> conform_report::Step {
    for result in results {
        let kind = result.request_type;
        if !kind.allows(result.status) {
            let what = format!("a status that a {kind} can have");
            return Err(fail(what, format!("{result:?}")));
        }
    }
    side.step("all statuses are of their sets");
    Ok(())
}

fn sets(bench: &Bench) -> Verdict {
    let blocked = blocked(bench, QueuePairOptions::default())?;
    let link = &blocked.link;
    let (target, memory) = (shared(&bench.far, 64)?, shared(&bench.near, 64)?);
    let (qp, window) = (&link.near.queues.qp, bench.near.window()?);
    link.near.receive(1, &[memory.sge(..)])?;
    let (address, read) = (memory.buffer.address(), OpFlags::ALLOW_READ);
    let posted = qp.bind(2, &memory.region, &window, address, 64, read);
    bench.near.expect("post a Bind", posted)?;
    let posted = qp.invalidate(3, &window, NONE);
    bench.near.expect("post an Invalidate", posted)?;
    link.near.read(4, &[memory.sge(..)], target.remote())?;
    link.near.write(5, &[memory.sge(..)], target.remote())?;
    bench.near.expect("flush", qp.flush())?;
    let results = bench
        .near
        .results("of all requests", &link.near.queues.initiator, 5)?;
    allowed(&bench.near, &results)?;
    let kinds: Vec<_> = results.iter().map(|result| result.request_type).collect();
    let wanted = vec![
        RequestType::Send,
        RequestType::Bind,
        RequestType::Invalidate,
        RequestType::Read,
        RequestType::Write,
    ];
    bench.near.equal("the kinds", kinds, wanted)?;
    received(&link.near, &[(1, CANCELED)])?;
    drop(blocked);

    let bad = stale(&bench.near, 64)?;
    let mut results = Vec::new();
    for round in 0..4 {
        let link = two_way(bench)?;
        let (receives, own) = (&link.near.queues.receives, &link.near.queues.initiator);
        match round {
            0 => link.near.send(1, &[bad], NONE)?,
            1 => link.near.read(1, &[bad], target.remote())?,
            2 => link.near.write(1, &[bad], target.remote())?,
            _ => {
                link.near.receive(1, &[bad])?;
                let from = source(&bench.far, 64)?;
                link.far.send(1, &[from.sge(..)], NONE)?;
                results.push(bench.near.result("of the bad Receive", receives)?);
                continue;
            }
        }
        results.push(bench.near.result("of the bad request", own)?);
    }
    allowed(&bench.near, &results)?;
    let failed = results
        .iter()
        .all(|result| result.status != Status::SUCCESS);
    ensure(failed, "each of the bad requests to fail", "a success")?;
    Ok(Pass::Right)
}

/// How often an attempt is made.
const TRIES: u32 = 40;

/// The requests of [`outstanding`] and the one in front that cannot end, as they end when they are cancelled.
const ALL: [(RequestType, u64); 4] = [
    (RequestType::Send, BLOCKED),
    (RequestType::Read, 1),
    (RequestType::Write, 2),
    (RequestType::Send, 3),
];

/// Posts requests behind the one that cannot end.
fn outstanding(bench: &Bench, link: &Link<'_>) -> Step {
    let (target, memory) = (shared(&bench.far, 64)?, shared(&bench.near, 64)?);
    link.near.receive(11, &[memory.sge(..)])?;
    link.near.receive(12, &[memory.sge(..)])?;
    link.near.read(1, &[memory.sge(..)], target.remote())?;
    link.near.write(2, &[memory.sge(..)], target.remote())?;
    link.near
        .send(3, &[memory.sge(..)], OpFlags::SILENT_SUCCESS)
}

/// Results of requests other than Receives, and of Receives.
type Results = (Vec<CompletionResult>, Vec<CompletionResult>);

/// The results of a queue pair that has ended.
fn ended(
    bench: &Bench,
    initiator: &Arc<dyn CompletionQueue>,
    receives: &Arc<dyn CompletionQueue>,
) -> Step<Results> {
    let initiated = bench.near.results("of requests", initiator, ALL.len())?;
    let received = bench.near.results("of Receives", receives, 2)?;
    Ok((initiated, received))
}

/// The near side ends a connection with [`outstanding`] requests, all of which are cancelled. A far provider that does not have a
/// message wait (ADPT-077) ends the connection itself, perhaps earlier. Such an attempt says nothing about the near side.
fn cancels(bench: &Bench, end: impl Fn(Blocked<'_>) -> Step<Results>) -> Step {
    let mut earlier = Status::SUCCESS;
    for _ in 0..TRIES {
        let blocked = blocked(bench, QueuePairOptions::default())?;
        outstanding(bench, &blocked.link)?;
        let (initiated, received) = end(blocked)?;
        let first = initiated.first().map_or(CANCELED, |first| first.status);
        if first != CANCELED && first != Status::SUCCESS {
            earlier = first;
            continue;
        }
        for (result, (kind, context)) in initiated.iter().zip(ALL) {
            expect_result(&bench.near, result, kind, context, CANCELED)?;
        }
        for (result, context) in received.iter().zip([11, 12]) {
            expect_result(&bench.near, result, RequestType::Receive, context, CANCELED)?;
        }
        return Ok(());
    }
    Err(fail(
        format!("{CANCELED} of the Send that cannot end"),
        format!("{earlier}, {TRIES} times"),
    ))
}

fn flush(bench: &Bench) -> Verdict {
    cancels(bench, |blocked| {
        let queues = &blocked.link.near.queues;
        bench.near.expect("flush", queues.qp.flush())?;
        let results = ended(bench, &queues.initiator, &queues.receives)?;
        let mut none = [CompletionResult::default(); 1];
        bench.near.step("look for further results");
        for cq in [&queues.initiator, &queues.receives] {
            bench
                .near
                .equal("further results", cq.get_results(&mut none), 0)?;
        }
        Ok(results)
    })?;
    let link = two_way(bench)?;
    bench.near.expect("flush", link.near.queues.qp.flush())?;
    over(&link.far)?;
    link.near.disconnect()?;
    Ok(Pass::Right)
}

fn flush_own(bench: &Bench) -> Verdict {
    let cq = bench.near.cq(16)?;
    let pair_with = |context| {
        let options = QueuePairOptions::default().context(context);
        bench.near.qp(&cq, &cq, options)
    };
    let pairs = [pair_with(100)?, pair_with(200)?];
    for context in [1, 2] {
        for qp in &pairs {
            bench
                .near
                .expect("post a Receive", qp.receive(context, &[]))?;
        }
    }
    for (qp, own) in pairs.iter().zip([100, 200]) {
        bench.near.expect("flush one queue pair", qp.flush())?;
        let results = bench.near.results("of the flushed one", &cq, 2)?;
        for (result, context) in results.iter().zip(1..) {
            let got = (
                result.queue_pair_context,
                result.request_context,
                result.status,
            );
            let wanted = (own, context, CANCELED);
            bench.near.equal("the result", got, wanted)?;
        }
        bench.near.no_result("of the other queue pair", &cq)?;
    }
    Ok(Pass::Right)
}

/// Several Receives come back together, by one Notify.
fn flushed_together(bench: &Bench, near: &Queues, notified: &Overlapped) -> Verdict {
    let pending = Ok(Started::Pending);
    bench.near.done("Notify", pending, notified)?;
    let mut results = [CompletionResult::default(); 4];
    bench.near.step("take all results by one call");
    let mut count = 0;
    bench.near.until(|| {
        count += near.receives.get_results(&mut results[count..]);
        count >= 2
    })?;
    bench.near.equal("the number of results", count, 2)?;
    for (result, context) in results.iter().zip([1, 2]) {
        let got = (result.request_context, result.status);
        bench.near.equal("the result", got, (context, CANCELED))?;
    }
    Ok(Pass::Right)
}

fn flush_unconnected(bench: &Bench) -> Verdict {
    let near = bench.near.queues(8, QueuePairOptions::default())?;
    for context in [1, 2] {
        let posted = near.qp.receive(context, &[]);
        bench.near.expect("post a Receive", posted)?;
    }
    let notified = Overlapped::new().without_port();
    let notify = near.receives.notify(NotifyType::Any, &notified);
    begun(&bench.near, "Notify", notify)?;
    bench.near.expect("flush", near.qp.flush())?;
    flushed_together(bench, &near, &notified)
}

fn disconnect_flushes(bench: &Bench) -> Verdict {
    cancels(bench, |blocked| {
        let link = &blocked.link;
        let overlapped = Overlapped::new().without_port();
        let started = link.near.connector.disconnect(&overlapped);
        let started = bench.near.started("disconnect", started)?;
        let queues = &link.near.queues;
        let results = ended(bench, &queues.initiator, &queues.receives)?;
        // The peer's part, so that the stream can end soon.
        let far = Overlapped::new().without_port();
        let other = link.far.connector.disconnect(&far);
        let other = bench.far.started("disconnect", other)?;
        bench.near.done("Disconnect", Ok(started), &overlapped)?;
        bench.far.done("the far Disconnect", Ok(other), &far)?;
        Ok(results)
    })?;
    Ok(Pass::Right)
}

fn release(bench: &Bench) -> Verdict {
    cancels(bench, |blocked| {
        let Queues {
            qp,
            receives,
            initiator,
        } = blocked.link.near.queues;
        bench.step("release the queue pair");
        drop(qp);
        ended(bench, &initiator, &receives)
    })?;
    let link = two_way(bench)?;
    bench.step("release a queue pair without requests");
    drop(link.near.queues.qp);
    over(&link.far)?;
    Ok(Pass::Right)
}

fn release_unconnected(bench: &Bench) -> Verdict {
    let Queues { qp, receives, .. } = bench.near.queues(8, QueuePairOptions::default())?;
    for context in [1, 2] {
        bench
            .near
            .expect("post a Receive", qp.receive(context, &[]))?;
    }
    bench.step("release the queue pair");
    drop(qp);
    let results = bench.near.results("of the Receives", &receives, 2)?;
    for (result, context) in results.iter().zip([1, 2]) {
        let got = (result.request_context, result.status);
        bench.near.equal("the result", got, (context, CANCELED))?;
    }
    Ok(Pass::Right)
}

fn posts_after_peer(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (target, memory) = (shared(&bench.far, 64)?, shared(&bench.near, 64)?);
    link.far.disconnect()?;
    over(&link.near)?;
    link.near.receive(1, &[memory.sge(..)])?;
    link.near.send(2, &[memory.sge(..)], NONE)?;
    link.near.read(3, &[memory.sge(..)], target.remote())?;
    link.near.write(4, &[memory.sge(..)], target.remote())?;
    let wanted = [
        (RequestType::Send, 2, CANCELED),
        (RequestType::Read, 3, CANCELED),
        (RequestType::Write, 4, CANCELED),
    ];
    initiated(&link.near, &wanted)?;
    received(&link.near, &[(1, CANCELED)])?;
    link.near.disconnect()?;
    Ok(Pass::Right)
}

fn posts_after_disconnect(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (target, memory) = (shared(&bench.far, 64)?, shared(&bench.near, 64)?);
    link.near.disconnect()?;
    let (qp, sge) = (&link.near.queues.qp, [memory.sge(..)]);
    let (remote, wanted) = (target.remote(), Status::CONNECTION_INVALID);
    bench.near.refused("Send", qp.send(1, &sge, NONE), wanted)?;
    let read = qp.read(2, &sge, remote, NONE);
    bench.near.refused("Read", read, wanted)?;
    let write = qp.write(3, &sge, remote, NONE);
    bench.near.refused("Write", write, wanted)?;
    link.near.receive(4, &sge)?;
    received(&link.near, &[(4, CANCELED)])?;
    Ok(Pass::Right)
}

fn last_messages(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (from, into) = (source(&bench.far, 64)?, sink(&bench.near, 64)?);
    for context in 0..5 {
        link.near.receive(context, &[into.sge(..)])?;
    }
    let notified = Overlapped::new().without_port();
    let started = link.near.connector.notify_disconnect(&notified);
    begun(&bench.near, "NotifyDisconnect", started)?;
    for context in 0..3 {
        link.far.send(context, &[from.sge(..)], NONE)?;
    }
    bench
        .far
        .successes("the Sends", &link.far.queues.initiator, 3)?;
    link.far.disconnect()?;
    let succeeded = Status::SUCCESS;
    let messages = [(0, succeeded), (1, succeeded), (2, succeeded)];
    received(&link.near, &messages)?;
    received(&link.near, &[(3, CANCELED), (4, CANCELED)])?;
    let status = notified.status();
    bench.near.equal(
        "NotifyDisconnect before the first cancelled Receive",
        status,
        succeeded,
    )?;
    link.near.disconnect()?;
    Ok(Pass::Right)
}

fn lost(bench: &Bench) -> Verdict {
    let blocked = blocked(bench, QueuePairOptions::default())?;
    let link = &blocked.link;
    outstanding(bench, link)?;
    let notified = Overlapped::new().without_port();
    let started = link.near.connector.notify_disconnect(&notified);
    begun(&bench.near, "NotifyDisconnect", started)?;
    remove(&bench.far)?;
    let cq = &link.near.queues.initiator;
    let results = bench.near.results("of requests", cq, ALL.len())?;
    for (at, (result, (kind, context))) in results.iter().zip(ALL).enumerate() {
        let got = (result.request_type, result.request_context);
        bench.near.equal("the result", got, (kind, context))?;
        let first = at == 0 && result.status == Status::IO_TIMEOUT;
        let seen = result.status.to_string();
        ensure(first || result.status == CANCELED, "ND_CANCELED", seen)?;
    }
    received(&link.near, &[(11, CANCELED), (12, CANCELED)])?;
    let status = notified.status();
    bench
        .near
        .equal("NotifyDisconnect", status, Status::SUCCESS)?;
    Ok(Pass::Right)
}

fn dropped(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let target = shared(&bench.near, 64)?;
    let from = bench.far.memory(64, netdirect::MrFlags::empty())?;
    from.buffer.fill(0xEE);
    let overlapped = Overlapped::new().without_port();
    let started = link.near.connector.disconnect(&overlapped);
    let started = bench.near.started("disconnect", started)?;
    let (qp, remote) = (&link.far.queues.qp, target.remote());
    bench.far.step("write to the side that has disconnected");
    // The far side may know of the end already, and refuse or cancel the Write.
    let _ = qp.write(1, &[from.sge(..)], remote, NONE);
    let other = Overlapped::new().without_port();
    let far = link.far.connector.disconnect(&other);
    bench.far.done("disconnect", far, &other)?;
    bench.near.done("Disconnect", Ok(started), &overlapped)?;
    let octets = target.octets(0, 64);
    let wanted = crate::checks::common::pattern(64);
    bench.near.equal("the region", octets, wanted)?;
    // A second connection works: the messages of the first are no trouble to it.
    let link = two_way(bench)?;
    message(&link.far, &link.near, 64)?;
    Ok(Pass::Right)
}

fn refused_connect(bench: &Bench) -> Verdict {
    let near = bench.near.queues(8, QueuePairOptions::default())?;
    for context in [1, 2] {
        let posted = near.qp.receive(context, &[]);
        bench.near.expect("post a Receive", posted)?;
    }
    let gone = bench.far.listening()?;
    let address = gone.address;
    drop(gone);
    let connector = bench.near.connector()?;
    let overlapped = Overlapped::new().without_port();
    let connect = connector.connect(&near.qp, address, 0, 0, &[], &overlapped);
    let status = bench.near.ended("Connect", connect, &overlapped)?;
    let wanted = Status::CONNECTION_REFUSED;
    bench.near.status("Connect", status, wanted)?;
    let notified = Overlapped::new().without_port();
    let notify = near.receives.notify(NotifyType::Any, &notified);
    begun(&bench.near, "Notify", notify)?;
    bench.near.expect("flush", near.qp.flush())?;
    flushed_together(bench, &near, &notified)
}
