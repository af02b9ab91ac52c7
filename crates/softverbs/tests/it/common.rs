//! Two hosts, in a simulated network or on this machine, and connections between them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rdma_buffer::Buffer;
use softverbs::{
    AccessFlags, CmEvent, CmEventKind, CmId, CompletionChannel, CompletionQueue, Conditions,
    ConnParameters, Context, DeviceKind, Errno, EventChannel, MemoryRegion, NetworkInterface,
    Process, ProcessOptions, ProtectionDomain, QpCaps, QpOptions, QueuePair, RemotePlace, SendData,
    SendOperation, SendRequest, Service, Sge, WcStatus, WorkCompletion, World,
};

/// A host with an opened device.
pub(crate) struct Host {
    pub(crate) process: Arc<Process>,
    pub(crate) context: Arc<Context>,
    pub(crate) pd: Arc<ProtectionDomain>,
    pub(crate) channel: Arc<EventChannel>,
    pub(crate) address: IpAddr,
}

impl Host {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        let device = process.devices()[0].clone();
        let context = Context::open(&process, &device).unwrap();
        Self {
            pd: ProtectionDomain::allocate(&context).unwrap(),
            channel: EventChannel::create(&process).unwrap(),
            address: device.interface().addresses[0],
            context,
            process,
        }
    }

    pub(crate) fn simulated(world: &World, last: u8, kind: DeviceKind) -> Self {
        let mut options = ProcessOptions::default();
        options.kind = kind;
        Self::simulated_with(world, last, options)
    }

    pub(crate) fn simulated_with(world: &World, last: u8, options: ProcessOptions) -> Self {
        let interface = NetworkInterface::simulated(last.into(), vec![[10, 0, 0, last].into()]);
        Self::new(Process::simulated(world, vec![interface], options).unwrap())
    }

    pub(crate) fn region(&self, buffer: &Buffer) -> Arc<MemoryRegion> {
        let access = AccessFlags::LOCAL_WRITE
            | AccessFlags::REMOTE_WRITE
            | AccessFlags::REMOTE_READ
            | AccessFlags::REMOTE_ATOMIC;
        MemoryRegion::register(&self.pd, buffer, buffer.address(), access.bits()).unwrap()
    }

    /// Waits for the next event, which has to be of this kind.
    pub(crate) fn event(&self, kind: CmEventKind) -> CmEvent {
        let event = self.channel.get_event().unwrap();
        assert_eq!(event.kind(), kind, "{event:?}");
        event
    }

    /// Like [`event`](Self::event), with status 0, acknowledged.
    pub(crate) fn expect(&self, kind: CmEventKind) -> ConnParameters {
        let event = self.event(kind);
        assert_eq!(event.status(), 0);
        let parameters = event.parameters().clone();
        event.acknowledge();
        parameters
    }

    /// An identifier that listens, and its address.
    pub(crate) fn listen(&self) -> (Arc<CmId>, SocketAddr) {
        let listener = CmId::create(&self.channel).unwrap();
        listener.bind((self.address, 0).into()).unwrap();
        listener.listen(8).unwrap();
        let address = listener.local().unwrap();
        (listener, address)
    }

    /// An identifier whose route to `peer` is resolved.
    pub(crate) fn resolved(&self, peer: SocketAddr) -> Arc<CmId> {
        let id = CmId::create(&self.channel).unwrap();
        id.resolve_addr(None, peer).unwrap();
        self.expect(CmEventKind::AddrResolved);
        id.resolve_route().unwrap();
        self.expect(CmEventKind::RouteResolved);
        id
    }

    /// The identifier of the next request.
    pub(crate) fn request(&self) -> (Arc<CmId>, ConnParameters) {
        let event = self.event(CmEventKind::ConnectRequest);
        let id = event.id().clone();
        let parameters = event.parameters().clone();
        event.acknowledge();
        (id, parameters)
    }
}

pub(crate) const CAPS: QpCaps = QpCaps {
    max_send_wr: 32,
    max_recv_wr: 32,
    max_send_sge: 4,
    max_recv_sge: 4,
    max_inline_data: 64,
};

/// The options of a queue pair over one completion queue.
pub(crate) fn options_over(cq: &Arc<CompletionQueue>, signal_all: bool) -> QpOptions {
    QpOptions {
        service: Service::Reliable,
        send_cq: cq.clone(),
        receive_cq: cq.clone(),
        srq: None,
        caps: CAPS,
        signal_all,
    }
}

/// Polls until this many completions have arrived.
pub(crate) fn polled(cq: &CompletionQueue, count: usize) -> Vec<WorkCompletion> {
    let mut found = Vec::new();
    let mut polls = 0_u64;
    while found.len() < count {
        let mut some = [WorkCompletion::default(); 8];
        let taken = cq.poll(&mut some);
        found.extend(&some[..taken]);
        polls += 1;
        assert!(polls < 100_000_000, "{found:?}");
    }
    assert_eq!(found.len(), count, "{found:?}");
    found
}

