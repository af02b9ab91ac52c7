//! `IND2CompletionQueue`: results, and the Notifies that they end.
//!
//! Most checks need results and no connection: Receives of a queue pair that is not connected are flushed, each of which gives a
//! result with ND_CANCELED.

use std::sync::Arc;

use conform_report::{Pass, Step, Verdict, ensure};
use netdirect::{
    Call, CompletionPort, CompletionQueue, CompletionResult, Fault, NotifyType, OpFlags,
    Overlapped, QueuePair, QueuePairOptions, RequestType, Started, Status,
};

use super::common::{expect_end, pattern, remove, shared, shortage, sink, source};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::need::Need;
use crate::side::Side;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::CompletionQueue, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "CQ-001.split",
        "feeds one completion queue from the receive queue of one queue pair and the initiator queue of another",
        split_queues,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CQ-003.affinity",
        "asks for the affinity of notifications, and gets processors or ND_NOT_SUPPORTED",
        affinity,
    )
    .also(&["CQ-004", "CQ-005", "CQ-008", "CQ-009", "AMB-060"]),
    new_check(
        "CQ-007.removed",
        "asks for the affinity after the device was removed",
        |bench| {
            let (side, cq) = removed(bench)?;
            let affinity = cq.get_notify_affinity();
            side.refused("GetNotifyAffinity", affinity, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "CQ-010.resize",
        "makes a completion queue larger and smaller, and fills it each time",
        resized,
    )
    .also(&["INFO-025", "AMB-022"])
    .needs(&[Need::Resize]),
    new_check(
        "CQ-011.shortage",
        "has Resize fail for want of resources, which leaves the queue as it was",
        |bench| {
            let queue = Queue::new(&bench.near, 4)?;
            queue.fill(4)?;
            let statuses = [Status::INSUFFICIENT_RESOURCES];
            let make = || queue.cq.resize(8);
            shortage(&bench.near, Call::ResizeCompletionQueue, &statuses, make)?;
            queue.expect(0..4)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults, Need::Resize]),
    new_check(
        "CQ-012.limits",
        "resizes a completion queue to 0, above the adapter's limit, and to the limit",
        resize_limits,
    )
    .also(&["CQ-013"])
    .needs(&[Need::Resize]),
    new_check(
        "CQ-014.removed",
        "calls Resize after the device was removed",
        |bench| {
            let (side, cq) = removed(bench)?;
            side.refused("Resize", cq.resize(16), Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults, Need::Resize]),
    new_check(
        "CQ-015.unsupported",
        "calls Resize on an adapter without the flag for it",
        |bench| {
            let cq = bench.near.cq(8)?;
            bench.near.refused("Resize", cq.resize(16), Status::NOT_SUPPORTED)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::NoResize]),
    new_check(
        "CQ-016.smaller",
        "resizes a completion queue below the number of its results, which stay",
        |bench| {
            let queue = Queue::new(&bench.near, 8)?;
            queue.fill(5)?;
            let resized = queue.cq.resize(4);
            bench.near.refused("Resize", resized, Status::BUFFER_OVERFLOW)?;
            queue.expect(0..5)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Resize]),
    new_check(
        "CQ-017.results",
        "resizes a completion queue again and again while it has results, of which none is lost or out of order",
        resize_keeps_results,
    )
    .needs(&[Need::Resize]),
    new_check(
        "CQ-019.pending",
        "calls Notify on an empty queue, which returns ND_PENDING and ends with the next result",
        notify_ends,
    )
    .also(&["CQ-027"]),
    new_check(
        "CQ-020.at-once",
        "calls Notify when a result is queued, which ends at once",
        notify_at_once,
    )
    .also(&["CQ-037"]),
    new_check(
        "CQ-021.broken",
        "has a completion queue break down: every Notify ends with ND_INTERNAL_ERROR, and no result comes",
        |bench| broken(bench, Status::INTERNAL_ERROR),
    )
    .needs(&[Need::Faults]),
    new_check(
        "CQ-022.broken",
        "has a completion queue break down as by an overflow: every Notify ends with ND_BUFFER_OVERFLOW",
        |bench| broken(bench, Status::BUFFER_OVERFLOW),
    )
    .needs(&[Need::Faults]),
    new_check(
        "CQ-022.overflow",
        "has more results than a completion queue holds: every Notify ends with ND_BUFFER_OVERFLOW",
        overflown,
    )
    .also(&["CQ-026", "CQ-029"]),
    new_check(
        "CQ-024.shortage",
        "has Notify fail for want of resources, and succeed afterwards",
        |bench| {
            let cq = bench.near.cq(8)?;
            let statuses = [Status::INSUFFICIENT_RESOURCES];
            let make = || cq.notify(NotifyType::Any, &Overlapped::new());
            shortage(&bench.near, Call::NotifyCompletionQueue, &statuses, make)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults]),
    new_check(
        "CQ-025.removed",
        "calls Notify after the device was removed",
        |bench| {
            let (side, cq) = removed(bench)?;
            let overlapped = Overlapped::new();
            let started = cq.notify(NotifyType::Any, &overlapped);
            let status = side.ended("Notify", started, &overlapped)?;
            side.status("Notify", status, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "CQ-026.errors",
        "has a result arrive, which ends no Notify for errors",
        errors_only,
    ),
    new_check(
        "CQ-028.solicited",
        "receives a message without the flag for solicited events and one with it: only the second ends a solicited Notify",
        solicited,
    )
    .needs(&[Need::Connections, Need::Solicited]),
    new_check(
        "CQ-029.failure",
        "has a request fail, which ends a solicited Notify",
        failure_is_solicited,
    ),
    new_check(
        "CQ-031.once",
        "calls Notify again while the result that ended the first one is still queued",
        ends_one_only,
    ),
    new_check(
        "CQ-032.all",
        "makes three Notify requests, which one result ends together",
        ends_all,
    )
    .also(&["CQ-033"]),
    new_check(
        "CQ-034.silent",
        "has results arrive in a new completion queue, of which no packet tells",
        silent_without_notify,
    )
    .also(&["GEN-005"]),
    new_check(
        "CQ-035.both",
        "makes a Notify for any result and a solicited one, both of which a plain result ends",
        any_ends_solicited,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CQ-040.count",
        "takes results in pieces, in their order, until the queue is empty",
        counts,
    ),
    new_check(
        "CQ-041.context",
        "finds the context of each request in its result, whatever the value",
        contexts,
    )
    .also(&["RES-004"]),
    new_check(
        "CQ-042.order",
        "posts Sends, Reads, Writes and Receives in turn, whose results come in the order of the posts",
        order,
    )
    .also(&["RES-005", "RES-006"])
    .needs(&[Need::Connections]),
    new_check(
        "CQ-044.released",
        "takes whole results of a queue pair that was released",
        released_queue_pair,
    ),
    new_check(
        "CQ-045.silent",
        "sends with and without the flag for silence: each request but the silent ones has a result",
        silent_success,
    )
    .needs(&[Need::Connections]),
];

/// A completion queue that can be given results.
pub(super) struct Queue<'a> {
    pub(super) side: &'a Side,
    pub(super) cq: Arc<dyn CompletionQueue>,
    pub(super) qp: Arc<dyn QueuePair>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(side: &'a Side, depth: u32) -> Step<Self> {
        Self::with_cq(side, side.cq(depth)?)
    }

    pub(super) fn with_cq(side: &'a Side, cq: Arc<dyn CompletionQueue>) -> Step<Self> {
        let options = QueuePairOptions::default().receive_queue_depth(64);
        let qp = side.qp(&cq, &cq, options)?;
        Ok(Self { side, cq, qp })
    }

    /// So many results, whose contexts count from 0.
    pub(super) fn fill(&self, count: u64) -> Step {
        self.fill_from(0, count)
    }

    pub(super) fn fill_from(&self, first: u64, count: u64) -> Step {
        for context in first..first + count {
            let posted = self.qp.receive(context, &[]);
            self.side.expect("post a Receive", posted)?;
        }
        self.side.expect("flush", self.qp.flush())
    }

    /// These results come, and nothing else is queued behind them.
    pub(super) fn expect(&self, contexts: std::ops::Range<u64>) -> Step {
        let count = usize::try_from(contexts.end - contexts.start).unwrap_or(0);
        let results = self.side.results("flushed Receives", &self.cq, count)?;
        let got: Vec<_> = results
            .iter()
            .map(|result| (result.request_context, result.status))
            .collect();
        let wanted: Vec<_> = contexts
            .map(|context| (context, Status::CANCELED))
            .collect();
        self.side.equal("the results", got, wanted)
    }

    /// A Notify in flight.
    pub(super) fn notify(&self, kind: NotifyType) -> Step<Overlapped> {
        let overlapped = Overlapped::new().without_port();
        let started = self.cq.notify(kind, &overlapped);
        self.side
            .begun(format_args!("notify ({kind:?})"), started)?;
        Ok(overlapped)
    }

    /// More results than the queue holds: a Notify ends with ND_BUFFER_OVERFLOW.
    pub(super) fn overflow(&self) -> Step {
        let errors = self.notify(NotifyType::Errors)?;
        // The provider may have made the queue larger.
        let largest = u64::from(self.side.info.max_completion_queue_depth);
        let depth = self.side.info.max_receive_queue_depth.min(1024);
        let options = QueuePairOptions::default().receive_queue_depth(depth);
        let mut queue_pairs = vec![self.qp.clone()];
        let mut context = 0;
        self.side
            .step("fill the completion queue until it overflows");
        while errors.is_pending() && context <= largest {
            let qp = &queue_pairs[queue_pairs.len() - 1];
            let posted = (0..16).try_for_each(|_| {
                qp.receive(context, &[])?;
                context += 1;
                Ok::<_, netdirect::Error>(())
            });
            if qp.flush().is_err() {
                break;
            }
            match posted {
                // As many results as its queue has slots: the next ones come from another queue pair.
                Err(error) if error.status() == Status::NO_MORE_ENTRIES => {
                    queue_pairs.push(self.side.qp(&self.cq, &self.cq, options)?);
                }
                Err(_) => break,
                Ok(()) => {}
            }
            self.side.pass();
        }
        self.ends("a Notify for errors", &errors, Status::BUFFER_OVERFLOW)
    }

    pub(super) fn ends(&self, what: &str, overlapped: &Overlapped, wanted: Status) -> Step {
        let status = self.side.end_of(what, overlapped)?;
        self.side.status(what, status, wanted)
    }
}

/// A completion queue whose device was removed.
fn removed(bench: &Bench) -> Step<(Side, Arc<dyn CompletionQueue>)> {
    let side = bench.near.open_again()?;
    let cq = side.cq(8)?;
    remove(&side)?;
    Ok((side, cq))
}

fn split_queues(bench: &Bench) -> Verdict {
    let shared = bench.near.cq(64)?;
    let options = QueuePairOptions::default();
    let mut one = bench.near.queues(64, options)?;
    one.receives = shared.clone();
    one.qp = bench.near.qp(&one.receives, &one.initiator, options)?;
    let mut two = bench.near.queues(64, options)?;
    two.initiator = shared.clone();
    two.qp = bench.near.qp(&two.receives, &two.initiator, options)?;
    let limits = crate::link::LinkOptions::default().limits;
    let one = bench.join(one, bench.far.queues(64, options)?, limits)?;
    let two = bench.join(two, bench.far.queues(64, options)?, limits)?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.near, 64)?);
    let (there, back) = (sink(&bench.far, 64)?, source(&bench.far, 64)?);
    for link in [&one, &two] {
        link.far.receive(1, &[there.sge(..)])?;
        link.near.receive(2, &[into.sge(..)])?;
        link.near.send(3, &[from.sge(..)], OpFlags::empty())?;
        link.far.takes()?;
        link.far.send(4, &[back.sge(..)], OpFlags::empty())?;
    }
    let results = bench.near.successes("a Send and a Receive", &shared, 2)?;
    let mut kinds: Vec<u32> = results
        .iter()
        .map(|result| result.request_type.value())
        .collect();
    kinds.sort_unstable();
    let wanted = vec![RequestType::Receive.value(), RequestType::Send.value()];
    bench
        .near
        .equal("the kinds of the results", kinds, wanted)?;
    one.near.succeeds(RequestType::Send)?;
    two.near.takes()?;
    Ok(Pass::Right)
}

fn affinity(bench: &Bench) -> Verdict {
    let cq = bench.near.cq(8)?;
    bench.step("ask for the affinity");
    match cq.get_notify_affinity() {
        Ok(affinity) => {
            let shown = format!("{affinity:?}");
            ensure(affinity.mask != 0, "one processor at least", shown.as_str())?;
            ensure(!cfg!(unix) || affinity.group == 0, "group 0", shown)?;
        }
        Err(error) => {
            let status = error.status();
            bench
                .near
                .status("a refusal", status, Status::NOT_SUPPORTED)?;
        }
    }
    Ok(Pass::Right)
}

fn resized(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 2)?;
    for depth in [16, 4, 32, 1] {
        let resized = queue.cq.resize(depth);
        bench
            .near
            .expect(format_args!("resize to {depth}"), resized)?;
        queue.fill(depth.into())?;
        queue.expect(0..depth.into())?;
    }
    Ok(Pass::Right)
}

