//! `IND2SharedReceiveQueue`.

use std::sync::Arc;

use conform_report::{Pass, Step, Verdict, ensure};
use netdirect::{
    Affinity, Call, CompletionResult, Fault, OpFlags, Overlapped, QueuePairOptions, ReadLimits,
    RequestType, Result, Sge, SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};

use super::common::{above, pattern, remove, shared, shortage, sink, source};
use super::requests::{begun, one_of, over, pool, pooled};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::Link;
use crate::need::{Need, Profile};
use crate::side::{Memory, Side};

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::SharedReceiveQueue, name, title, run).needs(&[Need::SharedReceiveQueues])
}

const CONNECTED: &[Need] = &[Need::SharedReceiveQueues, Need::Connections];
const FAULTS: &[Need] = &[Need::SharedReceiveQueues, Need::Faults];

pub(super) const CHECKS: &[Check] = &[
    check(
        Interface::SharedReceiveQueue,
        "SRQ-001.none",
        "finds the limit of shared receive queues at 0 exactly where there are none",
        none,
    )
    .also(&["ADPT-066", "INFO-016"]),
    new_check(
        "SRQ-022.removed",
        "removes the device: a pending Notify ends, and each call on a shared receive queue is refused",
        removed,
    )
    .also(&["SRQ-006", "SRQ-015", "ADPT-074", "GEN-015", "OVL-010"])
    .needs(FAULTS),
    new_check(
        "SRQ-020.canceled",
        "calls Notify on a queue with a threshold of 0, has its last Receive used, and cancels",
        no_threshold,
    )
    .also(&["SRQ-018", "ADPT-047"])
    .needs(CONNECTED),
    new_check(
        "IW-027.empty",
        "sends to a queue pair whose shared receive queue is empty, longer than others wait, and posts then",
        empty_queue,
    )
    .also(&["ADPT-076", "ADPT-077", "SRQ-027"])
    .needs(CONNECTED),
    new_check(
        "IW-021.waiting",
        "has the peer disconnect behind a message that waits for a shared Receive: the message arrives, then the end is told",
        end_behind_message,
    )
    .also(&["IW-019", "IW-027", "ADPT-076"])
    .needs(CONNECTED),
    new_check(
        "IW-026.waiting",
        "loses the stream while a message waits for a shared Receive: the end is told, and no Receive is used up",
        lost_with_message,
    )
    .also(&["SRQ-039"])
    .needs(&[
        Need::SharedReceiveQueues,
        Need::Connections,
        Need::TwoAdapters,
        Need::Faults,
    ]),
    new_check(
        "SRQ-002.affinity",
        "asks for the notify affinity, which is that of completion queues",
        affinity,
    )
    .also(&["SRQ-003", "SRQ-004", "SRQ-007", "SRQ-008", "AMB-060"]),
    new_check(
        "SRQ-009.modify",
        "changes the depth alone, the threshold alone, and both",
        modify,
    )
    .also(&["SRQ-010", "SRQ-011", "SRQ-013", "SRQ-014", "SRQ-029"]),
    new_check(
        "SRQ-012.shortage",
        "has Modify fail for want of resources, which leaves the queue as it was",
        modify_shortage,
    )
    .needs(FAULTS),
    new_check(
        "SRQ-021.shortage",
        "has Notify of a shared receive queue fail for want of resources, and succeed afterwards",
        |bench| {
            let srq = pool(&bench.near, depth(8).notify_threshold(1))?;
            let overlapped = Overlapped::new().without_port();
            let statuses = [Status::INSUFFICIENT_RESOURCES];
            let call = Call::NotifySharedReceiveQueue;
            shortage(&bench.near, call, &statuses, || {
                srq.notify(&overlapped).map(|_| ())
            })?;
            let pending = Ok(Started::Pending);
            bench.near.done("Notify afterwards", pending, &overlapped)?;
            Ok(Pass::Right)
        },
    )
    .needs(FAULTS),
    new_check(
        "SRQ-017.below",
        "calls Notify when fewer Receives than the threshold are outstanding",
        below,
    )
    .also(&["SRQ-026", "AMB-052"]),
    new_check(
        "SRQ-019.broken",
        "breaks a shared receive queue: each Notify ends, and its queue pairs are over",
        broken,
    )
    .also(&["AMB-051", "SRQ-023"])
    .needs(&[Need::SharedReceiveQueues, Need::Connections, Need::Faults]),
    new_check(
        "SRQ-023.falls",
        "has messages use up Receives until fewer than the threshold are left, which ends all Notify requests together",
        falls,
    )
    .also(&["SRQ-018", "SRQ-024", "SRQ-025", "IW-028", "AMB-052"])
    .needs(CONNECTED),
    new_check(
        "SRQ-028.refused",
        "posts Receives that are too long, that have too many entries, and that the queue has no room for",
        refused,
    )
    .also(&["SRQ-029", "SRQ-030"]),
    new_check(
        "SRQ-029.taken",
        "has a message use a Receive and does not take the result: the queue stays full until it has",
        not_taken,
    )
    .needs(CONNECTED),
    new_check(
        "QP-032.own-receive",
        "posts a Receive on a queue pair that has a shared receive queue",
        |bench| {
            let srq = pool(&bench.near, depth(8))?;
            let queues = pooled(&bench.near, &srq, QueuePairOptions::default())?;
            let wanted = Status::INVALID_DEVICE_REQUEST;
            bench.near.refused("Receive", queues.qp.receive(1, &[]), wanted)?;
            bench.near.expect("post it to the shared queue", srq.receive(1, &[]))?;
            Ok(Pass::Right)
        },
    )
    .also(&["AMB-050"]),
    new_check(
        "SRQ-031.empty",
        "posts Receives without entries and with one, for messages of no octets and of some",
        empty_messages,
    )
    .also(&["SRQ-032"])
    .needs(CONNECTED),
    new_check(
        "SRQ-033.whose",
        "has two peers send in turns: each result is in the completion queue of the queue pair that took the Receive",
        whose,
    )
    .also(&["SRQ-027", "SRQ-032", "SRQ-034", "AMB-021"])
    .needs(CONNECTED),
    new_check(
        "SRQ-033.order",
        "has messages of four lengths arrive at one queue pair: their Receives end in the order of the messages",
        in_order,
    )
    .also(&["CQ-042", "IW-039"])
    .needs(CONNECTED),
    new_check(
        "SRQ-036.short",
        "has a Receive that is too short for its message: one connection ends, and the queue serves the other",
        short,
    )
    .also(&["SRQ-037", "AMB-053"])
    .needs(CONNECTED),
    new_check(
        "SRQ-038.array",
        "changes the array of entries after posting to a shared receive queue",
        array,
    )
    .needs(CONNECTED),
    new_check(
        "SRQ-039.stay",
        "disconnects one of two queue pairs: the Receives that it has not taken stay for the other",
        stay,
    )
    .needs(CONNECTED),
];

