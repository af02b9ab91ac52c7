//! Once a queue pair has warmed up, requests allocate nothing: not in the caller's thread, which is where polling and
//! posting do all their work.

mod common;

use std::sync::Barrier;
use std::time::Duration;

use common::{ALL, Pair, pair_with};
use netdirect::{CompletionResult, OpFlags, Status};
use parking_lot::{Condvar, Mutex};
use softnd::Options;

/// More threads than this process will have.
const THREADS: usize = 16;
/// Read in place when it is sent.
const LEN: usize = 16 * 1024;

/// One round: every kind of request, several in a row, with results taken by polling both sides.
fn round(pair: &Pair, here: &common::Region, there: &common::Region) {
    for _ in 0..8 {
        pair.passive_qp.receive(1, &[there.sge(0, LEN)]).unwrap();
    }
    for at in 0..8 {
        let length = if at % 2 == 0 { 64 } else { LEN };
        pair.active_qp
            .send(2, &[here.sge(0, length)], OpFlags::empty())
            .unwrap();
    }
    pair.active_qp
        .send_inline(3, &[b"in"], OpFlags::empty())
        .unwrap();
    pair.active_qp
        .write(4, &[here.sge(0, LEN)], there.remote(0), OpFlags::empty())
        .unwrap();
    pair.passive_qp.receive(1, &[there.sge(0, LEN)]).unwrap();
    pair.active_qp
        .read(5, &[here.sge(0, LEN)], there.remote(0), OpFlags::empty())
        .unwrap();
    let (mut active, mut passive) = (0, 0);
    let mut results = [CompletionResult::default(); 16];
    while active < 11 || passive < 9 {
        for (side, count) in [(&pair.active, &mut active), (&pair.passive, &mut passive)] {
            let taken = side.cq.get_results(&mut results);
            let good = results[..taken]
                .iter()
                .all(|result| result.status == Status::SUCCESS);
            assert!(good, "{:?}", &results[..taken]);
            *count += taken;
        }
    }
}

/// The lock library sets its table of sleepers up when threads meet in a lock for the first time, once in a process. The scheduler
/// determines if that happens during the measurement, so it has to happen before.
fn set_up_sleeping() {
    let (lock, never, together) = (Mutex::new(()), Condvar::new(), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                together.wait();
                let mut guard = lock.lock();
                let _ = never.wait_for(&mut guard, Duration::from_nanos(1));
                drop(guard);
                together.wait();
            });
        }
    });
    let _ = never.wait_for(&mut lock.lock(), Duration::from_nanos(1));
}

#[test]
fn warm_requests_allocate_nothing() {
    set_up_sleeping();
    for crc in [false, true] {
        let pair = pair_with(Options::default().crc(crc), Options::default().crc(crc));
        let (here, there) = (pair.active.region(LEN, ALL), pair.passive.region(LEN, ALL));
        for _ in 0..50 {
            round(&pair, &here, &there);
        }
        let counted = allocation_counter::measure(|| {
            for _ in 0..50 {
                round(&pair, &here, &there);
            }
        });
        assert_eq!(counted.count_total, 0, "{counted:?} with CRC {crc}");
    }
}
