//! Tests that all sets of the system's descriptors pass, and tests of their differences.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// The number of times that two threads race with each other.
const ROUNDS: usize = 2000;

fn all_ready<S: Readiness>(set: &S) -> Vec<Ready> {
    let mut all = Vec::new();
    let count = set.wait(Some(Duration::ZERO), |ready| all.push(ready));
    assert_eq!(count.unwrap(), all.len());
    all
}

fn ready<S: Readiness>(set: &S) -> Vec<u64> {
    all_ready(set).iter().map(|ready| ready.token).collect()
}

/// The only source that is ready, and its edges.
fn only<S: Readiness>(set: &S) -> (u64, Edges) {
    let all = all_ready(set);
    let edges = all.iter().fold(Edges::empty(), |all, one| all | one.edges);
    assert!(
        !all.is_empty() && all.iter().all(|one| one.token == all[0].token),
        "{all:?}"
    );
    (all[0].token, edges)
}

fn streams() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    (ours, theirs)
}

fn a_nested_set_is_reported_once_per_event_and_can_be_muted<S: Readiness>(outer: &S) {
    let inner = outer.another().unwrap();
    let waker = outer.waker().unwrap();
    inner.add_level(&waker, 1).unwrap();
    outer.add_set(&inner, 2).unwrap();
    waker.wake();
    assert_eq!(ready(outer), [2]);
    assert_eq!(ready(outer), []);
    waker.wake();
    let untaken = ready(outer);
    assert_eq!(untaken.len(), usize::from(outer.reports_untaken()));
    assert_eq!(ready(&inner), [1]);
    waker.wake();
    assert_eq!(ready(outer), [2]);
    outer.mute(&inner, 2).unwrap();
    waker.wake();
    assert_eq!(ready(outer), []);
    outer.mute(&inner, 2).unwrap();
    outer.unmute(&inner, 2).unwrap();
    assert_eq!(ready(outer), [2]);
    // Data that is there already is reported at once, also by a further set.
    let another = outer.another().unwrap();
    another.add_set(&inner, 3).unwrap();
    assert_eq!(ready(&another), [3]);
    // A muted set can be taken out, and one that was taken out can be added.
    outer.mute(&inner, 2).unwrap();
    outer.remove(&inner).unwrap();
    outer.add_set(&inner, 4).unwrap();
    assert_eq!(ready(outer), [4]);
}

fn wakes_count_once_and_are_cleared_once<S: Readiness>(set: &S) {
    let waker = set.waker().unwrap();
    set.add_level(&waker, 7).unwrap();
    assert_eq!(ready(set), []);
    for _ in 0..200 {
        waker.wake();
    }
    assert_eq!((ready(set), ready(set)), (vec![7], vec![7]));
    waker.clear();
    assert_eq!(ready(set), []);
    waker.clear();
    waker.wake();
    assert_eq!(ready(set), [7]);
    set.remove(&waker).unwrap();
    assert_eq!(ready(set), []);
    waker.wake();
    assert_eq!(ready(set), []);
}

/// A set whose report no thread has acted on is still ready to the sets around it.
fn a_level_is_seen_from_outside_after_it_was_reported<S: Readiness>(inner: &S) {
    let [outer, outmost] = [(); 2].map(|()| inner.another().unwrap());
    let waker = inner.waker().unwrap();
    inner.add_level(&waker, 1).unwrap();
    outer.add_level(inner, 2).unwrap();
    outmost.add_level(&outer, 3).unwrap();
    waker.wake();
    for _ in 0..3 {
        assert_eq!(ready(inner), [1]);
        assert_eq!(ready(&outmost), [3]);
        assert_eq!(ready(&outer), [2]);
    }
    waker.clear();
    assert_eq!(ready(&outmost), []);
}

