//! Results and requests under every interleaving that loom's memory model allows, up to three preemptions:
//! `RUSTFLAGS="--cfg loom" cargo test -p iwarp-io --lib loom`.

use loom::{sync::Arc, thread};

use super::super::test_entry::{Taken, TestEntry, reason, sample};
use super::*;

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// The requests that `notifies` releases, and the reason.
fn released(notifies: Option<CompletedNotifies<u32>>) -> Vec<(u32, Option<Reason>)> {
    let Some(notifies) = notifies else {
        return Vec::new();
    };
    let reason = notifies.reason;
    let requests = notifies.into_requests();
    requests.map(|request| (request, reason)).collect()
}

fn placing(
    queue: &Arc<Queue<TestEntry, u32>>,
    number: u64,
) -> thread::JoinHandle<(Vec<(u32, Option<Reason>)>, bool)> {
    let queue = Arc::clone(queue);
    thread::spawn(move || {
        let notifies = queue.place(std::iter::once(sample(number)), |_, _| {}, |_| {});
        let broken = notifies.as_ref().is_some_and(|notifies| notifies.broken);
        (released(notifies), broken)
    })
}

/// In either order of the request and a result, the request is released exactly once.
#[test]
fn a_request_meets_two_results() {
    model(|| {
        let queue = Arc::new(Queue::<TestEntry, u32>::new(2).unwrap());
        let placers = [0, 2].map(|number| placing(&queue, number));
        let mut all = released(queue.notify(NotifyOn::Any, 1, |_| {}));
        for placer in placers {
            all.extend(placer.join().unwrap().0);
        }
        assert_eq!(all, [(1, None)]);
    });
}

/// A client that drains the queue and makes a new request is not left waiting while a result is in the queue.
#[test]
fn no_result_is_left_beside_a_waiting_request() {
    model(|| {
        let queue = Arc::new(Queue::<TestEntry, u32>::new(2).unwrap());
        let placers = [0, 2].map(|number| placing(&queue, number));
        let mut results = [Taken::default(); 4];
        let mut taken = 0;
        if queue.notify(NotifyOn::Any, 1, |_| {}).is_some() {
            taken += queue.take(&mut results);
            let _ = queue.notify(NotifyOn::Any, 2, |_| {});
        }
        for placer in placers {
            placer.join().unwrap();
        }
        let waits = !queue.cancel(|_| {}).is_empty();
        let left = queue.take(&mut results);
        assert_eq!(taken + left, 2);
        assert!(!waits || left == 0);
    });
}

/// A result releases the request that waited for it also if another thread takes it out first.
fn a_taker_is_faster(kind: NotifyOn) {
    model(move || {
        let queue = Arc::new(Queue::<TestEntry, u32>::new(2).unwrap());
        assert!(queue.notify(kind, 1, |_| {}).is_none());
        let placer = placing(&queue, 1);
        let mut results = [Taken::default(); 2];
        let taken = queue.take(&mut results);
        assert_eq!(placer.join().unwrap().0, [(1, None)]);
        // A request that is made afterwards does not fire because of it.
        let taken = taken + queue.take(&mut results);
        assert_eq!(taken, 1);
        assert!(queue.notify(kind, 2, |_| {}).is_none());
    });
}

#[test]
fn a_result_is_taken_before_its_request_is_released() {
    a_taker_is_faster(NotifyOn::Any);
}

#[test]
fn a_solicited_result_is_taken_before_its_request_is_released() {
    a_taker_is_faster(NotifyOn::Solicited);
}

/// The solicited result may lie behind one that is placed later; a plain result alone releases no request.
#[test]
fn a_solicited_request_meets_a_plain_and_a_solicited_result() {
    model(|| {
        let queue = Arc::new(Queue::<TestEntry, u32>::new(2).unwrap());
        let placers = [0, 1].map(|number| placing(&queue, number));
        let mut all = released(queue.notify(NotifyOn::Solicited, 1, |_| {}));
        for placer in placers {
            all.extend(placer.join().unwrap().0);
        }
        assert_eq!(all, [(1, None)]);
        assert!(queue.notify(NotifyOn::Solicited, 2, |_| {}).is_none());
        assert!(released(queue.place(std::iter::empty(), |_, _| {}, |_| {})).is_empty());
    });
}

/// A breakdown is reported once, and also to a request that is made at the same time; so is the end of all requests.
#[test]
fn a_request_meets_a_breakdown_and_the_end_of_requests() {
    model(|| {
        let queue = Arc::new(Queue::<TestEntry, u32>::new(1).unwrap());
        let breaks = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                let notifies = queue.break_down(reason(2), |_| {});
                let broke = notifies.as_ref().is_some_and(|notifies| notifies.broken);
                (released(notifies), broke)
            }
        });
        let ends = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.end_requests(reason(3), |_| {})
        });
        let mut all = released(queue.notify(NotifyOn::Solicited, 1, |_| {}));
        let (released, broke) = breaks.join().unwrap();
        assert!(broke);
        all.extend(released);
        all.extend(
            ends.join()
                .unwrap()
                .into_iter()
                .map(|request| (request, Some(reason(3)))),
        );
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].1.is_some());
    });
}

/// An overflow is reported to its placers once, and also to a request that is made at the same time.
#[test]
fn a_request_meets_an_overflow() {
    model(|| {
        let queue = Arc::new(Queue::<TestEntry, u32>::new(1).unwrap());
        assert!(
            queue
                .place(std::iter::once(sample(0)), |_, _| {}, |_| {})
                .is_none()
        );
        let placers = [2, 4].map(|number| placing(&queue, number));
        let mut all = released(queue.notify(NotifyOn::Breakdown, 1, |_| {}));
        let mut broken = 0;
        for placer in placers {
            let (released, broke) = placer.join().unwrap();
            all.extend(released);
            broken += u32::from(broke);
        }
        assert_eq!(all, [(1, Some(TestEntry::OVERFLOW))]);
        assert_eq!(broken, 1);
    });
}