/// A signaled Send.
pub(crate) const fn send_of(wr_id: u64, data: SendData<'_>) -> SendRequest<'_> {
    SendRequest {
        wr_id,
        operation: SendOperation::Send,
        data,
        signaled: true,
        solicited: false,
        fence: false,
        to: None,
    }
}

/// One end of a connection.
pub(crate) struct End {
    pub(crate) id: Arc<CmId>,
    pub(crate) qp: Arc<QueuePair>,
    pub(crate) cq: Arc<CompletionQueue>,
    pub(crate) buffer: Buffer,
    pub(crate) region: Arc<MemoryRegion>,
}

impl End {
    /// Makes a queue pair for an identifier.
    pub(crate) fn new(
        host: &Host,
        id: Arc<CmId>,
        channel: Option<&Arc<CompletionChannel>>,
    ) -> Self {
        let cq = CompletionQueue::create(&host.context, 128, channel).unwrap();
        let options = options_over(&cq, false);
        let qp = id.create_queue_pair(&host.pd, options).unwrap();
        let buffer = Buffer::new(1 << 16);
        let region = host.region(&buffer);
        Self {
            id,
            qp,
            cq,
            buffer,
            region,
        }
    }

    pub(crate) fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.region.first() + offset,
            length,
            lkey: self.region.key(),
        }
    }

    pub(crate) fn place(&self, offset: u64) -> RemotePlace {
        RemotePlace {
            addr: self.region.first() + offset,
            rkey: self.region.key(),
        }
    }

    pub(crate) fn post(&self, wr_id: u64, operation: SendOperation, sges: &[Sge]) {
        self.try_post(wr_id, operation, SendData::Sges(sges))
            .unwrap();
    }

    pub(crate) fn try_post(
        &self,
        wr_id: u64,
        operation: SendOperation,
        data: SendData<'_>,
    ) -> softverbs::Result<()> {
        self.qp.post_send(&SendRequest {
            operation,
            ..send_of(wr_id, data)
        })
    }

    /// Polls until this many completions have arrived.
    pub(crate) fn completions(&self, count: usize) -> Vec<WorkCompletion> {
        polled(&self.cq, count)
    }

    /// The numbers and statuses of the next completions.
    pub(crate) fn statuses(&self, count: usize) -> Vec<(u64, WcStatus)> {
        let completions = self.completions(count).into_iter();
        completions.map(|one| (one.wr_id, one.status)).collect()
    }
}

/// A client and a server.
pub(crate) struct Pair {
    pub(crate) client: Host,
    pub(crate) server: Host,
    /// The network, which exists as long as it is held.
    world: Option<World>,
}

pub(crate) fn parameters(private_data: &[u8]) -> ConnParameters {
    ConnParameters {
        private_data: private_data.to_vec(),
        responder_resources: 4,
        initiator_depth: 4,
        ..ConnParameters::default()
    }
}

impl Pair {
    pub(crate) fn simulated(seed: u64, kind: DeviceKind) -> Self {
        let world = World::new(seed, Conditions::default());
        Self {
            client: Host::simulated(&world, 1, kind),
            server: Host::simulated(&world, 2, kind),
            world: Some(world),
        }
    }

    /// A client and a server with these options.
    pub(crate) fn simulated_with(
        seed: u64,
        client: ProcessOptions,
        server: ProcessOptions,
    ) -> Self {
        let world = World::new(seed, Conditions::default());
        Self {
            client: Host::simulated_with(&world, 1, client),
            server: Host::simulated_with(&world, 2, server),
            world: Some(world),
        }
    }

    /// The simulated network.
    pub(crate) fn world(&self) -> &World {
        self.world.as_ref().expect("a simulated network")
    }

    /// Both on sockets of this machine.
    pub(crate) fn on_sockets() -> Self {
        let host = || {
            let mut options = ProcessOptions::default();
            options.interface = Some(loopback());
            Host::new(Process::of_system(options).unwrap())
        };
        Self {
            client: host(),
            server: host(),
            world: None,
        }
    }

    /// Connects; the client's end comes first. The server has posted no Receive.
    pub(crate) fn connect(&self) -> (End, End) {
        self.connect_with([None, None])
    }

    pub(crate) fn connect_with(
        &self,
        channels: [Option<&Arc<CompletionChannel>>; 2],
    ) -> (End, End) {
        let (listener, address) = self.server.listen();
        let client = self.client.resolved(address);
        let client = End::new(&self.client, client, channels[0]);
        client.id.connect(&parameters(b"hello")).unwrap();
        let (id, asked) = self.server.request();
        assert_eq!(asked.private_data, b"hello");
        let server = End::new(&self.server, id, channels[1]);
        server.id.accept(&parameters(b"welcome")).unwrap();
        let answer = self.client.expect(CmEventKind::Established);
        assert_eq!(answer.private_data, b"welcome");
        self.server.expect(CmEventKind::Established);
        listener.destroy().unwrap();
        (client, server)
    }
}

/// The name of the loopback interface.
pub(crate) fn loopback() -> String {
    let options = ProcessOptions::default();
    let process = Process::of_system(options).unwrap();
    let names = ["lo", "lo0"];
    let has = |name: &&str| {
        let mut options = ProcessOptions::default();
        options.interface = Some((*name).to_owned());
        Process::of_system(options).is_ok()
    };
    drop(process);
    names.into_iter().find(has).unwrap().to_owned()
}

pub(crate) fn errno<T: std::fmt::Debug>(result: softverbs::Result<T>) -> Errno {
    result.unwrap_err().errno()
}