fn a_stream_is_reported_once_for_what_was_asked<S: Readiness>(set: &S)
where
    UnixStream: Watch<S>,
{
    let (mut ours, mut theirs) = streams();
    set.add_stream(&ours, 1, Edges::READ).unwrap();
    assert_eq!(ready(set), []);
    theirs.write_all(b"1").unwrap();
    assert_eq!(only(set), (1, Edges::READ));
    assert_eq!(ready(set), []);
    theirs.write_all(b"2").unwrap();
    if set.reports_once() {
        assert_eq!(ready(set), []);
        set.arm(&ours, Edges::READ);
    }
    assert_eq!(only(set), (1, Edges::READ));
    // A change examines the stream anew.
    set.change_stream(&ours, 1, Edges::READ | Edges::WRITE)
        .unwrap();
    assert_eq!(only(set), (1, Edges::READ | Edges::WRITE));
    assert_eq!(ours.read(&mut [0; 8]).unwrap(), 2);
    while ours.write(&[0; 4096]).is_ok() {}
    set.arm(&ours, Edges::READ);
    set.arm(&ours, Edges::WRITE);
    assert_eq!(ready(set), []);
    while theirs.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    assert_eq!(only(set).1 & Edges::WRITE, Edges::WRITE);
    set.change_stream(&ours, 1, Edges::READ).unwrap();
    assert_eq!(ready(set), []);
    drop(theirs);
    assert!(only(set).1.contains(Edges::READ | Edges::HANGUP));
}

/// Adding a stream twice, or removing it twice, is an error on every system.
fn a_set_knows_its_sources<S: Readiness>(set: &S)
where
    UnixStream: Watch<S>,
{
    let (stream, _theirs) = streams();
    let kind = |result: io::Result<()>| result.map_err(|error| error.kind());
    let twice = |set: &S| kind(set.add_stream(&stream, 1, Edges::READ));
    assert_eq!(twice(set), Ok(()));
    assert_eq!(twice(set), Err(ErrorKind::AlreadyExists));
    assert_eq!(kind(set.remove(&stream)), Ok(()));
    let missing = Err(ErrorKind::NotFound);
    assert_eq!(kind(set.remove(&stream)), missing);
    assert_eq!(kind(set.change_stream(&stream, 1, Edges::READ)), missing);
    assert_eq!(kind(set.mute(&stream, 1)), missing);
    assert_eq!(kind(set.unmute(&stream, 1)), missing);
    // The change has not put the stream back.
    assert_eq!(twice(set), Ok(()));
}

/// A source that is closed leaves its sets. Another source that gets the same descriptor number is not mistaken for it.
fn a_closed_source_is_in_no_set<S: Readiness>(outer: &S) {
    // Other tests open and close descriptors at the same time. In one of many rounds the new source gets the number.
    for token in 0..100 {
        let inner = outer.another().unwrap();
        let waker = outer.waker().unwrap();
        inner.add_level(&waker, 1).unwrap();
        outer.add_set(&inner, token).unwrap();
        waker.wake();
        assert_eq!(ready(outer), [token]);
        drop(inner);
        assert_eq!(ready(outer), []);
    }
}

/// A sleeping thread does not hold up a thread that looks without waiting.
fn a_look_ends_while_another_thread_sleeps<S: Readiness + Sync>(set: &S)
where
    S::Waker: Sync,
{
    let waker = set.waker().unwrap();
    set.add_level(&waker, 5).unwrap();
    std::thread::scope(|scope| {
        let (says, hears) = crossbeam_channel::unbounded();
        let sleeper = scope.spawn(move || {
            says.send(()).unwrap();
            let mut tokens = Vec::new();
            let begun = std::time::Instant::now();
            // The limit is there only to end a hang.
            let limit = Duration::from_secs(60);
            while tokens.is_empty() && begun.elapsed() < limit {
                let waited = set.wait(Some(limit), |ready| tokens.push(ready.token));
                waited.unwrap();
            }
            tokens
        });
        hears.recv().unwrap();
        for _ in 0..1000 {
            assert_eq!(ready(set), []);
        }
        waker.wake();
        assert_eq!(sleeper.join().unwrap(), [5]);
    });
}

/// Lets both threads that call it continue at the same time.
struct StartTogether(AtomicUsize);

impl StartTogether {
    fn wait(&self) {
        let round = self.0.fetch_add(1, Ordering::SeqCst) / 2;
        while self.0.load(Ordering::SeqCst) < 2 * (round + 1) {
            std::thread::yield_now();
        }
    }
}

