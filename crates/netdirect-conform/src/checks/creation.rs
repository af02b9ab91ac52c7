//! `IND2Adapter`: sizes that tests ask for, and shortages that some pages leave out.

use conform_report::{Pass, Verdict};
use netdirect::{Affinity, Call, QueuePairOptions, SharedReceiveQueueOptions, Status};

use super::common::{above, shortage};
use super::completion::Queue;
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::need::Need;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Adapter, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "AMB-057.window",
        "has CreateMemoryWindow fail for want of memory, and succeed afterwards",
        |bench| {
            let make = || bench.near.adapter.create_memory_window();
            let statuses = [Status::NO_MEMORY];
            shortage(&bench.near, Call::CreateMemoryWindow, &statuses, make)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults, Need::Windows]),
    new_check(
        "AMB-057.queue-pair",
        "has CreateQueuePair fail for want of memory, and succeed afterwards",
        |bench| {
            let cq = bench.near.cq(8)?;
            let options = QueuePairOptions::default();
            let make = || bench.near.adapter.create_queue_pair(&cq, &cq, options);
            let statuses = [Status::NO_MEMORY];
            shortage(&bench.near, Call::CreateQueuePair, &statuses, make)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults]),
    new_check(
        "AMB-057.shared",
        "has CreateQueuePairWithSrq fail for want of memory, and succeed afterwards",
        |bench| {
            let side = &bench.near;
            let cq = side.cq(8)?;
            let options = SharedReceiveQueueOptions::default();
            let srq = side.adapter.create_shared_receive_queue(&side.file, options);
            let srq = side.expect("create a shared receive queue", srq)?;
            let options = QueuePairOptions::default();
            let make = || side.adapter.create_queue_pair_with_srq(&cq, &cq, &srq, options);
            let statuses = [Status::NO_MEMORY];
            shortage(side, Call::CreateQueuePairWithSrq, &statuses, make)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults, Need::SharedReceiveQueues]),
    new_check(
        "TST-019.two",
        "makes two completion queues of the largest depth, with group 0 and no processors: a result arrives in each",
        two_deepest,
    )
    .also(&["TST-018"]),
    new_check(
        "TST-080.depth",
        "asks for a queue pair with one Receive more than the limit, and for one at the limit with two entries for each request",
        deep_queue_pair,
    ),
];

fn two_deepest(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let depth = side.info.max_completion_queue_depth;
    let anywhere = Affinity { group: 0, mask: 0 };
    let make = || {
        let made = side
            .adapter
            .create_completion_queue(&side.file, depth, anywhere);
        let what = format!("create a completion queue of {depth}");
        Queue::with_cq(side, side.expect(what, made)?)
    };
    let queues = [make()?, make()?];
    for queue in &queues {
        queue.fill(2)?;
    }
    for queue in &queues {
        queue.expect(0..2)?;
    }
    Ok(Pass::Right)
}

fn deep_queue_pair(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let limit = side.info.max_receive_queue_depth;
    let cq = side.cq(2)?;
    let entries = QueuePairOptions::default()
        .max_receive_request_sge(2)
        .max_initiator_request_sge(2);
    let options = entries.receive_queue_depth(above(limit, "MaxReceiveQueueDepth")?);
    let made = side.adapter.create_queue_pair(&cq, &cq, options);
    let wanted = Status::INVALID_PARAMETER_5;
    side.refused("CreateQueuePair, too deep", made, wanted)?;
    let made = side
        .adapter
        .create_queue_pair(&cq, &cq, entries.receive_queue_depth(limit));
    side.expect(
        format_args!("create a queue pair for {limit} Receives of two entries"),
        made,
    )?;
    Ok(Pass::Right)
}
