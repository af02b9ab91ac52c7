//! Programs that poll where the process has one processor, by libsoftnd.so's objects of COM and by futures: the polls yield to the threads
//! that they wait for.
//!
//! Each test counts the polls that find nothing until an answer is there. A thread that does not yield polls until the system preempts it.
//! That takes hundreds of polls, or less where other programs of the machine wake up often on this processor. `crates/softnd/tests/it/one_processor.rs` has the traits, `tests/verbs/one_processor.c` verbs.

use std::future::Future;
use std::pin::pin;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::{env, thread};

use netdirect::{
    Affinity, Buffer, CompletionQueue, CompletionResult, MemoryRegion, MrFlags, OpFlags,
    Overlapped, Provider, QueuePair, QueuePairOptions, ReadLimits, RequestType, Sge, ext,
};
use netdirect_async::{AsyncAdapter, Connection, Endpoint, ListenerOptions, RegisteredBuffer};
use netdirect_com::import::TrustedLibrary;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use softnd_tests::{nd, tool};

const ROUNDS: usize = 200;
/// If threads do not yield, a round trip takes two time slices of the system.
const ROUNDS_WITHOUT_YIELDS: usize = 20;
/// Threads that yield poll less often than this in the median round trip. Threads that do not yield poll more often in some round trip.
const MANY: u32 = 100;
/// Games of threads that do not yield, if other programs preempt them before they have polled [`MANY`] times.
const GAMES: usize = 100;

/// The variable that is set in a process with one processor.
const CHILD: &str = "SOFTND_TEST_ONE_PROCESSOR";

/// One end of a connection, for a thread of its own.
trait End: Send {
    fn receive(&mut self);
    fn send(&mut self);
    /// Polls until a message is there. Returns the number of polls that have found nothing.
    fn await_message(&mut self) -> u32;
}

/// How many polls of a thread find nothing in a round trip.
struct VainPolls {
    median: u32,
    most: u32,
}

/// Plays ping-pong on these connections, each end in a thread.
fn vain_polls(pairs: Vec<[Box<dyn End>; 2]>, rounds: usize, prepare: fn()) -> VainPolls {
    let begin = Barrier::new(2 * pairs.len());
    let plays = |mut end: Box<dyn End>, is_first: bool| {
        prepare();
        end.receive();
        begin.wait();
        let polls = (0..rounds).map(|_| {
            if is_first {
                end.send();
            }
            let vain = end.await_message();
            end.receive();
            if !is_first {
                end.send();
            }
            vain
        });
        let polls: Vec<u32> = polls.collect();
        begin.wait(); // no end leaves before the last answer
        polls
    };
    let mut all: Vec<u32> = thread::scope(|scope| {
        let plays = &plays;
        let threads: Vec<_> = pairs
            .into_iter()
            .flat_map(|[first, second]| {
                [
                    scope.spawn(move || plays(first, true)),
                    scope.spawn(move || plays(second, false)),
                ]
            })
            .collect();
        let all = threads.into_iter();
        all.flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_unstable();
    let (median, most) = (all[all.len() / 2], all[all.len() - 1]);
    println!("{median} polls find nothing in the median, at most {most}");
    VainPolls { median, most }
}

/// An end by the traits, whatever the provider is.
struct Polled {
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
    memory: (Buffer, Arc<dyn MemoryRegion>),
    _connector: Arc<dyn netdirect::Connector>,
}

impl End for Polled {
    fn receive(&mut self) {
        let (buffer, region) = &self.memory;
        let sge = Sge {
            address: buffer.address(),
            length: 8,
            token: region.get_local_token(),
        };
        self.qp.receive(1, &[sge]).unwrap();
    }

    fn send(&mut self) {
        let flags = OpFlags::SILENT_SUCCESS;
        self.qp.send_inline(2, &[b"message"], flags).unwrap();
    }

    fn await_message(&mut self) -> u32 {
        let (mut vain, mut result) = (0, [CompletionResult::default()]);
        while self.cq.get_results(&mut result) == 0 {
            vain += 1;
        }
        result[0].status.ok().unwrap();
        assert_eq!(result[0].request_type, RequestType::Receive);
        vain
    }
}

/// A connection between two adapters of a provider.
fn connected(provider: &dyn Provider) -> [Box<dyn End>; 2] {
    let address = ([127, 0, 0, 1], 0).into();
    let make = || {
        let id = provider.resolve_address(address).unwrap();
        let adapter = provider.open_adapter(id).unwrap();
        let file = adapter.create_overlapped_file().unwrap();
        let cq = adapter.create_completion_queue(&file, 16, Affinity::default());
        let cq = cq.unwrap();
        let options = QueuePairOptions::default()
            .receive_queue_depth(8)
            .initiator_queue_depth(8)
            .inline_data_size(64);
        let qp = adapter.create_queue_pair(&cq, &cq, options).unwrap();
        let (buffer, region) = (Buffer::new(8), adapter.create_memory_region(&file).unwrap());
        let overlapped = Overlapped::new();
        let registered = region.register(&buffer, MrFlags::ALLOW_LOCAL_WRITE, &overlapped);
        ext::wait(registered, &overlapped).unwrap();
        let connector = adapter.create_connector(&file).unwrap();
        let end = Polled {
            cq,
            qp,
            memory: (buffer, region),
            _connector: Arc::clone(&connector),
        };
        (adapter, file, connector, end)
    };
    let (_, _, connector, active) = make();
    let (adapter, file, acceptor, passive) = make();
    let listener = adapter.create_listener(&file).unwrap();
    listener.bind(address).unwrap();
    listener.listen(1).unwrap();
    let address = listener.get_local_address().unwrap();
    let limits = ReadLimits::default();
    thread::scope(|scope| {
        scope.spawn(|| ext::connect(&connector, &active.qp, address, limits, b"").unwrap());
        ext::get_connection_request(&listener, &acceptor).unwrap();
        ext::accept(&acceptor, &passive.qp, limits, b"").unwrap();
    });
    [Box::new(active), Box::new(passive)]
}

/// An end whose requests are futures, in a program that polls them without a pause.
struct Awaited {
    endpoint: Endpoint,
    memory: RegisteredBuffer,
    request: Option<netdirect_async::Request>,
    _connection: Connection,
}

impl End for Awaited {
    fn receive(&mut self) {
        self.request = Some(self.endpoint.receive([self.memory.part(..)]));
    }

    fn send(&mut self) {
        // The request goes on without its future.
        drop(self.endpoint.send_inline(&[b"message"], OpFlags::empty()));
    }

    fn await_message(&mut self) -> u32 {
        let mut request = pin!(self.request.take().unwrap());
        let mut cx = Context::from_waker(Waker::noop());
        let mut vain = 0;
        loop {
            match request.as_mut().poll(&mut cx) {
                Poll::Ready(result) => {
                    result.unwrap();
                    return vain;
                }
                Poll::Pending => vain += 1,
            }
        }
    }
}

/// A connection whose requests are futures.
fn connected_by_futures() -> [Box<dyn End>; 2] {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let open = || {
            let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default());
            AsyncAdapter::new(&adapter.unwrap()).unwrap()
        };
        let (here, there) = (open(), open());
        let endpoint = |adapter: &AsyncAdapter| {
            let options = QueuePairOptions::default()
                .receive_queue_depth(8)
                .initiator_queue_depth(8)
                .inline_data_size(64);
            adapter.endpoint(options).unwrap()
        };
        let (active, passive) = (endpoint(&here), endpoint(&there));
        let address = there.adapter().query_address_list().unwrap()[0];
        let listener = there.listen(address, ListenerOptions::default()).unwrap();
        let address = listener.local_address().unwrap();
        let accepted = async {
            let request = listener.get_connection_request().await.unwrap();
            request.accept(passive.queue_pair()).await.unwrap()
        };
        let connected = async { here.connect(active.queue_pair(), address).await.unwrap() };
        let (connected, accepted) = tokio::join!(connected, accepted);
        let flags = MrFlags::ALLOW_LOCAL_WRITE;
        let memory = here.register(&Buffer::new(8), flags).await.unwrap();
        let active = Awaited {
            endpoint: active,
            memory,
            request: None,
            _connection: connected,
        };
        let memory = there.register(&Buffer::new(8), flags).await.unwrap();
        let passive = Awaited {
            endpoint: passive,
            memory,
            request: None,
            _connection: accepted,
        };
        [Box::new(active) as Box<dyn End>, Box::new(passive)]
    })
}

