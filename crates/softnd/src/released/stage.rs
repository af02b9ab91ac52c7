//! Clients with two adapters, and the list of objects that must not outlive them.

use std::any::Any;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp_io::endpoint::queue_pair::PairCq as _;
use iwarp_io::simulation::world::{SimSet, Task, WeakWorld, Wishes};
use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, Connector, Fault, Listener, MemoryRegion,
    MemoryWindow, MrFlags, Overlapped, OverlappedFile, Provider, QueuePair, QueuePairOptions,
    Result, SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};
use netdirect_provider::completion_queue::CompletionQueueHandle;
use netdirect_provider::connector::ConnectorHandle;
use netdirect_provider::listener::ListenerHandle;
use netdirect_provider::memory_region::Region;
use netdirect_provider::shared_receive_queue::SharedReceiveQueueHandle;

use crate::adapter::AdapterHandle;
use crate::connect::{connector, listener};
use crate::cq::Cq;
use crate::file::File;
use crate::mr::RegisteredBuffer;
use crate::mw::Window;
use crate::options::Options;
use crate::qp::QpHandle;
use crate::simulation::Simulation;
use crate::srq::Srq;

/// Ends a hanging test. Nothing takes this long on the slowest machine.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// The network that carries the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp,
    Udp,
    /// A simulated network with streams.
    Streams,
    /// A simulated network with adapters over UDP.
    Datagrams,
}

/// The order in which handles are released.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Forward,
    Backward,
    /// The second half first.
    Turned,
}

/// One handle of a client.
pub(super) type Held = Box<dyn Any + Send>;

impl Order {
    pub(super) const ALL: [Self; 3] = [Self::Forward, Self::Backward, Self::Turned];

    pub(super) fn release(self, mut handles: Vec<Held>) {
        match self {
            Self::Forward => {}
            Self::Backward => handles.reverse(),
            Self::Turned => {
                let half = handles.len() / 2;
                handles.rotate_left(half);
            }
        }
        handles.into_iter().for_each(drop);
    }
}

/// Belongs to a world, which never calls it and drops it with itself.
struct WorldTask;

impl Task for WorldTask {
    fn run(&self) -> Wishes {
        Wishes::default()
    }
}

pub(super) type Watched = (&'static str, Weak<dyn Any + Send + Sync>);

/// A network and all objects that were made in it.
pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) network: Option<Simulation>,
    watched: RefCell<Vec<Watched>>,
}

impl Stage {
    pub(super) fn new(kind: Kind) -> Self {
        let network = match kind {
            Kind::Tcp | Kind::Udp => None,
            Kind::Streams => Some(Simulation::new(7)),
            Kind::Datagrams => Some(Simulation::new(7).over_udp()),
        };
        let stage = Self {
            kind,
            network,
            watched: RefCell::default(),
        };
        if let Some(network) = &stage.network {
            let task = Arc::new(WorldTask);
            stage.watch("the world", &task);
            network.world.add_task(task, &SimSet::new(&network.world));
        }
        stage
    }

    /// The list, without the handles.
    pub(super) fn into_watched(self) -> Vec<Watched> {
        self.watched.into_inner()
    }

    /// A reference to the network, if it is a simulated one.
    pub(super) fn weak(&self) -> Option<WeakWorld> {
        self.network
            .as_ref()
            .map(|network| network.world.downgrade())
    }

    /// Releases the client's own handle of a simulated network.
    pub(super) fn network_released(&mut self) {
        self.network = None;
    }

    fn watch<T: Any + Send + Sync>(&self, what: &'static str, object: &Arc<T>) {
        let object: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(object);
        self.watched
            .borrow_mut()
            .push((what, Arc::downgrade(&object)));
    }

