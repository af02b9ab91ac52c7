use std::sync::atomic::AtomicBool;
use std::thread;

use super::super::test_entry::{Taken, TestEntry, sample};
use super::*;

fn queue(depth: u32) -> RemovableQueue<TestEntry, ()> {
    RemovableQueue::new(depth).unwrap()
}

fn place(queue: &RemovableQueue<TestEntry, ()>, numbers: std::ops::Range<u64>) {
    let placed = queue.place(numbers.map(sample), |_, _| {}, |_| {});
    assert!(placed.is_none());
    assert!(!queue.is_broken());
}

fn take(queue: &RemovableQueue<TestEntry, ()>, most: usize) -> Vec<u64> {
    let mut results = [Taken::default(); 16];
    let taken = queue.take(&mut results[..most]);
    results[..taken].iter().map(|one| one.number).collect()
}

fn remove(queue: &RemovableQueue<TestEntry, ()>, is_removed: impl Fn(u64) -> bool) -> Vec<u64> {
    queue.remove(|result| is_removed(result.number))
}

#[test]
fn what_was_removed_leaves_room_and_the_rest_stays_in_order() {
    let queue = queue(8);
    place(&queue, 0..8);
    assert_eq!(remove(&queue, |number| number % 2 == 1), [1, 3, 5, 7]);
    assert_eq!(queue.taken(), 0, "nobody has the others");
    place(&queue, 8..12);
    assert_eq!(take(&queue, 3), [0, 2, 4]);
    assert_eq!(queue.taken(), 6);
    assert_eq!(queue.resize(4), Err(CannotResize::TooMany));
    queue.resize(5).unwrap();
    // From both places.
    assert_eq!(take(&queue, 3), [6, 8, 9]);
    assert_eq!(queue.taken(), 10);
    assert_eq!(remove(&queue, |_| true), [10, 11]);
    assert_eq!(queue.taken(), 12);
    assert_eq!(take(&queue, 16), []);
    place(&queue, 12..17);
    assert_eq!(take(&queue, 16), [12, 13, 14, 15, 16]);
}

/// What a removal set aside is still in the queue, and satisfies a request as before.
#[test]
fn results_that_were_set_aside_satisfy_a_request() {
    let queue = queue(4);
    place(&queue, 0..2);
    assert_eq!(remove(&queue, |number| number == 0), [0]);
    let notify = || queue.notify(NotifyOn::Any, (), |_| {}).is_some();
    assert!(notify());
    assert!(!notify(), "it has ended one");
    assert_eq!(take(&queue, 4), [1]);
}

#[test]
fn removals_again_and_again_need_no_more_room() {
    let queue = queue(4);
    place(&queue, 0..1);
    for round in 0..1000 {
        let first = 1 + 3 * round;
        place(&queue, first..first + 3);
        assert_eq!(remove(&queue, |number| number != 0).len(), 3);
    }
    assert_eq!(queue.taken(), 0);
    assert_eq!(take(&queue, 16), [0]);
    assert_eq!(queue.taken(), 3001);
}

/// Takers see the results that are not removed once, and each of them in order, while another thread places and removes.
#[test]
fn takers_see_the_order_while_others_are_removed() {
    const ALL: u64 = 30_000;
    let (queue, done) = (queue(64), AtomicBool::new(false));
    let mut seen: Vec<u64> = thread::scope(|threads| {
        let takers: Vec<_> = (0..3)
            .map(|_| {
                threads.spawn(|| {
                    let mut seen = Vec::new();
                    loop {
                        let is_last = done.load(Ordering::SeqCst);
                        let taken = take(&queue, 4);
                        if taken.is_empty() && is_last {
                            return seen;
                        }
                        seen.extend(taken);
                    }
                })
            })
            .collect();
        let mut number = 0;
        while number < ALL {
            // Every third result is removed, so the others have left when there is room again.
            let row = number..number + 1 + number % 5;
            while queue.taken() + 32 < number {
                thread::yield_now();
            }
            number = row.end;
            place(&queue, row);
            if number % 4 == 0 {
                remove(&queue, |number| number % 3 == 0);
            }
        }
        remove(&queue, |number| number % 3 == 0);
        done.store(true, Ordering::SeqCst);
        let seen = takers.into_iter().map(|taker| taker.join().unwrap());
        let seen = seen.inspect(|seen: &Vec<u64>| assert!(seen.is_sorted(), "out of order"));
        seen.flatten().collect()
    });
    seen.sort_unstable();
    let others: Vec<u64> = seen.into_iter().filter(|number| number % 3 != 0).collect();
    assert!(others.windows(2).all(|two| two[0] < two[1]), "twice");
    assert_eq!(
        others.len() as u64,
        (0..*others.last().unwrap() + 1)
            .filter(|number| number % 3 != 0)
            .count() as u64
    );
}