/// A source that became ready before a thread looks is reported to this thread, or to another one that waits at the same time, even if the
/// other one has looked before.
fn two_threads_at_once_lose_no_report<S: Readiness + Sync>(set: &S, limit: Duration)
where
    S::Waker: Sync,
{
    let wakers = [(); 2].map(|()| set.waker().unwrap());
    let nested = [(); 2].map(|()| set.another().unwrap());
    for (token, (waker, nested)) in (0..).zip(wakers.iter().zip(&nested)) {
        nested.add_level(waker, 0).unwrap();
        set.add_set(nested, token).unwrap();
    }
    let over = set.waker().unwrap();
    set.add_level(&over, 2).unwrap();
    let together = StartTogether(AtomicUsize::new(0));
    let mut lost = Vec::new();
    let spin = |rounds| (0..rounds).for_each(|_| std::hint::spin_loop());
    std::thread::scope(|scope| {
        let (says, hears) = crossbeam_channel::unbounded();
        let together = &together;
        scope.spawn(move || {
            for round in 0..ROUNDS {
                let mut seen = Vec::new();
                together.wait();
                spin(round % 61);
                loop {
                    let waited = set.wait(Some(limit), |ready| seen.push(ready.token));
                    if waited.unwrap() > 0 || limit.is_zero() {
                        break;
                    }
                }
                says.send(seen).unwrap();
            }
        });
        for round in 0..ROUNDS {
            together.wait();
            wakers[0].wake();
            spin(round % 67);
            wakers[1].wake();
            let mut seen = ready(set);
            over.wake(); // ends the wait of the other thread, if it has missed all
            seen.extend(hears.recv().unwrap());
            if ![0, 1].iter().all(|token| seen.contains(token)) {
                lost.push((round, seen));
            }
            over.clear();
            for (waker, nested) in wakers.iter().zip(&nested) {
                waker.clear();
                assert_eq!(ready(nested), []);
            }
        }
    });
    assert_eq!(lost, [], "round, and what was reported there");
}

fn two_looks_at_once_lose_no_report<S: Readiness + Sync>(set: &S)
where
    S::Waker: Sync,
{
    two_threads_at_once_lose_no_report(set, Duration::ZERO);
}

fn a_look_beside_a_sleeper_loses_no_report<S: Readiness + Sync>(set: &S)
where
    S::Waker: Sync,
{
    two_threads_at_once_lose_no_report(set, Duration::from_secs(60));
}

fn a_wait_ends_when_its_time_is_over<S: Readiness>(set: &S) {
    let limit = Duration::from_millis(2);
    let begun = std::time::Instant::now();
    while begun.elapsed() < limit {
        let left = limit.saturating_sub(begun.elapsed());
        assert_eq!(set.wait(Some(left), |_| {}).unwrap(), 0);
    }
}

macro_rules! over_each {
    ($($test:ident),+ $(,)?) => {
        mod epoll {
            $(#[test] fn $test() {
                super::$test(&super::super::epoll::Epoll::new().unwrap());
            })+
        }
        mod mio {
            $(#[test] fn $test() {
                super::$test(&super::super::mio::Mio::new().unwrap());
            })+
        }
        mod flat {
            $(#[test] fn $test() {
                super::$test(&super::super::flat::Flat::new().unwrap());
            })+
        }
        mod kqueue_rules {
            $(#[test] fn $test() {
                super::$test(&super::super::kqueue_rules::KqueueRules::new().unwrap());
            })+
        }
    };
}

over_each!(
    a_nested_set_is_reported_once_per_event_and_can_be_muted,
    wakes_count_once_and_are_cleared_once,
    a_level_is_seen_from_outside_after_it_was_reported,
    a_stream_is_reported_once_for_what_was_asked,
    a_set_knows_its_sources,
    a_closed_source_is_in_no_set,
    a_look_ends_while_another_thread_sleeps,
    two_looks_at_once_lose_no_report,
    a_look_beside_a_sleeper_loses_no_report,
    a_wait_ends_when_its_time_is_over,
);

/// A thread makes the system's call for all sets. What others arm is left to that thread, so that a look right after may find nothing yet.
mod flat_with_a_thread {
    use super::super::flat::Flat;
    use super::*;

    fn set() -> Flat {
        Flat::with_a_thread().unwrap()
    }

    #[test]
    fn wakes_count_once_and_are_cleared_once() {
        super::wakes_count_once_and_are_cleared_once(&set());
    }

    #[test]
    fn a_set_knows_its_sources() {
        super::a_set_knows_its_sources(&set());
    }

    #[test]
    fn a_look_ends_while_another_thread_sleeps() {
        super::a_look_ends_while_another_thread_sleeps(&set());
    }

    #[test]
    fn a_wait_ends_when_its_time_is_over() {
        super::a_wait_ends_when_its_time_is_over(&set());
    }