fn resize_limits(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 4)?;
    let limit = bench.near.info.max_completion_queue_depth;
    for depth in [Some(0), limit.checked_add(1)].into_iter().flatten() {
        let what = format!("Resize to {depth}");
        let resized = queue.cq.resize(depth);
        bench
            .near
            .refused(what, resized, Status::INVALID_PARAMETER)?;
    }
    queue.fill(4)?;
    queue.expect(0..4)?;
    let resized = queue.cq.resize(limit);
    bench
        .near
        .expect(format_args!("resize to {limit}"), resized)?;
    Ok(Pass::Right)
}

fn resize_keeps_results(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 64)?;
    let mut taken = 0;
    for round in 0..8_u64 {
        queue.fill_from(round * 8, 8)?;
        let depth = if round % 2 == 0 { 48 } else { 64 };
        let resized = queue.cq.resize(depth);
        bench
            .near
            .expect(format_args!("resize to {depth}"), resized)?;
        // Some results stay in the queue, so that it goes round.
        queue.expect(taken..round * 8 + 3)?;
        taken = round * 8 + 3;
    }
    queue.expect(taken..64)?;
    Ok(Pass::Right)
}

fn notify_ends(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    let overlapped = Overlapped::new();
    let started = queue.cq.notify(NotifyType::Any, &overlapped);
    let started = bench.near.started("notify", started)?;
    bench
        .near
        .equal("what Notify returns", started, Started::Pending)?;
    bench
        .near
        .stays("a Notify of an empty queue", &overlapped)?;
    queue.fill(1)?;
    queue.ends("the Notify", &overlapped, Status::SUCCESS)?;
    queue.expect(0..1)?;
    Ok(Pass::Right)
}

