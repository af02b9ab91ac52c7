use std::cell::Cell;
use std::collections::VecDeque;
use std::thread;

use parking_lot::Condvar;
use proptest::prelude::*;

use super::super::test_entry::{Taken, TestEntry, reason, sample};
use super::*;

/// A model of the queue: plain counters behind one lock. The lock-free queue must behave exactly like it.
struct Plain {
    ring: VecDeque<TestEntry>,
    depth: usize,
    placed: u64,
    solicited: u64,
    fired: u64,
    taken: u64,
    /// With the number of results that were taken before.
    requests: Vec<(NotifyOn, u64, u32)>,
    broken: Option<Reason>,
    ended: Option<Reason>,
}

impl Plain {
    fn place(&mut self, entry: TestEntry) {
        if self.broken.is_some() {
            return;
        }
        if self.ring.len() == self.depth {
            self.broken = Some(TestEntry::OVERFLOW);
            return;
        }
        self.placed += 1;
        if entry.wakes() {
            self.solicited = self.placed;
        }
        self.ring.push_back(entry);
    }

    /// The reason with which all requests end.
    fn over(&self) -> Option<Reason> {
        self.broken.or(self.ended)
    }

    fn fire(&mut self) -> Vec<u32> {
        let meets = |kind, last: u64| {
            let mut requests = self.requests.iter();
            requests
                .any(|(requested, since, _)| *requested == kind && last > self.fired.max(*since))
        };
        let any = meets(NotifyOn::Any, self.placed);
        let solicited = meets(NotifyOn::Solicited, self.solicited);
        let over = self.over().is_some();
        if !over && !any && !solicited {
            return Vec::new();
        }
        self.fired = self.placed;
        let fires = |(kind, ..): &mut (NotifyOn, u64, u32)| over || *kind != NotifyOn::Breakdown;
        let fired = self.requests.extract_if(.., fires);
        fired.map(|(.., request)| request).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Place(u64, u64),
    Take(usize),
    Resize(u32),
    Notify(NotifyOn),
    Cancel,
    Break(Reason),
    End,
}

const BREAKDOWNS: [Reason; 2] = [reason(2), TestEntry::OVERFLOW];
const REMOVED: Reason = reason(3);

fn step() -> impl Strategy<Value = Step> {
    let kinds = [NotifyOn::Any, NotifyOn::Solicited, NotifyOn::Breakdown];
    prop_oneof![
        60 => (0u64..8, 0u64..4).prop_map(|(from, count)| Step::Place(from, count)),
        40 => (0usize..8).prop_map(Step::Take),
        10 => (1u32..20).prop_map(Step::Resize),
        60 => prop::sample::select(kinds.to_vec()).prop_map(Step::Notify),
        10 => Just(Step::Cancel),
        1 => prop::sample::select(BREAKDOWNS.to_vec()).prop_map(Step::Break),
        1 => Just(Step::End),
    ]
}

/// The requests that `notifies` delivers, with the reason, and true if the queue has broken down.
fn parts(notifies: Option<CompletedNotifies<u32>>) -> (Vec<u32>, Option<Reason>, bool) {
    match notifies {
        Some(notifies) => {
            let (reason, broken) = (notifies.reason, notifies.broken);
            (notifies.into_requests().collect(), reason, broken)
        }
        None => (Vec::new(), None, false),
    }
}

proptest! {
    /// The queue behaves like the model for any sequence of calls.
    #[test]
    fn queue_is_one_behind_a_lock(depth in 1u32..20, steps in prop::collection::vec(step(), 1..100)) {
        let queue = Queue::<TestEntry, u32>::new(depth).unwrap();
        let mut plain = Plain {
            ring: VecDeque::new(), depth: depth as usize, placed: 0, solicited: 0, fired: 0, taken: 0,
            requests: Vec::new(), broken: None, ended: None,
        };
        let waits = Cell::new(false);
        let interest = |now: bool| assert_ne!(waits.replace(now), now, "told twice");
        let mut serial = 0;
        for step in steps {
            match step {
                Step::Place(from, count) => {
                    let was_broken = plain.broken.is_some();
                    let entries = (from..from + count).map(sample);
                    entries.clone().for_each(|entry| plain.place(entry));
                    let (requests, reason, broke) = parts(queue.place(entries, |_, _| {}, interest));
                    prop_assert_eq!(broke, plain.broken.is_some() && !was_broken);
                    prop_assert_eq!(&requests, &plain.fire());
                    if plain.over().is_some() && !requests.is_empty() {
                        prop_assert_eq!(reason, plain.over());
                    }
                }
                Step::Take(most) => {
                    let mut results = [Taken::default(); 8];
                    let taken = queue.take(&mut results[..most]);
                    let count = most.min(plain.ring.len());
                    let expected: Vec<_> = plain.ring.drain(..count).map(TestEntry::taken).collect();
                    plain.taken += count as u64;
                    prop_assert_eq!(&results[..taken], &expected[..]);
                }
                Step::Resize(to) => {
                    let fits = plain.ring.len() <= to as usize;
                    prop_assert_eq!(queue.resize(to).is_ok(), fits);
                    if fits {
                        plain.depth = to as usize;
                    }
                }
                Step::Notify(kind) => {
                    serial += 1;
                    plain.requests.push((kind, plain.taken, serial));
                    let (requests, reason, broke) = parts(queue.notify(kind, serial, interest));
                    prop_assert_eq!(&requests, &plain.fire());
                    prop_assert!(!broke);
                    prop_assert!(plain.over().is_none() || reason == plain.over());
                }
                Step::Cancel => {
                    let all: Vec<_> = plain.requests.drain(..).map(|(.., request)| request).collect();
                    prop_assert_eq!(queue.cancel(interest), all);
                }
                Step::Break(due) => {
                    let was_broken = plain.broken.is_some();
                    plain.broken = plain.broken.or(Some(due));
                    let (requests, reason, broke) = parts(queue.break_down(due, interest));
                    prop_assert_eq!(broke, !was_broken);
                    if broke {
                        prop_assert_eq!((&requests, reason), (&plain.fire(), Some(due)));
                    } else {
                        prop_assert_eq!(requests, []);
                    }
                }
                Step::End => {
                    plain.ended = Some(REMOVED);
                    let all: Vec<_> = plain.requests.drain(..).map(|(.., request)| request).collect();
                    prop_assert_eq!(queue.end_requests(REMOVED, interest), all);
                }
            }
            prop_assert_eq!(waits.get(), !plain.requests.is_empty());
        }
    }
}

/// While requests wait only for a breakdown, or for a solicited result and none is placed, placers take no lock.
#[test]
fn requests_that_nothing_satisfies_cost_placers_no_lock() {
    let queue = Queue::<TestEntry, u32>::new(8).unwrap();
    assert!(queue.notify(NotifyOn::Breakdown, 1, |_| {}).is_none());
    assert!(queue.notify(NotifyOn::Solicited, 2, |_| {}).is_none());
    let plain = [0, 2];
    let held = queue.waiting.lock();
    let notifies = queue.place(plain.into_iter().map(sample), |_, _| {}, |_| {});
    drop(held);
    assert!(notifies.is_none());
    let notifies = queue.place(std::iter::once(sample(1)), |_, _| {}, |_| {});
    assert_eq!(parts(notifies), (vec![2], None, false));
}

/// A client that waits, drains and waits again gets all results of several placers, without a time-out.
#[test]
fn a_client_that_waits_gets_everything() {
    const EACH: u64 = 3_000;
    const PLACERS: u64 = 3;
    let queue = Queue::<TestEntry, u64>::new(1 << 14).unwrap();
    let (rung, bell) = (parking_lot::Mutex::new(0u64), Condvar::new());
    let ring = |notifies: Option<CompletedNotifies<u64>>| {
        for request in notifies
            .into_iter()
            .flat_map(CompletedNotifies::into_requests)
        {
            *rung.lock() = request;
            bell.notify_all();
        }
    };
    thread::scope(|scope| {
        for placer in 0..PLACERS {
            let (queue, ring) = (&queue, &ring);
            scope.spawn(move || {
                for number in 0..EACH {
                    ring(queue.place(
                        std::iter::once(sample(placer * EACH + number)),
                        |_, _| {},
                        |_| {},
                    ));
                    if number % 64 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
        let mut results = [Taken::default(); 16];
        let mut next = [0, EACH, 2 * EACH];
        let (mut taken, mut request) = (0, 0);
        while taken < PLACERS * EACH {
            let count = queue.take(&mut results);
            for result in &results[..count] {
                let number = result.number;
                assert_eq!(*result, sample(number).taken());
                let expected = &mut next[usize::try_from(number / EACH).unwrap()];
                assert_eq!(number, *expected);
                *expected += 1;
            }
            taken += count as u64;
            if count == 0 && taken < PLACERS * EACH {
                request += 1;
                ring(queue.notify(NotifyOn::Any, request, |_| {}));
                let mut last = rung.lock();
                while *last != request {
                    bell.wait(&mut last);
                }
            }
        }
    });
}
