use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use super::*;
use crate::environment::Environment;
use crate::progress::domain::{Source, Turn};
use crate::progress::readiness::epoll::{Epoll, EventFd};
use crate::progress::timers::{Timed, TimerKey};
use crate::progress::{Edges, Ready, Watch};
use crate::sync::AtomicUsize;

/// Counts its turns.
#[derive(Default)]
struct Driven(AtomicUsize);

impl<S: Readiness> Source<S> for Driven {
    fn ready(&self, _: Edges) -> Turn {
        self.0.fetch_add(1, Ordering::Relaxed);
        Turn::default()
    }
}

impl Driven {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn set() -> Set {
    Set::in_environment(&Environment::System).unwrap()
}

fn weak<S: Readiness>(source: &Arc<impl Source<S> + 'static>) -> Weak<dyn Source<S>> {
    Arc::downgrade(&(Arc::clone(source) as Arc<dyn Source<S>>))
}

fn added<S: Readiness>(shared: &Background<S>) -> (Arc<Domain<S>>, u64) {
    let domain = Arc::new(Domain::new(shared.set.another().unwrap(), Arc::default()));
    shared.add(&domain).unwrap();
    let token = domain.background_token().unwrap();
    (domain, token)
}

#[test]
fn what_is_polled_is_left_alone_and_taken_over_when_the_polls_end() {
    let shared = Background::<Set>::new(set()).unwrap();
    let (domain, token) = added(&shared);
    let source = Arc::new(Driven::default());
    let mut thread = Thread::new(Arc::clone(&shared));

    domain.polled();
    thread.watch(token, &domain);
    for _ in 0..4 {
        domain.polled();
        thread.look();
    }
    assert_eq!(thread.tick, LAST_TICK);
    // Work that no thread has taken up yet is checked again soon, but belongs to the poller.
    domain.defer(weak(&source));
    for _ in 0..3 {
        domain.polled();
        thread.look();
    }
    assert_eq!((source.count(), thread.tick), (0, FIRST_TICK));
    // New work that is taken up waits for the next poll.
    for _ in 0..3 {
        assert!(!domain.poll());
        domain.defer(weak(&source));
        domain.polled();
        thread.look();
    }
    assert_eq!((source.count(), thread.tick), (3, HELD_TICK));
    // No thread polls any more.
    thread.look();
    assert_eq!(source.count(), 4);
    assert!(thread.watched.is_empty());
}

/// A source that never finishes.
#[derive(Default)]
struct Endless(AtomicUsize);

impl Source for Endless {
    fn ready(&self, _: Edges) -> Turn {
        self.0.fetch_add(1, Ordering::Relaxed);
        Turn {
            unfinished: true,
            ..Turn::default()
        }
    }
}

#[test]
fn a_stream_without_end_has_as_many_turns_in_every_round() {
    let shared = Background::<Set>::new(set()).unwrap();
    let mut thread = Thread::new(Arc::clone(&shared));
    let (domain, _) = added(&shared);
    let source = Arc::new(Endless::default());
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    domain.add(&ours, weak(&source), Edges::READ).unwrap();
    let mut before = 0;
    for _ in 0..10 {
        theirs.write_all(b".").unwrap(); // an additional event
        thread.round(Instant::now).unwrap();
        let turns = source.0.load(Ordering::Relaxed);
        assert!(
            (1..=4).contains(&(turns - before)),
            "{} turns",
            turns - before
        );
        before = turns;
    }
}

#[test]
fn what_is_remembered_of_a_queue_that_has_gone_is_not_the_next_ones() {
    let shared = Background::<Set>::new(set()).unwrap();
    let mut thread = Thread::new(Arc::clone(&shared));
    let (old, token) = added(&shared);
    thread.watch(token, &old);
    shared.remove(&old);
    drop(old);

    let (domain, _) = added(&shared);
    let source = Arc::new(Driven::default());
    domain.defer(weak(&source));
    // The watched entry, notice, hand-over and report of the old domain.
    shared.noticed.lock().push(token);
    shared.handed_over.lock().push(token);
    thread.reported(token);
    thread.take_notice(Instant::now());
    thread.take_handed_over();
    thread.look();
    assert_eq!(source.count(), 0);
    assert!(thread.watched.is_empty());
}

thread_local! {
    /// Nothing can be added to a set.
    static EXHAUSTED: Cell<bool> = const { Cell::new(false) };
}

/// Sets of a system that runs out of memory at times.
struct Scarce(Epoll);

impl Watch<Self> for Scarce {
    fn id(&self) -> BorrowedFd<'_> {
        Watch::<Epoll>::id(&self.0)
    }
}