fn notify_at_once(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    let mut none = [CompletionResult::default(); 8];
    bench.step("look into the empty queue");
    let taken = queue.cq.get_results(&mut none);
    bench.near.equal("results of an empty queue", taken, 0)?;
    queue.fill(1)?;
    let overlapped = queue.notify(NotifyType::Any)?;
    queue.ends("a Notify behind the result", &overlapped, Status::SUCCESS)?;
    queue.expect(0..1)?;
    Ok(Pass::Right)
}

fn broken(bench: &Bench, status: Status) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    let kinds = [NotifyType::Any, NotifyType::Solicited, NotifyType::Errors];
    let mut requests = Vec::new();
    for kind in kinds {
        requests.push(queue.notify(kind)?);
    }
    bench.near.inject(Fault::BreakCompletionQueue {
        queue: queue.cq.clone(),
        status,
    })?;
    for (kind, request) in kinds.iter().zip(&requests) {
        queue.ends(&format!("the Notify ({kind:?})"), request, status)?;
    }
    bench.step("post to the queue pair of the broken queue");
    // Whether the post is taken is the provider's choice; no result may come.
    let _ = queue.qp.receive(1, &[]);
    let _ = queue.qp.flush();
    bench.near.no_result("of a broken queue", &queue.cq)?;
    let later = Overlapped::new();
    let started = queue.cq.notify(NotifyType::Any, &later);
    let ended = bench.near.ended("a later Notify", started, &later)?;
    bench.near.status("a later Notify", ended, status)?;
    Ok(Pass::Right)
}

