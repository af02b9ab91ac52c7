use std::cell::Cell;
use std::sync::atomic::AtomicU32;

use super::*;

/// A source that receives as many octets as a test sets, in a set that may refuse it.
#[derive(Default)]
struct Stream {
    /// The octets that each turn receives.
    octets: AtomicUsize,
    blocked: AtomicBool,
    is_out: AtomicBool,
    is_refused: AtomicBool,
    turns: AtomicU32,
}

impl Stream {
    fn new(octets: usize) -> Arc<Self> {
        let stream = Self::default();
        stream.receives(octets);
        Arc::new(stream)
    }

    fn receives(&self, octets: usize) {
        self.octets.store(octets, Ordering::Relaxed);
    }

    fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// A domain in which requests wait or not.
#[derive(Default)]
struct Streams {
    has_interest: Cell<bool>,
}

impl Drive for Streams {
    type Source = Stream;

    fn drive(&self, stream: &Arc<Stream>, _: Edges) -> Turn {
        stream.turns.fetch_add(1, Ordering::Relaxed);
        Turn {
            unfinished: false,
            blocked: stream.blocked.load(Ordering::Relaxed),
            work: stream.octets.load(Ordering::Relaxed),
        }
    }

    fn take_out(&self, stream: &Stream) -> bool {
        !stream.is_out.swap(true, Ordering::Relaxed)
    }

    fn put_back(&self, stream: &Stream) -> bool {
        let put = !stream.is_refused.load(Ordering::Relaxed);
        if put {
            assert!(stream.is_out.swap(false, Ordering::Relaxed));
        }
        put
    }

    fn needs_set(&self) -> bool {
        self.has_interest.get()
    }

