use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use super::*;
use crate::progress::domain::{Source, Turn};
use crate::progress::readiness::epoll::Epoll;
use crate::progress::readiness::kqueue_rules::KqueueRules;
use crate::progress::readiness::mio::Mio;
use crate::progress::{Edges, Watch};

/// A stream that counts as one over shared memory.
struct WithBells(UnixStream);

impl<S: Readiness> Watch<S> for WithBells
where
    UnixStream: Watch<S>,
{
    fn id(&self) -> S::Id<'_> {
        Watch::<S>::id(&self.0)
    }

    fn has_bells(&self) -> bool {
        true
    }
}

/// A source that reads and discards what arrives.
struct Reader {
    stream: WithBells,
    token: OnceLock<u64>,
    received: AtomicUsize,
}

impl Reader {
    fn new<S: Readiness>(domain: &Domain<S>) -> (Arc<Self>, UnixStream)
    where
        UnixStream: Watch<S>,
    {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let reader = Arc::new(Self {
            stream: WithBells(ours),
            token: OnceLock::new(),
            received: AtomicUsize::new(0),
        });
        let source = Arc::downgrade(&(Arc::clone(&reader) as Arc<dyn Source<S>>));
        let token = domain.add(&reader.stream, source, Edges::READ).unwrap();
        reader.token.set(token).unwrap();
        (reader, theirs)
    }

    fn received(&self) -> usize {
        self.received.load(Ordering::SeqCst)
    }
}

impl<S: Readiness> Source<S> for Reader
where
    UnixStream: Watch<S>,
{
    fn ready(&self, _: Edges) -> Turn {
        let mut octets = 0;
        while let Ok(count @ 1..) = (&self.stream.0).read(&mut [0; 16]) {
            octets += count;
        }
        self.received.fetch_add(octets, Ordering::SeqCst);
        Turn {
            work: octets,
            ..Turn::default()
        }
    }

    fn has_bells(&self) -> bool {
        true
    }
}

/// A file with one completion queue, on which a Notify is armed.
struct Waiting<S: Readiness> {
    waiters: Waiters<S>,
    domain: Arc<Domain<S>>,
}

impl<S: Readiness> Waiting<S> {
    fn new(set: S) -> Self {
        let parked = Arc::default();
        let control = Arc::new(Domain::new(set.another().unwrap(), Arc::clone(&parked)));
        let domain_set = set.another().unwrap();
        let background = Background::new(set).unwrap();
        let waiters = Waiters::new(&control, &background, &parked, Environment::System).unwrap();
        let domain = Arc::new(Domain::new(domain_set, waiters.parked()));
        let token = waiters.add_queue(&domain);
        domain.add_interest();
        waiters.arm(&domain, token);
        Self { waiters, domain }
    }

    /// Waits until a reader has `wanted` octets. The peer sends when the thread is about to sleep, after the last poll of the hot sources.
    /// Fails if the thread is still asleep after 60 s.
    fn park_until(&self, reader: &Reader, wanted: usize, peer: &UnixStream) {
        let looks = AtomicUsize::new(0);
        let done = || {
            // The fifth look is the last one before the sleep.
            if looks.fetch_add(1, Ordering::SeqCst) == 4 {
                (&mut &*peer).write_all(b".").unwrap();
            }
            reader.received() >= wanted
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            self.waiters
                .park(ANYTHING, &done, Some(deadline), || {})
                .unwrap();
            assert!(Instant::now() < deadline, "the thread was not woken");
        }
        assert_eq!(reader.received(), wanted);
    }
}

/// All streams of the queue are hot, so a woken thread asks them directly: it reads the arrived octets, and does not need the queue's set.
/// The next octet nevertheless wakes it.
fn a_thread_is_woken_again_after_it_was_content_with_the_hot_sources<S: Readiness + 'static>(set: S)
where
    UnixStream: Watch<S>,
{
    let waiting = Waiting::new(set);
    let (reader, peer) = Reader::new(&waiting.domain);
    for wanted in 1..=20 {
        waiting.park_until(&reader, wanted, &peer);
    }
}

/// An application waits for the file's descriptor, in its own set that reports edges: the set reports each new octet, and nothing else.
fn whoever_waits_outside_is_told_again_and_only_then<S: Readiness + 'static>(set: S)
where
    UnixStream: Watch<S>,
{
    let application = set.another().unwrap();
    let waiting = Waiting::new(set);
    application.add_set(waiting.waiters.outside(), 1).unwrap();
    let (reader, mut peer) = Reader::new(&waiting.domain);
    let has_result = || application.wait(Some(Duration::ZERO), |_| {}).unwrap() > 0;
    for wanted in 1..=20 {
        assert!(!has_result());
        peer.write_all(b".").unwrap();
        assert!(has_result());
        waiting.waiters.progress();
        assert_eq!(reader.received(), wanted);
    }
}

/// Makes a reader hot, and threads ask for this long.
fn asking<S: Readiness>(set: S, limit: Duration) -> (Waiting<S>, Arc<Reader>, UnixStream)
where
    UnixStream: Watch<S>,
{
    let waiting = Waiting::new(set);
    let (reader, mut peer) = Reader::new(&waiting.domain);
    peer.write_all(b".").unwrap();
    waiting.domain.progress();
    assert_eq!(reader.received(), 1);
    waiting.waiters.ask_for(limit);
    (waiting, reader, peer)
}

/// Only to end a hang.
const LONG: Duration = Duration::from_secs(3600);