fn depth(depth: u32) -> SharedReceiveQueueOptions {
    SharedReceiveQueueOptions::default().queue_depth(depth)
}

fn none(bench: &Bench) -> Verdict {
    let (adapter, file) = (&bench.near.adapter, &bench.near.file);
    let made = adapter.create_shared_receive_queue(file, depth(1));
    if bench.near.info.max_shared_receive_queue_depth > 0 {
        let srq = bench.near.expect("create a shared receive queue", made)?;
        pooled(&bench.near, &srq, QueuePairOptions::default())?;
        return Ok(Pass::Right);
    }
    let wanted = Status::NOT_SUPPORTED;
    bench
        .near
        .refused("CreateSharedReceiveQueue", made, wanted)?;
    Ok(Pass::Right)
}

/// A connection whose near queue pair has its Receives from `srq`. A message has arrived from the near side.
fn drawing<'a>(
    bench: &'a Bench,
    srq: &Arc<dyn SharedReceiveQueue>,
    context: u64,
) -> Step<Link<'a>> {
    let options = QueuePairOptions::default().context(context);
    let near = pooled(&bench.near, srq, options)?;
    let far = bench.far.queues(64, QueuePairOptions::default())?;
    let limits = ReadLimits {
        inbound: 4,
        outbound: 4,
    };
    let link = bench.join(near, far, limits)?;
    super::common::exchange(&link)?;
    Ok(link)
}

