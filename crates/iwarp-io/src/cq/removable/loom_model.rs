//! Takers and a removal under every interleaving that loom's memory model allows, up to three preemptions:
//! `RUSTFLAGS="--cfg loom" cargo test -p iwarp-io --lib loom`.

use loom::{sync::Arc, thread};

use super::super::test_entry::{Taken, TestEntry, sample};
use super::*;

type TestQueue = RemovableQueue<TestEntry, ()>;

fn take(queue: &TestQueue) -> Vec<u64> {
    let mut results = [Taken::default(); 2];
    let taken = queue.take(&mut results);
    results[..taken].iter().map(|one| one.number).collect()
}

/// A thread never sees a result before an older one that it sees later, and no result is lost or seen twice.
#[test]
fn a_taker_meets_a_removal() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let queue = Arc::new(TestQueue::new(4).unwrap());
        let place = |numbers: &[u64]| {
            let entries = numbers.iter().map(|number| sample(*number));
            assert!(queue.place(entries, |_, _| {}, |_| {}).is_none());
        };
        place(&[1, 2]);
        let taking = Arc::clone(&queue);
        let taker = thread::spawn(move || {
            let mut seen = take(&taking);
            seen.extend(take(&taking));
            seen
        });
        let removed = queue.remove(|result| result.number == 1);
        place(&[3]);
        let mut seen = taker.join().unwrap();
        seen.extend(take(&queue));
        seen.extend(take(&queue));
        assert!(seen.is_sorted(), "{seen:?}");
        assert_eq!(seen.len() + removed.len(), 3);
        assert_eq!(queue.taken(), 3);
    });
}