    #[test]
    fn what_a_thread_has_armed_is_reported_after_its_end() {
        let set = set();
        let (mut ours, mut theirs) = streams();
        set.add_stream(&ours, 1, Edges::READ).unwrap();
        for _ in 0..200 {
            theirs.write_all(b"1").unwrap();
            let mut reports = Vec::new();
            while reports.is_empty() {
                set.wait(None, |ready| reports.push(ready)).unwrap();
            }
            assert_eq!(reports.len(), 1);
            assert_eq!((reports[0].token, reports[0].edges), (1, Edges::READ));
            assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
            std::thread::scope(|scope| scope.spawn(|| set.arm(&ours, Edges::READ)).join().unwrap());
        }
        set.remove(&ours).unwrap();
    }

    #[test]
    fn what_was_left_to_a_thread_that_is_lost_is_reported() {
        let (ours, mut theirs) = streams();
        theirs.write_all(b"1").unwrap();
        let lost = |set: &Flat| set.add_stream(&ours, 1, Edges::READ).unwrap();
        let set = Flat::with_a_lost_thread(lost).unwrap();
        let mut reports = Vec::new();
        set.wait(None, |ready| reports.push(ready.token)).unwrap();
        assert_eq!(reports, [1]);
        set.remove(&ours).unwrap();
    }
}

/// Under kqueue's rule a thread that sleeps over a nested set is not woken while more sources become ready in that set.
#[test]
fn an_untaken_set_ends_no_sleep_under_kqueues_rule() {
    let outer = super::kqueue_rules::KqueueRules::new().unwrap();
    let inner = outer.another().unwrap();
    let (mut ours, mut theirs) = streams();
    inner.add_stream(&ours, 1, Edges::READ).unwrap();
    outer.add_set(&inner, 2).unwrap();
    theirs.write_all(b"1").unwrap();
    assert_eq!(ready(&outer), [2]);
    // The test reads the stream, and does not wait on the set.
    assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
    theirs.write_all(b"2").unwrap();
    let (limit, begun) = (Duration::from_millis(3), std::time::Instant::now());
    let waited = outer.wait(Some(limit), |ready| panic!("{ready:?}"));
    assert_eq!(waited.unwrap(), 0);
    assert!(begun.elapsed() >= limit);
    // From here on the set is reported as before.
    assert_eq!(ready(&inner), [1]);
    theirs.write_all(b"3").unwrap();
    assert_eq!(ready(&outer), [2]);
}

/// epoll reports a nested set for a change of one of its sources, unless an event of this source is left in the nested set. A thread that
/// asks for a further edge has to look once more.
#[cfg(target_os = "linux")]
#[test]
fn a_change_of_a_source_with_an_event_left_is_not_reported_by_epoll() {
    let outer = super::epoll::Epoll::new().unwrap();
    let inner = outer.another().unwrap();
    let (ours, mut theirs) = streams();
    inner.add_stream(&ours, 1, Edges::READ).unwrap();
    outer.add_set(&inner, 2).unwrap();
    theirs.write_all(b"1").unwrap();
    assert_eq!(ready(&outer), [2]);
    let both = Edges::READ | Edges::WRITE;
    inner.change_stream(&ours, 1, both).unwrap();
    assert_eq!(ready(&outer), []);
    assert_eq!(only(&inner), (1, both));
    inner.change_stream(&ours, 1, Edges::READ).unwrap();
    assert_eq!(only(&inner), (1, Edges::READ));
    inner.change_stream(&ours, 1, both).unwrap();
    assert_eq!(ready(&outer), [2]);
}

/// In user space a report disarms, and a descriptor that is a level stays ready until its reader has armed it.
mod in_user_space {
    use std::thread;

    use super::super::flat::Flat;
    use super::*;

    #[test]
    fn a_level_stays_ready_until_it_is_armed() {
        let inner = Flat::new().unwrap();
        let outer = inner.another().unwrap();
        let (mut ours, mut theirs) = streams();
        inner.add_level(&ours, 1).unwrap();
        outer.add_set(&inner, 2).unwrap();
        theirs.write_all(b"1").unwrap();
        assert_eq!((ready(&outer), ready(&outer)), (vec![2], vec![]));
        assert_eq!((ready(&inner), ready(&inner)), (vec![1], vec![1]));
        // Somebody who has not asked the set has read it.
        assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
        inner.arm(&ours, Edges::READ);
        assert_eq!(ready(&inner), []);
        theirs.write_all(b"2").unwrap();
        assert_eq!((ready(&outer), ready(&inner)), (vec![2], vec![1]));
        // Too early: the octet is still there.
        inner.arm(&ours, Edges::READ);
        assert_eq!((ready(&outer), ready(&inner)), (vec![2], vec![1]));
    }

