//! The whole hand-off between threads that poll, threads that sleep and the background thread, over a model of sets, under
//! every interleaving that loom's memory model allows, up to a number of preemptions:
//! `RUSTFLAGS="--cfg loom" cargo test -p iwarp-io --lib loom`.
//!
//! The domain, the waiters, the background thread and the lock of a source are the real ones. The system below them, and
//! the streams above, are models. A lost wake-up shows as a deadlock, or as more branches than any run needs, because the
//! background thread ticks for ever.

mod asking;
mod kernel;
mod rings;
mod sleepers;

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use loom::thread;

use super::background::{Background, Thread};
use super::domain::{Domain, Source, Turn};
use super::memberships::Memberships;
use super::turns::Turns;
use super::waiters::{ANYTHING, Waiters};
use super::{BATCH, Edges, Readiness};
use crate::environment::Environment;
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering};
use kernel::{Rules, Set, Stream};
use rings::Wire;

fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 4000;
    builder.check(move || {
        kernel::begin();
        run();
    });
}

/// A request that a thread waits for.
#[derive(Default)]
struct Request(AtomicBool);

impl Request {
    fn is_done(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Ends the request. Returns false if it has ended before.
    fn end(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// The state that all queues of an adapter share.
struct World {
    control: Arc<Domain<Set>>,
    background: Arc<Background<Set>>,
    waiters: Arc<Waiters<Set>>,
}

impl World {
    fn new() -> Arc<Self> {
        let parked = Arc::new(AtomicUsize::new(0));
        let control = Arc::new(Domain::new(Set::new(), Arc::clone(&parked)));
        control.add_interest();
        control.set_armed(true);
        let background = Background::new(Set::new()).unwrap();
        background.add(&control).unwrap();
        let waiters =
            Arc::new(Waiters::new(&control, &background, &parked, Environment::System).unwrap());
        Arc::new(Self {
            control,
            background,
            waiters,
        })
    }

    /// Starts the background thread. Every time it looks at the clock, the next tick is due.
    fn run_background(&self) -> thread::JoinHandle<()> {
        self.run_background_with_ticks(Duration::from_millis(20))
    }

    /// Starts the background thread. Every time it looks at the clock, `passes` has passed.
    fn run_background_with_ticks(&self, passes: Duration) -> thread::JoinHandle<()> {
        let shared = Arc::clone(&self.background);
        thread::spawn(move || {
            let mut thread = Thread::new(shared);
            let now = Cell::new(Instant::now());
            while !thread.is_stopped() {
                let later = || {
                    now.set(now.get() + passes);
                    now.get()
                };
                thread.round(later).unwrap();
                thread::yield_now();
            }
        })
    }

    /// Waits for a request, as `Overlapped::wait` does.
    fn wait(&self, request: &Request) {
        self.wait_after(request, || {});
    }

    fn wait_after(&self, request: &Request, begin: impl Fn()) {
        self.wait_until(ANYTHING, request, begin);
    }

    /// Waits for a request of this number.
    fn wait_for(&self, number: usize, request: &Request) {
        self.wait_until(number, request, || {});
    }

    fn wait_until(&self, number: usize, request: &Request, begin: impl Fn()) {
        while !request.is_done() {
            self.waiters
                .park(number, &|| request.is_done(), None, &begin)
                .unwrap();
        }
    }
}

/// A completion queue, reduced to the hand-off.
struct Queue {
    world: Arc<World>,
    domain: Arc<Domain<Set>>,
    token: u64,
    results: Mutex<Results>,
    /// Notified when a Notify of [`notify`](Self::notify) ends.
    ended: Condvar,
}

/// The results of the queue, for a thread that polls and waits on an event in turn.
#[derive(Default)]
struct Results {
    count: usize,
    /// A Notify waits for the next result.
    awaited: bool,
    /// The event that Notify sets.
    event: bool,
}

impl Queue {
    fn new(world: &Arc<World>) -> io::Result<Arc<Self>> {
        let domain = Arc::new(Domain::new(Set::new(), world.waiters.parked()));
        world.background.add(&domain)?;
        let token = world.waiters.add_queue(&domain);
        Ok(Arc::new(Self {
            world: Arc::clone(world),
            domain,
            token,
            results: Mutex::default(),
            ended: Condvar::default(),
        }))
    }

    /// A Notify that waits.
    fn arm(&self) {
        self.domain.add_interest();
        self.world.waiters.arm(&self.domain, self.token);
    }

    /// A poll that finds no result.
    fn poll(&self) {
        self.domain.polled();
        if self.domain.poll() {
            self.world.background.notice(&self.domain);
        }
    }

    /// Places results, and ends the Notify that waits for them.
    fn place(&self, count: usize) {
        let mut results = self.results.lock();
        results.count += count;
        if std::mem::take(&mut results.awaited) {
            self.domain.drop_interest();
            results.event = true;
            self.ended.notify_one();
        }
    }

    /// Takes results as `get_results` does.
    fn get_results(&self) -> usize {
        self.poll();
        std::mem::take(&mut self.results.lock().count)
    }

    /// A Notify whose end sets the event.
    fn notify(&self) {
        let mut results = self.results.lock();
        results.event = results.count > 0;
        results.awaited = results.count == 0;
        if results.awaited {
            self.domain.add_interest();
        }
        drop(results);
        if self.domain.has_interest() {
            self.world.waiters.arm(&self.domain, self.token);
        }
    }

    /// Waits as `Event::wait` does, which runs no provider.
    fn wait_for_event(&self) {
        if std::mem::take(&mut self.results.lock().event) {
            return;
        }
        self.stop_polling();
        self.sleep();
    }

    /// A Notify with a sink: the thread that has polled hands its work over when the request begins.
    fn notify_sink(&self) {
        self.stop_polling();
        self.notify();
    }

    /// Sleeps until the Notify has ended, in code outside the provider.
    fn sleep(&self) {
        let mut results = self.results.lock();
        while !std::mem::take(&mut results.event) {
            results = self.ended.wait(results, None);
        }
    }

    /// The thread that has polled goes to sleep.
    fn stop_polling(&self) {
        if !self.domain.is_waited_for() {
            self.world.background.hand_over(&self.domain);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.world.waiters.remove_queue(&self.domain, self.token);
        self.world.background.remove(&self.domain);
    }
}

/// The most octets of one read, and the number of reads in a visit.
const SPACE: usize = 2;
const BUDGET: usize = 2;

/// A connection, whose stream is read by the thread that drives it.
struct Connection {
    turns: Turns<State>,
    stream: Wire,
    world: Arc<World>,
    queue: Arc<Queue>,
    /// Ends when this many octets have been received; a Notify of the queue.
    received: (usize, Request),
    /// Ends with the stream.
    ended: Request,
    /// Each octet is a result of the queue.
    gives_results: bool,
    this: Weak<Self>,
}

struct State {
    /// The domains that drive the connection.
    domains: Memberships<Set>,
    received: usize,
    ended: bool,
    readable: bool,
    hangup: bool,
}

impl Connection {
    /// A connection that its queue drives.
    fn new(queue: &Arc<Queue>, goal: usize) -> Arc<Self> {
        Self::that_gives_results(queue, goal, false)
    }

    fn that_gives_results(queue: &Arc<Queue>, goal: usize, gives_results: bool) -> Arc<Self> {
        Self::over(Wire::Socket(Stream::new()), queue, goal, gives_results)
    }

    fn over(stream: Wire, queue: &Arc<Queue>, goal: usize, gives_results: bool) -> Arc<Self> {
        let state = State {
            domains: Memberships::new(),
            received: 0,
            ended: false,
            readable: false,
            hangup: false,
        };
        let this = Arc::new_cyclic(|this| Self {
            turns: Turns::new(state),
            stream,
            world: Arc::clone(&queue.world),
            queue: Arc::clone(queue),
            received: (goal, Request::default()),
            ended: Request::default(),
            gives_results,
            this: this.clone(),
        });
        this.drive_from(&queue.domain);
        this
    }

    fn source(&self) -> Weak<dyn Source<Set>> {
        self.this.clone()
    }

    /// Makes this domain, and no other, drive the stream.
    fn drive_from(&self, domain: &Arc<Domain<Set>>) {
        self.drive_from_all(&[domain]);
    }

    /// Makes these domains, and no others, drive the stream.
    fn drive_from_all(&self, domains: &[&Arc<Domain<Set>>]) {
        self.with(|state| {
            let domains = domains.iter().copied();
            let moved = state
                .domains
                .move_to(domains, &self.stream, &self.source(), Edges::READ);
            moved.unwrap();
        });
    }

    fn drive(&self, edges: Edges) -> Turn {
        self.turns.drive(edges, |mut state, edges| {
            let before = state.received;
            let unfinished = state.read(&self.stream, edges);
            let (received, ended) = (state.received, state.ended);
            drop(state);
            if self.gives_results && received > before {
                self.queue.place(received - before);
            }
            if received >= self.received.0 && self.received.1.end() {
                self.queue.domain.drop_interest();
                self.world.waiters.wake();
            }
            if ended && self.ended.end() {
                self.world.waiters.wake();
            }
            Turn {
                unfinished,
                blocked: false,
                work: received - before,
            }
        })
    }

    /// Calls `call` with the lock held, as a call of the client does.
    fn with<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let done = call(&mut self.turns.lock());
        if self.turns.has_left() && self.drive(Edges::empty()).unfinished {
            self.queue.domain.defer(self.source());
            self.world.background.notice(&self.queue.domain);
            self.world.waiters.wake();
        }
        done
    }
}

impl State {
    /// Reads as a link does. Returns true if the budget ended it.
    fn read(&mut self, stream: &Wire, edges: Edges) -> bool {
        self.readable |= edges.intersects(stream.edges_of_octets());
        self.hangup |= edges.contains(Edges::HANGUP);
        for _ in 0..BUDGET {
            if self.ended || !self.readable {
                return false;
            }
            match stream.read(SPACE) {
                None => self.await_octets(stream),
                Some(0) => self.ended = true,
                Some(count) => {
                    self.received += count;
                    if count < SPACE && !self.hangup && stream.short_read_is_last() {
                        self.await_octets(stream);
                    }
                }
            }
        }
        self.readable && !self.ended
    }

    fn await_octets(&mut self, stream: &Wire) {
        self.readable = false;
        if !iwarp::planted!(ArmForgotten) {
            self.domains.arm(stream, Edges::READ);
        }
    }
}

impl Source<Set> for Connection {
    fn ready(&self, edges: Edges) -> Turn {
        self.drive(edges)
    }

    fn has_bells(&self) -> bool {
        true
    }

    fn leave(&self, domain: &Domain<Set>) -> bool {
        self.with(|state| state.domains.leave(domain, &self.stream))
    }

    fn rejoin(&self, domain: &Domain<Set>) -> bool {
        self.with(|state| state.domains.rejoin(domain, &self.stream, Edges::READ))
    }
}

/// Runs `peer` and the background thread in parallel to `client`. All of them have to end.
fn beside(world: &Arc<World>, peer: impl FnOnce() + 'static, client: impl FnOnce()) {
    let background = world.run_background();
    let peer = thread::spawn(peer);
    client();
    peer.join().unwrap();
    world.background.end();
    background.join().unwrap();
}

/// Like [`beside`], without the background thread: tests that sleepers wake each other.
fn beside_nobody(peer: impl FnOnce() + 'static, client: impl FnOnce()) {
    let peer = thread::spawn(peer);
    client();
    peer.join().unwrap();
}

/// A connection on a new queue, which was polled until the stream has left the set.
fn polled(world: &Arc<World>, goal: usize) -> (Arc<Queue>, Arc<Connection>) {
    let queue = Queue::new(world).unwrap();
    let connection = Connection::new(&queue, goal);
    for _ in 0..2 {
        connection.stream.peer_sends(1, false);
        queue.poll();
    }
    assert!(queue.domain.is_apart());
    (queue, connection)
}

#[test]
fn a_thread_that_waits_is_woken() {
    model(3, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 1);
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(1, false),
            || {
                queue.arm();
                world.wait(&connection.received.1);
            },
        );
    });
}

