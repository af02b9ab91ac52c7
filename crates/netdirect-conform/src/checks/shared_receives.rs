//! `IND2Adapter`: CreateQueuePairWithSrq, and what its queue pairs do with the shared receive queue.

use std::sync::Arc;

use conform_report::{Pass, Step, Verdict};
use netdirect::{
    Call, CompletionQueue, OpFlags, Overlapped, QueuePair, QueuePairOptions, RequestType,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};

use super::common::{above, pattern, remove, shortage, sink, source};
use super::setup::notification;
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::{Link, LinkOptions, Queues};
use crate::need::Need;
use crate::side::Side;

const NEEDS: &[Need] = &[Need::SharedReceiveQueues];
const LINKED: &[Need] = &[Need::SharedReceiveQueues, Need::Connections];
const FAULTS: &[Need] = &[Need::SharedReceiveQueues, Need::Faults];

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Adapter, name, title, run).needs(NEEDS)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "ADPT-047.threshold",
        "uses up a shared receive queue with a threshold of 0, of which no Notify tells",
        no_threshold,
    )
    .needs(LINKED),
    new_check(
        "ADPT-049.own",
        "receives on a queue pair with the shared queue and on one without, each from its own Receives",
        own_receives,
    )
    .needs(LINKED),
    new_check(
        "ADPT-065.srq",
        "receives a message into a Receive of the shared queue, and posts none to the queue pair itself",
        receives_from_srq,
    )
    .also(&["AMB-021", "AMB-050"])
    .needs(LINKED),
    new_check(
        "ADPT-067.foreign",
        "passes CreateQueuePairWithSrq completion queues and a shared receive queue of another adapter",
        foreign,
    )
    .also(&["ADPT-068", "ADPT-069", "GEN-022"]),
    new_check(
        "ADPT-070.limits",
        "asks CreateQueuePairWithSrq for more requests, entries and inline data than the adapter allows",
        limits,
    )
    .also(&["ADPT-071", "ADPT-072"]),
    new_check(
        "ADPT-073.shortage",
        "has CreateQueuePairWithSrq fail for want of resources, and succeed afterwards",
        |bench| {
            let (cq, srq) = (bench.near.cq(8)?, srq(&bench.near, 0)?);
            let make = || create(&bench.near, [&cq, &cq], &srq, QueuePairOptions::default());
            let statuses = [Status::INSUFFICIENT_RESOURCES];
            shortage(&bench.near, Call::CreateQueuePairWithSrq, &statuses, make)?;
            Ok(Pass::Right)
        },
    )
    .needs(FAULTS),
    new_check(
        "ADPT-074.removed",
        "calls CreateQueuePairWithSrq after the device was removed",
        |bench| {
            let gone = bench.near.open_again()?;
            let (cq, srq) = (gone.cq(8)?, srq(&gone, 0)?);
            remove(&gone)?;
            let made = create(&gone, [&cq, &cq], &srq, QueuePairOptions::default());
            gone.refused("CreateQueuePairWithSrq", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(FAULTS),
    new_check(
        "ADPT-075.roles",
        "uses one completion queue for both roles of a queue pair with a shared receive queue, and finds its context in each result",
        one_queue,
    )
    .needs(LINKED),
    new_check(
        "ADPT-076.empty",
        "has the peer send while the shared receive queue is empty: the message waits, and arrives when a Receive is posted",
        waits_for_receive,
    )
    .also(&["ADPT-077"])
    .needs(LINKED),
];

fn srq(side: &Side, threshold: u32) -> Step<Arc<dyn SharedReceiveQueue>> {
    let options = SharedReceiveQueueOptions::default().notify_threshold(threshold);
    let made = side
        .adapter
        .create_shared_receive_queue(&side.file, options);
    side.expect("create a shared receive queue", made)
}

/// CreateQueuePairWithSrq, with the completion queues of Receives and of other requests.
fn create(
    side: &Side,
    [receives, initiator]: [&Arc<dyn CompletionQueue>; 2],
    srq: &Arc<dyn SharedReceiveQueue>,
    options: QueuePairOptions,
) -> netdirect::Result<Arc<dyn QueuePair>> {
    side.adapter
        .create_queue_pair_with_srq(receives, initiator, srq, options)
}

/// A connection whose near queue pair takes its Receives from the shared queue.
fn link<'a>(bench: &'a Bench, srq: &Arc<dyn SharedReceiveQueue>) -> Step<Link<'a>> {
    let (receives, initiator) = (bench.near.cq(64)?, bench.near.cq(64)?);
    let options = QueuePairOptions::default();
    let made = create(&bench.near, [&receives, &initiator], srq, options);
    let qp = bench
        .near
        .expect("create a queue pair with the shared queue", made)?;
    let near = Queues {
        qp,
        receives,
        initiator,
    };
    let far = bench.far.queues(64, options)?;
    let link = bench.join(near, far, LinkOptions::default().limits)?;
    link.greet()?;
    Ok(link)
}

