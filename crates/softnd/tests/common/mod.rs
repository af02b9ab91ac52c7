//! Shared code of the provider's tests: sides, connections between sides, and waiting for results.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

pub mod child;
pub mod ending;
pub mod log;
pub mod message;
pub mod raw;
pub mod stream;
pub mod wire;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, CompletionResult, Connector, Error, Listener,
    LocalToken, MemoryRegion, MrFlags, NotifyType, Overlapped, OverlappedFile, QueuePair,
    QueuePairOptions, RemoteAddress, Sge, Started, Status,
};
use softnd::Options;
use softnd::simulation::{Chance, Conditions, Simulation};

/// Prints the name of the running test to standard error, and the reason why the test is skipped.
pub fn skip(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not `eprintln!`: the harness swallows that when the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

/// A time limit that ends a hanging test. Nothing takes this long on the slowest machine.
pub const LONG: Duration = Duration::from_secs(120);

/// True in the programs `on_sim` and `udp`, whose tests run in a simulated network.
pub const SIMULATED: bool = matches!(
    module_path!().as_bytes(),
    [b'o', b'n', b'_', b's', b'i', b'm', ..] | [b'u', b'd', b'p', b':', ..]
);

/// True if the adapters of that network connect over UDP.
const OVER_UDP: bool = matches!(module_path!().as_bytes(), [b'u', b'd', b'p', b':', ..]);

/// The name of the transport of this program's adapters, unless they have the option of shared memory.
pub const TRANSPORT: &str = match (SIMULATED, OVER_UDP) {
    (false, _) => "tcp",
    (true, false) => "sim",
    (true, true) => "udp",
};

/// The length of a long message, in octets. Simulated networks use a shorter message, because each segment costs time.
pub const fn long(octets: usize) -> usize {
    if SIMULATED { octets / 20 } else { octets }
}

thread_local! {
    /// The network of this test, which is its thread's.
    static NETWORK: Simulation = {
        let network = Simulation::with(seed(), conditions());
        if OVER_UDP { network.over_udp() } else { network }
    };
}

/// The seed of simulated networks: `SOFTND_SEED` in the environment, or 1.
pub fn seed() -> u64 {
    let seed = std::env::var("SOFTND_SEED");
    seed.map_or(1, |seed| seed.parse().expect("SOFTND_SEED is a number"))
}

/// The conditions of simulated networks: the default, or with `SOFTND_NETWORK=harsh` in the environment segments of a few octets, some of
/// which are late, and small buffers.
fn conditions() -> Conditions {
    let mut conditions = Conditions::default();
    match std::env::var("SOFTND_NETWORK").as_deref() {
        Ok("harsh") => {
            conditions.segment = 1..=7;
            conditions.buffer = 16 * 1024;
            conditions.stall = Chance::per_million(200);
            conditions.stall_time = Duration::from_micros(100)..=Duration::from_millis(5);
        }
        Ok(other) => panic!("SOFTND_NETWORK is harsh or not there, and not {other}"),
        Err(_) => {}
    }
    conditions
}

/// The simulated network of this test.
pub fn network() -> Simulation {
    NETWORK.with(Clone::clone)
}

/// The number of tests that have adapters of the host at a time, however many threads the harness has: each test was made for a process
/// with 1,024 descriptors, and they share those of the process.
const AT_ONCE: usize = 8;

/// A test that has adapters of the host. There are at most [`AT_ONCE`].
struct Admission;

static ADMITTED: Mutex<usize> = Mutex::new(0);
static LEAVES: Condvar = Condvar::new();

thread_local! {
    /// Taken when a test's thread opens its first adapter, until the thread ends.
    static ADMISSION: Admission = {
        let admitted = ADMITTED.lock().unwrap();
        *LEAVES.wait_while(admitted, |admitted| *admitted == AT_ONCE).unwrap() += 1;
        Admission
    };
}

impl Drop for Admission {
    fn drop(&mut self) {
        *ADMITTED.lock().unwrap() -= 1;
        LEAVES.notify_one();
    }
}

/// Waits until this test may have adapters of the host. A thread that a test has started has no name, and does not wait.
fn admit() {
    if !SIMULATED && thread::current().name().is_some() {
        ADMISSION.with(|Admission| ());
    }
}

/// Opens an adapter of the host, or of the test's own simulated network.
pub fn open(options: Options) -> Arc<dyn Adapter> {
    open_at([127, 0, 0, 1], options)
}

/// Opens an adapter with another loopback address.
pub fn open_at(address: impl Into<IpAddr>, options: Options) -> Arc<dyn Adapter> {
    let address = address.into();
    if SIMULATED {
        return network().open(address, options).unwrap();
    }
    admit();
    softnd::open(&address.to_string(), options).unwrap()
}

/// The provider whose adapter has the address 127.0.0.1.
pub fn provider(options: Options) -> Arc<dyn netdirect::Provider> {
    if SIMULATED {
        return network().provider([[127, 0, 0, 1].into()], options);
    }
    admit();
    softnd::provider(options)
}

/// The clock of time limits of waits.
pub fn now() -> Duration {
    static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    if SIMULATED {
        network().time()
    } else {
        BEGIN.elapsed()
    }
}

/// Called in loops that wait without calling softnd. In a simulated network, runs the next event.
pub fn idle() {
    if !SIMULATED {
        thread::yield_now();
    } else if !network().step() {
        // No event is left, but time limits still end.
        network().pass(Duration::from_millis(1));
    }
}

/// One end: an opened adapter with the objects that every connection needs.
#[derive(Clone)]
pub struct Side {
    pub adapter: Arc<dyn Adapter>,
    pub file: Arc<dyn OverlappedFile>,
    pub cq: Arc<dyn CompletionQueue>,
}

impl Side {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Self::on_adapter(open(options))
    }

    pub fn on_adapter(adapter: Arc<dyn Adapter>) -> Self {
        admit();
        let file = adapter.create_overlapped_file().unwrap();
        let cq = adapter
            .create_completion_queue(&file, 256, Affinity::default())
            .unwrap();
        Self { adapter, file, cq }
    }

    pub fn queue_pair(&self) -> Arc<dyn QueuePair> {
        let options = QueuePairOptions::default()
            .receive_queue_depth(32)
            .initiator_queue_depth(32)
            .inline_data_size(64);
        self.adapter
            .create_queue_pair(&self.cq, &self.cq, options)
            .unwrap()
    }

    /// The adapter's first address, with port 0.
    pub fn address(&self) -> SocketAddr {
        self.adapter.query_address_list().unwrap()[0]
    }

    pub fn connector(&self) -> Arc<dyn Connector> {
        self.adapter.create_connector(&self.file).unwrap()
    }

    pub fn listener(&self, backlog: u32) -> (Arc<dyn Listener>, SocketAddr) {
        let listener = self.adapter.create_listener(&self.file).unwrap();
        listener.bind(self.address()).unwrap();
        listener.listen(backlog).unwrap();
        let address = listener.get_local_address().unwrap();
        (listener, address)
    }

    pub fn register(&self, buffer: &Buffer, flags: MrFlags) -> Region {
        let region = self.adapter.create_memory_region(&self.file).unwrap();
        let overlapped = Overlapped::new();
        end(region.register(buffer, flags, &overlapped), &overlapped).unwrap();
        Region {
            buffer: buffer.clone(),
            region,
        }
    }

    pub fn region(&self, len: usize, flags: MrFlags) -> Region {
        self.register(&Buffer::new(len), flags)
    }

    /// Waits for `count` results by Notify and waiters.
    pub fn results(&self, count: usize) -> Vec<CompletionResult> {
        let mut results = Vec::new();
        let mut batch = [CompletionResult::default(); 16];
        while results.len() < count {
            let room = (count - results.len()).min(batch.len());
            let taken = self.cq.get_results(&mut batch[..room]);
            results.extend_from_slice(&batch[..taken]);
            if results.len() < count && taken == 0 {
                let overlapped = Overlapped::new();
                let _ = self.cq.notify(NotifyType::Any, &overlapped).unwrap();
                wait(&overlapped);
            }
        }
        results
    }

    pub fn result(&self) -> CompletionResult {
        self.results(1)[0]
    }
}

