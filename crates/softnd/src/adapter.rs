//! An opened adapter, ND2's `IND2Adapter`, and what all its objects share.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use iwarp::{Pd, ReadLimits, StreamId};
use iwarp_io::transport::sim::World;
use iwarp_io::transport::sim::world::{Stuck, Witness};
use iwarp_io::transport::stream::Stream;
use iwarp_io::transport::{Transport, Wire};
use iwarp_io::{descriptors, sync};
use iwarp_mem::{Table, TableOptions};
use netdirect::{
    Adapter, AdapterExtensions, AdapterFlags, AdapterId, AdapterInfo, Affinity, Call, Capabilities,
    CompletionQueue, Connector, Counters, Error, Fault, Listener, MemoryRegion, MemoryWindow,
    OverlappedFile, QueuePair, QueuePairOptions, Result, SharedReceiveQueue,
    SharedReceiveQueueOptions, Simulation, Status,
};
use parking_lot::Mutex;

use crate::cm::{connector, listener};
use crate::device::{Device, Removable, Remover};
use crate::file::File;
use crate::leniency::{Act, Leniency};
use crate::options::{Options, Profile};
use crate::qp::Qp;
use crate::status::{fail, shortage};
use crate::{cq, mr, mw, qp};
use iwarp_io::capture::FlowRole;
use iwarp_io::endpoint::buffers::Buffers;
use iwarp_io::environment::Environment;
use iwarp_io::faults::Faults;
use iwarp_io::progress::background::Background;
use iwarp_io::progress::domain::Domain;
use iwarp_io::progress::parking::Parking;
use iwarp_io::progress::timers::{Timed, TimerKey};

/// All objects of one opened adapter are in one protection domain: ND2 knows no other (MR-022).
pub(crate) const PD: Pd = Pd(1);

/// What peers that exchange no read limits are taken to allow (IW-069).
pub(crate) const UNSTATED_READ_LIMIT: u32 = 32;

/// Addresses remembered for speaking revision 1 only.
const REMEMBERED_PEERS: usize = 1024;

