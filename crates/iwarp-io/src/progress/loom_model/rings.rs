//! Streams over rings in shared memory: the words of a ring are the real ones, and the socket that carries the bells is a model. What a wire of
//! `transport::shared_memory` does with both is repeated here.
//!
//! Each model finds the bug that it is for, in builds with `--cfg planted_bugs` as well.

use iwarp_mem::ring::words::{Reading, Words, Writing};

use super::super::Watch;
use super::super::memberships::Polled;
use super::*;

/// Octets of a ring. No model fills it.
const CAPACITY: u64 = 16;

/// A stream of the model.
pub(super) enum Wire {
    Socket(Stream),
    Ring(Box<Ring>),
}

/// A ring from the peer, and the socket by which it rings.
pub(super) struct Ring {
    socket: Stream,
    words: Words,
    writing: Writing,
    reading: Reading,
    is_polled: AtomicBool,
}

impl Wire {
    fn ring() -> Self {
        Self::Ring(Box::new(Ring {
            socket: Stream::new(),
            words: Words::default(),
            writing: Writing::new(CAPACITY),
            reading: Reading::new(CAPACITY),
            is_polled: AtomicBool::new(false),
        }))
    }

    /// The peer sends this many octets, and optionally ends the stream with them.
    pub(super) fn peer_sends(&self, count: usize, end: bool) {
        match self {
            Self::Socket(stream) => stream.peer_sends(count, end),
            Self::Ring(ring) => ring.peer_sends(count, end),
        }
    }

    /// Reads at most `most` octets; 0 is the peer's end, `None` means nothing for now.
    pub(super) fn read(&self, most: usize) -> Option<usize> {
        match self {
            Self::Socket(stream) => stream.read(most),
            Self::Ring(ring) => ring.read(most),
        }
    }

    /// The edges that may mean octets.
    pub(super) fn edges_of_octets(&self) -> Edges {
        match self {
            Self::Socket(_) => Edges::READ,
            Self::Ring(_) => Edges::READ | Edges::WRITE,
        }
    }

    pub(super) fn short_read_is_last(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Ring(ring) => ring.is_polled.load(Ordering::Relaxed),
        }
    }
}

impl Watch<Set> for Wire {
    fn id(&self) -> usize {
        match self {
            Self::Socket(stream) => stream.id(),
            Self::Ring(ring) => ring.socket.id(),
        }
    }

    fn joins(&self) -> Edges {
        match self {
            Self::Ring(ring) if ring.reading.want_bell(&ring.words).unwrap() => Edges::WRITE,
            _ => Edges::empty(),
        }
    }
}

impl Polled<Set> for Wire {
    fn set_polled(&self, is_polled: bool) {
        if let Self::Ring(ring) = self {
            ring.is_polled.store(is_polled, Ordering::Relaxed);
            if is_polled {
                ring.reading.want_no_bell(&ring.words);
            }
        }
    }
}

impl Ring {
    fn peer_sends(&self, count: usize, end: bool) {
        if count > 0 {
            self.writing.publish(&self.words, count as u64);
            if self.writing.takes_bell(&self.words) {
                self.socket.peer_sends(1, false);
            }
        }
        if end {
            self.writing.close(&self.words);
            self.socket.peer_sends(0, true);
        }
    }

    fn read(&self, most: usize) -> Option<usize> {
        let (words, reading) = (&self.words, &self.reading);
        loop {
            let there = usize::try_from(reading.octets(words).unwrap()).unwrap();
            if there > 0 {
                let count = there.min(most);
                reading.release(words, count as u64);
                return Some(count);
            }
            if reading.is_closed(words) {
                if reading.octets(words).unwrap() > 0 {
                    continue;
                }
                return Some(0);
            }
            if self.is_polled.load(Ordering::Relaxed) {
                return None;
            }
            if reading.want_bell(words).unwrap() {
                continue;
            }
            match self.socket.read(64) {
                // A bell: the ring is looked at once more.
                Some(1..) => {}
                end => return end,
            }
        }
    }
}

/// A connection over a ring on a new queue, which was polled until the stream has left the set.
fn polled_ring(world: &Arc<World>, goal: usize) -> (Arc<Queue>, Arc<Connection>) {
    let queue = Queue::new(world).unwrap();
    let connection = Connection::over(Wire::ring(), &queue, goal, false);
    poll_until_apart(&queue, &connection);
    (queue, connection)
}