/// The thread reads all octets that have arrived. The next octet wakes it.
#[test]
fn a_thread_that_has_read_all_there_was_is_woken_again() {
    model(2, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 2);
        let sender = Arc::clone(&connection);
        let peer = move || {
            for _ in 0..2 {
                sender.stream.peer_sends(1, false);
            }
        };
        beside_nobody(peer, || {
            queue.arm();
            world.wait(&connection.received.1);
        });
    });
}

/// The stream is back in the set before the thread sleeps.
#[test]
fn a_thread_that_waits_after_polling_is_woken() {
    model(3, || {
        let world = World::new();
        let (queue, connection) = polled(&world, 3);
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(1, false),
            || {
                queue.arm();
                world.wait(&connection.received.1);
            },
        );
    });
}

/// The thread sleeps to wait for another event, so the background thread takes over.
#[test]
fn the_end_is_found_after_polling() {
    model(3, || {
        let world = World::new();
        let (queue, connection) = polled(&world, usize::MAX);
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(0, true),
            || world.wait_after(&connection.ended, || queue.stop_polling()),
        );
    });
}

/// The way in which a thread that has polled waits for the next result.
#[derive(Clone, Copy)]
enum Sleeper {
    /// On an event, whose wait announces that the thread sleeps.
    Event,
    /// In its own code, which the sink of the Notify wakes. Only the Notify announces that the thread stops polling.
    Sink,
}