fn overflown(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 2)?;
    queue.overflow()?;
    let later = queue.notify(NotifyType::Any);
    if let Ok(later) = later {
        queue.ends("a later Notify", &later, Status::BUFFER_OVERFLOW)?;
    }
    Ok(Pass::Right)
}

fn errors_only(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    let (errors, any) = (
        queue.notify(NotifyType::Errors)?,
        queue.notify(NotifyType::Any)?,
    );
    queue.fill(3)?;
    queue.ends("a Notify for any result", &any, Status::SUCCESS)?;
    bench.near.stays("a Notify for errors", &errors)?;
    queue.expect(0..3)?;
    bench.near.stays("a Notify for errors", &errors)?;
    Ok(Pass::Right)
}

fn solicited(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (into, from) = (sink(&bench.near, 64)?, source(&bench.far, 64)?);
    let cq = &link.near.queues.receives;
    let overlapped = Overlapped::new();
    let started = cq.notify(NotifyType::Solicited, &overlapped);
    bench.near.begun("notify (solicited)", started)?;
    link.near.receive(1, &[into.sge(..)])?;
    link.near.receive(2, &[into.sge(..)])?;
    link.far.send(1, &[from.sge(..)], OpFlags::empty())?;
    link.near.takes()?;
    bench.near.stays("a solicited Notify", &overlapped)?;
    let flag = OpFlags::SEND_AND_SOLICIT_EVENT;
    link.far.send(2, &[from.sge(..)], flag)?;
    let status = bench.near.end_of("the solicited Notify", &overlapped)?;
    bench
        .near
        .status("the solicited Notify", status, Status::SUCCESS)?;
    link.near.takes()?;
    Ok(Pass::Right)
}