/// What all objects of one opened adapter share.
pub(crate) struct Core {
    this: Weak<Self>,
    pub(crate) id: AdapterId,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) options: Options,
    pub(crate) transport: Transport,
    pub(crate) environment: Environment,
    pub(crate) table: Arc<Table>,
    pub(crate) device: Arc<Device>,
    pub(crate) leniency: Arc<Leniency>,
    /// Connection set-up and tear-down.
    pub(crate) control: Arc<Domain>,
    /// Threads parked in any of the adapter's overlapped files.
    pub(crate) parked: Arc<sync::AtomicUsize>,
    /// What connections send from and receive into.
    pub(crate) buffers: Buffers,
    /// Faults that wait for a moment when no lock is held.
    effects: Mutex<Vec<PlannedEffect>>,
    background: Arc<Background>,
    /// Queue pairs that the client has released and whose connections have not ended yet.
    lingering: Mutex<HashMap<StreamId, Arc<Qp>>>,
    next_stream: AtomicU32,
    revision_1_peers: Mutex<HashSet<IpAddr>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("id", &self.id)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Core {
    fn new(
        id: AdapterId,
        addresses: Vec<IpAddr>,
        options: Options,
        transport: Transport,
    ) -> io::Result<Arc<Self>> {
        descriptors::allow();
        let parked = Arc::new(sync::AtomicUsize::new(0));
        let environment = transport.environment();
        let control = Arc::new(Domain::new(environment.set()?, Arc::clone(&parked)));
        control.add_interest(); // every parked thread drives it
        control.set_armed(true); // no overlapped file is without it
        let background = Background::start(&environment)?;
        let strict = options.profile == Profile::Strict;
        let leniency = Arc::new(Leniency::new(addresses.first().copied()));
        let table = TableOptions::default()
            .strict_sinks(strict)
            .capacity(options.limits.memory_tokens)
            .on_lenient_sink({
                let leniency = Arc::clone(&leniency);
                move |stag| leniency.tell(Act::ReadSink, Some(stag))
            });
        let table = match environment {
            // What a peer could guess in a simulation, it could be told as well.
            Environment::Sim(_) => table.seed(environment.random()?),
            Environment::System => table,
        };
        let table = Arc::new(Table::with_options(&table).map_err(io::Error::other)?);
        let faults = options.faults.clone().map(Faults::new);
        let core = Arc::new_cyclic(|this: &Weak<Self>| Self {
            this: this.clone(),
            id,
            addresses,
            options,
            transport,
            environment,
            buffers: Buffers::new(Arc::clone(&table)),
            table,
            device: Arc::new(Device::new(faults)),
            effects: Mutex::default(),
            leniency,
            control,
            parked,
            background,
            lingering: Mutex::default(),
            next_stream: AtomicU32::new(1),
            revision_1_peers: Mutex::default(),
        });
        let remover = Arc::downgrade(&(Arc::clone(&core) as Arc<dyn Remover>));
        core.device.removed_by(remover);
        core.add_domain(&core.control)?;
        if let Some(world) = core.environment.world() {
            let witness: Weak<dyn Witness> = Arc::<Self>::downgrade(&core);
            world.add_witness(witness);
        }
        Ok(core)
    }

    pub(crate) fn add_domain(&self, domain: &Arc<Domain>) -> io::Result<()> {
        self.background.add(domain)
    }

    pub(crate) fn remove_domain(&self, domain: &Domain) {
        self.background.remove(domain);
    }

    /// A domain is polled no more for now, its poller sleeps over something else.
    pub(crate) fn hand_over(&self, domain: &Domain) {
        self.background.hand_over(domain);
    }

    /// What a wait in a simulation ends with that cannot go on.
    #[cold]
    pub(crate) fn cannot_wait(&self, error: &io::Error) -> Error {
        if error.kind() == io::ErrorKind::Deadlock {
            let world = self.environment.world();
            let waits = world.map_or_else(Vec::new, World::report).join("; ");
            tracing::error!(waits, "{error}");
            Error::new(Status::POSSIBLE_DEADLOCK, format!("{error}; {waits}"))
        } else {
            Error::new(Status::INVALID_DEVICE_REQUEST, error.to_string())
        }
    }

    /// Makes sure that unfinished work is taken up even if its driver never comes back.
    pub(crate) fn notice(&self, domain: &Domain) {
        self.background.notice(domain);
    }

    /// A place for threads to wait in.
    pub(crate) fn parking(&self) -> io::Result<Parking> {
        let environment = self.environment.clone();
        Parking::new(&self.control, &self.background, &self.parked, environment)
    }

    /// The processors that notifications come from, unless they go to a thread that waits: one bit for each of the first 64.
    pub(crate) fn processors(&self) -> Option<u64> {
        self.background.processors()
    }

    /// The time.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.environment.now()
    }

    pub(crate) fn set_timer(&self, at: Instant, target: Weak<dyn Timed>) -> TimerKey {
        self.background.set_timer(at, target)
    }

    pub(crate) fn cancel_timer(&self, key: TimerKey) {
        self.background.timers.cancel(key);
    }

    pub(crate) fn read_limits(&self) -> ReadLimits {
        ReadLimits {
            ird: self.options.read_limit,
            ord: self.options.read_limit,
        }
    }

    pub(crate) fn next_stream(&self) -> StreamId {
        StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether connections may use the local address: one of the adapter's, or another of the loopback network where
    /// the adapter has one of it.
    pub(crate) fn serves(&self, address: IpAddr) -> bool {
        serves(&self.addresses, address)
    }

    /// The local address for connections to `peer`.
    pub(crate) fn address_towards(&self, peer: IpAddr) -> Option<IpAddr> {
        self.addresses
            .iter()
            .copied()
            .find(|own| own.is_ipv4() == peer.is_ipv4())
    }

    /// Keeps a released queue pair until its connection has ended.
    pub(crate) fn linger(&self, id: StreamId, qp: Arc<Qp>) {
        self.lingering.lock().insert(id, qp);
    }

    /// The connection of a queue pair has ended. The caller drops what is returned when it holds no lock.
    #[must_use]
    pub(crate) fn unlinger(&self, id: StreamId) -> Option<Arc<Qp>> {
        self.lingering.lock().remove(&id)
    }

    /// The stream of a connection that was just established.
    pub(crate) fn stream(&self, wire: Wire, role: iwarp::Role) -> Stream {
        let flow_role = match role {
            iwarp::Role::Initiator => FlowRole::Active,
            iwarp::Role::Responder => FlowRole::Passive,
        };
        let stream = Stream::new(wire, flow_role, self.options.capture.as_ref());
        let faults = self.device.faults();
        match faults.and_then(|faults| faults.stream(role, stream.peer())) {
            None => stream,
            Some(faults) => {
                let owner: Arc<Device> = Arc::clone(&self.device);
                stream.with_faults(faults, self.environment.clone(), owner)
            }
        }
    }

    /// Removes the device from under the adapter (GEN-015).
    fn remove_device(&self, planned: bool) -> Result<()> {
        self.device.remove(planned)?;
        // Those that their client has let go of are not enlisted any more. Who was on the way here is found in either place.
        let lingering: Vec<_> = self.lingering.lock().values().cloned().collect();
        for qp in lingering {
            qp.device_removed();
        }
        Ok(())
    }

    pub(crate) fn speaks_revision_1_only(&self, peer: IpAddr) -> bool {
        self.revision_1_peers.lock().contains(&peer)
    }

    pub(crate) fn remember_revision_1(&self, peer: IpAddr) {
        let mut peers = self.revision_1_peers.lock();
        if peers.len() < REMEMBERED_PEERS {
            peers.insert(peer);
        }
    }
}