fn post(side: &Side, srq: &Arc<dyn SharedReceiveQueue>, context: u64, into: &[Sge]) -> Step {
    side.expect("post to the shared queue", srq.receive(context, into))
}

/// A queue with Receives of 64 octets, with contexts from 0 on, into one place.
fn filled(
    bench: &Bench,
    options: SharedReceiveQueueOptions,
    count: u64,
) -> Step<(Arc<dyn SharedReceiveQueue>, Memory)> {
    let (srq, into) = (pool(&bench.near, options)?, sink(&bench.near, 64)?);
    for context in 0..count {
        post(&bench.near, &srq, context, &[into.sge(..)])?;
    }
    Ok((srq, into))
}

/// The far side sends this many octets.
fn send(link: &Link<'_>, from: &Memory, octets: usize) -> Step {
    link.far
        .send(0x5E, &[from.sge(..octets)], OpFlags::empty())?;
    link.far.succeeds(netdirect::RequestType::Send)?;
    Ok(())
}

/// The far side sends 64 octets, which the near side receives with this context.
fn arrives(bench: &Bench, link: &Link<'_>, from: &Memory, context: u64) -> Step {
    send(link, from, 64)?;
    let taken = link.near.takes()?;
    let got = (taken.request_context, taken.bytes_transferred);
    bench.near.equal("the Receive", got, (context, 64))
}

fn removed(bench: &Bench) -> Verdict {
    let gone = bench.near.open_again()?;
    let (cq, srq) = (gone.cq(8)?, pool(&gone, depth(8))?);
    let overlapped = Overlapped::new().without_port();
    let notify = srq.notify(&overlapped);
    let notify = gone.started("Notify", notify)?;
    remove(&gone)?;
    let wanted = Status::DEVICE_REMOVED;
    let status = gone.ended("the pending Notify", Ok(notify), &overlapped)?;
    gone.status("the pending Notify", status, wanted)?;
    gone.refused("Notify", srq.notify(&overlapped), wanted)?;
    gone.refused("Modify", srq.modify(4, 0), wanted)?;
    gone.refused("GetNotifyAffinity", srq.get_notify_affinity(), wanted)?;
    let options = QueuePairOptions::default();
    let made = gone
        .adapter
        .create_queue_pair_with_srq(&cq, &cq, &srq, options);
    gone.refused("CreateQueuePairWithSrq", made, wanted)?;
    Ok(Pass::Right)
}

fn no_threshold(bench: &Bench) -> Verdict {
    let (srq, _into) = filled(bench, depth(8), 1)?;
    let link = drawing(bench, &srq, 0)?;
    let from = source(&bench.far, 64)?;
    let overlapped = Overlapped::new().without_port();
    let notify = srq.notify(&overlapped);
    let started = bench.near.started("Notify", notify)?;
    bench.near.equal("Notify", started, Started::Pending)?;
    arrives(bench, &link, &from, 0)?;
    bench.near.stays("Notify", &overlapped)?;
    let canceled = srq.cancel_overlapped_requests();
    bench.near.expect("cancel", canceled)?;
    let status = overlapped.status();
    bench.near.status("the Notify", status, Status::CANCELED)?;
    Ok(Pass::Right)
}

fn empty_queue(bench: &Bench) -> Verdict {
    let (srq, into) = filled(bench, depth(8), 0)?;
    let (one, two) = (drawing(bench, &srq, 1)?, drawing(bench, &srq, 2)?);
    let from = source(&bench.far, 64)?;
    for link in [&one, &two] {
        send(link, &from, 64)?;
    }
    let cq = &one.near.queues.receives;
    bench.near.no_result("without a Receive", cq)?;
    let overlapped = Overlapped::new().without_port();
    let notify = one.near.connector.notify_disconnect(&overlapped);
    begun(&bench.near, "NotifyDisconnect", notify)?;
    bench.near.stays("NotifyDisconnect", &overlapped)?;
    for context in [11, 12] {
        post(&bench.near, &srq, context, &[into.sge(..)])?;
    }
    let results = [one.near.takes()?, two.near.takes()?];
    let mut contexts = results.map(|result| result.request_context);
    contexts.sort_unstable();
    bench.near.equal("the Receives", contexts, [11, 12])?;
    // Both connections go on.
    post(&bench.near, &srq, 13, &[into.sge(..)])?;
    arrives(bench, &one, &from, 13)?;
    post(&bench.near, &srq, 14, &[into.sge(..)])?;
    arrives(bench, &two, &from, 14)?;
    Ok(Pass::Right)
}

