//! `IND2CompletionQueue` in use: notifications, depth and overflow while results arrive.

use std::cell::Cell;

use conform_report::{Pass, Step, Stop, Verdict, ensure, fail};
use netdirect::{
    AdapterFlags, Affinity, CompletionResult, NotifyType, OpFlags, Overlapped, QueuePairOptions,
    Status,
};

use super::common::{at_once, exchange, expect_end, sink, source};
use super::completion::Queue;
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::{LinkOptions, Queues};
use crate::need::Need;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::CompletionQueue, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "AMB-037.left",
        "takes two of three results, the third of which has ended no Notify: the next Notify ends for it",
        left_over,
    ),
    new_check(
        "IW-041.overflow",
        "overflows the completion queue of a connected queue pair: the connection ends",
        overflow_ends_connection,
    )
    .needs(&[Need::Connections]),
    new_check(
        "IW-042.traffic",
        "changes the depth of a completion queue while Sends complete, and finds the result of each in its order",
        resized_under_traffic,
    )
    .needs(&[Need::Connections, Need::Resize]),
    new_check(
        "IW-043.wish",
        "wishes for processors, also for some of a group that no machine has: Notify works, and GetNotifyAffinity tells others than these",
        wish,
    ),
    new_check(
        "INFO-024.beside",
        "leaves results in one completion queue, and exchanges messages over two others at the same time",
        beside,
    )
    .needs(&[Need::Connections]),
    new_check(
        "TST-016.pattern",
        "looks, calls Notify, waits and looks again, with the message sent before, between and behind these: none is missed",
        look_notify_wait_look,
    )
    .needs(&[Need::Connections]),
];

fn left_over(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 8)?;
    queue.fill(2)?;
    let first = queue.notify(NotifyType::Any)?;
    queue.ends("a Notify behind two results", &first, Status::SUCCESS)?;
    queue.fill_from(2, 1)?;
    queue.expect(0..2)?;
    let second = queue.notify(NotifyType::Any)?;
    queue.ends("a Notify for the third", &second, Status::SUCCESS)?;
    queue.expect(2..3)?;
    // Whether a result that was taken already ends a Notify is the provider's choice; the next one ends it.
    queue.fill_from(3, 1)?;
    queue.expect(3..4)?;
    let third = queue.notify(NotifyType::Any)?;
    queue.fill_from(4, 1)?;
    queue.ends("a Notify of an emptied queue", &third, Status::SUCCESS)?;
    queue.expect(4..5)?;
    Ok(Pass::Right)
}

fn overflow_ends_connection(bench: &Bench) -> Verdict {
    let queue = Queue::new(&bench.near, 2)?;
    let options = QueuePairOptions::default();
    let connected = Queues {
        qp: bench.near.qp(&queue.cq, &queue.cq, options)?,
        receives: queue.cq.clone(),
        initiator: queue.cq.clone(),
    };
    let far = bench.far.queues(64, options)?;
    let link = bench.join(connected, far, LinkOptions::default().limits)?;
    queue.overflow()?;
    expect_end(&link.far)?;
    let later = queue.notify(NotifyType::Any)?;
    queue.ends("a later Notify", &later, Status::BUFFER_OVERFLOW)?;
    Ok(Pass::Right)
}

fn resized_under_traffic(bench: &Bench) -> Verdict {
    const ROUNDS: u64 = 12;
    const SENDS: u64 = 4;
    // Each Send needs a slot until its result is taken, and most results are taken at the end (QP-028). The least depth of the completion
    // queue has room for all.
    let link = bench.link_with(LinkOptions {
        near: QueuePairOptions::default().initiator_queue_depth(48),
        ..LinkOptions::default()
    })?;
    let (from, to) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    let cq = &link.near.queues.initiator;
    let mut contexts = Vec::new();
    let mut batch = [CompletionResult::default(); 3];
    let mut take = |contexts: &mut Vec<u64>| {
        let count = cq.get_results(&mut batch);
        let taken = batch.iter().take(count);
        contexts.extend(taken.map(|result| result.request_context));
    };
    for round in 0..ROUNDS {
        for at in 0..SENDS {
            link.far.receive(round * SENDS + at, &[to.sge(..)])?;
        }
        for at in 0..SENDS {
            link.near
                .send(round * SENDS + at, &[from.sge(..)], OpFlags::empty())?;
        }
        for depth in [48, 64, 56] {
            let resized = cq.resize(depth);
            bench
                .near
                .expect(format_args!("resize to {depth}"), resized)?;
            bench.near.pass();
        }
        link.far
            .side
            .successes("the messages", &link.far.queues.receives, 4)?;
        take(&mut contexts);
    }
    bench.step("take the other results");
    let all = ROUNDS * SENDS;
    bench.near.until(|| {
        take(&mut contexts);
        contexts.len() as u64 >= all
    })?;
    bench
        .near
        .equal("the results of the Sends", contexts, (0..all).collect())?;
    Ok(Pass::Right)
}