/// A thread polls and sleeps in turn. No time passes, so the background thread has to take over when the thread goes to sleep, and not
/// in a tick.
fn a_thread_that_polls_and_waits_in_turn_needs_no_tick(
    sleeper: Sleeper,
    rules: Rules,
    polls_before: usize,
) {
    model(2, move || {
        kernel::follow(rules);
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::that_gives_results(&queue, usize::MAX, true);
        for _ in 0..polls_before {
            connection.stream.peer_sends(1, false);
            assert_eq!(queue.get_results(), 1);
        }
        kernel::stop_clock();
        let background = world.run_background_with_ticks(Duration::ZERO);
        let sender = Arc::clone(&connection);
        let peer = thread::spawn(move || {
            sender.stream.peer_sends(1, false);
            sender.stream.peer_sends(1, false);
        });
        let mut taken = 0;
        while taken < 2 {
            match queue.get_results() {
                0 => match sleeper {
                    Sleeper::Event => {
                        queue.notify();
                        queue.wait_for_event();
                    }
                    Sleeper::Sink => {
                        queue.notify_sink();
                        queue.sleep();
                    }
                },
                count => taken += count,
            }
        }
        peer.join().unwrap();
        world.background.end();
        background.join().unwrap();
    });
}

#[test]
fn polls_and_waits_in_turn_over_epoll() {
    a_thread_that_polls_and_waits_in_turn_needs_no_tick(Sleeper::Event, Rules::Epoll, 1);
}

