//! Shared code of the tests: where they run, and an executor.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use netdirect::{Buffer, CompletionQueue, MrFlags, QueuePair, QueuePairOptions};
use netdirect_async::{AsyncAdapter, AsyncListener, ListenerOptions, RegisteredBuffer};
use softnd::Options;
use softnd::simulation::Simulation;

/// A time limit that ends a hanging test. Nothing takes this long on the slowest machine.
pub const LONG: Duration = Duration::from_secs(120);

/// Where a test runs.
#[derive(Clone, Debug)]
pub enum Network {
    /// Over TCP, within this machine.
    Tcp,
    Simulated(Simulation),
}

impl Network {
    /// The adapter of a host.
    pub fn open(&self, host: u8) -> AsyncAdapter {
        self.open_with(host, Options::default())
    }

    pub fn open_with(&self, host: u8, options: Options) -> AsyncAdapter {
        let adapter = match self {
            Self::Tcp => softnd::open("softnd+tcp://127.0.0.1", options),
            Self::Simulated(network) => network.open([10, 0, 0, host], options),
        };
        AsyncAdapter::new(&adapter.unwrap()).unwrap()
    }

    /// A listener of an adapter, at a port that the provider chooses.
    pub fn listen(&self, adapter: &AsyncAdapter, options: ListenerOptions) -> AsyncListener {
        let address = adapter.adapter().query_address_list().unwrap()[0];
        adapter.listen(address, options).unwrap()
    }

    /// Called in loops that wait for something without a future.
    pub fn idle(&self) {
        match self {
            Self::Tcp => thread::yield_now(),
            Self::Simulated(network) => assert!(network.step(), "nothing is left to happen"),
        }
    }

    /// As [`idle`](Self::idle), and works for an adapter meanwhile.
    pub fn look(&self, adapter: &AsyncAdapter) {
        adapter.file().progress();
        match self {
            Self::Tcp => thread::yield_now(),
            Self::Simulated(network) => drop(network.step()),
        }
    }

    pub fn is_simulated(&self) -> bool {
        matches!(self, Self::Simulated(_))
    }
}

/// Runs a test over TCP where softnd can use the system's sockets, and in simulated networks with several seeds.
pub fn everywhere(test: impl Fn(&Network)) {
    if !cfg!(windows) {
        test(&Network::Tcp);
    }
    simulated(test);
}

/// Runs a test in simulated networks with several seeds.
pub fn simulated(test: impl Fn(&Network)) {
    for seed in 0..8 {
        eprintln!("seed {seed}");
        test(&Network::Simulated(Simulation::new(seed)));
    }
}

/// A queue pair with its own completion queue.
pub struct Side {
    pub adapter: AsyncAdapter,
    pub cq: Arc<dyn CompletionQueue>,
    pub qp: Arc<dyn QueuePair>,
}

impl Side {
    pub fn new(adapter: &AsyncAdapter) -> Self {
        let cq = adapter.completion_queue(64).unwrap();
        let qp = queue_pair(adapter, &cq);
        let adapter = adapter.clone();
        Self { adapter, cq, qp }
    }

    pub async fn memory(&self, len: usize) -> RegisteredBuffer {
        let buffer = Buffer::new(len);
        self.adapter.register(&buffer, ALL).await.unwrap()
    }
}

pub fn queue_pair(adapter: &AsyncAdapter, cq: &Arc<dyn CompletionQueue>) -> Arc<dyn QueuePair> {
    let options = QueuePairOptions::default()
        .receive_queue_depth(32)
        .initiator_queue_depth(32)
        .inline_data_size(64);
    adapter.queue_pair(cq, options).unwrap()
}

pub const ALL: MrFlags = MrFlags::ALLOW_LOCAL_WRITE
    .union(MrFlags::ALLOW_REMOTE_READ)
    .union(MrFlags::ALLOW_REMOTE_WRITE)
    .union(MrFlags::RDMA_READ_SINK);

/// Counts wake-ups, and wakes the thread in which it was made.
pub struct Counter {
    count: AtomicUsize,
    thread: Thread,
}

impl Counter {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            count: AtomicUsize::new(0),
            thread: thread::current(),
        })
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// An executor of one task, which polls only when the task was woken.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let counter = Counter::new();
    let waker = counter.clone().into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let mut seen = 0;
    let end = Instant::now() + LONG;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while counter.count() == seen {
            assert!(Instant::now() < end, "nobody wakes the task");
            thread::park_timeout(Duration::from_secs(1));
        }
        seen = counter.count();
    }
}

/// Polls a future once, without anybody who would be woken.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Ends after this many polls of a future at the latest. The future is dropped then.
pub async fn polled<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), times);
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