pub const ALL: MrFlags = MrFlags::ALLOW_LOCAL_WRITE
    .union(MrFlags::ALLOW_REMOTE_READ)
    .union(MrFlags::ALLOW_REMOTE_WRITE);

pub struct Region {
    pub buffer: Buffer,
    pub region: Arc<dyn MemoryRegion>,
}

impl Region {
    pub fn token(&self) -> LocalToken {
        self.region.get_local_token()
    }

    pub fn sge(&self, at: usize, len: usize) -> Sge {
        Sge {
            address: self.buffer.address() + at as u64,
            length: u32::try_from(len).unwrap(),
            token: self.token(),
        }
    }

    pub fn remote(&self, at: usize) -> RemoteAddress {
        RemoteAddress {
            address: self.buffer.address() + at as u64,
            token: self.region.get_remote_token(),
        }
    }
}

/// Waits for the end of a request. A request found complete only after the time limit counts as a failure, because it woke no thread.
pub fn wait(overlapped: &Overlapped) -> Status {
    let begun = now();
    while SIMULATED && wire::relay() && overlapped.poll() == Status::PENDING {
        assert!(now() - begun < LONG, "the request does not end");
    }
    let status = overlapped.wait_timeout(LONG);
    assert!(now() - begun < LONG, "{status:?}, but nobody was woken");
    status.expect("the end of a request")
}

/// The final status of a request.
pub fn end(started: netdirect::Result<Started>, overlapped: &Overlapped) -> Result<(), Status> {
    let status = match started {
        Ok(Started::Done) => Status::SUCCESS,
        Ok(Started::Pending) => wait(overlapped),
        Err(error) => error.status(),
    };
    if status == Status::SUCCESS {
        Ok(())
    } else {
        Err(status)
    }
}