impl Watch<Scarce> for UnixStream {
    fn id(&self) -> BorrowedFd<'_> {
        Watch::<Epoll>::id(self)
    }
}

/// A source of a [`Scarce`] set, as a source of the set below.
struct Below<'a, T>(&'a T);

impl<T: Watch<Scarce>> Watch<Epoll> for Below<'_, T> {
    fn id(&self) -> BorrowedFd<'_> {
        self.0.id()
    }
}

fn add(add: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    if EXHAUSTED.get() {
        return Err(io::ErrorKind::StorageFull.into());
    }
    add()
}

impl Readiness for Scarce {
    type Id<'a> = BorrowedFd<'a>;
    type Waker = ScarceWaker;

    fn another(&self) -> io::Result<Self> {
        self.0.another().map(Self)
    }

    fn waker(&self) -> io::Result<ScarceWaker> {
        self.0.waker().map(ScarceWaker)
    }

    fn reports_untaken(&self) -> bool {
        self.0.reports_untaken()
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        add(|| self.0.add_stream(&Below(source), token, edges))
    }

    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        self.0.change_stream(&Below(source), token, edges)
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        add(|| self.0.add_level(&Below(source), token))
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        add(|| self.0.add_set(&Below(source), token))
    }

    fn mute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.0.mute(&Below(source), token)
    }

    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.0.unmute(&Below(source), token)
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        self.0.remove(&Below(source))
    }

    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        self.0.wait(limit, each)
    }
}

struct ScarceWaker(EventFd);

impl Watch<Scarce> for ScarceWaker {
    fn id(&self) -> BorrowedFd<'_> {
        Watch::<Epoll>::id(&self.0)
    }
}

impl Wake<Scarce> for ScarceWaker {
    fn wake(&self) {
        self.0.wake();
    }

    fn clear(&self) {
        self.0.clear();
    }
}

/// Reads what arrives.
struct Reader {
    stream: UnixStream,
    token: OnceLock<u64>,
    received: AtomicUsize,
}

impl Reader {
    fn new(domain: &Domain<Scarce>) -> (Arc<Self>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let reader = Arc::new(Self {
            stream: ours,
            token: OnceLock::new(),
            received: AtomicUsize::new(0),
        });
        let token = domain.add(&reader.stream, weak(&reader), Edges::READ);
        reader.token.set(token.unwrap()).unwrap();
        (reader, theirs)
    }

    fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed)
    }
}

impl Source<Scarce> for Reader {
    fn ready(&self, _: Edges) -> Turn {
        let mut octets = 0;
        while let Ok(count) = (&self.stream).read(&mut [0; 16]) {
            octets += count;
        }
        self.received.fetch_add(octets, Ordering::Relaxed);
        Turn {
            work: octets,
            ..Turn::default()
        }
    }

    fn leave(&self, domain: &Domain<Scarce>) -> bool {
        domain.leave(&self.stream)
    }

    fn rejoin(&self, domain: &Domain<Scarce>) -> bool {
        domain.rejoin(&self.stream, *self.token.get().unwrap(), Edges::READ)
    }
}

struct Never;

impl Timed for Never {
    fn expired(&self, _: TimerKey, _: Instant) {}
}

/// Runs rounds of the thread until a reader has this many octets. Every tick is due at once.
fn until_received(thread: &mut Thread<Scarce>, reader: &Reader, wanted: usize) {
    let begun = Instant::now();
    let now = Cell::new(begun);
    // Only to end a hang.
    let limit = Duration::from_secs(60);
    let end = thread.shared.set_timer(begun + limit, Weak::<Never>::new());
    while reader.received() < wanted {
        let later = || {
            now.set(now.get() + LAST_TICK);
            now.get()
        };
        thread.round(later).unwrap();
        assert!(begun.elapsed() < limit / 2, "not served");
    }
    thread.shared.cancel_timer(end);
    assert_eq!(reader.received(), wanted);
}

#[test]
fn a_queue_that_cannot_be_put_back_is_served_until_it_can() {
    let shared = Background::<Scarce>::new(Scarce(Epoll::new().unwrap())).unwrap();
    let mut thread = Thread::new(Arc::clone(&shared));
    let (domain, token) = added(&shared);
    let (reader, mut peer) = Reader::new(&domain);
    // A thread polls, so that the queue is out of the set. Then no thread polls, and there is no memory to put the queue
    // back.
    domain.polled();
    peer.write_all(b".").unwrap();
    thread.round(Instant::now).unwrap();
    assert!(!thread.watched[&token].reported);
    EXHAUSTED.set(true);
    until_received(&mut thread, &reader, 1);
    for wanted in 2..=3 {
        peer.write_all(b".").unwrap();
        until_received(&mut thread, &reader, wanted);
        assert!(!thread.watched[&token].reported);
    }
    // A queue that is handed over is served at once, too.
    domain.polled();
    shared.hand_over(&domain);
    peer.write_all(b".").unwrap();
    until_received(&mut thread, &reader, 4);
    EXHAUSTED.set(false);
    thread.look();
    assert!(thread.watched.is_empty());
    assert!(!domain.set_watched(false));
    peer.write_all(b".").unwrap();
    until_received(&mut thread, &reader, 5);
}