fn poll_until_apart(queue: &Queue, connection: &Connection) {
    for _ in 0..2 {
        connection.stream.peer_sends(1, false);
        queue.poll();
    }
    assert!(queue.domain.is_apart());
}

/// A thread stops polling and sleeps while the peer writes. The second of the two sees what the first one did.
fn the_stream_goes_back_while_the_peer_writes() {
    model(3, || {
        let world = World::new();
        let (queue, connection) = polled_ring(&world, 3);
        let sender = Arc::clone(&connection);
        beside_nobody(
            move || sender.stream.peer_sends(1, false),
            || {
                queue.arm();
                world.wait(&connection.received.1);
            },
        );
    });
}

/// A thread polls one of the queues that a stream belongs to, until the stream has left the set of that queue. Another thread sleeps, and the
/// other queue has to wake it.
fn a_stream_of_two_queues_wakes_one_while_a_thread_polls_the_other() {
    model(2, || {
        let world = World::new();
        let (polled, slept) = (Queue::new(&world).unwrap(), Queue::new(&world).unwrap());
        let connection = Connection::over(Wire::ring(), &slept, 3, false);
        connection.drive_from_all(&[&polled.domain, &slept.domain]);
        poll_until_apart(&polled, &connection);
        let sender = Arc::clone(&connection);
        beside_nobody(
            move || sender.stream.peer_sends(1, false),
            || {
                slept.arm();
                world.wait(&connection.received.1);
            },
        );
    });
}

#[cfg(not(planted_bugs))]
#[test]
fn a_ring_wakes_a_thread_that_sleeps_after_polling() {
    the_stream_goes_back_while_the_peer_writes();
}

#[cfg(not(planted_bugs))]
#[test]
fn a_ring_of_two_queues_wakes_a_thread_while_another_polls() {
    a_stream_of_two_queues_wakes_one_while_a_thread_polls_the_other();
}

/// The thread polls once more, and takes the octet or leaves it.
#[cfg(not(planted_bugs))]
#[test]
fn a_poll_of_one_of_two_queues_takes_nothing_from_the_other() {
    model(2, || {
        let world = World::new();
        let (polled, slept) = (Queue::new(&world).unwrap(), Queue::new(&world).unwrap());
        let connection = Connection::over(Wire::ring(), &slept, 2, false);
        connection.drive_from_all(&[&polled.domain, &slept.domain]);
        connection.stream.peer_sends(1, false);
        polled.poll();
        let sender = Arc::clone(&connection);
        let poller = thread::spawn(move || polled.poll());
        beside_nobody(
            move || sender.stream.peer_sends(1, true),
            || {
                slept.arm();
                world.wait(&connection.received.1);
                slept.arm();
                world.wait(&connection.ended);
            },
        );
        poller.join().unwrap();
    });
}

/// A model that fails ends its process, so each bug has one of its own.
#[cfg(planted_bugs)]
mod planted {
    use std::env;
    use std::process::Command;

    use iwarp::planted::{Bug, plant};

    const VARIABLE: &str = "SOFTND_TEST_PLANTED";

    #[test]
    #[ignore = "run by the test below"]
    fn with_a_bug() {
        let back: fn() = super::the_stream_goes_back_while_the_peer_writes;
        let two: fn() = super::a_stream_of_two_queues_wakes_one_while_a_thread_polls_the_other;
        let again: fn() = super::super::a_thread_that_has_read_all_there_was_is_woken_again;
        let (bug, model) = match env::var(VARIABLE).unwrap().as_str() {
            "none" => (None, back),
            "rejoin" => (Some(Bug::RejoinAsksNothing), back),
            "none of two" => (None, two),
            "two" => (Some(Bug::OneDomainCountsForAll), two),
            "none of arms" => (None, again),
            "arm" => (Some(Bug::ArmForgotten), again),
            other => panic!("{other} is no bug"),
        };
        plant(bug);
        model();
    }

    #[test]
    fn bugs_are_found() {
        for (bug, passes) in [
            ("none", true),
            ("none of two", true),
            ("rejoin", false),
            ("two", false),
            ("none of arms", true),
            ("arm", false),
        ] {
            let mut model = Command::new(env::current_exe().unwrap());
            model.args(["--ignored", "loom_model::rings::planted::with_a_bug"]);
            if bug.ends_with("arm") || bug.ends_with("arms") {
                model.env("SOFTND_TEST_LOOM_RULES", "flat");
            }
            let output = model.env(VARIABLE, bug).output().unwrap();
            assert_eq!(output.status.success(), passes, "{bug}: {output:?}");
        }
    }
}