fn wish(bench: &Bench) -> Verdict {
    /// No machine has this many groups of processors.
    const NOWHERE: u16 = u16::MAX;
    let side = &bench.near;
    for (group, mask) in [(0, 0), (0, 1), (0, u64::MAX), (NOWHERE, 1 << 63)] {
        let wish = Affinity { group, mask };
        let made = side.adapter.create_completion_queue(&side.file, 8, wish);
        let made = side.expect(format_args!("create a completion queue for {wish:?}"), made)?;
        let queue = Queue::with_cq(side, made)?;
        let notify = queue.notify(NotifyType::Any)?;
        queue.fill(1)?;
        queue.ends("a Notify", &notify, Status::SUCCESS)?;
        queue.expect(0..1)?;
        side.step("ask for the affinity");
        match queue.cq.get_notify_affinity() {
            Ok(affinity) => {
                let seen = format!("{affinity:?} for {wish:?}");
                let exist = affinity.mask != 0 && affinity.group != NOWHERE;
                ensure(exist, "processors that can make notifications", seen)?;
            }
            Err(error) if error.status() == Status::NOT_SUPPORTED => {}
            Err(error) => {
                let wanted = "processors, or ND_NOT_SUPPORTED";
                return Err(fail(wanted, error.to_string()));
            }
        }
    }
    Ok(Pass::Right)
}

fn beside(bench: &Bench) -> Verdict {
    const LEFT: u64 = 40;
    let flag = AdapterFlags::MULTI_ENGINE_SUPPORTED;
    if !bench.near.info.flags.contains(flag) {
        let lacking = "the adapter lacks the flag MULTI_ENGINE_SUPPORTED";
        return Err(Stop::Skip(lacking.to_owned()));
    }
    let left = Queue::new(&bench.near, 64)?;
    left.fill(LEFT)?;
    let links = [bench.link()?, bench.link()?];
    let work = |link: &crate::link::Link<'_>| (0..20).try_for_each(|_| exchange(link));
    if bench.near.file.simulation().is_some() {
        links.iter().try_for_each(work)?;
    } else {
        let [one, other] = &links;
        let done = at_once(2, |thread| work(if thread == 0 { one } else { other }));
        done.into_iter().collect::<Result<(), Stop>>()?;
    }
    left.expect(0..LEFT)?;
    Ok(Pass::Right)
}

fn look_notify_wait_look(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (from, to) = (source(&bench.far, 64)?, sink(&bench.near, 64)?);
    let cq = &link.near.queues.receives;
    let mut found = [CompletionResult::default(); 1];
    for round in 0..24 {
        let unsent = Cell::new(true);
        let send = |moment: u64| {
            if moment == round % 3 && unsent.take() {
                link.far.send(round, &[from.sge(..)], OpFlags::empty())?;
            }
            Step::Ok(())
        };
        link.near.receive(round, &[to.sge(..)])?;
        send(0)?;
        bench.near.step("look into the queue");
        let mut count = cq.get_results(&mut found);
        while count == 0 {
            send(1)?;
            let overlapped = Overlapped::new().without_port();
            let started = cq.notify(NotifyType::Any, &overlapped);
            bench.near.begun("notify", started)?;
            send(2)?;
            // The status of the Notify does not matter.
            bench.near.end_of("the Notify", &overlapped)?;
            bench.near.step("look again");
            count = cq.get_results(&mut found);
        }
        let [result] = found;
        let got = (result.request_context, result.status);
        bench
            .near
            .equal("the message", got, (round, Status::SUCCESS))?;
        link.far.succeeds(netdirect::RequestType::Send)?;
    }
    Ok(Pass::Right)
}
