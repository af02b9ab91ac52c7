use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const NOW: Option<Duration> = Some(Duration::ZERO);
const ONCE: Mode = Mode::Edge(Edges::READ);

fn world() -> World {
    World::new(1, Conditions::default())
}

/// The tokens that a set reports.
pub(crate) fn tokens(set: &SimSet, limit: Option<Duration>) -> Vec<u64> {
    let mut tokens = Vec::new();
    set.wait(limit, 64, |ready| tokens.push(ready.token))
        .unwrap();
    tokens
}

#[test]
fn a_nested_set_is_reported_once_per_event_and_can_be_muted() {
    let world = world();
    let (outer, inner) = (SimSet::new(&world), SimSet::new(&world));
    let waker = SimWaker::new(&world);
    inner.add(waker.source(), 1, Mode::Level).unwrap();
    outer.add(inner.source(), 2, ONCE).unwrap();
    waker.wake();
    assert_eq!(tokens(&outer, NOW), [2]);
    assert_eq!(tokens(&outer, NOW), []);
    waker.wake();
    assert_eq!(tokens(&outer, NOW), [2]);
    outer.change(inner.source(), ONCE, true).unwrap();
    waker.wake();
    assert_eq!(tokens(&outer, NOW), []);
    outer.change(inner.source(), ONCE, false).unwrap();
    assert_eq!(tokens(&outer, NOW), [2]);
}

#[test]
fn levels_stay_reported_until_they_are_cleared() {
    let world = world();
    let (set, waker) = (SimSet::new(&world), SimWaker::new(&world));
    waker.wake();
    set.add(waker.source(), 7, Mode::Level).unwrap();
    assert_eq!(tokens(&set, NOW), [7]);
    assert_eq!(tokens(&set, NOW), [7]);
    waker.clear();
    assert_eq!(tokens(&set, NOW), []);
    set.remove(waker.source()).unwrap();
    waker.wake();
    assert_eq!(tokens(&set, NOW), []);
    let again = set.remove(waker.source()).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::NotFound);
}

#[test]
fn who_waits_moves_the_clock_to_what_happens_next() {
    let world = world();
    let set = SimSet::new(&world);
    let (server, client) = world.network(|network| {
        let server = network.bind(([10, 0, 0, 2], 7000).into()).unwrap();
        let client = network.bind(([10, 0, 0, 1], 0).into()).unwrap();
        (server, client)
    });
    let listener = world.network(|network| network.listen(server, 4));
    set.add(SimSource::Listener(listener), 1, ONCE).unwrap();
    let end = world
        .network(|network| network.connect(client, server))
        .unwrap();
    let end = SimEnd::new(&world, end);
    set.add(end.source(), 2, Mode::Edge(Edges::READ | Edges::WRITE))
        .unwrap();
    assert_eq!(tokens(&set, NOW), [], "a look does not move the clock");
    assert_eq!(world.time(), Duration::ZERO);
    assert_eq!(tokens(&set, None), [1]);
    assert_eq!(tokens(&set, None), [2]);
    assert!(world.time() > Duration::ZERO);
    // A limit is kept to the nanosecond of virtual time, and takes no real time.
    let before = world.time();
    let hour = Duration::from_secs(3600);
    assert_eq!(tokens(&set, Some(hour)), []);
    assert_eq!(world.time(), before + hour);
    // No event is left.
    let stuck = set.wait(None, 64, |_| {}).unwrap_err();
    assert_eq!(stuck.kind(), io::ErrorKind::Deadlock);
    assert!(stuck.get_ref().unwrap().is::<Stuck>());
}

/// A task that counts its calls, and wishes for the next call after a second, for a number of times.
struct PeriodicTask {
    world: World,
    calls: AtomicU32,
    most: u32,
}

impl Task for PeriodicTask {
    fn run(&self) -> Wishes {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let deadline = (calls < self.most).then(|| self.world.now() + Duration::from_secs(1));
        Wishes {
            deadline,
            ..Wishes::default()
        }
    }
}

#[test]
fn tasks_run_when_their_set_is_ready_and_when_they_wish() {
    let world = world();
    let (set, own) = (SimSet::new(&world), SimSet::new(&world));
    let task = Arc::new(PeriodicTask {
        world: world.clone(),
        calls: AtomicU32::new(0),
        most: 3,
    });
    world.add_task(task.clone(), &own);
    let waker = SimWaker::new(&world);
    own.add(waker.source(), 1, ONCE).unwrap();
    waker.wake();
    // Here the task does not empty its set, so it runs with every step.
    assert!(world.step());
    assert_eq!(task.calls.load(Ordering::Relaxed), 1);
    assert_eq!(tokens(&own, NOW), [1]);
    assert!(set.wait(None, 64, |_| {}).is_err());
    assert_eq!(task.calls.load(Ordering::Relaxed), 3);
    assert_eq!(world.time(), Duration::from_secs(2));
}

#[test]
fn another_thread_is_turned_away() {
    let world = world();
    let set = SimSet::new(&world);
    let other = std::thread::spawn(move || set.wait(NOW, 64, |_| {}));
    let error = other.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("only the thread"), "{error}");
}
