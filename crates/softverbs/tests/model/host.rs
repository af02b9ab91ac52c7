//! The hosts of a run: a process with two devices, and the objects of each device.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use softverbs::security::Security;
use softverbs::{
    CmId, CompletionChannel, CompletionQueue, Context, DeviceKind, EventChannel, NetworkInterface,
    Process, ProcessOptions, ProtectionDomain, SharedReceiveQueue, SrqAttributes, World,
    WriteCompletion,
};

use crate::end::{SHARED_DEPTH, SharedReceives};
use crate::random::Random;

/// A host, until its process ends.
pub(crate) struct Host {
    pub(crate) kind: DeviceKind,
    pub(crate) process: Arc<Process>,
    pub(crate) channels: [Arc<EventChannel>; 2],
    pub(crate) devices: [Device; 2],
    /// A queue in which no request completes: a poll of it lets time pass.
    pub(crate) idle: Arc<CompletionQueue>,
    /// The number of steps for which the program fetches no events of connections.
    pub(crate) busy: u64,
    /// Requests succeed when all Writes before them are placed.
    pub(crate) confirms_writes: bool,
}

/// An opened device.
pub(crate) struct Device {
    pub(crate) context: Arc<Context>,
    pub(crate) pd: Arc<ProtectionDomain>,
    pub(crate) completions: Arc<CompletionChannel>,
    /// Receives that ends of the device share.
    pub(crate) receives: Option<SharedReceives>,
    /// The place in [`Run`](crate::run::Run) of the completion queue that ends of the device share.
    pub(crate) queue: Option<usize>,
    pub(crate) address: IpAddr,
}

/// A completion queue, with its events.
pub(crate) struct Queue {
    pub(crate) host: usize,
    pub(crate) cq: Option<Arc<CompletionQueue>>,
    pub(crate) asked: u64,
    pub(crate) events: u64,
}

/// An identifier that listens.
pub(crate) struct Listener {
    /// 0 or 1, which is the address of its host.
    pub(crate) place: usize,
    pub(crate) host: usize,
    pub(crate) channel: usize,
    /// `None` once it is destroyed.
    pub(crate) id: Option<Arc<CmId>>,
    pub(crate) address: SocketAddr,
    /// The greatest number of requests that wait; `None` if the program has named none.
    pub(crate) backlog: Option<usize>,
    /// More peers than fit into the backlog have asked, and not all of them were received.
    pub(crate) is_crowded: bool,
    /// The requests that were received since the program fetched events last.
    pub(crate) drained: usize,
}

impl Host {
    pub(crate) fn new(
        world: &World,
        last: u8,
        kind: DeviceKind,
        over_udp: bool,
        random: &mut Random,
    ) -> Self {
        let interface = |network: u8| {
            let address = IpAddr::from([10, 0, network, last]);
            let number = u32::from(network) * 2 + u32::from(last);
            let mut interface = NetworkInterface::simulated(number, vec![address]);
            interface.name = format!("eth{network}");
            interface
        };
        let mut options = ProcessOptions::default();
        options.kind = kind;
        options.udp = over_udp.then(Security::default);
        if random.once_in(4) {
            options.writes = Some(match kind {
                DeviceKind::Roce => WriteCompletion::Sent,
                DeviceKind::Iwarp => WriteCompletion::Placed,
            });
        }
        let writes = options.writes.unwrap_or(WriteCompletion::of(kind));
        let interfaces = vec![interface(0), interface(1)];
        let process = Process::simulated(world, interfaces, options).unwrap();
        let devices = [0, 1].map(|number| Device::new(&process, number, random));
        Self {
            kind,
            channels: [(); 2].map(|()| EventChannel::create(&process).unwrap()),
            idle: CompletionQueue::create(&devices[0].context, 1, None).unwrap(),
            devices,
            process,
            busy: 0,
            confirms_writes: writes == WriteCompletion::Placed,
        }
    }

    /// Drops the events that wait, for a process that ends. Such an event refers to its identifier or its completion queue, and so to the
    /// channel in which it waits.
    pub(crate) fn drop_events(&self) {
        for channel in &self.channels {
            while channel.has_event() {
                drop(channel.get_event().unwrap());
            }
        }
        for device in &self.devices {
            while device.completions.has_event() {
                drop(device.completions.get_event().unwrap());
            }
        }
    }
}

impl Device {
    fn new(process: &Arc<Process>, number: usize, random: &mut Random) -> Self {
        let device = &process.devices()[number];
        let context = Context::open(process, device).unwrap();
        let pd = ProtectionDomain::allocate(&context).unwrap();
        let attributes = SrqAttributes {
            max_wr: u32::try_from(SHARED_DEPTH).unwrap(),
            max_sge: 1,
            limit: 0,
        };
        let shares = random.once_in(3);
        let srq = shares.then(|| SharedReceiveQueue::create(&pd, attributes).unwrap());
        Self {
            receives: srq.map(|srq| SharedReceives::new(&pd, srq)),
            completions: CompletionChannel::create(&context).unwrap(),
            queue: None,
            address: device.interface().addresses[0],
            context,
            pd,
        }
    }
}
