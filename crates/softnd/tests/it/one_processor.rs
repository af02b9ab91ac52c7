//! Programs that poll where the process has one processor: the polls yield to the threads that they wait for.
//!
//! Each test counts the polls that find nothing until an answer is there. A thread that does not yield polls until the system preempts it.
//! That takes hundreds of polls, or less where other programs of the machine wake up often on this processor.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use netdirect::{
    CompletionPort, CompletionQueue, CompletionResult, NotifyType, OpFlags, Overlapped, QueuePair,
    RequestType, Started, Status,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::common::{self, ALL, Pair, Region, Side, child, connect};

/// Round trips of each connection.
const ROUNDS: usize = 200;
/// If threads do not yield, a round trip takes two time slices of the system.
const ROUNDS_WITHOUT_YIELDS: usize = 20;
/// Threads that yield poll less often than this in the median round trip. Threads that do not yield poll more often in some round trip.
const MANY: u32 = 100;
/// Games of threads that do not yield, if other programs preempt them before they have polled [`MANY`] times.
const GAMES: usize = 100;

/// How a program asks, again and again, if a message is there.
#[derive(Clone, Copy, Debug)]
enum Way {
    Results,
    Overlapped,
    Port,
    Future,
}

/// One end of a connection, for a thread of its own.
struct End {
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
    memory: Region,
    port: CompletionPort,
}

impl End {
    fn new(side: &Side, qp: &Arc<dyn QueuePair>) -> Self {
        let port = CompletionPort::new();
        side.file.associate(&port, 0).unwrap();
        Self {
            cq: Arc::clone(&side.cq),
            qp: Arc::clone(qp),
            memory: side.region(8, ALL),
            port,
        }
    }

    fn receive(&self) {
        self.qp.receive(1, &[self.memory.sge(0, 8)]).unwrap();
    }

    fn send(&self) {
        self.qp
            .send_inline(2, &[b"message"], OpFlags::SILENT_SUCCESS)
            .unwrap();
    }

    /// Polls until a message is there. Returns the number of polls that have found nothing.
    fn await_message(&self, way: Way) -> u32 {
        let mut vain = 0;
        let mut result = [CompletionResult::default()];
        while self.cq.get_results(&mut result) == 0 {
            vain += 1;
            if !matches!(way, Way::Results) {
                vain += self.await_notify(way);
            }
        }
        assert_eq!(result[0].status, Status::SUCCESS);
        assert_eq!(result[0].request_type, RequestType::Receive);
        vain
    }

    fn await_notify(&self, way: Way) -> u32 {
        let overlapped = Overlapped::new();
        if self.cq.notify(NotifyType::Any, &overlapped).unwrap() == Started::Done {
            return 0;
        }
        let mut future = pin!((&overlapped).into_future());
        let mut cx = Context::from_waker(Waker::noop());
        let mut is_there = || match way {
            Way::Port => self.port.get(Some(Duration::ZERO)).is_some(),
            Way::Future => future.as_mut().poll(&mut cx).is_ready(),
            Way::Overlapped | Way::Results => overlapped.poll() != Status::PENDING,
        };
        let mut vain = 0;
        while !is_there() {
            vain += 1;
        }
        vain
    }
}

/// How many polls of a thread find nothing in a round trip.
struct VainPolls {
    median: u32,
    most: u32,
}

/// Plays ping-pong on this many connections, each end in a thread.
fn vain_polls(connections: usize, way: Way, rounds: usize, prepare: impl Fn() + Sync) -> VainPolls {
    let pairs: Vec<Pair> = (0..connections)
        .map(|_| connect(Side::new(), Side::new(), 1))
        .collect();
    let begin = Barrier::new(2 * connections);
    let plays = |side: &Side, qp: &Arc<dyn QueuePair>, is_first: bool| {
        prepare();
        let end = End::new(side, qp);
        end.receive();
        begin.wait();
        let polls = (0..rounds).map(|_| {
            if is_first {
                end.send();
            }
            let vain = end.await_message(way);
            end.receive();
            if !is_first {
                end.send();
            }
            vain
        });
        polls.collect::<Vec<_>>()
    };
    let mut all: Vec<u32> = thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .iter()
            .flat_map(|pair| {
                let plays = &plays;
                [
                    scope.spawn(move || plays(&pair.active, &pair.active_qp, true)),
                    scope.spawn(move || plays(&pair.passive, &pair.passive_qp, false)),
                ]
            })
            .collect();
        let all = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        all.collect()
    });
    all.sort_unstable();
    let (median, most) = (all[all.len() / 2], all[all.len() - 1]);
    println!(
        "{connections} connections, {way:?}: {median} polls find nothing in the median, at most {most}"
    );
    VainPolls { median, most }
}

/// The first processor that the calling thread may use, and the number of those processors.
fn processors() -> (CpuSet, usize) {
    let allowed = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set(
        (0..CpuSet::MAX_CPU)
            .find(|cpu| allowed.is_set(*cpu))
            .unwrap(),
    );
    (one, allowed.count() as usize)
}

fn bind() {
    sched_setaffinity(None, &processors().0).unwrap();
}

/// Runs `test` in a process with one processor.
fn with_one_processor(name: &str, test: impl FnOnce()) {
    if child::is_alone() {
        assert_eq!(processors().1, 1);
        return test();
    }
    let all = sched_getaffinity(None).unwrap();
    bind(); // the child has the processors of this thread
    child::passes(&format!("one_processor::{name}"), |_| {});
    sched_setaffinity(None, &all).unwrap();
}

#[test]
fn two_threads_that_poll_yield() {
    with_one_processor("two_threads_that_poll_yield", || {
        assert!(vain_polls(1, Way::Results, ROUNDS, || {}).median < MANY);
    });
}

#[test]
fn eight_threads_that_poll_yield() {
    with_one_processor("eight_threads_that_poll_yield", || {
        assert!(vain_polls(4, Way::Results, ROUNDS, || {}).median < MANY);
    });
}

#[test]
fn threads_that_ask_for_the_end_of_a_request_yield() {
    with_one_processor("threads_that_ask_for_the_end_of_a_request_yield", || {
        for way in [Way::Overlapped, Way::Port, Way::Future] {
            for connections in [1, 4] {
                let polls = vain_polls(connections, way, ROUNDS, || {});
                assert!(polls.median < MANY, "{way:?}");
            }
        }
    });
}

/// The same threads on the same processor, in a process whose first thread may use another one. Nothing yields, which shows that the tests
/// above can fail.
#[test]
fn threads_that_choose_one_of_several_processors_do_not_yield() {
    if processors().1 == 1 || softnd::processors::is_single() {
        return common::skip("this process has one processor");
    }
    let name = "threads_that_choose_one_of_several_processors_do_not_yield";
    if !child::is_alone() {
        return child::passes(&format!("one_processor::{name}"), |_| {});
    }
    let polls_many_times = |_| vain_polls(1, Way::Results, ROUNDS_WITHOUT_YIELDS, bind).most > MANY;
    assert!((0..GAMES).any(polls_many_times));
}