/// What comes while the thread asks is found before the thread sleeps.
fn a_thread_asks_before_it_sleeps<S: Readiness>(set: S)
where
    UnixStream: Watch<S>,
{
    let (waiting, reader, peer) = asking(set, LONG);
    let waiters = &waiting.waiters;
    let looks = AtomicUsize::new(0);
    let done = || {
        if looks.fetch_add(1, Ordering::SeqCst) == 9 {
            (&mut &peer).write_all(b".").unwrap();
        }
        reader.received() == 2
    };
    let begin = || panic!("the thread sleeps");
    waiters.park(ANYTHING, &done, None, begin).unwrap();
    assert!(done());
}

/// A thread that has asked in vain sleeps, and is woken.
fn a_thread_that_has_asked_in_vain_sleeps<S: Readiness>(set: S)
where
    UnixStream: Watch<S>,
{
    let (waiting, reader, peer) = asking(set, Duration::from_nanos(1));
    let waiters = &waiting.waiters;
    let has_slept = Cell::new(false);
    let begin = || {
        has_slept.set(true);
        (&mut &peer).write_all(b".").unwrap();
    };
    let done = || reader.received() == 2;
    waiters.park(ANYTHING, &done, None, begin).unwrap();
    assert!(done() && has_slept.get());
    assert_eq!(waiters.asking.limit(), None);
}

/// A thread does not ask for longer than it may wait, nor beside a thread that sleeps, nor if no stream is hot.
fn a_thread_asks_only_where_that_may_pay<S: Readiness + Send + Sync>(set: S)
where
    UnixStream: Watch<S>,
    S::Waker: Send + Sync,
    Waiters<S>: Sync,
{
    let other = set.another().unwrap();
    let (waiting, _hot, _peer) = asking(set, LONG);
    let waiters = &waiting.waiters;
    let soon = || Some(Instant::now() + Duration::from_millis(1));
    let begun = Cell::new(0);
    let begin = || begun.set(begun.get() + 1);
    waiters.park(ANYTHING, &|| false, soon(), begin).unwrap();
    assert_eq!(begun.get(), 1);
    // Such a wait says nothing about the peer.
    assert_eq!(waiters.asking.limit(), Some(LONG));

    waiters.parked.fetch_add(1, Ordering::SeqCst);
    waiters
        .park(ANYTHING, &|| begun.get() == 2, None, begin)
        .unwrap();
    waiters.parked.fetch_sub(1, Ordering::SeqCst);

    let Waiting { waiters, domain } = Waiting::new(other);
    let (_reader, _peer) = Reader::new(&domain);
    waiters.ask_for(LONG);
    waiters
        .park(ANYTHING, &|| begun.get() == 3, None, begin)
        .unwrap();
}

/// A source that waits for another one when it is driven.
struct Inner<S: Readiness> {
    stream: UnixStream,
    waiters: Arc<Waiters<S>>,
    reader: Arc<Reader>,
    /// Sends to the reader when the wait has begun.
    peer: UnixStream,
    has_waited: AtomicBool,
}

impl<S: Readiness + 'static> Source<S> for Inner<S>
where
    UnixStream: Watch<S>,
    Waiters<S>: Send + Sync,
{
    fn ready(&self, _: Edges) -> Turn {
        if (&self.stream).read(&mut [0; 16]).is_ok() {
            let done = || self.reader.received() > 0;
            let deadline = Instant::now() + Duration::from_secs(60);
            while !done() && Instant::now() < deadline {
                let begin = || (&self.peer).write_all(b".").unwrap();
                (self.waiters)
                    .park(ANYTHING, &done, Some(deadline), begin)
                    .unwrap();
            }
            self.has_waited.store(done(), Ordering::SeqCst);
        }
        Turn::default()
    }
}

/// The thread in front is called back and waits again, while others follow it.
fn a_wait_within_a_wait_does_not_follow<S: Readiness + Send + Sync + 'static>(set: S)
where
    UnixStream: Watch<S>,
    S::Waker: Send + Sync,
{
    let Waiting { waiters, domain } = Waiting::new(set);
    let waiters = Arc::new(waiters);
    let (reader, peer) = Reader::new(&domain);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let inner = Arc::new(Inner {
        stream: ours,
        waiters: Arc::clone(&waiters),
        reader,
        peer,
        has_waited: AtomicBool::new(false),
    });
    let source = Arc::downgrade(&(Arc::clone(&inner) as Arc<dyn Source<S>>));
    domain.add(&inner.stream, source, Edges::READ).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let follow = || {
            let done = || over.load(Ordering::SeqCst);
            while !done() {
                waiters.park(ANYTHING, &done, None, || {}).unwrap();
            }
        };
        let others_come = || {
            (0..3).for_each(|_| drop(scope.spawn(follow)));
            while waiters.parked.load(Ordering::SeqCst) < 4 {
                std::thread::yield_now();
            }
            theirs.write_all(b".").unwrap();
        };
        let done = || inner.has_waited.load(Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(60);
        (waiters.park(ANYTHING, &done, Some(deadline), others_come)).unwrap();
        over.store(true, Ordering::SeqCst);
        waiters.wake();
    });
    assert!(inner.has_waited.load(Ordering::SeqCst));
}

macro_rules! over_each {
    ($($test:ident),+ $(,)?) => {
        mod epoll {
            $(#[test] fn $test() { super::$test(super::Epoll::new().unwrap()); })+
        }
        mod mio {
            $(#[test] fn $test() { super::$test(super::Mio::new().unwrap()); })+
        }
        mod kqueue_rules {
            $(#[test] fn $test() { super::$test(super::KqueueRules::new().unwrap()); })+
        }
    };
}

over_each!(
    a_thread_is_woken_again_after_it_was_content_with_the_hot_sources,
    whoever_waits_outside_is_told_again_and_only_then,
    a_wait_within_a_wait_does_not_follow,
    a_thread_asks_before_it_sleeps,
    a_thread_that_has_asked_in_vain_sleeps,
    a_thread_asks_only_where_that_may_pay,
);