#[test]
fn a_thread_that_polls_only_until_it_finds_something_is_served_between_its_polls() {
    let shared = Background::<Scarce>::new(Scarce(Epoll::new().unwrap())).unwrap();
    let (domain, token) = added(&shared);
    let (reader, mut peer) = Reader::new(&domain);
    let mut thread = Thread::new(Arc::clone(&shared));
    let mut event = |thread: &mut Thread<Scarce>| {
        peer.write_all(b".").unwrap();
        thread.round(Instant::now).unwrap();
    };

    // The first event is left to a thread that may poll again, until the look after [`GRACE`].
    domain.polled();
    domain.found();
    event(&mut thread);
    assert!(thread.watched[&token].doubted);
    assert_eq!(reader.received(), 0);
    until_received(&mut thread, &reader, 1);
    assert!(thread.watched.is_empty());
    for wanted in 2..=4 {
        domain.polled();
        domain.found();
        event(&mut thread);
        assert_eq!(reader.received(), wanted);
        assert!(thread.watched.is_empty());
    }

    // The thread polls, finds nothing, and continues to poll: events are left to it.
    domain.polled();
    event(&mut thread);
    domain.polled();
    thread.look();
    assert!(!thread.in_doubt && !domain.looks_elsewhere());
    for _ in 0..3 {
        // After a poll that finds something, it is in doubt if another one follows; the next poll ends the doubt.
        domain.polled();
        domain.found();
        thread.look();
        assert!(thread.in_doubt);
        domain.polled();
        domain.found();
        thread.look();
        assert!(!thread.in_doubt);
    }
    assert_eq!(reader.received(), 4);
    // The last poll of the thread finds something.
    thread.look();
    assert!(thread.watched.is_empty());
    until_received(&mut thread, &reader, 5);
}

#[test]
fn a_stream_that_cannot_be_put_back_is_asked_until_it_can() {
    let shared = Background::<Scarce>::new(Scarce(Epoll::new().unwrap())).unwrap();
    let mut thread = Thread::new(Arc::clone(&shared));
    let (domain, token) = added(&shared);
    let (reader, mut peer) = Reader::new(&domain);
    // Polled until it leaves the set.
    let mut polls = 0;
    while !domain.is_apart() {
        peer.write_all(b".").unwrap();
        domain.polled();
        if domain.poll() {
            shared.notice(&domain);
        }
        polls += 1;
    }
    assert_eq!(reader.received(), polls);
    thread.round(Instant::now).unwrap();
    EXHAUSTED.set(true);
    for more in 1..=3 {
        peer.write_all(b".").unwrap();
        until_received(&mut thread, &reader, polls + more);
        assert!(domain.is_apart());
        assert!(!domain.is_waited_for(), "it would wake no sleeper");
    }
    EXHAUSTED.set(false);
    thread.look();
    assert!(!domain.is_apart());
    assert!(thread.watched.is_empty());
    assert!(!domain.set_watched(false));
    peer.write_all(b".").unwrap();
    until_received(&mut thread, &reader, polls + 4);
    assert_eq!(
        thread
            .shared
            .domain(token)
            .map(|same| Arc::ptr_eq(&same, &domain)),
        Some(true)
    );
}

/// As far as the system tells: it has slices of threads since Linux 6.12, and may be built without the file that shows them.
#[cfg(target_os = "linux")]
#[test]
fn the_thread_has_the_shortest_time_slice() {
    let shared = Background::start(set(), &Environment::System).unwrap();
    let thread = shared.thread.wait().as_raw_nonzero();
    let shown = std::fs::read_to_string(format!("/proc/self/task/{thread}/sched"));
    shared.stop();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.');
    let version = [(); 2].map(|()| numbers.next().and_then(|number| number.parse().ok()));
    let shown = shown.unwrap_or_default();
    let slice = shown.lines().find_map(|line| line.strip_prefix("se.slice"));
    if version >= [Some(6), Some(12)]
        && let Some(slice) = slice
    {
        assert!(slice.ends_with(" 100000"), "{slice}");
    }
}