fn end_behind_message(bench: &Bench) -> Verdict {
    let (srq, into) = filled(bench, depth(8), 0)?;
    let link = drawing(bench, &srq, 0)?;
    let from = source(&bench.far, 64)?;
    let (notified, ended) = (Overlapped::new(), Overlapped::new());
    let (notified, ended) = (notified.without_port(), ended.without_port());
    let notify = link.near.connector.notify_disconnect(&notified);
    begun(&bench.near, "NotifyDisconnect", notify)?;
    send(&link, &from, 64)?;
    let disconnect = link.far.connector.disconnect(&ended);
    begun(&bench.far, "disconnect behind the message", disconnect)?;
    let cq = &link.near.queues.receives;
    bench.near.no_result("without a Receive", cq)?;
    let pending = notified.is_pending();
    bench.near.equal("NotifyDisconnect waits", pending, true)?;
    post(&bench.near, &srq, 21, &[into.sge(..)])?;
    let taken = link.near.takes()?;
    let got = (taken.request_context, taken.bytes_transferred);
    bench.near.equal("the Receive", got, (21, 64))?;
    let status = bench.near.end_of("NotifyDisconnect", &notified)?;
    bench
        .near
        .status("NotifyDisconnect", status, Status::SUCCESS)
        .map(|()| Pass::Right)
}

fn lost_with_message(bench: &Bench) -> Verdict {
    let (srq, into) = filled(bench, depth(8), 0)?;
    let link = drawing(bench, &srq, 0)?;
    let from = source(&bench.far, 64)?;
    let notified = Overlapped::new().without_port();
    let notify = link.near.connector.notify_disconnect(&notified);
    begun(&bench.near, "NotifyDisconnect", notify)?;
    send(&link, &from, 64)?;
    let cq = &link.near.queues.receives;
    bench.near.no_result("without a Receive", cq)?;
    remove(&bench.far)?;
    let status = bench.near.end_of("NotifyDisconnect", &notified)?;
    bench
        .near
        .status("NotifyDisconnect", status, Status::SUCCESS)?;
    post(&bench.near, &srq, 31, &[into.sge(..)])?;
    bench.near.no_result("of the message that is lost", cq)?;
    Ok(Pass::Right)
}

fn affinity(bench: &Bench) -> Verdict {
    let (cq, srq) = (bench.near.cq(8)?, pool(&bench.near, depth(8))?);
    bench.step("ask for the affinities");
    let status = |result: Result<Affinity>| result.map_err(|error| error.status());
    let (of_cq, of_srq) = (
        status(cq.get_notify_affinity()),
        status(srq.get_notify_affinity()),
    );
    match &of_srq {
        Ok(affinity) => {
            ensure(affinity.mask != 0, "a processor", format!("{affinity:?}"))?;
            if cfg!(unix) {
                bench.near.equal("the group", affinity.group, 0)?;
            }
        }
        Err(status) => one_of("the status", *status, &[Status::NOT_SUPPORTED])?,
    }
    bench.near.equal("the affinity", of_srq, of_cq)?;
    Ok(Pass::Right)
}

/// Returns true if a Notify ends at once.
fn is_low(bench: &Bench, srq: &Arc<dyn SharedReceiveQueue>) -> Step<bool> {
    let overlapped = Overlapped::new().without_port();
    begun(&bench.near, "Notify", srq.notify(&overlapped))?;
    bench.near.step("see whether Notify ends at once");
    let ended = overlapped.wait_timeout(bench.limits().quiet);
    let low = ended == Some(Status::SUCCESS);
    let canceled = srq.cancel_overlapped_requests();
    bench.near.expect("cancel", canceled)?;
    Ok(low)
}

