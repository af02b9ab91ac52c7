//! Who drives a stream changes all the time: polls, waits and the background thread take over from each other while
//! completion queues and connections come and go. Nothing may fail or be left behind by that.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Side, connect};
use netdirect::{Affinity, CompletionResult, OpFlags};

/// A side with a completion queue of its own, on the adapter and the file of another one.
fn queue_of_its_own(side: &Side) -> Result<Side, netdirect::Error> {
    let cq = side
        .adapter
        .create_completion_queue(&side.file, 16, Affinity::default())?;
    Ok(Side { cq, ..side.clone() })
}

/// Sends in a row, so that requests are held back for a poll, and polls until both sides have seen all of it.
fn exchange(pair: &common::Pair, sends: usize) {
    let ends = [&pair.active, &pair.passive];
    for _ in 0..sends {
        pair.passive_qp.receive(0, &[]).unwrap();
    }
    for _ in 0..sends {
        pair.active_qp.send(0, &[], OpFlags::empty()).unwrap();
    }
    let mut results = [CompletionResult::default(); 16];
    let mut left = [sends, sends];
    while left != [0, 0] {
        for (end, left) in ends.iter().zip(&mut left) {
            *left -= end.cq.get_results(&mut results);
        }
    }
}

#[test]
fn completion_queues_come_and_go_under_load() {
    const CONNECTING: usize = 4;
    const CREATING: usize = 4;
    const ROUNDS: usize = 400;
    let (active, passive) = (Side::new(), Side::new());
    let connecting = AtomicUsize::new(CONNECTING);
    let (made, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let make = |side: &Side| {
        made.fetch_add(1, Ordering::Relaxed);
        queue_of_its_own(side)
            .inspect_err(|error| {
                eprintln!("{error}");
                failed.fetch_add(1, Ordering::Relaxed);
            })
            .ok()
    };
    std::thread::scope(|scope| {
        for _ in 0..CONNECTING {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    if let (Some(active), Some(passive)) = (make(&active), make(&passive)) {
                        exchange(&connect(active, passive, 1), 8);
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
    println!("{made:?} completion queues");
    assert_eq!(
        failed.into_inner(),
        0,
        "completion queues that could not be made"
    );
}

/// Takes so many results of a side, by waiting for each.
fn await_results(side: &Side, count: usize) {
    side.results(count);
}

/// Two connections on one pair of completion queues: the first ends while the second one still has traffic.
fn two_connections(active: &Side, passive: &Side, seed: usize) {
    let first = connect(active.clone(), passive.clone(), 1);
    let second = connect(active.clone(), passive.clone(), 1);
    let told = netdirect::Overlapped::new();
    let _ = first.passive_connector.notify_disconnect(&told).unwrap();
    for pair in [&first, &second] {
        pair.passive_qp.receive(0, &[]).unwrap();
        pair.active_qp.send(0, &[], OpFlags::empty()).unwrap();
        await_results(passive, 1);
        await_results(active, 1);
    }
    let ended = netdirect::Overlapped::new();
    let _ = first.active_connector.disconnect(&ended).unwrap();
    if seed.is_multiple_of(2) {
        assert!(told.wait_timeout(common::LONG).is_some(), "told of the end");
    }
    second.passive_qp.receive(0, &[]).unwrap();
    second.passive_qp.receive(0, &[]).unwrap();
    second.active_qp.send(0, &[], OpFlags::empty()).unwrap();
    await_results(passive, 1);
    second.active_qp.send(0, &[], OpFlags::empty()).unwrap();
    await_results(passive, 1);
    await_results(active, 2);
    assert!(told.wait_timeout(common::LONG).is_some(), "told of the end");
    common::run(|o| first.passive_connector.disconnect(o)).unwrap();
    assert!(ended.wait_timeout(common::LONG).is_some(), "disconnected");
    let told = netdirect::Overlapped::new();
    let _ = second.passive_connector.notify_disconnect(&told).unwrap();
    drop(second.active_qp);
    drop(second.active_connector);
    assert!(
        told.wait_timeout(common::LONG).is_some(),
        "told of the second end"
    );
}

#[test]
fn waits_end_under_load() {
    const THREADS: usize = 8;
    let rounds: usize = std::env::var("ROUNDS").map_or(100, |r| r.parse().unwrap());
    let (active, passive) = (Side::new(), Side::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (active, passive) = (&active, &passive);
            scope.spawn(move || {
                for round in 0..rounds {
                    let active = queue_of_its_own(active).unwrap();
                    let passive = queue_of_its_own(passive).unwrap();
                    two_connections(&active, &passive, round + thread);
                }
            });
        }
    });
}