    #[test]
    fn a_report_that_nobody_took_is_no_obstacle_for_the_next_one() {
        let inner = Flat::new().unwrap();
        let outer = inner.another().unwrap();
        let (mut ours, mut theirs) = streams();
        inner.add_stream(&ours, 1, Edges::READ).unwrap();
        outer.add_set(&inner, 2).unwrap();
        for _ in 0..3 {
            theirs.write_all(b".").unwrap();
            assert_eq!(ready(&outer), [2]);
            // Whoever learns of it reads the stream and leaves the inner set alone.
            assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
            inner.arm(&ours, Edges::READ);
        }
        assert_eq!(ready(&inner), [1]);
    }

    #[test]
    fn an_end_is_reported_once_although_nothing_is_armed() {
        let set = Flat::new().unwrap();
        let (ours, mut theirs) = streams();
        set.add_stream(&ours, 1, Edges::READ).unwrap();
        theirs.write_all(b"1").unwrap();
        assert_eq!(only(&set), (1, Edges::READ));
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(only(&set), (1, Edges::READ | Edges::HANGUP));
        // Room is asked for while the peer's direction has ended.
        while (&ours).write(&[0; 4096]).is_ok() {}
        set.change_stream(&ours, 1, Edges::READ | Edges::WRITE)
            .unwrap();
        ready(&set);
        for _ in 0..2 {
            set.arm(&ours, Edges::WRITE);
            assert_eq!(ready(&set), []);
        }
        drop(theirs);
        let (_, edges) = only(&set);
        assert!(edges.contains(Edges::HANGUP | Edges::WRITE), "{edges:?}");
        assert_eq!(ready(&set), []);
    }

    #[test]
    fn a_stream_in_two_sets_is_armed_for_both() {
        let first = Flat::new().unwrap();
        let all = [(); 2].map(|()| first.another().unwrap());
        let (mut ours, mut theirs) = streams();
        for set in &all {
            set.add_stream(&ours, 7, Edges::READ).unwrap();
        }
        for _ in 0..2 {
            theirs.write_all(b".").unwrap();
            assert_eq!((ready(&all[0]), ready(&all[1])), (vec![7], vec![7]));
            assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
            all[1].arm(&ours, Edges::READ);
        }
        all[0].remove(&ours).unwrap();
        theirs.write_all(b".").unwrap();
        assert_eq!((ready(&all[0]), ready(&all[1])), (vec![], vec![7]));
    }

    #[test]
    fn sets_and_wakers_of_another_adapter_are_refused() {
        let (here, there) = (Flat::new().unwrap(), Flat::new().unwrap());
        let waker = there.waker().unwrap();
        for result in [here.add_set(&there, 1), here.add_level(&waker, 2)] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    /// Threads that sleep on sets of one adapter are woken each for its own set, whichever of them is in the system's call.
    #[test]
    fn threads_on_several_sets_are_woken_for_their_own() {
        const THREADS: usize = 4;
        let first = Flat::new().unwrap();
        let sets: Vec<_> = (0..THREADS).map(|_| first.another().unwrap()).collect();
        let ends: Vec<_> = (0..THREADS).map(|_| streams()).collect();
        thread::scope(|scope| {
            let (says, hears) = crossbeam_channel::unbounded();
            for (at, (set, (ours, _))) in sets.iter().zip(&ends).enumerate() {
                set.add_stream(ours, at as u64, Edges::READ).unwrap();
                let says = says.clone();
                scope.spawn(move || {
                    for _ in 0..ROUNDS / THREADS {
                        let mut seen = Vec::new();
                        while seen.is_empty() {
                            set.wait(None, |ready| seen.push(ready.token)).unwrap();
                        }
                        assert_eq!(seen, [at as u64]);
                        let mut ours = ours;
                        assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
                        set.arm(ours, Edges::READ);
                        says.send(at).unwrap();
                    }
                });
            }
            for round in 0..ROUNDS {
                let at = round % THREADS;
                (&ends[at].1).write_all(b".").unwrap();
                assert_eq!(hears.recv().unwrap(), at);
            }
        });
    }
}