fn modify(bench: &Bench) -> Verdict {
    let (near, most) = (&bench.near, bench.near.info.max_shared_receive_queue_depth);
    let (srq, into) = filled(bench, depth(2).notify_threshold(2), 2)?;
    let sge = [into.sge(..)];
    let too_deep = above(most, "MaxSharedReceiveQueueDepth")?;
    let modified = srq.modify(too_deep, 0);
    near.refused("Modify, too deep", modified, Status::INVALID_PARAMETER)?;
    let modified = srq.modify(1, 0);
    near.refused("Modify, too shallow", modified, Status::BUFFER_OVERFLOW)?;
    near.expect("Modify neither", srq.modify(0, 0))?;
    let full = Status::NO_MORE_ENTRIES;
    near.refused("Receive into a full queue", srq.receive(9, &sge), full)?;
    near.equal(
        "two below the threshold of two",
        is_low(bench, &srq)?,
        false,
    )?;
    near.expect("Modify the threshold alone", srq.modify(0, 3))?;
    near.equal(
        "two below the threshold of three",
        is_low(bench, &srq)?,
        true,
    )?;
    near.refused("Receive into a full queue", srq.receive(9, &sge), full)?;
    near.expect("Modify the depth alone", srq.modify(3, 0))?;
    near.equal(
        "two below the threshold of three",
        is_low(bench, &srq)?,
        true,
    )?;
    post(near, &srq, 2, &sge)?;
    near.refused("Receive into a full queue", srq.receive(9, &sge), full)?;
    near.equal(
        "three below the threshold of three",
        is_low(bench, &srq)?,
        false,
    )?;
    near.expect("Modify both", srq.modify(4, 4))?;
    post(near, &srq, 3, &sge)?;
    near.equal(
        "four below the threshold of four",
        is_low(bench, &srq)?,
        false,
    )?;
    near.expect("Modify to the largest depth", srq.modify(most, 0))?;
    post(near, &srq, 4, &sge)?;
    Ok(Pass::Right)
}

fn modify_shortage(bench: &Bench) -> Verdict {
    let (srq, into) = filled(bench, depth(2), 2)?;
    bench.near.inject(Fault::Call {
        call: Call::ModifySharedReceiveQueue,
        nth: 1,
        status: Status::INSUFFICIENT_RESOURCES,
    })?;
    let wanted = Status::INSUFFICIENT_RESOURCES;
    bench.near.refused("Modify", srq.modify(4, 0), wanted)?;
    let (sge, full) = ([into.sge(..)], Status::NO_MORE_ENTRIES);
    let posted = srq.receive(9, &sge);
    bench
        .near
        .refused("Receive into the queue as it was", posted, full)?;
    bench.near.expect("Modify afterwards", srq.modify(4, 0))?;
    post(&bench.near, &srq, 2, &sge)?;
    Ok(Pass::Right)
}

fn below(bench: &Bench) -> Verdict {
    let (srq, into) = filled(bench, depth(8).notify_threshold(2), 1)?;
    let overlapped = Overlapped::new().without_port();
    let notify = srq.notify(&overlapped);
    bench
        .near
        .done("Notify of one Receive", notify, &overlapped)?;
    post(&bench.near, &srq, 1, &[into.sge(..)])?;
    let low = is_low(bench, &srq)?;
    bench.near.equal("two Receives are few", low, false)?;
    Ok(Pass::Right)
}

fn broken(bench: &Bench) -> Verdict {
    let (srq, _into) = filled(bench, depth(8), 2)?;
    let link = drawing(bench, &srq, 0)?;
    let (one, two) = (Overlapped::new(), Overlapped::new());
    let (one, two) = (one.without_port(), two.without_port());
    begun(&bench.near, "Notify", srq.notify(&one))?;
    begun(&bench.near, "a second Notify", srq.notify(&two))?;
    bench.near.inject(Fault::BreakSharedReceiveQueue {
        queue: srq.clone(),
        status: Status::INTERNAL_ERROR,
    })?;
    let wanted = Status::INTERNAL_ERROR;
    for overlapped in [&one, &two] {
        let status = bench.near.end_of("Notify of a broken queue", overlapped)?;
        bench.near.status("Notify", status, wanted)?;
    }
    let later = Overlapped::new().without_port();
    let notify = srq.notify(&later);
    let status = bench.near.ended("a later Notify", notify, &later)?;
    bench.near.status("a later Notify", status, wanted)?;
    over(&link.far)?;
    Ok(Pass::Right)
}