    /// The objects that are still in memory.
    pub(super) fn alive(&self) -> Vec<&'static str> {
        let watched = self.watched.borrow();
        let alive = watched
            .iter()
            .filter(|(_, object)| object.strong_count() > 0);
        alive.map(|(what, _)| *what).collect()
    }

    /// Waits until nothing is in memory any more. In a simulated network this must hold at once.
    #[track_caller]
    pub(super) fn assert_nothing_stays(mut self, when: &str) {
        assert!(self.watched.borrow().len() > 1, "{when}: nothing was made");
        self.network_released();
        let simulated = matches!(self.kind, Kind::Streams | Kind::Datagrams);
        let begun = Instant::now();
        while !self.alive().is_empty() {
            let stays = self.alive();
            assert!(!simulated && begun.elapsed() < LONG, "{when}: {stays:?}");
            std::thread::yield_now();
        }
    }

    /// The number of adapters that are still in memory.
    pub(super) fn adapters(&self) -> usize {
        let alive = self.alive().into_iter();
        alive.filter(|what| *what == "an adapter").count()
    }

    /// Waits until this holds, and drives a simulated network meanwhile.
    #[track_caller]
    pub(super) fn wait_until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < LONG, "{what}: {:?}", self.alive());
            match &self.network {
                Some(network) => network.pass(Duration::from_millis(1)),
                None => std::thread::yield_now(),
            }
        }
    }

    /// A provider with one adapter.
    pub(super) fn provider(&self, options: Options) -> Arc<dyn Provider> {
        let options = options.addresses([HOST]);
        match (&self.network, self.kind) {
            (Some(network), _) => network.provider([HOST], options),
            (None, Kind::Udp) => crate::udp_provider(options),
            (None, _) => crate::provider(options),
        }
    }

    /// Opens an adapter.
    pub(super) fn open(&self, options: Options) -> Arc<dyn Adapter> {
        let provider = self.provider(options);
        let id = provider.resolve_address((HOST, 0).into());
        let adapter = provider.open_adapter(id.unwrap()).unwrap();
        self.watch_adapter(&adapter);
        adapter
    }

    pub(super) fn watch_adapter(&self, adapter: &Arc<dyn Adapter>) {
        let own = own::<AdapterHandle>(adapter.clone());
        let core = &own.line().core;
        self.watch("an adapter", core);
        self.watch("a driver", &core.driver);
        self.watch("a control domain", &core.driver.control);
        self.watch("a table of memory", &core.table);
        self.watch("a device", &core.device);
    }

    /// A client of its own adapter.
    pub(super) fn side(&self) -> Side<'_> {
        Side::new(self, Options::default(), false)
    }

    /// A client of its own adapter, which has these options.
    pub(super) fn side_with(&self, options: Options) -> Side<'_> {
        Side::new(self, options, false)
    }

    /// A client of its own adapter, whose queue pair draws from the shared receive queue.
    pub(super) fn sharing_side(&self) -> Side<'_> {
        Side::new(self, Options::default(), true)
    }

    /// A client that connects, and one that is connected to.
    pub(super) fn sides(&self) -> (Side<'_>, Side<'_>) {
        (self.side(), self.sharing_side())
    }

    /// Two clients with a connection.
    pub(super) fn connected(&self) -> (Side<'_>, Side<'_>) {
        self.connected_with(Options::default())
    }

    /// Two clients with a connection, with these options for the passive side.
    pub(super) fn connected_with(&self, passive: Options) -> (Side<'_>, Side<'_>) {
        let (active, passive) = (self.side(), Side::new(self, passive, true));
        let asked = passive.asks();
        let connects = active.connects(passive.address());
        ended(&asked);
        let accepts = passive.accepts();
        ended(&connects);
        run(|overlapped| active.connector.complete_connect(overlapped));
        ended(&accepts);
        (active, passive)
    }
}

/// The address of both adapters.
pub(super) const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A client with one object of each kind.
pub(super) struct Side<'a> {
    stage: &'a Stage,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) file: Arc<dyn OverlappedFile>,
    pub(super) cq: Arc<dyn CompletionQueue>,
    pub(super) srq: Arc<dyn SharedReceiveQueue>,
    pub(super) buffer: Buffer,
    pub(super) region: Arc<dyn MemoryRegion>,
    pub(super) window: Arc<dyn MemoryWindow>,
    pub(super) qp: Arc<dyn QueuePair>,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) listener: Arc<dyn Listener>,
}

impl<'a> Side<'a> {
    fn new(stage: &'a Stage, options: Options, shares: bool) -> Self {
        let adapter = stage.open(options);
        let file = adapter.create_overlapped_file().unwrap();
        let cq = adapter.create_completion_queue(&file, 64, Affinity::default());
        let cq = cq.unwrap();
        let sizes = SharedReceiveQueueOptions::default()
            .queue_depth(8)
            .max_request_sge(1);
        let srq = adapter.create_shared_receive_queue(&file, sizes).unwrap();
        let sizes = QueuePairOptions::default()
            .receive_queue_depth(8)
            .initiator_queue_depth(8)
            .inline_data_size(64);
        let qp = match shares {
            false => adapter.create_queue_pair(&cq, &cq, sizes),
            true => adapter.create_queue_pair_with_srq(&cq, &cq, &srq, sizes),
        };
        let side = Self {
            stage,
            region: adapter.create_memory_region(&file).unwrap(),
            buffer: Buffer::new(4096),
            window: adapter.create_memory_window().unwrap(),
            qp: qp.unwrap(),
            connector: adapter.create_connector(&file).unwrap(),
            listener: adapter.create_listener(&file).unwrap(),
            adapter,
            file,
            cq,
            srq,
        };
        let all =
            MrFlags::ALLOW_LOCAL_WRITE | MrFlags::ALLOW_REMOTE_READ | MrFlags::ALLOW_REMOTE_WRITE;
        run(|overlapped| side.region.register(&side.buffer, all, overlapped));
        side.listener.bind((HOST, 0).into()).unwrap();
        side.listener.listen(0).unwrap();
        side.watch();
        side
    }

