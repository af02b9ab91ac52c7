//! The ring under every interleaving that loom's memory model allows, up to three preemptions:
//! `RUSTFLAGS="--cfg loom" cargo test -p iwarp-io --lib loom`.
//!
//! One property is beyond loom, in whose models no load sees a store that runs after it: moving `head` releases a taker's copies, and
//! claiming acquires them, so that no copy that counts contains later contents of its slot.

use loom::{sync::Arc, thread};

use super::super::test_entry::{Taken, TestEntry, sample};
use super::*;

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn place(ring: &Ring<TestEntry>, numbers: &[u64]) -> usize {
    let entries = numbers.iter().map(|&number| sample(number));
    ring.place(entries, numbers.len(), |_, _| {})
}

/// Takes at most `most` results, each whole, and returns their numbers.
fn take(ring: &Ring<TestEntry>, most: usize) -> Vec<u64> {
    let mut results = [Taken::default(); 4];
    let taken = ring.take(&mut results[..most]);
    let number = |result: &Taken| {
        let number = result.number;
        assert_eq!(*result, sample(number).taken(), "a mixture of two results");
        number
    };
    results[..taken].iter().map(number).collect()
}

fn numbers_from(all: &[u64], placer: u64) -> Vec<u64> {
    let numbers = all.iter().copied();
    numbers.filter(|number| number / 10 == placer).collect()
}

/// Each placer's results are taken once and in order.
#[test]
fn placers_meet_a_taker() {
    model(|| {
        let ring = Arc::new(Ring::new(4).unwrap());
        let placers = [vec![10, 11], vec![20]].map(|numbers| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert_eq!(place(&ring, &numbers), numbers.len()))
        });
        let mut all = take(&ring, 4);
        for placer in placers {
            placer.join().unwrap();
        }
        all.extend(take(&ring, 4));
        assert_eq!(numbers_from(&all, 1), [10, 11]);
        assert_eq!(numbers_from(&all, 2), [20]);
        assert_eq!(all.len(), 3);
    });
}

/// The results of one call appear together.
#[test]
fn a_row_appears_at_once() {
    model(|| {
        let ring = Arc::new(Ring::new(4).unwrap());
        let placing = Arc::clone(&ring);
        let placer = thread::spawn(move || place(&placing, &[1, 2, 3]));
        let seen = take(&ring, 4);
        assert!(seen.is_empty() || seen == [1, 2, 3], "{seen:?}");
        placer.join().unwrap();
    });
}

/// A slot is used again while a slow taker still looks at it: no result is taken twice, lost or torn.
#[test]
fn takers_meet_a_placer_that_laps_them() {
    model(|| {
        let ring = Arc::new(Ring::new(1).unwrap());
        place(&ring, &[1]);
        let other = Arc::clone(&ring);
        let taker = thread::spawn(move || take(&other, 2));
        let placing = Arc::clone(&ring);
        let placer = thread::spawn(move || place(&placing, &[2]));
        let mut all = take(&ring, 2);
        all.extend(taker.join().unwrap());
        let placed = placer.join().unwrap();
        all.extend(take(&ring, 2));
        all.sort_unstable();
        assert_eq!(all, [1, 2][..1 + placed]);
    });
}

/// The ring continues in a longer array while a placer and a taker use it; no result is lost and the order is kept.
#[test]
fn growing_meets_a_placer_and_a_taker() {
    model(|| {
        let ring = Arc::new(Ring::new(1).unwrap());
        place(&ring, &[1]);
        let placing = Arc::clone(&ring);
        let placer = thread::spawn(move || place(&placing, &[2, 3]));
        let growing = Arc::clone(&ring);
        let grower = thread::spawn(move || growing.resize(4, 0).unwrap());
        let mut all = take(&ring, 4);
        let placed = placer.join().unwrap();
        grower.join().unwrap();
        all.extend(take(&ring, 4));
        assert_eq!(all, [1, 2, 3][..1 + placed]);
        assert_eq!(place(&ring, &[4, 5, 6, 7, 8]), 4);
        assert_eq!(take(&ring, 4), [4, 5, 6, 7]);
    });
}

/// Two placers find the first array full, and a taker takes meanwhile: one of them continues in a longer array, each row appears at once,
/// and nothing is lost.
#[test]
fn two_placers_find_the_array_full() {
    model(|| {
        let ring = Arc::new(Ring::new(8).unwrap());
        assert_eq!(place(&ring, &[1, 2, 3]), 3);
        let placers = [vec![10, 11], vec![20, 21]].map(|numbers| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert_eq!(place(&ring, &numbers), numbers.len()))
        });
        let mut all = take(&ring, 4);
        for placer in placers {
            placer.join().unwrap();
        }
        all.extend(take(&ring, 4));
        all.extend(take(&ring, 4));
        assert_eq!(numbers_from(&all, 0), [1, 2, 3]);
        assert_eq!(numbers_from(&all, 1), [10, 11]);
        assert_eq!(numbers_from(&all, 2), [20, 21]);
        assert_eq!(all.len(), 7);
    });
}
