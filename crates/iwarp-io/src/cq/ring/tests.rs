use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;

use super::super::test_entry::{Taken, TestEntry, sample};
use super::*;

fn place(ring: &Ring<TestEntry>, numbers: std::ops::Range<u64>) -> usize {
    let wanted = numbers.clone().count();
    ring.place(numbers.map(sample), wanted, |_, _| {})
}

/// Takes at most `most` results, each whole, and returns their numbers.
fn take(ring: &Ring<TestEntry>, most: usize) -> Vec<u64> {
    let mut results = vec![Taken::default(); most];
    let taken = ring.take(&mut results);
    let number = |result: &Taken| {
        let number = result.number;
        assert_eq!(*result, sample(number).taken(), "a mixture of two results");
        number
    };
    results[..taken].iter().map(number).collect()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Place(u64),
    Take(usize),
    Resize(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u64..20).prop_map(Step::Place),
        3 => (0usize..20).prop_map(Step::Take),
        1 => (1u32..40).prop_map(Step::Resize),
    ]
}

proptest! {
    /// The ring is a bounded queue: its depth is exact, and results come out once and in order.
    #[test]
    fn ring_is_a_bounded_queue(depth in 1u32..40, steps in prop::collection::vec(step(), 1..200)) {
        let ring = Ring::new(depth).unwrap();
        let (mut depth, mut next, mut queue) = (depth as usize, 0, VecDeque::new());
        for step in steps {
            match step {
                Step::Place(count) => {
                    let placed = place(&ring, next..next + count);
                    prop_assert_eq!(placed as u64, count.min((depth - queue.len()) as u64));
                    queue.extend(next..next + placed as u64);
                    next += count;
                }
                Step::Take(most) => {
                    let expected: Vec<u64> = queue.drain(..most.min(queue.len())).collect();
                    prop_assert_eq!(take(&ring, most), expected);
                }
                Step::Resize(to) => {
                    let fits = queue.len() <= to as usize;
                    prop_assert_eq!(ring.resize(to, 0).is_ok(), fits);
                    if fits {
                        depth = to as usize;
                    }
                }
            }
            let end = ring.taken() + queue.len() as u64;
            prop_assert_eq!(ring.published(0), end);
            prop_assert_eq!(ring.published(end), end);
        }
    }
}

/// The depth is exactly as requested, although the arrays are longer and are kept.
#[test]
fn depth_is_exact_after_growing_and_shrinking() {
    let ring = Ring::new(5).unwrap();
    assert_eq!(place(&ring, 0..8), 5);
    assert_eq!(ring.resize(4, 0), Err(CannotResize::TooMany));
    ring.resize(1000, 0).unwrap();
    assert_eq!(place(&ring, 5..1010), 995);
    assert_eq!(ring.resize(999, 0), Err(CannotResize::TooMany));
    assert_eq!(take(&ring, 997), Vec::from_iter(0..997));
    ring.resize(3, 0).unwrap();
    assert_eq!(place(&ring, 1000..1001), 0);
    assert_eq!(take(&ring, 10), [997, 998, 999]);
    assert_eq!(place(&ring, 1000..1010), 3);
    ring.resize(GREATEST_DEPTH, 0).unwrap();
    assert_eq!(place(&ring, 1003..1004), 1);
    assert_eq!(take(&ring, 10), [1000, 1001, 1002, 1003]);
}

/// A deep queue has memory for the results that have waited at once, and not for its depth.
#[test]
fn memory_follows_the_results_that_wait() {
    let slots = |ring: &Ring<TestEntry>| -> usize {
        let arrays = ring.arrays.iter().filter_map(OnceLock::get);
        arrays.map(|array| array.slots.len()).sum()
    };
    let ring = Ring::new(GREATEST_DEPTH).unwrap();
    assert_eq!(slots(&ring), 1 << FIRST);
    for round in 0..100 {
        assert_eq!(place(&ring, round * 4..(round + 1) * 4), 4);
        assert_eq!(take(&ring, 4).len(), 4);
    }
    assert_eq!(slots(&ring), 1 << FIRST);
    assert_eq!(place(&ring, 0..1000), 1000);
    assert_eq!(slots(&ring), (1 << FIRST) + 1024);
    ring.resize(2000, 0).unwrap();
    assert_eq!(place(&ring, 1000..3000), 1000);
    assert_eq!(slots(&ring), (1 << FIRST) + 1024 + 2048);
    assert_eq!(take(&ring, 2000), Vec::from_iter(0..2000));
}

const EACH: u64 = if cfg!(debug_assertions) {
    20_000
} else {
    200_000
};
const THREADS: u64 = 2;

/// Places all numbers of one thread, in runs of changing length.
fn place_all(ring: &Ring<TestEntry>, thread: u64) {
    let (mut next, end) = (thread * EACH, (thread + 1) * EACH);
    while next < end {
        let row = (1 + next % 7).min(end - next);
        match place(ring, next..next + row) {
            0 => thread::yield_now(),
            placed => next += placed as u64,
        }
    }
}

/// Takes until all threads together have taken everything.
fn take_all(ring: &Ring<TestEntry>, count: &AtomicU64) -> Vec<u64> {
    let mut mine = Vec::new();
    while count.load(Ordering::Relaxed) < THREADS * EACH {
        let taken = take(ring, 1 + mine.len() % 9);
        if taken.is_empty() {
            thread::yield_now();
        }
        count.fetch_add(taken.len() as u64, Ordering::Relaxed);
        mine.extend(taken);
    }
    mine
}

/// Placers, takers and a client that changes the depth all the time. Every result is taken once, and each taker finds the results of one
/// placer in order.
#[test]
fn threads_lose_and_reorder_nothing_while_the_depth_changes() {
    let ring = Ring::new(2).unwrap();
    let (count, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let taken = thread::scope(|scope| {
        let (ring, count, over) = (&ring, &count, &over);
        for placer in 0..THREADS {
            scope.spawn(move || place_all(ring, placer));
        }
        scope.spawn(move || {
            let depths = [1, 3, 8, 2, 30, 5, 64, 7, 200, 16, 1];
            for depth in depths.into_iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let _ = ring.resize(depth, 0);
                thread::yield_now();
            }
        });
        let takers: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(move || take_all(ring, count)))
            .collect();
        let taken: Vec<_> = takers
            .into_iter()
            .map(|taker| taker.join().unwrap())
            .collect();
        over.store(true, Ordering::Relaxed);
        taken
    });
    for mine in &taken {
        for placer in 0..THREADS {
            let numbers = mine.iter().filter(|number| *number / EACH == placer);
            assert!(numbers.is_sorted());
        }
    }
    let mut all = taken.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..THREADS * EACH));
}