impl Simulation for Core {
    fn now(&self) -> Instant {
        self.environment.now()
    }

    fn step(&self, until: Option<Instant>) -> Result<()> {
        let Some(world) = self.environment.world() else {
            return Ok(());
        };
        let stepped = world.check_thread().and_then(|()| {
            if world.step_until(until) {
                Ok(())
            } else {
                Err(Stuck.into())
            }
        });
        // Who asks in a loop is told often: without the report.
        stepped.map_err(|error| match error.kind() {
            io::ErrorKind::Deadlock => Error::new(Status::POSSIBLE_DEADLOCK, error.to_string()),
            _ => self.cannot_wait(&error),
        })
    }
}

impl Witness for Core {
    fn waits(&self) -> Vec<String> {
        let of = self
            .addresses
            .first()
            .map_or_else(String::new, |address| format!("{address}: "));
        let waits = self.device.waits().into_iter();
        waits.map(|what| format!("{of}{what}")).collect()
    }
}

/// What a plan has happen to more than one stream.
enum PlannedEffect {
    RemoveDevice,
    BreakQueue(Weak<cq::Cq>, Status),
}

impl Core {
    /// A plan has a completion queue break down, when no lock is held any more.
    pub(crate) fn break_soon(&self, queue: Weak<cq::Cq>, status: Status) {
        self.perform_soon(PlannedEffect::BreakQueue(queue, status));
    }

    fn perform_soon(&self, effect: PlannedEffect) {
        self.effects.lock().push(effect);
        self.set_timer(self.now(), self.this.clone());
    }
}

impl Remover for Core {
    fn remove_soon(&self) {
        self.perform_soon(PlannedEffect::RemoveDevice);
    }
}