fn failure_is_solicited(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    let overlapped = queue.notify(NotifyType::Solicited)?;
    queue.fill(1)?;
    queue.ends("the solicited Notify", &overlapped, Status::SUCCESS)?;
    queue.expect(0..1)?;
    Ok(Pass::Right)
}

fn ends_one_only(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    let first = queue.notify(NotifyType::Any)?;
    queue.fill(1)?;
    queue.ends("the first Notify", &first, Status::SUCCESS)?;
    let second = queue.notify(NotifyType::Any)?;
    bench
        .near
        .stays("a Notify behind a result that ended another", &second)?;
    queue.fill_from(1, 1)?;
    queue.ends("the second Notify", &second, Status::SUCCESS)?;
    queue.expect(0..2)?;
    Ok(Pass::Right)
}

fn ends_all(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(queue.notify(NotifyType::Any)?);
    }
    queue.fill(1)?;
    for (at, request) in requests.iter().enumerate() {
        queue.ends(&format!("Notify {at}"), request, Status::SUCCESS)?;
    }
    queue.expect(0..1)?;
    Ok(Pass::Right)
}

fn silent_without_notify(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    side.expect("tie the file to a port", side.file.associate(&port, 1))?;
    let queue = Queue::new(&side, 8)?;
    queue.fill(3)?;
    queue.expect(0..3)?;
    side.step("look into the port");
    let packet = port.get(Some(bench.limits().quiet));
    let user = packet.map(|packet| packet.user);
    side.equal("packets without a request", user, None)?;
    Ok(Pass::Right)
}

fn any_ends_solicited(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    let cq = &link.near.queues.initiator;
    let (any, solicited) = (Overlapped::new(), Overlapped::new());
    let started = cq.notify(NotifyType::Solicited, &solicited);
    bench.near.begun("notify (solicited)", started)?;
    let started = cq.notify(NotifyType::Any, &any);
    bench.near.begun("notify (any)", started)?;
    link.far.receive(1, &[into.sge(..)])?;
    link.near.send(2, &[from.sge(..)], OpFlags::empty())?;
    for (what, overlapped) in [("Notify (any)", &any), ("Notify (solicited)", &solicited)] {
        let status = bench.near.end_of(what, overlapped)?;
        bench.near.status(what, status, Status::SUCCESS)?;
    }
    link.near.succeeds(RequestType::Send)?;
    Ok(Pass::Right)
}

fn counts(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 16)?;
    queue.fill(7)?;
    bench.step("wait until all results are queued");
    let overlapped = queue.notify(NotifyType::Any)?;
    queue.ends("the Notify", &overlapped, Status::SUCCESS)?;
    bench.step("take the results in pieces");
    let mut contexts = Vec::new();
    let mut pieces = Vec::new();
    let mut batch = [CompletionResult::default(); 3];
    bench.near.until(|| {
        let count = queue.cq.get_results(&mut batch);
        if count > 0 {
            pieces.push(count);
        }
        contexts.extend(
            batch[..count.min(3)]
                .iter()
                .map(|result| result.request_context),
        );
        contexts.len() >= 7
    })?;
    bench
        .near
        .equal("the order of the results", contexts, (0..7).collect())?;
    let shown = format!("{pieces:?}");
    ensure(pieces.iter().all(|count| *count <= 3), "3 at most", shown)?;
    let count = queue.cq.get_results(&mut batch);
    bench.near.equal("results of the empty queue", count, 0)?;
    let count = queue.cq.get_results(&mut []);
    bench.near.equal("results without room for one", count, 0)?;
    Ok(Pass::Right)
}

