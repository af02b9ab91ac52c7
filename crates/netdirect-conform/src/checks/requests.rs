//! Helpers of the checks about requests: queue pairs in a certain state, and requests that fail.

use std::sync::Arc;

use conform_report::{Step, ensure, fail};
use netdirect::{
    CompletionResult, MrFlags, OpFlags, Overlapped, QueuePairOptions, ReadLimits, RequestType,
    Result, Sge, SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};

use super::common::{exchange, sink};
use crate::bench::Bench;
use crate::link::{Link, LinkEnd, LinkOptions, Queues};
use crate::side::{Memory, Side};

pub(super) const NONE: OpFlags = OpFlags::empty();

/// More octets than the transport keeps between the two sides. Simulated ones keep less.
pub(super) fn much(side: &Side) -> usize {
    let much = match side.file.simulation() {
        Some(_) => 8 << 20,
        None => 32 << 20,
    };
    much.min(side.info.max_transfer_length as usize)
}

/// A connection over which a message has arrived from the near side, so that both sides may send in every profile.
pub(super) fn two_way(bench: &Bench) -> Step<Link<'_>> {
    two_way_with(bench, LinkOptions::default())
}

/// As [`two_way`], with options.
pub(super) fn two_way_with(bench: &Bench, options: LinkOptions) -> Step<Link<'_>> {
    let link = bench.link_with(options)?;
    exchange(&link)?;
    Ok(link)
}

/// Sizes for requests of several entries.
pub(super) fn entries(count: u32) -> QueuePairOptions {
    QueuePairOptions::default()
        .max_receive_request_sge(count)
        .max_initiator_request_sge(count)
}

/// Both ends with these sizes.
pub(super) fn both(options: QueuePairOptions) -> LinkOptions {
    LinkOptions {
        near: options,
        far: options,
        ..LinkOptions::default()
    }
}

/// One end sends a message of this many octets, which the other end receives.
pub(super) fn message(from: &LinkEnd<'_>, to: &LinkEnd<'_>, length: usize) -> Step {
    let (source, into) = (
        super::common::source(from.side, length)?,
        sink(to.side, length)?,
    );
    to.receive(0x5E1, &[into.sge(..)])?;
    from.send(0x5E2, &[source.sge(..)], NONE)?;
    from.succeeds(RequestType::Send)?;
    let taken = to.takes()?;
    let got = (taken.request_context, taken.bytes_transferred as usize);
    to.side.equal("the Receive", got, (0x5E1, length))?;
    let wanted = super::common::pattern(length);
    ensure(
        into.octets(0, length) == wanted,
        "the octets of the message",
        "other octets",
    )
}

/// An entry that names memory which was registered once.
pub(super) fn stale(side: &Side, length: usize) -> Step<Sge> {
    let memory = sink(side, length)?;
    let sge = memory.sge(..);
    side.deregister(&memory.region)?;
    Ok(sge)
}

/// The connection of this end ends without its doing.
pub(super) fn over(end: &LinkEnd<'_>) -> Step {
    let overlapped = Overlapped::new().without_port();
    let started = end.connector.notify_disconnect(&overlapped);
    end.side
        .done("the end of the connection", started, &overlapped)
}

/// A request has begun, and ends later.
pub(super) fn begun(side: &Side, what: &str, started: Result<Started>) -> Step {
    side.started(what, started).map(|_| ())
}

/// Checks the kind, the context and the status of a result.
pub(super) fn expect_result(
    side: &Side,
    result: &CompletionResult,
    kind: RequestType,
    context: u64,
    status: Status,
) -> Step {
    let got = (result.request_type, result.request_context, result.status);
    side.equal("the result", got, (kind, context, status))
}

/// The next results of requests other than Receives have to be these, in this order.
pub(super) fn initiated(end: &LinkEnd<'_>, wanted: &[(RequestType, u64, Status)]) -> Step {
    let results = end
        .side
        .results("of requests", &end.queues.initiator, wanted.len())?;
    for (result, (kind, context, status)) in results.iter().zip(wanted) {
        expect_result(end.side, result, *kind, *context, *status)?;
    }
    Ok(())
}

/// The next results of Receives have to have these contexts and statuses, in this order.
pub(super) fn received(end: &LinkEnd<'_>, wanted: &[(u64, Status)]) -> Step {
    let results = end
        .side
        .results("of Receives", &end.queues.receives, wanted.len())?;
    for (result, (context, status)) in results.iter().zip(wanted) {
        expect_result(end.side, result, RequestType::Receive, *context, *status)?;
    }
    Ok(())
}

/// The status is one of these.
pub(super) fn one_of(what: &str, got: Status, wanted: &[Status]) -> Step {
    if wanted.contains(&got) {
        return Ok(());
    }
    Err(fail(format!("{what}: one of {wanted:?}"), got.to_string()))
}

/// A shared receive queue of a side.
pub(super) fn pool(
    side: &Side,
    options: SharedReceiveQueueOptions,
) -> Step<Arc<dyn SharedReceiveQueue>> {
    let made = side
        .adapter
        .create_shared_receive_queue(&side.file, options);
    side.expect("create a shared receive queue", made)
}

/// Queues whose queue pair has its Receives from a shared receive queue.
pub(super) fn pooled(
    side: &Side,
    srq: &Arc<dyn SharedReceiveQueue>,
    options: QueuePairOptions,
) -> Step<Queues> {
    let (receives, initiator) = (side.cq(64)?, side.cq(64)?);
    let adapter = &side.adapter;
    let made = adapter.create_queue_pair_with_srq(&receives, &initiator, srq, options);
    let qp = side.expect("create a queue pair with a shared receive queue", made)?;
    Ok(Queues {
        qp,
        receives,
        initiator,
    })
}

/// A connection whose near queue pair has a request that cannot end: a long Send, for which the far side, with an empty
/// shared receive queue, has no Receive.
pub(super) struct Blocked<'a> {
    pub(super) link: Link<'a>,
    srq: Arc<dyn SharedReceiveQueue>,
    long: Memory,
}

/// The context of the Send that cannot end.
pub(super) const BLOCKED: u64 = 0xB10C;

pub(super) fn blocked(bench: &Bench, near: QueuePairOptions) -> Step<Blocked<'_>> {
    let srq = pool(&bench.far, SharedReceiveQueueOptions::default())?;
    let far = pooled(&bench.far, &srq, QueuePairOptions::default())?;
    let near = bench.near.queues(64, near)?;
    let limits = ReadLimits {
        inbound: 4,
        outbound: 4,
    };
    let link = bench.join(near, far, limits)?;
    let long = bench.near.memory(much(&bench.near), MrFlags::empty())?;
    link.near.send(BLOCKED, &[long.sge(..)], NONE)?;
    Ok(Blocked { link, srq, long })
}

impl Blocked<'_> {
    /// Gives the Send its Receive; it succeeds.
    pub(super) fn release(&self) -> Step {
        let side = self.link.far.side;
        let into = sink(side, self.long.buffer.len())?;
        side.expect("post a Receive", self.srq.receive(1, &[into.sge(..)]))?;
        let succeeded = (RequestType::Send, BLOCKED, Status::SUCCESS);
        initiated(&self.link.near, &[succeeded])?;
        self.link.far.takes()?;
        Ok(())
    }
}