#[test]
fn polls_and_waits_in_turn_over_epoll_with_a_stream_out_of_the_set() {
    a_thread_that_polls_and_waits_in_turn_needs_no_tick(Sleeper::Event, Rules::Epoll, 2);
}

#[test]
fn polls_and_waits_in_turn_over_kqueue() {
    a_thread_that_polls_and_waits_in_turn_needs_no_tick(Sleeper::Event, Rules::Kqueue, 1);
}

#[test]
fn polls_and_waits_in_turn_over_kqueue_with_a_stream_out_of_the_set() {
    a_thread_that_polls_and_waits_in_turn_needs_no_tick(Sleeper::Event, Rules::Kqueue, 2);
}

#[test]
fn polls_and_sleeps_elsewhere_in_turn_over_epoll() {
    a_thread_that_polls_and_waits_in_turn_needs_no_tick(Sleeper::Sink, Rules::Epoll, 1);
}

#[test]
fn polls_and_sleeps_elsewhere_in_turn_over_epoll_with_a_stream_out_of_the_set() {
    a_thread_that_polls_and_waits_in_turn_needs_no_tick(Sleeper::Sink, Rules::Epoll, 2);
}

#[test]
fn polls_and_sleeps_elsewhere_in_turn_over_kqueue() {
    a_thread_that_polls_and_waits_in_turn_needs_no_tick(Sleeper::Sink, Rules::Kqueue, 1);
}

#[test]
fn polls_and_sleeps_elsewhere_in_turn_over_kqueue_with_a_stream_out_of_the_set() {
    a_thread_that_polls_and_waits_in_turn_needs_no_tick(Sleeper::Sink, Rules::Kqueue, 2);
}