/// Binds the calling thread, and those that it starts, to one processor.
fn bind() {
    let allowed = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set(
        (0..CpuSet::MAX_CPU)
            .find(|cpu| allowed.is_set(*cpu))
            .unwrap(),
    );
    sched_setaffinity(None, &one).unwrap();
}

/// Runs a test of this file in a process of its own.
fn in_child(name: &str) {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", &format!("one_processor::{name}"), "--nocapture"]);
    let output = child.env(CHILD, "1").output().unwrap();
    let said = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    let passed = output.status.success() && stdout.contains("1 passed");
    assert!(passed, "{}\n{stdout}\n{stderr}", output.status);
}

/// Runs `test` in a process with one processor.
fn with_one_processor(name: &str, test: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        return test();
    }
    let all = sched_getaffinity(None).unwrap();
    bind(); // the child has the processors of this thread
    in_child(name);
    sched_setaffinity(None, &all).unwrap();
}

fn of_com() -> Arc<dyn Provider> {
    let library = nd::binary().with_file_name("libsoftnd.so");
    netdirect_com::import::provider(TrustedLibrary { path: &library }).unwrap()
}

#[test]
fn programs_in_c_that_poll_yield() {
    nd::build_libraries();
    with_one_processor("programs_in_c_that_poll_yield", || {
        let provider = of_com();
        for connections in [1, 4] {
            let pairs = (0..connections).map(|_| connected(&*provider)).collect();
            assert!(vain_polls(pairs, ROUNDS, || {}).median < MANY);
        }
    });
}

#[test]
fn futures_that_are_polled_without_a_pause_yield() {
    with_one_processor("futures_that_are_polled_without_a_pause_yield", || {
        for connections in [1, 4] {
            let pairs = (0..connections).map(|_| connected_by_futures()).collect();
            assert!(vain_polls(pairs, ROUNDS, || {}).median < MANY);
        }
    });
}

/// The same threads on the same processor, in a process whose first thread may use another one. Nothing yields, which shows that the tests
/// above can fail.
#[test]
fn threads_that_choose_one_of_several_processors_do_not_yield() {
    if softnd::processors::is_single() {
        return tool::skip("this process has one processor");
    }
    if env::var_os(CHILD).is_none() {
        nd::build_libraries();
        return in_child("threads_that_choose_one_of_several_processors_do_not_yield");
    }
    let provider = of_com();
    let polls_many_times = |_| {
        let pairs = vec![connected(&*provider)];
        vain_polls(pairs, ROUNDS_WITHOUT_YIELDS, bind).most > MANY
    };
    assert!((0..GAMES).any(polls_many_times));
}