fn falls(bench: &Bench) -> Verdict {
    let (srq, _into) = filled(bench, depth(8).notify_threshold(2), 3)?;
    let link = drawing(bench, &srq, 0)?;
    let from = source(&bench.far, 64)?;
    let (one, two) = (Overlapped::new(), Overlapped::new());
    let (one, two) = (one.without_port(), two.without_port());
    begun(&bench.near, "Notify", srq.notify(&one))?;
    begun(&bench.near, "a second Notify", srq.notify(&two))?;
    arrives(bench, &link, &from, 0)?;
    bench.near.stays("Notify with two Receives left", &one)?;
    arrives(bench, &link, &from, 1)?;
    for overlapped in [&one, &two] {
        let pending = Ok(Started::Pending);
        let what = "Notify with one Receive left";
        bench.near.done(what, pending, overlapped)?;
    }
    Ok(Pass::Right)
}

fn refused(bench: &Bench) -> Verdict {
    let info = bench.near.info;
    let entries = info.max_receive_sge.min(2);
    let srq = pool(&bench.near, depth(2).max_request_sge(entries))?;
    let memory = sink(&bench.near, 64)?;
    let strict = bench.profile() == Profile::Strict;
    let most = if strict {
        entries
    } else {
        info.max_receive_sge
    };
    let many = vec![memory.sge(..1); most as usize + 1];
    let wanted = Status::DATA_OVERRUN;
    bench
        .near
        .refused("too many entries", srq.receive(1, &many), wanted)?;
    let with_length = |length| Sge {
        length,
        ..memory.sge(..)
    };
    let longest = info.max_transfer_length;
    let long = match longest.checked_add(1) {
        Some(length) => vec![with_length(length)],
        None => vec![with_length(longest); entries as usize],
    };
    if long.len() == 2 || longest < u32::MAX {
        let wanted = Status::BUFFER_OVERFLOW;
        bench
            .near
            .refused("too many octets", srq.receive(2, &long), wanted)?;
    }
    for context in [3, 4] {
        post(&bench.near, &srq, context, &[memory.sge(..)])?;
    }
    let posted = srq.receive(5, &[]);
    let wanted = Status::NO_MORE_ENTRIES;
    bench.near.refused("one too many", posted, wanted)?;
    Ok(Pass::Right)
}

fn not_taken(bench: &Bench) -> Verdict {
    let (srq, into) = filled(bench, depth(4), 2)?;
    let sge = [into.sge(..)];
    let (link, full) = (drawing(bench, &srq, 0)?, Status::NO_MORE_ENTRIES);
    let from = source(&bench.far, 64)?;
    for context in [2, 3] {
        post(&bench.near, &srq, context, &sge)?;
    }
    for context in 0..4 {
        send(&link, &from, 64)?;
        let notified = Overlapped::new().without_port();
        let started = link
            .near
            .queues
            .receives
            .notify(netdirect::NotifyType::Any, &notified);
        bench.near.done("Notify of a result", started, &notified)?;
        let posted = srq.receive(9, &sge);
        let what = "one Receive more, with no result taken";
        bench.near.refused(what, posted, full)?;
        let taken = link.near.takes()?;
        let got = taken.request_context;
        bench.near.equal("the Receive", got, context)?;
        post(&bench.near, &srq, context + 4, &sge)?;
        let posted = srq.receive(9, &sge);
        bench.near.refused("one Receive too many", posted, full)?;
    }
    Ok(Pass::Right)
}

fn empty_messages(bench: &Bench) -> Verdict {
    let (srq, into) = (pool(&bench.near, depth(8))?, sink(&bench.near, 64)?);
    let link = drawing(bench, &srq, 0)?;
    let from = source(&bench.far, 64)?;
    for (context, octets, entries) in [
        (u64::MAX, 0, vec![]),
        (0, 0, vec![into.sge(..)]),
        (1 << 63, 64, vec![into.sge(..)]),
    ] {
        post(&bench.near, &srq, context, &entries)?;
        send(&link, &from, octets)?;
        let taken = link.near.takes()?;
        let got = (taken.request_context, taken.bytes_transferred as usize);
        bench.near.equal("the Receive", got, (context, octets))?;
    }
    Ok(Pass::Right)
}

