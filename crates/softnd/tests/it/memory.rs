//! The host has no memory left: calls that need much memory fail with their status, and existing objects continue to work.
#![cfg(target_os = "linux")]

use std::fmt::Debug;

use crate::common::{Side, child, pair, status};
use netdirect::{Affinity, OpFlags, QueuePairOptions, Result, SharedReceiveQueueOptions, Status};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Octets that the process may allocate in addition to its present memory.
const MORE: u64 = 160 << 20;

/// Runs a test in a separate process, whose memory is limited.
fn alone(name: &str, test: fn()) {
    if child::is_alone() {
        return test();
    }
    child::passes(&format!("memory::{name}"), |child| {
        // The allocator returns large blocks to the system, and keeps the memory of small blocks.
        child.env("MALLOC_ARENA_MAX", "1");
        child.env("MALLOC_MMAP_THRESHOLD_", "65536");
        child.env("MALLOC_TRIM_THRESHOLD_", "1073741824");
    });
}

/// Lets the process allocate no more than [`MORE`].
fn limit_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("VmSize:"));
    let kibibytes = size.and_then(|size| size.trim().strip_suffix(" kB"));
    let most = kibibytes.unwrap().parse::<u64>().unwrap() * 1024 + MORE;
    // The allocator keeps the memory of these small blocks for later ones.
    drop((0..1024).map(|_| vec![1_u8; 8192]).collect::<Vec<_>>());
    let (current, maximum) = (Some(most), None);
    setrlimit(Resource::As, Rlimit { current, maximum }).unwrap();
}

/// Makes objects until there is no memory for another one, calls `meanwhile`, and asserts that releasing one object makes room for
/// another.
fn fill<T: Debug>(make: impl Fn() -> Result<T>, expected: Status, meanwhile: impl FnOnce()) {
    let mut made = Vec::with_capacity(1024);
    let shortage = loop {
        match make() {
            Ok(object) => made.push(object),
            Err(error) => break error.status(),
        }
        assert!(made.len() < 1024, "the process has no limit");
    };
    assert_eq!(shortage, expected, "after {}", made.len());
    meanwhile();
    drop(made.pop().expect("there was memory for one"));
    assert_eq!(status(make()), Status::SUCCESS);
}

#[test]
fn adpt_021_adpt_042_adpt_058_adpt_073_cq_011_srq_012_no_memory_for_queues_is_a_status() {
    alone(
        "adpt_021_adpt_042_adpt_058_adpt_073_cq_011_srq_012_no_memory_for_queues_is_a_status",
        || {
            let side = Side::new();
            let info = side.adapter.query().unwrap();
            let connection = pair();
            let (depth, sges) = (info.max_completion_queue_depth, info.max_receive_sge);
            let queue = |depth| {
                let none = Affinity::default();
                side.adapter
                    .create_completion_queue(&side.file, depth, none)
            };
            let shared_queue = |depth| {
                let options = SharedReceiveQueueOptions::default().queue_depth(depth);
                let options = options.max_request_sge(sges);
                side.adapter
                    .create_shared_receive_queue(&side.file, options)
            };
            let options = QueuePairOptions::default()
                .receive_queue_depth(info.max_receive_queue_depth)
                .initiator_queue_depth(info.max_initiator_queue_depth)
                .max_receive_request_sge(sges)
                .max_initiator_request_sge(info.max_initiator_sge)
                .inline_data_size(info.max_inline_data_size);
            let (small, shared) = (queue(4).unwrap(), shared_queue(4).unwrap());
            let shared_depth = info.max_shared_receive_queue_depth;
            limit_memory();

            let short = Status::INSUFFICIENT_RESOURCES;
            let queue_pair = || (side.adapter).create_queue_pair(&side.cq, &side.cq, options);
            fill(queue_pair, short, || {});
            let with_shared = || {
                let (adapter, cq) = (&side.adapter, &side.cq);
                adapter.create_queue_pair_with_srq(cq, cq, &shared, options)
            };
            fill(with_shared, short, || {});
            fill(
                || queue(depth),
                Status::NO_MEMORY,
                || assert_eq!(status(small.resize(depth)), short),
            );
            assert_eq!(status(small.resize(depth)), Status::SUCCESS);
            fill(
                || shared_queue(shared_depth),
                Status::NO_MEMORY,
                || {
                    assert_eq!(status(shared.modify(shared_depth, 0)), short);
                    let post = || status(shared.receive(0, &[]));
                    let posts = [(); 5].map(|()| post());
                    assert_eq!(posts[..4], [Status::SUCCESS; 4]);
                    assert_eq!(posts[4], Status::NO_MORE_ENTRIES, "the depth is as it was");
                },
            );
            assert_eq!(status(shared.modify(shared_depth, 0)), Status::SUCCESS);

            connection.passive_qp.receive(1, &[]).unwrap();
            let qp = &connection.active_qp;
            qp.send(2, &[], OpFlags::empty()).unwrap();
            assert_eq!(connection.passive.result().status, Status::SUCCESS);
        },
    );
}