/// Data and the end of the stream are reported as one event. A short read after it does not mean that nothing is left: the end still has
/// to be read.
#[test]
fn the_end_is_found_behind_data() {
    model(3, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 2);
        connection.stream.peer_sends(1, false);
        queue.poll();
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(1, true),
            || {
                queue.arm();
                world.wait(&connection.received.1);
                queue.arm();
                world.wait(&connection.ended);
            },
        );
    });
}

/// The end lies behind more octets than one visit takes, and the thread that made the visit no longer waits.
#[test]
fn work_that_a_woken_thread_leaves_is_done() {
    // Two preemptions are enough to find that a notice of the remaining work is missing; three take minutes.
    model(2, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 2);
        connection.stream.peer_sends(1, false);
        assert!(!queue.domain.poll()); // for the background thread, this was long ago
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(2 * BUDGET * SPACE + 1, true),
            || {
                queue.arm();
                world.wait(&connection.received.1);
                world.wait(&connection.ended);
            },
        );
    });
}

/// More streams become ready at once than a set reports at once.
#[test]
fn every_ready_stream_is_found() {
    model(2, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connections = [(); BATCH + 1].map(|()| Connection::new(&queue, 1));
        let senders = connections.clone();
        beside(
            &world,
            move || {
                for sender in senders {
                    sender.stream.peer_sends(1, false);
                }
            },
            || {
                for _ in &connections {
                    queue.arm();
                }
                for connection in &connections {
                    world.wait(&connection.received.1);
                }
            },
        );
    });
}

/// A hot stream has moved to another domain, and another stream of the queue is not hot.
#[test]
fn a_hot_stream_that_has_gone_hides_no_other_one() {
    model(2, || {
        let world = World::new();
        let (queue, gone) = polled(&world, usize::MAX);
        gone.drive_from(&world.control);
        let connection = Connection::new(&queue, 1);
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(1, false),
            || {
                queue.arm();
                world.wait(&connection.received.1);
            },
        );
    });
}

/// A connector's request waits for the stream, which was polled before and moves to the control set.
#[test]
fn the_end_is_found_in_the_control_set() {
    model(3, || {
        let world = World::new();
        let (_queue, connection) = polled(&world, usize::MAX);
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(0, true),
            || {
                connection.drive_from(&world.control);
                world.wait(&connection.ended);
            },
        );
    });
}

/// The place where the second waiting thread sleeps. If the system refuses a second set, that thread follows.
#[derive(Clone, Copy)]
enum Second {
    HasASet,
    Follows,
}

impl Second {
    fn begin(self) {
        kernel::fail_adds(match self {
            Self::HasASet => 0,
            Self::Follows => 1,
        });
    }
}

/// Threads that wait in the waiters do not take wake-ups away from a thread that waits outside.
#[test]
fn a_thread_that_waits_outside_is_woken() {
    model(2, || {
        let world = World::new();
        let requests = [(); 2].map(|()| Arc::new(Request::default()));
        let [inside, outside] = requests.clone();
        let at = Arc::clone(&world);
        let peer = move || {
            for request in requests {
                request.end();
                at.waiters.wake();
            }
        };
        world.waiters.outside();
        beside_nobody(peer, || {
            let loops = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    while !outside.is_done() {
                        world.waiters.outside().wait(None, |_| {}).unwrap();
                        world.waiters.progress();
                    }
                })
            };
            world.wait(&inside);
            loops.join().unwrap();
        });
    });
}

/// Data that the background thread has about a removed queue does not affect the next queue.
#[test]
fn queues_come_and_go() {
    model(3, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, usize::MAX);
        let background = world.run_background();
        queue.domain.polled();
        connection.stream.peer_sends(1, false);
        drop((connection, queue));
        drop(Queue::new(&world).unwrap());
        world.background.end();
        background.join().unwrap();
    });
}

/// A stream that cannot be put back into the set of its queue is asked nevertheless.
#[test]
fn a_stream_that_cannot_be_put_back_is_served() {
    for failing in 1..=3 {
        model(2, move || {
            let world = World::new();
            let (queue, connection) = polled(&world, usize::MAX);
            let sender = Arc::clone(&connection);
            beside(
                &world,
                move || sender.stream.peer_sends(0, true),
                || {
                    queue.poll();
                    kernel::fail_adds(failing);
                    world.wait_after(&connection.ended, || queue.stop_polling());
                },
            );
        });
    }
}