fn whose(bench: &Bench) -> Verdict {
    let (srq, _into) = filled(bench, depth(8), 6)?;
    let links = [drawing(bench, &srq, 100)?, drawing(bench, &srq, 200)?];
    let from = source(&bench.far, 64)?;
    for (context, whose) in [1, 0, 0, 1, 1, 0].into_iter().enumerate() {
        let (link, other) = (&links[whose], &links[1 - whose]);
        send(link, &from, 64)?;
        let taken = link.near.takes()?;
        let got = (taken.queue_pair_context, taken.request_context);
        let wanted = ([100, 200][whose], context as u64);
        bench.near.equal("the contexts", got, wanted)?;
        let mut none = [CompletionResult::default(); 1];
        let count = other.near.queues.receives.get_results(&mut none);
        bench
            .near
            .equal("results of the other queue pair", count, 0)?;
    }
    Ok(Pass::Right)
}

fn in_order(bench: &Bench) -> Verdict {
    let (srq, _into) = filled(bench, depth(8), 4)?;
    let link = drawing(bench, &srq, 0)?;
    let (from, sink) = (source(&bench.far, 64)?, sink(&bench.far, 8)?);
    let there = shared(&bench.near, 8)?;
    for octets in [40, 10, 30, 20] {
        send(&link, &from, octets)?;
    }
    // When the Read is answered, all messages before it have arrived, so that one look may find all results.
    link.far.read(1, &[sink.sge(..)], there.remote())?;
    link.far.succeeds(RequestType::Read)?;
    let cq = &link.near.queues.receives;
    let results = bench.near.successes("of the four Receives", cq, 4)?;
    let got = results.iter();
    let got = got.map(|result| (result.request_context, result.bytes_transferred));
    let wanted = vec![(0, 40), (1, 10), (2, 30), (3, 20)];
    bench
        .near
        .equal("contexts and lengths", got.collect::<Vec<_>>(), wanted)?;
    Ok(Pass::Right)
}

fn short(bench: &Bench) -> Verdict {
    let (srq, into) = (pool(&bench.near, depth(8))?, sink(&bench.near, 64)?);
    let (one, two) = (drawing(bench, &srq, 1)?, drawing(bench, &srq, 2)?);
    let from = source(&bench.far, 64)?;
    post(&bench.near, &srq, 1, &[into.sge(..63)])?;
    post(&bench.near, &srq, 2, &[into.sge(..)])?;
    send(&one, &from, 64)?;
    let failed = one.near.received("the short Receive")?;
    let got = (failed.request_context, failed.status);
    let wanted = (1, Status::BUFFER_OVERFLOW);
    bench.near.equal("the short Receive", got, wanted)?;
    over(&one.near)?;
    over(&one.far)?;
    arrives(bench, &two, &from, 2)?;
    post(&bench.near, &srq, 3, &[into.sge(..)])?;
    arrives(bench, &two, &from, 3)?;
    Ok(Pass::Right)
}

fn array(bench: &Bench) -> Verdict {
    let (srq, into) = (pool(&bench.near, depth(8))?, sink(&bench.near, 64)?);
    let link = drawing(bench, &srq, 0)?;
    let from = source(&bench.far, 64)?;
    let mut array = [into.sge(..)];
    post(&bench.near, &srq, 5, &array)?;
    array[0] = Sge::default();
    post(&bench.near, &srq, 6, &array)?;
    arrives(bench, &link, &from, 5)?;
    let octets = into.octets(0, 64);
    bench.near.equal("the message", octets, pattern(64))?;
    Ok(Pass::Right)
}

fn stay(bench: &Bench) -> Verdict {
    let (srq, _into) = filled(bench, depth(8), 3)?;
    let (one, two) = (drawing(bench, &srq, 1)?, drawing(bench, &srq, 2)?);
    let from = source(&bench.far, 64)?;
    arrives(bench, &one, &from, 0)?;
    one.near.disconnect()?;
    let cq = &one.near.queues.receives;
    bench.near.no_result("of the queue pair that is gone", cq)?;
    arrives(bench, &two, &from, 1)?;
    bench.step("release the queue pair that is gone");
    drop(one);
    arrives(bench, &two, &from, 2)?;
    Ok(Pass::Right)
}
