//! Polls, waits and the background thread take over streams from each other, while completion queues and connections are created and
//! released. No request may fail or be forgotten because of this.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{self, Pair, Side, connect};
use netdirect::{Affinity, CompletionResult, NotifyType, OpFlags, Overlapped, Result, Status};

/// A side with a separate completion queue, on the adapter and the file of another one.
fn queue_of_its_own(side: &Side) -> Result<Side> {
    let cq = side
        .adapter
        .create_completion_queue(&side.file, 64, Affinity::default())?;
    Ok(Side { cq, ..side.clone() })
}

/// Takes `count` results. Makes `polls` polls that find nothing before each wait.
fn take(side: &Side, count: usize, polls: usize) {
    let mut results = [CompletionResult::default(); 16];
    let (mut taken, mut empty) = (0, 0);
    while taken < count {
        let now = side.cq.get_results(&mut results);
        taken += now;
        empty += usize::from(now == 0);
        if taken < count && empty > polls {
            empty = 0;
            let some = Overlapped::new();
            let _ = side.cq.notify(NotifyType::Any, &some).unwrap();
            wait(&some);
        } else if now == 0 {
            // The thread that has the stream may need this core.
            std::thread::yield_now();
        }
    }
    assert_eq!(taken, count);
}

fn wait(overlapped: &Overlapped) {
    assert_eq!(common::wait(overlapped), Status::SUCCESS);
}

/// Sends in a row, so that requests are held back for a poll, and takes all results on both sides.
fn exchange(pair: &Pair, sends: usize, polls: usize) {
    for _ in 0..sends {
        pair.passive_qp.receive(0, &[]).unwrap();
    }
    for _ in 0..sends {
        pair.active_qp.send(0, &[], OpFlags::empty()).unwrap();
    }
    take(&pair.passive, sends, polls);
    take(&pair.active, sends, polls);
}

#[test]
fn completion_queues_can_be_made_while_others_come_and_go() {
    const CONNECTING: usize = 4;
    const CREATING: usize = 4;
    const ROUNDS: usize = 400;
    let (active, passive) = (Side::new(), Side::new());
    let connecting = AtomicUsize::new(CONNECTING);
    let (made, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let make = |side: &Side| {
        made.fetch_add(1, Ordering::Relaxed);
        let queue = queue_of_its_own(side).inspect_err(|error| {
            println!("{error}");
            failed.fetch_add(1, Ordering::Relaxed);
        });
        queue.ok()
    };
    std::thread::scope(|scope| {
        for _ in 0..CONNECTING {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    if let (Some(active), Some(passive)) = (make(&active), make(&passive)) {
                        exchange(&connect(active, passive, 1), 8, usize::MAX);
                    }
                }
                connecting.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for _ in 0..CREATING {
            scope.spawn(|| {
                while connecting.load(Ordering::Relaxed) > 0 {
                    drop((make(&active), make(&passive)));
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 0, "of {made:?} completion queues");
}

/// Two connections on one pair of completion queues: the first one ends while the second one has traffic.
fn one_ends_beside_the_other(active: &Side, passive: &Side, seed: usize) {
    let polls = [0, 3, 300][seed % 3];
    let rows = [1, 10, 60][seed / 3 % 3];
    let [first, second] = [(); 2].map(|()| connect(active.clone(), passive.clone(), 1));
    let notice = Overlapped::new();
    let _ = first.passive_connector.notify_disconnect(&notice).unwrap();
    for _ in 0..rows {
        exchange(&first, 1, polls);
        exchange(&second, 1, polls);
    }
    let ended = Overlapped::new();
    let _ = first.active_connector.disconnect(&ended).unwrap();
    if seed.is_multiple_of(2) {
        wait(&notice);
    }
    exchange(&second, 1, polls);
    exchange(&second, 4, polls);
    wait(&notice);
    common::run(|overlapped| first.passive_connector.disconnect(overlapped)).unwrap();
    wait(&ended);
    let notice = Overlapped::new();
    let _ = second.passive_connector.notify_disconnect(&notice).unwrap();
    drop((second.active_qp, second.active_connector));
    wait(&notice);
}

#[test]
fn every_wait_ends_while_connections_come_and_go() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 72;
    for one_file in [true, false] {
        let (active, passive) = (Side::new(), Side::new());
        let own = |side: &Side| {
            let mut side = side.clone();
            if !one_file {
                side.file = side.adapter.create_overlapped_file().unwrap();
            }
            queue_of_its_own(&side).unwrap()
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (own, active, passive) = (&own, &active, &passive);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        one_ends_beside_the_other(&own(active), &own(passive), thread + round);
                    }
                });
            }
        });
    }
}

/// Two connections use one completion queue. One had traffic, and its connectors now end it. The other one never had traffic, and a
/// thread waits for its first message. Linux tells when that thread sleeps.
#[cfg(target_os = "linux")]
#[test]
fn a_wait_ends_beside_a_connection_that_is_over() {
    let (active, passive) = (Side::new(), Side::new());
    let [over, other] = [(); 2].map(|()| connect(active.clone(), passive.clone(), 1));
    exchange(&over, 4, usize::MAX);
    let ended = Overlapped::new();
    let _ = over.passive_connector.disconnect(&ended).unwrap();
    common::run(|overlapped| over.active_connector.disconnect(overlapped)).unwrap();
    wait(&ended);
    other.passive_qp.receive(0, &[]).unwrap();
    let some = Overlapped::new();
    let _ = passive.cq.notify(NotifyType::Any, &some).unwrap();
    std::thread::scope(|scope| {
        let (says, hears) = crossbeam_channel::unbounded();
        scope.spawn(|| {
            says.send(rustix::thread::gettid()).unwrap();
            drop(says);
            wait(&some);
        });
        let waiting = hears.recv().unwrap();
        // Waits until the thread sleeps. If the thread has ended, or was seen asleep earlier for another reason, the background thread
        // hears of the Send first.
        let stat = format!("/proc/self/task/{}/stat", waiting.as_raw_nonzero());
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") S ")) {
            std::thread::yield_now();
        }
        other.active_qp.send(0, &[], OpFlags::empty()).unwrap();
    });
}