impl Timed for Core {
    /// Called with no lock held.
    fn expired(&self, _: TimerKey, _: Instant) {
        // Unlocked: one effect may bring about another.
        let effects = std::mem::take(&mut *self.effects.lock());
        for effect in effects {
            match effect {
                // The client may have been quicker.
                PlannedEffect::RemoveDevice => drop(self.remove_device(true)),
                PlannedEffect::BreakQueue(queue, status) => {
                    if let Some(queue) = queue.upgrade() {
                        queue.break_down(status);
                    }
                }
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.background.stop();
    }
}

pub(crate) fn serves(own: &[IpAddr], address: IpAddr) -> bool {
    own.contains(&address)
        || matches!(address, IpAddr::V4(v4) if v4.is_loopback())
            && own.iter().any(|own| own.is_ipv4() && own.is_loopback())
}

/// The client's reference to an opened adapter.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Core>);

impl Handle {
    pub(crate) fn open(
        id: AdapterId,
        addresses: Vec<IpAddr>,
        options: Options,
        transport: Transport,
    ) -> Result<Arc<dyn Adapter>> {
        let core = Core::new(id, addresses, options, transport)
            .map_err(shortage("cannot open the adapter"))?;
        Ok(Arc::new(Self(core)))
    }

    fn file(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<File>> {
        downcast::<File>(file.clone(), |file| Arc::ptr_eq(file.core(), &self.0)).ok_or_else(|| {
            Error::new(
                Status::INVALID_HANDLE,
                "the overlapped file is not one of this adapter's",
            )
        }) // ADPT-086
    }

    fn queue(&self, queue: &Arc<dyn CompletionQueue>, else_status: Status) -> Result<Arc<cq::Cq>> {
        downcast::<cq::Handle>(queue.clone(), |cq| Arc::ptr_eq(cq.0.core(), &self.0))
            .map(|cq| Arc::clone(&cq.0))
            .ok_or_else(|| {
                Error::new(
                    else_status,
                    "the completion queue is not one of this adapter's",
                )
            })
    }
}

/// The provider's own object behind a trait object, if it is one and `ours` says so (GEN-022).
pub(crate) fn downcast<T: Any + Send + Sync>(
    object: Arc<dyn Any + Send + Sync>,
    ours: impl FnOnce(&T) -> bool,
) -> Option<Arc<T>> {
    let object = object.downcast::<T>().ok()?;
    ours(&object).then_some(object)
}

impl Adapter for Handle {
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>> {
        self.0.device.admit(Call::CreateOverlappedFile)?;
        let file =
            File::new(Arc::clone(&self.0)).map_err(shortage("cannot create an overlapped file"))?;
        Ok(Arc::new(file))
    }

    fn query(&self) -> Result<AdapterInfo> {
        self.0.device.present()?; // GEN-015
        let options = &self.0.options;
        let limits = options.limits;
        let mut info = AdapterInfo::default();
        // A locally administered OUI, shortened to the 16 bits of the field.
        info.vendor_id = 0x534E;
        info.device_id = 1;
        info.adapter_id = self.0.id;
        info.max_registration_size = limits.registration_size;
        info.max_window_size = limits.registration_size;
        info.max_initiator_sge = limits.sges;
        info.max_receive_sge = limits.sges;
        info.max_read_sge = limits.read_sges.min(limits.sges);
        info.max_transfer_length = limits.transfer_length;
        info.max_inline_data_size = limits.inline_data_size;
        info.max_inbound_read_limit = options.read_limit;
        info.max_outbound_read_limit = options.read_limit;
        info.max_receive_queue_depth = limits.queue_depth;
        info.max_initiator_queue_depth = limits.queue_depth;
        info.max_shared_receive_queue_depth = 0;
        info.max_completion_queue_depth = limits.completion_queue_depth;
        info.inline_request_threshold = limits.inline_data_size.min(256);
        info.large_request_threshold = 64 * 1024;
        info.max_caller_data = options.private_data;
        info.max_callee_data = options.private_data;
        info.flags = AdapterFlags::IN_ORDER_DMA_SUPPORTED
            | AdapterFlags::MULTI_ENGINE_SUPPORTED
            | AdapterFlags::CQ_RESIZE_SUPPORTED
            | AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED;
        Ok(info)
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        self.0.device.present()?; // GEN-015
        Ok(self
            .0
            .addresses
            .iter()
            .map(|ip| SocketAddr::new(*ip, 0))
            .collect())
    }

    fn create_completion_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
        _: Affinity, // not to be honoured: ignored (ADPT-026)
    ) -> Result<Arc<dyn CompletionQueue>> {
        let file = self.file(file)?;
        if depth == 0 || depth > self.0.options.limits.completion_queue_depth {
            return fail(
                Status::INVALID_PARAMETER_3,
                "the depth is zero or above the adapter's limit",
            ); // ADPT-023
        }
        self.0.device.admit(Call::CreateCompletionQueue)?;
        Ok(Arc::new(cq::Handle::new(Arc::clone(&self.0), file, depth)?))
    }

    fn create_memory_region(
        &self,
        file: &Arc<dyn OverlappedFile>,
    ) -> Result<Arc<dyn MemoryRegion>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateMemoryRegion)?;
        Ok(Arc::new(mr::Region::new(Arc::clone(&self.0), file)))
    }

    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        self.0.device.admit(Call::CreateMemoryWindow)?;
        Ok(Arc::new(mw::Window::new(Arc::clone(&self.0))?))
    }

    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        _: SharedReceiveQueueOptions,
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        self.0.device.present()?; // ADPT-046
        self.file(file)?;
        fail(
            Status::NOT_SUPPORTED,
            "this adapter has no shared receive queues (MaxSharedReceiveQueueDepth is 0)",
        )
    }

    fn create_queue_pair(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let receive_cq = self.queue(receive_cq, Status::INVALID_PARAMETER_2)?;
        let initiator_cq = self.queue(initiator_cq, Status::INVALID_PARAMETER_3)?;
        let most = self.0.options.limits;
        let limits = [
            (
                options.receive_queue_depth,
                most.queue_depth,
                Status::INVALID_PARAMETER_5,
                "the receive queue depth",
            ),
            (
                options.initiator_queue_depth,
                most.queue_depth,
                Status::INVALID_PARAMETER_6,
                "the initiator queue depth",
            ),
            (
                options.max_receive_request_sge,
                most.sges,
                Status::INVALID_PARAMETER_7,
                "the number of SGEs of a Receive",
            ),
            (
                options.max_initiator_request_sge,
                most.sges,
                Status::INVALID_PARAMETER_8,
                "the number of SGEs of a request",
            ),
            (
                options.inline_data_size,
                most.inline_data_size,
                Status::INVALID_PARAMETER_9,
                "the inline data size",
            ),
        ];
        for (asked, limit, status, what) in limits {
            if asked > limit {
                return Err(Error::new(
                    status,
                    format!("{what} is {asked}, the adapter's limit {limit}"),
                ));
            }
        }
        self.0.device.admit(Call::CreateQueuePair)?;
        let qp = qp::Handle::new(
            Arc::clone(&self.0),
            Arc::clone(&receive_cq),
            Arc::clone(&initiator_cq),
            &options,
        )?;
        // Now that the queue pair belongs to them: what breaks them from here on ends it.
        for (cq, status) in [
            (receive_cq, Status::INVALID_PARAMETER_2),
            (initiator_cq, Status::INVALID_PARAMETER_3),
        ] {
            if cq.is_broken() {
                return fail(
                    status,
                    "the completion queue has overflowed; create a new one",
                ); // ADPT-051, ADPT-052, CQ-022
            }
        }
        Ok(Arc::new(qp))
    }

    fn create_queue_pair_with_srq(
        &self,
        _: &Arc<dyn CompletionQueue>,
        _: &Arc<dyn CompletionQueue>,
        _: &Arc<dyn SharedReceiveQueue>,
        _: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        self.0.device.present()?; // ADPT-074
        fail(
            Status::NOT_SUPPORTED,
            "this adapter has no shared receive queues",
        ) // ADPT-066
    }

    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateConnector)?;
        Ok(Arc::new(connector::Handle::new(Arc::clone(&self.0), file)?))
    }

    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateListener)?;
        Ok(Arc::new(listener::Handle::new(Arc::clone(&self.0), file)?))
    }

    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        Some(self)
    }
}