    fn has_bells(&self, _: &Stream) -> bool {
        false
    }
}

/// Hot sources of streams that have received something once.
fn hot(domain: &Streams, streams: &[&Arc<Stream>]) -> HotSources<Stream> {
    let hot = HotSources::new();
    for (stream, token) in streams.iter().zip(0..) {
        hot.warm(domain, stream, token);
    }
    hot
}

/// Polls `polls` times, and returns the result of the last poll.
fn poll(hot: &HotSources<Stream>, domain: &Streams, polls: u32) -> Probe {
    let mut last = Probe::default();
    for _ in 0..polls {
        last = hot.ask(domain, Edges::READ, true, |_, _| {}).unwrap();
    }
    last
}

fn tokens(hot: &HotSources<Stream>) -> Vec<u64> {
    hot.known.lock().tokens().collect()
}

#[test]
fn a_source_without_traffic_is_hot_no_longer() {
    let domain = Streams::default();
    let (busy, idle) = (Stream::new(1), Stream::new(0));
    let hot = hot(&domain, &[&busy, &idle]);
    poll(&hot, &domain, COLD - 1);
    assert_eq!(tokens(&hot), [0, 1]);
    poll(&hot, &domain, 1);
    assert_eq!(tokens(&hot), [0]);
    assert_eq!((busy.turns(), idle.turns()), (COLD, COLD));
    drop(busy);
    poll(&hot, &domain, 1);
    assert_eq!((tokens(&hot), hot.is_apart()), (vec![], false));
}

#[test]
fn a_busy_source_leaves_the_set_and_is_back_when_it_goes_quiet() {
    let domain = Streams::default();
    let stream = Stream::new(1);
    let hot = hot(&domain, &[&stream]);
    assert!(!poll(&hot, &domain, STEADY - 1).left);
    assert!(!stream.is_out() && !hot.is_apart());
    assert!(poll(&hot, &domain, 1).left);
    assert!(stream.is_out() && hot.is_apart());
    stream.receives(0);
    poll(&hot, &domain, COLD - 1);
    assert!(stream.is_out() && hot.is_apart());
    poll(&hot, &domain, 1);
    assert!(!stream.is_out() && !hot.is_apart());
}

#[test]
fn a_source_stays_in_the_set_unless_polling_is_steady() {
    let domain = Streams::default();
    let stream = Stream::new(1);
    let hot = hot(&domain, &[&stream]);
    for _ in 0..2 * STEADY {
        let probe = hot.ask(&domain, Edges::READ, false, |_, _| {}).unwrap();
        assert!(!probe.left);
    }
    // A thread begins to wait while the source leaves.
    domain.has_interest.set(true);
    assert!(poll(&hot, &domain, 1).left);
    assert!(!stream.is_out() && !hot.is_apart());
}

#[test]
fn a_source_that_cannot_send_is_put_back() {
    let domain = Streams::default();
    let stream = Stream::new(1);
    let hot = hot(&domain, &[&stream]);
    poll(&hot, &domain, STEADY);
    assert!(stream.is_out());
    stream.blocked.store(true, Ordering::Relaxed);
    poll(&hot, &domain, 2 * STEADY);
    assert!(!stream.is_out() && !hot.is_apart());
}

#[test]
fn a_source_that_the_set_refuses_stays_hot() {
    let domain = Streams::default();
    let stream = Stream::new(1);
    let hot = hot(&domain, &[&stream]);
    poll(&hot, &domain, STEADY);
    stream.receives(0);
    stream.is_refused.store(true, Ordering::Relaxed);
    poll(&hot, &domain, 3 * COLD);
    hot.recall(&domain);
    assert_eq!((tokens(&hot), hot.is_apart()), (vec![0], true));
    stream.is_refused.store(false, Ordering::Relaxed);
    hot.recall(&domain);
    assert!(!stream.is_out() && !hot.is_apart());
}

#[test]
fn a_recall_is_answered_by_the_thread_that_holds_the_sources() {
    let domain = Streams::default();
    let stream = Stream::new(1);
    let hot = hot(&domain, &[&stream]);
    poll(&hot, &domain, STEADY);
    let asked = hot.ask(&domain, Edges::READ, true, |_, _| {
        hot.recall(&domain);
        assert!(stream.is_out() && hot.is_apart());
        let second = hot.ask(&domain, Edges::READ, true, |_, _| {});
        assert_eq!(second, None);
        assert!(hot.any(&domain).is_none());
    });
    assert!(asked.is_some());
    assert!(!stream.is_out() && !hot.is_apart());
    assert!(
        hot.any(&domain)
            .is_some_and(|any| Arc::ptr_eq(&any, &stream))
    );
}

#[test]
fn the_source_that_is_idle_longest_gives_way() {
    let domain = Streams::default();
    let streams = [(); HOT + 1].map(|()| Stream::new(1));
    let all: Vec<_> = streams[..HOT].iter().collect();
    let hot = hot(&domain, &all);
    poll(&hot, &domain, STEADY);
    streams[2].receives(0);
    poll(&hot, &domain, 1);
    hot.warm(&domain, &streams[HOT], 8);
    assert_eq!(tokens(&hot), [0, 1, 7, 3, 4, 5, 6, 8]);
    assert!(!streams[2].is_out());
    // A source that is hot already only gets another token.
    hot.warm(&domain, &streams[3], 9);
    assert_eq!(tokens(&hot), [0, 1, 7, 9, 4, 5, 6, 8]);
    // A source that cannot be put back does not give way.
    streams[4].receives(0);
    streams[4].is_refused.store(true, Ordering::Relaxed);
    poll(&hot, &domain, 1);
    hot.warm(&domain, &streams[2], 2);
    assert_eq!(tokens(&hot), [0, 1, 7, 9, 4, 5, 6, 8]);
}

/// The number of polls from one look at the set to the next.
fn polls_to_a_look(hot: &HotSources<Stream>, domain: &Streams) -> usize {
    (1..).find(|_| poll(hot, domain, 1).look).unwrap()
}

#[test]
fn the_set_is_asked_now_and_then() {
    let domain = Streams::default();
    let stream = Stream::new(0);
    let hot = hot(&domain, &[&stream]);
    assert_eq!(polls_to_a_look(&hot, &domain), LOOK);
    stream.receives(1);
    assert_eq!(polls_to_a_look(&hot, &domain), 4 * LOOK);
    // For bulk streams, the received octets count.
    stream.receives(3 * WEIGHT);
    assert_eq!(polls_to_a_look(&hot, &domain), LOOK);
    drop(stream);
    assert_eq!(polls_to_a_look(&hot, &domain), 1);
    assert_eq!(polls_to_a_look(&hot, &domain), 1);
}
