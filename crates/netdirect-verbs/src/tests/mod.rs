//! The mapping of ND2 to verbs, over a fake library.

mod connections;
mod ends;
mod fake;
mod files;
mod infiniband;
mod listeners;
mod notifications;
mod provider;
mod removal;
mod requests;
mod shared;
mod silent;
mod windows;

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netdirect::{
    Adapter, AdapterId, Affinity, Buffer, CompletionQueue, CompletionResult, Connector,
    MemoryRegion, MrFlags, Overlapped, OverlappedFile, QueuePair, QueuePairOptions, Sge, Started,
    Status,
};
use netdirect_provider::adapter::AdapterLine;

use crate::adapter::{AdapterHandle, OpenedDevice};
use crate::core::Core;
use crate::options::Options;
use crate::sys::bindings as c;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PEER: SocketAddr = SocketAddr::new(HERE, 7000);

/// An adapter of the fake device, with one of each object.
struct Objects {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
}

/// Opens the fake device, which has these addresses.
fn open(addresses: Vec<IpAddr>, options: &Options) -> Arc<Core> {
    let name = "fake0".to_owned();
    let core = Core::open(&fake::LIBRARIES, AdapterId(1), name, addresses, options);
    core.expect("the fake device")
}

impl Objects {
    fn new() -> Self {
        let hour = Duration::from_secs(3600);
        Self::with(&Options::default().timeouts(|limits| limits.ready = Some(hour)))
    }

    /// The objects of an adapter with these options.
    fn with(options: &Options) -> Self {
        Self::on_adapter(open(vec![HERE], options))
    }

    /// The objects of this adapter.
    fn on_adapter(core: Arc<Core>) -> Self {
        let adapter: Arc<dyn Adapter> = Arc::new(AdapterHandle::new(OpenedDevice(core)));
        let file = adapter.create_overlapped_file().expect("a file");
        let cq = adapter.create_completion_queue(&file, 64, Affinity::default());
        let cq = cq.expect("a completion queue");
        let options = QueuePairOptions::default()
            .context(7)
            .max_initiator_request_sge(2);
        let qp = adapter.create_queue_pair(&cq, &cq, options);
        let connector = adapter.create_connector(&file).expect("a connector");
        Self {
            qp: qp.expect("a queue pair"),
            adapter,
            file,
            cq,
            connector,
        }
    }

    /// The parts of the adapter that its objects share.
    fn core(&self) -> Arc<Core> {
        let any: Arc<dyn Any + Send + Sync> = self.adapter.clone();
        let adapter = any.downcast::<AdapterHandle>();
        Arc::clone(adapter.expect("one of this provider").line().adapter())
    }

    /// Starts a Connect. The driver is asked, in another thread, when "connect" is among the calls. Each test waits for that, so that no
    /// call falls into another test's turn.
    fn connect(&self, private_data: &[u8]) -> Overlapped {
        fake::with(|world| world.calls.retain(|call| *call != "connect"));
        let overlapped = Overlapped::new();
        let started = self
            .connector
            .connect(&self.qp, PEER, 4, 2, private_data, &overlapped);
        assert_eq!(started, Ok(Started::Pending));
        overlapped
    }

    /// Connects.
    fn connected() -> Self {
        let objects = Self::new();
        let overlapped = objects.connect(&[]);
        complete_connect(&*objects.connector, &overlapped);
        objects
    }

    /// Connects another queue pair, and returns it with its connector.
    fn another(&self) -> (Arc<dyn QueuePair>, Arc<dyn Connector>) {
        self.another_with(&self.cq, QueuePairOptions::default())
    }

    /// Like [`another`](Self::another), with these options, and with this queue for its results.
    fn another_with(
        &self,
        cq: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> (Arc<dyn QueuePair>, Arc<dyn Connector>) {
        let qp = self.adapter.create_queue_pair(cq, cq, options);
        let connector = self.adapter.create_connector(&self.file);
        let (qp, connector) = (qp.expect("a queue pair"), connector.expect("a connector"));
        fake::with(|world| world.calls.clear());
        let overlapped = Overlapped::new();
        let started = connector.connect(&qp, PEER, 4, 2, &[], &overlapped);
        assert_eq!(started, Ok(Started::Pending));
        complete_connect(&*connector, &overlapped);
        (qp, connector)
    }

    /// An entry of 8 octets in memory that is registered with these flags.
    fn registered(&self, flags: MrFlags) -> (Sge, Arc<dyn MemoryRegion>) {
        let (buffer, overlapped) = (Buffer::new(8), Overlapped::new());
        let region = self.adapter.create_memory_region(&self.file);
        let region = region.expect("a region");
        let registered = region.register(&buffer, flags, &overlapped);
        assert_eq!(registered, Ok(Started::Pending));
        (Sge::new(&buffer, .., region.get_local_token()), region)
    }

    /// The results that are in the queue.
    fn results(&self) -> Vec<CompletionResult> {
        let mut results = [CompletionResult::default(); 32];
        let count = self.cq.get_results(&mut results);
        results[..count].to_vec()
    }

    /// The next result.
    fn result(&self) -> CompletionResult {
        let mut results = [CompletionResult::default(); 1];
        let waits = netdirect::ext::Results::new(&self.cq);
        assert_eq!(waits.get(&mut results), Ok(1));
        results[0]
    }
}

/// Makes the peer accept, and completes the connection.
fn complete_connect(connector: &dyn Connector, overlapped: &Overlapped) {
    fake::until(|world| world.calls.contains(&"connect"));
    fake::with(|world| {
        let id = *world.ids.last().expect("an identifier");
        world.tell_with(id, c::RDMA_CM_EVENT_ESTABLISHED, 0, &[], (2, 4));
    });
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    let completed = connector.complete_connect(overlapped);
    assert_eq!(completed, Ok(Started::Pending));
    assert_eq!(overlapped.wait(), Status::SUCCESS);
}

/// Waits for a change that another thread makes, and returns true if it comes. The time for which the process is stopped does not count.
fn eventually(is_true: impl Fn() -> bool) -> bool {
    let (mut last, mut waited) = (Instant::now(), Duration::ZERO);
    while !is_true() {
        let now = Instant::now();
        waited += (now - last).min(Duration::from_millis(50));
        last = now;
        if waited > Duration::from_secs(20) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// The request that was posted last.
fn last_post() -> fake::Post {
    *fake::with(|world| world.posted.back().copied())
        .as_ref()
        .expect("something was posted")
}