impl AdapterExtensions for Handle {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ND2
            | Capabilities::FETCH_ADD
            | Capabilities::FETCH_ADD_MASK
            | Capabilities::COMPARE_SWAP
            | Capabilities::COMPARE_SWAP_MASK
            | Capabilities::IMMEDIATE_8
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::new();
        self.0.device.count(&mut counters);
        let read_sinks = self.0.table.lenient_sinks();
        self.0.leniency.add_to(&mut counters, read_sinks);
        counters
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Call { call, nth, status } if is_an_adapters(call) => {
                self.0.device.plan(call, nth, status)
            }
            Fault::RemoveDevice => self.0.remove_device(false),
            Fault::BreakCompletionQueue { queue, status } => {
                let queue = self.queue(&queue, Status::INVALID_PARAMETER_1)?;
                self.0.device.present()?;
                if status.is_success() {
                    return fail(
                        Status::INVALID_PARAMETER,
                        "a queue cannot break down with a status that is no error",
                    );
                }
                self.0.device.count_fault();
                queue.break_down(status);
                Ok(())
            }
            other => cannot_happen(&other),
        }
    }
}

/// Calls that take something, and are made of an adapter or of its objects.
fn is_an_adapters(call: Call) -> bool {
    matches!(
        call,
        Call::Any
            | Call::CreateOverlappedFile
            | Call::CreateCompletionQueue
            | Call::CreateMemoryRegion
            | Call::CreateMemoryWindow
            | Call::CreateQueuePair
            | Call::CreateConnector
            | Call::CreateListener
            | Call::ResizeCompletionQueue
            | Call::NotifyCompletionQueue
            | Call::Register
            | Call::BindListener
            | Call::Listen
            | Call::BindConnector
    )
}

/// The answer to a fault that makes no sense where it was asked for.
pub(crate) fn cannot_happen(fault: &Fault) -> Result<()> {
    let what = format!("softnd cannot have this happen here: {fault:?}");
    Err(Error::new(Status::NOT_SUPPORTED, what))
}