/// A queue that was out of the set, because it was polled when octets arrived, is served too.
#[test]
fn a_queue_that_cannot_be_put_back_is_served() {
    model(2, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, usize::MAX);
        queue.domain.polled();
        connection.stream.peer_sends(1, false);
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(0, true),
            || {
                kernel::fail_adds(1);
                world.wait_after(&connection.ended, || queue.stop_polling());
            },
        );
    });
}

/// The waiters' set cannot report a queue, so that the background thread has to serve the queue.
#[test]
fn a_queue_that_cannot_be_armed_is_served() {
    model(3, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 1);
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(1, false),
            || {
                kernel::fail_adds(1);
                queue.arm();
                kernel::fail_adds(0);
                world.wait(&connection.received.1);
            },
        );
    });
}

/// Edges that a driver leaves because the lock is taken are taken up by the thread that holds the lock.
#[test]
fn a_driver_that_finds_the_lock_taken_leaves_its_edges() {
    model(3, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, usize::MAX);
        let other = Arc::clone(&connection);
        let driver = thread::spawn(move || {
            other.stream.peer_sends(1, false);
            other.drive(Edges::READ);
        });
        let other = Arc::clone(&connection);
        let client = thread::spawn(move || other.with(|_| {}));
        connection.drive(Edges::KICK);
        driver.join().unwrap();
        client.join().unwrap();
        assert_eq!(connection.turns.lock().received, 1);
    });
}

/// An unfinished visit stays unfinished, whatever the next one finds.
#[test]
fn a_turn_is_finished_when_all_its_visits_are() {
    model(3, || {
        let turns = Arc::new(Turns::new(()));
        let drive = |turns: &Turns<()>, own| {
            turns.drive(own, |state, edges| {
                thread::yield_now(); // a visit takes its time
                drop(state);
                let unfinished = edges.contains(Edges::WRITE);
                Turn {
                    unfinished,
                    ..Turn::default()
                }
            })
        };
        let other = Arc::clone(&turns);
        let driver = thread::spawn(move || drive(&other, Edges::READ).unfinished);
        let unfinished = drive(&turns, Edges::WRITE).unfinished;
        assert!(driver.join().unwrap() || unfinished);
        assert!(!turns.has_left());
    });
}

/// A thread polls, and stops at any time, while another thread waits for the same queue.
#[test]
fn polls_take_nothing_away_from_a_thread_that_waits() {
    model(3, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 2);
        connection.stream.peer_sends(1, false);
        queue.poll();
        let sender = Arc::clone(&connection);
        let polling = Arc::clone(&queue);
        let poller = thread::spawn(move || polling.poll());
        beside_nobody(
            move || sender.stream.peer_sends(1, true),
            || {
                queue.arm();
                world.wait(&connection.received.1);
                queue.arm();
                world.wait(&connection.ended);
            },
        );
        poller.join().unwrap();
    });
}

/// A thread that begins to wait finds the hot streams held by a polling thread, which then puts them back.
#[test]
fn a_poll_puts_back_what_a_thread_begins_to_wait_for() {
    model(3, || {
        let world = World::new();
        let (queue, connection) = polled(&world, 3);
        let sender = Arc::clone(&connection);
        let polling = Arc::clone(&queue);
        let poller = thread::spawn(move || polling.poll());
        beside_nobody(
            move || sender.stream.peer_sends(1, false),
            || {
                queue.arm();
                world.wait(&connection.received.1);
            },
        );
        poller.join().unwrap();
    });
}

/// A wake-up that comes while a thread wakes up by itself does not keep it awake later.
#[test]
fn a_late_wake_up_does_not_stay() {
    model(3, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 1);
        let sender = Arc::clone(&connection);
        let at = Arc::clone(&world);
        queue.arm();
        beside_nobody(
            move || {
                sender.stream.peer_sends(1, false);
                at.waiters.wake();
                thread::yield_now();
                sender.stream.peer_sends(0, true);
            },
            || {
                world.wait(&connection.received.1);
                queue.arm();
                world.wait(&connection.ended);
            },
        );
    });
}