fn post(
    side: &Side,
    srq: &Arc<dyn SharedReceiveQueue>,
    context: u64,
    memory: &crate::side::Memory,
) -> Step {
    let posted = srq.receive(context, &[memory.sge(..)]);
    side.expect("post a Receive to the shared queue", posted)
}

fn no_threshold(bench: &Bench) -> Verdict {
    let queue = srq(&bench.near, 0)?;
    let link = link(bench, &queue)?;
    let overlapped = Overlapped::new();
    let started = queue.notify(&overlapped);
    bench.near.begun("notify", started)?;
    let (into, from) = (sink(&bench.near, 64)?, source(&bench.far, 64)?);
    post(&bench.near, &queue, 1, &into)?;
    link.far.send(2, &[from.sge(..)], OpFlags::empty())?;
    link.near.takes()?;
    bench
        .near
        .stays("a Notify of a queue without a threshold", &overlapped)?;
    bench
        .near
        .expect("cancel the Notify", queue.cancel_overlapped_requests())?;
    let status = bench.near.end_of("the Notify", &overlapped)?;
    bench.near.status("the Notify", status, Status::CANCELED)?;
    Ok(Pass::Right)
}

fn own_receives(bench: &Bench) -> Verdict {
    let queue = srq(&bench.near, 0)?;
    let (shared, plain) = (link(bench, &queue)?, bench.link()?);
    let (into, from) = (sink(&bench.near, 64)?, source(&bench.far, 64)?);
    post(&bench.near, &queue, 1, &into)?;
    plain.near.receive(2, &[into.sge(..)])?;
    plain.far.send(3, &[from.sge(..)], OpFlags::empty())?;
    let taken = plain.near.takes()?.request_context;
    bench
        .near
        .equal("the Receive of the queue pair", taken, 2)?;
    shared.far.send(4, &[from.sge(..)], OpFlags::empty())?;
    let taken = shared.near.takes()?.request_context;
    bench
        .near
        .equal("the Receive of the shared queue", taken, 1)?;
    Ok(Pass::Right)
}

fn receives_from_srq(bench: &Bench) -> Verdict {
    let queue = srq(&bench.near, 0)?;
    let link = link(bench, &queue)?;
    let (into, from) = (sink(&bench.near, 64)?, source(&bench.far, 64)?);
    post(&bench.near, &queue, 7, &into)?;
    link.far.send(8, &[from.sge(..)], OpFlags::empty())?;
    let result = link.near.takes()?;
    let got = (result.request_context, result.bytes_transferred);
    bench.near.equal("context and length", got, (7, 64))?;
    bench
        .near
        .equal("the message", into.octets(0, 64), pattern(64))?;
    let posted = link.near.queues.qp.receive(9, &[into.sge(..)]);
    let wanted = Status::INVALID_DEVICE_REQUEST;
    bench
        .near
        .refused("Receive on the queue pair", posted, wanted)?;
    Ok(Pass::Right)
}

fn foreign(bench: &Bench) -> Verdict {
    let other = bench.other()?;
    let (own, theirs) = (bench.near.cq(8)?, other.cq(8)?);
    let (queue, foreign) = (srq(&bench.near, 0)?, srq(&other, 0)?);
    let options = QueuePairOptions::default();
    for (what, cqs, srq, wanted) in [
        (
            "receive queue",
            [&theirs, &own],
            &queue,
            Status::INVALID_PARAMETER_2,
        ),
        (
            "initiator queue",
            [&own, &theirs],
            &queue,
            Status::INVALID_PARAMETER_3,
        ),
        (
            "shared receive queue",
            [&own, &own],
            &foreign,
            Status::INVALID_PARAMETER_4,
        ),
    ] {
        let made = create(&bench.near, cqs, srq, options);
        let what = format!("CreateQueuePairWithSrq, foreign {what}");
        bench.near.refused(what, made, wanted)?;
    }
    let made = create(&bench.near, [&own, &own], &queue, options);
    bench.near.expect("create a queue pair", made)?;
    Ok(Pass::Right)
}