/// The final status of a request, for a closure that starts it.
pub fn run(start: impl FnOnce(&Overlapped) -> netdirect::Result<Started>) -> Result<(), Status> {
    let overlapped = Overlapped::new();
    end(start(&overlapped), &overlapped)
}

pub fn status(result: netdirect::Result<impl std::fmt::Debug>) -> Status {
    result.map_or_else(|error: Error| error.status(), |_| Status::SUCCESS)
}

/// A peer that asks for a connection, with its name as private data.
pub struct Caller {
    pub connects: Overlapped,
    _objects: (Arc<dyn Connector>, Arc<dyn QueuePair>),
}

impl Caller {
    pub fn new(side: &Side, to: SocketAddr, name: &[u8]) -> Self {
        let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
        let _ = connector.connect(&qp, to, 0, 0, name, &connects).unwrap();
        Self {
            connects,
            _objects: (connector, qp),
        }
    }
}

/// Two connected queue pairs.
pub struct Pair {
    pub active: Side,
    pub passive: Side,
    pub active_qp: Arc<dyn QueuePair>,
    pub passive_qp: Arc<dyn QueuePair>,
    pub active_connector: Arc<dyn Connector>,
    pub passive_connector: Arc<dyn Connector>,
    pub listener: Arc<dyn Listener>,
}

pub fn pair() -> Pair {
    pair_with(Options::default(), Options::default())
}

pub fn pair_with(active: Options, passive: Options) -> Pair {
    connect(Side::with(active), Side::with(passive), 16)
}

/// Connects two new queue pairs, with `limit` Reads each way.
pub fn connect(active: Side, passive: Side, limit: u32) -> Pair {
    connect_by(active, passive, limit, |address| address)
}

/// Connects two new queue pairs, to the address that `route` returns for the listener's address.
pub fn connect_by(
    active: Side,
    passive: Side,
    limit: u32,
    route: impl FnOnce(SocketAddr) -> SocketAddr,
) -> Pair {
    let active_qp = active.queue_pair();
    connect_queue_pair(active, passive, active_qp, limit, route)
}

/// Connects this queue pair of the active side with a new queue pair of the passive side.
pub fn connect_queue_pair(
    active: Side,
    passive: Side,
    active_qp: Arc<dyn QueuePair>,
    limit: u32,
    route: impl FnOnce(SocketAddr) -> SocketAddr,
) -> Pair {
    let (listener, address) = passive.listener(0);
    connect_through(
        active,
        passive,
        active_qp,
        limit,
        (listener, route(address)),
    )
}

/// Connects this queue pair of the active side with a new queue pair of the passive side, through a listener at an address.
pub fn connect_through(
    active: Side,
    passive: Side,
    active_qp: Arc<dyn QueuePair>,
    limit: u32,
    (listener, address): (Arc<dyn Listener>, SocketAddr),
) -> Pair {
    let passive_qp = passive.queue_pair();
    let (active_connector, passive_connector) = (active.connector(), passive.connector());
    let (arrives, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&passive_connector, &arrives);
    let connecting =
        active_connector.connect(&active_qp, address, limit, limit, b"hello", &connects);
    end(arrival, &arrives).unwrap();
    let accepting = passive_connector.accept(&passive_qp, limit, limit, b"welcome", &accepts);
    end(connecting, &connects).unwrap();
    run(|overlapped| active_connector.complete_connect(overlapped)).unwrap();
    end(accepting, &accepts).unwrap();
    // `.ci/same-host` counts such lines.
    println!(
        "connections over {}: 1",
        active_connector.transport().unwrap()
    );
    Pair {
        active,
        passive,
        active_qp,
        passive_qp,
        active_connector,
        passive_connector,
        listener,
    }
}

/// The status of a Connect to a side that accepts every peer.
pub fn connect_status(active: &Side, passive: &Side) -> Status {
    let (listener, address) = passive.listener(0);
    let (connector, theirs) = (active.connector(), passive.connector());
    let (queue_pair, their_queue_pair) = (active.queue_pair(), passive.queue_pair());
    let (arrives, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&theirs, &arrives);
    let connecting = connector.connect(&queue_pair, address, 1, 1, b"hello", &connects);
    let begun = now();
    while arrives.is_pending() && connects.is_pending() {
        // Of the two requests, either may end first, so a wait for one of them is short.
        let _ = connects.wait_timeout(Duration::from_millis(1));
        assert!(now() - begun < LONG, "neither ends");
    }
    if end_if_over(arrival, &arrives) {
        // The peer may have disconnected already.
        let _ = theirs.accept(&their_queue_pair, 1, 1, &[], &accepts);
    }
    let status = end(connecting, &connects);
    status.err().unwrap_or(Status::SUCCESS)
}

/// Returns true if a request has completed with success by now.
fn end_if_over(started: netdirect::Result<Started>, overlapped: &Overlapped) -> bool {
    !overlapped.is_pending() && end(started, overlapped).is_ok()
}