    fn watch(&self) {
        let stage = self.stage;
        let file = own::<File>(self.file.clone());
        stage.watch("an overlapped file", &file);
        stage.watch("a waiters", &file.waiters);
        let cq = own::<CompletionQueueHandle<Cq>>(self.cq.clone());
        stage.watch("a completion queue", cq.line());
        stage.watch("a domain", cq.line().poller().domain());
        let srq = own::<SharedReceiveQueueHandle<Srq>>(self.srq.clone());
        stage.watch("a shared receive queue", srq.line());
        stage.watch(
            "the Receives of a shared receive queue",
            &srq.line().receives,
        );
        let region = own::<Region<RegisteredBuffer>>(self.region.clone());
        stage.watch("a memory region", &region);
        let window = own::<Window>(self.window.clone());
        stage.watch("a memory window", &window);
        self.watch_queue_pair(&self.qp);
        let connector = own::<ConnectorHandle<connector::Connector>>(self.connector.clone());
        stage.watch("a connector", connector.line());
        let listener = own::<ListenerHandle<listener::Listener>>(self.listener.clone());
        stage.watch("a listener", listener.line());
    }

    fn watch_queue_pair(&self, qp: &Arc<dyn QueuePair>) {
        let qp = own::<QpHandle>(qp.clone());
        self.stage.watch("a queue pair", &qp.line().0);
    }

    /// The address that peers connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.listener.get_local_address().unwrap()
    }

    /// GetConnectionRequest.
    pub(super) fn asks(&self) -> Overlapped {
        begin(|overlapped| {
            self.listener
                .get_connection_request(&self.connector, overlapped)
        })
    }

    pub(super) fn connects(&self, to: SocketAddr) -> Overlapped {
        let Self { connector, qp, .. } = self;
        begin(|overlapped| connector.connect(qp, to, 4, 4, b"hello", overlapped))
    }

    pub(super) fn accepts(&self) -> Overlapped {
        let Self { connector, qp, .. } = self;
        begin(|overlapped| connector.accept(qp, 4, 4, b"welcome", overlapped))
    }

    pub(super) fn inject(&self, fault: Fault) {
        let extensions = self.adapter.extensions().expect("softnd has extensions");
        extensions.inject(fault).unwrap();
    }

    /// Resets the connection.
    pub(super) fn breaks(&self) {
        self.inject(Fault::BreakCompletionQueue {
            queue: self.cq.clone(),
            status: Status::INTERNAL_ERROR,
        });
    }

    /// All handles.
    pub(super) fn handles(self) -> Vec<Held> {
        vec![
            Box::new(self.adapter),
            Box::new(self.file),
            Box::new(self.listener),
            Box::new(self.cq),
            Box::new(self.srq),
            Box::new(self.connector),
            Box::new(self.qp),
            Box::new(self.region),
            Box::new(self.window),
        ]
    }
}

/// All handles of two clients.
pub(super) fn handles((one, other): (Side<'_>, Side<'_>)) -> Vec<Held> {
    let mut handles = one.handles();
    handles.extend(other.handles());
    handles
}

/// Starts a request.
#[track_caller]
pub(super) fn begin(start: impl FnOnce(&Overlapped) -> Result<Started>) -> Overlapped {
    let overlapped = Overlapped::new();
    let _ = start(&overlapped).unwrap();
    overlapped
}

/// Waits for the end of a request.
#[track_caller]
pub(super) fn status(overlapped: &Overlapped) -> Status {
    let status = overlapped.wait_timeout(LONG);
    status.expect("the end of a request")
}

/// Waits for the success of a request.
#[track_caller]
pub(super) fn ended(overlapped: &Overlapped) {
    assert_eq!(status(overlapped), Status::SUCCESS);
}

/// Starts a request and waits for its success.
#[track_caller]
pub(super) fn run(start: impl FnOnce(&Overlapped) -> Result<Started>) {
    ended(&begin(start));
}

/// Limits that end within a test over the system's network.
pub(super) fn soon() -> Options {
    Options::default().timeouts(|timeouts| timeouts.disconnect = Some(Duration::from_millis(50)))
}

/// Returns softnd's object behind a trait object.
pub(super) fn own<T: Any + Send + Sync>(object: Arc<dyn Any + Send + Sync>) -> Arc<T> {
    object.downcast().unwrap()
}