fn contexts(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    let wanted = [0, u64::MAX, 1, 1 << 63, 0xFFFF_FFFF, 0];
    for context in wanted {
        bench
            .near
            .expect("post a Receive", queue.qp.receive(context, &[]))?;
    }
    bench.near.expect("flush", queue.qp.flush())?;
    let results = bench
        .near
        .results("the Receives", &queue.cq, wanted.len())?;
    let got: Vec<u64> = results
        .iter()
        .map(|result| result.request_context)
        .collect();
    bench.near.equal("the contexts", got, wanted.to_vec())?;
    Ok(Pass::Right)
}

fn order(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (from, into) = (source(&bench.near, 4096)?, sink(&bench.near, 4096)?);
    let (there, to) = (shared(&bench.far, 4096)?, sink(&bench.far, 4096)?);
    for context in 0..4 {
        link.far.receive(context, &[to.sge(..)])?;
    }
    let mut wanted = Vec::new();
    for round in 0..4_u64 {
        // A Read takes a round trip, a Write may be done at once: the Write's result waits all the same.
        link.near.read(round * 3, &[into.sge(..)], there.remote())?;
        link.near
            .write(round * 3 + 1, &[from.sge(..64)], there.remote())?;
        link.near
            .send(round * 3 + 2, &[from.sge(..1)], OpFlags::empty())?;
        for (at, kind) in [RequestType::Read, RequestType::Write, RequestType::Send]
            .into_iter()
            .enumerate()
        {
            wanted.push((round * 3 + at as u64, kind));
        }
    }
    let initiator = &link.near.queues.initiator;
    let results = bench.near.successes("12 requests", initiator, 12)?;
    let got: Vec<_> = results
        .iter()
        .map(|result| (result.request_context, result.request_type))
        .collect();
    bench.near.equal("the order of the results", got, wanted)?;
    let receives = &link.far.queues.receives;
    let results = bench.far.successes("4 Receives", receives, 4)?;
    let got: Vec<u64> = results
        .iter()
        .map(|result| result.request_context)
        .collect();
    bench
        .far
        .equal("the order of the Receives", got, (0..4).collect())?;
    Ok(Pass::Right)
}

fn released_queue_pair(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    queue.fill(3)?;
    let Queue { cq, qp, side } = queue;
    bench.step("release the queue pair");
    drop(qp);
    let results = side.results("the Receives of a released queue pair", &cq, 3)?;
    for (context, result) in (0..3).zip(results) {
        let got = (result.request_context, result.request_type, result.status);
        let wanted = (context, RequestType::Receive, Status::CANCELED);
        side.equal("the result", got, wanted)?;
    }
    Ok(Pass::Right)
}

fn silent_success(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (from, to) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    for context in 0..6 {
        link.far.receive(context, &[to.sge(..)])?;
    }
    for context in 0..6 {
        let silent = context % 2 == 0;
        let flags = if silent {
            OpFlags::SILENT_SUCCESS
        } else {
            OpFlags::empty()
        };
        link.near.send(context, &[from.sge(..)], flags)?;
    }
    let receives = &link.far.queues.receives;
    bench.far.successes("6 Receives", receives, 6)?;
    bench
        .far
        .equal("the message", to.octets(0, 64), pattern(64))?;
    let initiator = &link.near.queues.initiator;
    let results = bench.near.successes("3 Sends", initiator, 3)?;
    let mut got: Vec<u64> = results
        .iter()
        .map(|result| result.request_context)
        .collect();
    got.sort_unstable();
    bench.near.equal("the contexts", got, vec![1, 3, 5])?;
    // A silent request that fails has a result.
    link.far.disconnect()?;
    expect_end(&link.near)?;
    let flags = OpFlags::SILENT_SUCCESS;
    link.near.send(9, &[from.sge(..)], flags)?;
    let result = link.near.initiated("a silent Send that fails")?;
    let got = (result.request_context, result.status);
    bench.near.equal("the result", got, (9, Status::CANCELED))?;
    Ok(Pass::Right)
}