fn limits(bench: &Bench) -> Verdict {
    let (cq, queue, info) = (bench.near.cq(8)?, srq(&bench.near, 0)?, bench.near.info);
    let options = QueuePairOptions::default();
    let depth = above(info.max_initiator_queue_depth, "MaxInitiatorQueueDepth")?;
    let entries = above(info.max_initiator_sge, "MaxInitiatorSge")?;
    let octets = above(info.max_inline_data_size, "MaxInlineDataSize")?;
    for (what, options, wanted) in [
        (
            "too deep",
            options.initiator_queue_depth(depth),
            Status::INVALID_PARAMETER_6,
        ),
        (
            "too many entries",
            options.max_initiator_request_sge(entries),
            Status::INVALID_PARAMETER_7,
        ),
        (
            "too much inline data",
            options.inline_data_size(octets),
            Status::INVALID_PARAMETER_8,
        ),
    ] {
        let made = create(&bench.near, [&cq, &cq], &queue, options);
        let what = format!("CreateQueuePairWithSrq, {what}");
        bench.near.refused(what, made, wanted)?;
    }
    let most = options
        .initiator_queue_depth(info.max_initiator_queue_depth)
        .max_initiator_request_sge(info.max_initiator_sge);
    let made = create(&bench.near, [&cq, &cq], &queue, most);
    bench.near.expect("create the largest queue pair", made)?;
    Ok(Pass::Right)
}

fn one_queue(bench: &Bench) -> Verdict {
    let (queue, cq) = (srq(&bench.near, 0)?, bench.near.cq(64)?);
    let options = QueuePairOptions::default().context(0x5253);
    let made = create(&bench.near, [&cq, &cq], &queue, options);
    let near = Queues {
        qp: bench.near.expect("create a queue pair", made)?,
        receives: cq.clone(),
        initiator: cq.clone(),
    };
    let far = bench.far.queues(64, QueuePairOptions::default())?;
    let link = bench.join(near, far, LinkOptions::default().limits)?;
    let (into, there) = (sink(&bench.near, 64)?, sink(&bench.far, 64)?);
    let (from, back) = (source(&bench.near, 64)?, source(&bench.far, 64)?);
    post(&bench.near, &queue, 1, &into)?;
    link.far.receive(2, &[there.sge(..)])?;
    link.near.send(3, &[from.sge(..)], OpFlags::empty())?;
    link.far.takes()?;
    link.far.send(4, &[back.sge(..)], OpFlags::empty())?;
    let results = bench.near.successes("a Send and a Receive", &cq, 2)?;
    let mut got: Vec<_> = results
        .iter()
        .map(|result| {
            let kind = result.request_type.value();
            (kind, result.request_context, result.queue_pair_context)
        })
        .collect();
    got.sort_unstable();
    let (receive, send) = (RequestType::Receive.value(), RequestType::Send.value());
    let wanted = vec![(receive, 1, 0x5253), (send, 3, 0x5253)];
    bench.near.equal("kinds and contexts", got, wanted)?;
    Ok(Pass::Right)
}

fn waits_for_receive(bench: &Bench) -> Verdict {
    let queue = srq(&bench.near, 0)?;
    let link = link(bench, &queue)?;
    let (into, from) = (sink(&bench.near, 64)?, source(&bench.far, 64)?);
    let notified = notification(&bench.near, &link.near.connector)?;
    link.far.send(1, &[from.sge(..)], OpFlags::empty())?;
    link.far.send(2, &[from.sge(..32)], OpFlags::empty())?;
    let receives = &link.near.queues.receives;
    bench
        .near
        .no_result("the shared queue is empty", receives)?;
    bench.near.stays("NotifyDisconnect", &notified)?;
    for (context, length) in [(3, 64), (4, 32)] {
        post(&bench.near, &queue, context, &into)?;
        let result = link.near.takes()?;
        let got = (result.request_context, result.bytes_transferred);
        bench
            .near
            .equal("context and length", got, (context, length))?;
    }
    bench
        .near
        .equal("the message", into.octets(0, 32), pattern(32))?;
    Ok(Pass::Right)
}
