//! The state that all objects of one opened adapter share.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use iwarp_io::buffers::Buffers;
use iwarp_io::descriptors;
use iwarp_io::driver::Driver;
use iwarp_io::endpoint::lingering::Lingering;
use iwarp_io::endpoint::{ConnectionEnd, ReadLimits, StreamId};
use iwarp_io::environment::Environment;
use iwarp_io::faults::{FaultOwner, Faults};
use iwarp_io::interfaces::{self, InterfaceOwner, InterfaceWatch};
use iwarp_io::log::targets;
use iwarp_io::memory::{Pd, Table, TableOptions};
use iwarp_io::progress::background::DriverOwner;
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::simulation::World;
use iwarp_io::simulation::world::{SimAdapter, Stuck};
use iwarp_io::system_call::is_refusal;
use iwarp_io::transport::Transport;
use netdirect::{
    AdapterFlags, AdapterId, AdapterInfo, Affinity, Call, Capabilities, Error, Result,
    SimulatedTime, Status,
};
use netdirect_provider::ProviderAdapter;
use netdirect_provider::removal::{DeviceObject, RemovalOrder};

use crate::device::{self, Device, DeviceListEntry};
use crate::leniency::Leniency;
use crate::local_addresses::LocalAddresses;
use crate::options::{Options, Profile};

/// The protection domain of all objects of one opened adapter. ND2 has one protection domain for each adapter (MR-022).
pub(crate) const PD: Pd = Pd(1);

/// The read limit that a peer is assumed to have when MPA exchanges no read limits (IW-069).
pub(crate) const UNSTATED_READ_LIMIT: u32 = 32;

/// The state that all objects of one opened adapter share.
pub(crate) struct Core {
    this: Weak<Self>,
    pub(crate) id: AdapterId,
    pub(crate) addresses: LocalAddresses,
    pub(crate) options: Options,
    pub(crate) driver: Arc<Driver>,
    pub(crate) table: Arc<Table>,
    pub(crate) device: Arc<Device>,
    pub(crate) leniency: Arc<Leniency>,
    /// Queue pairs that the client has released and whose connections have not ended yet. They keep the adapter until then.
    pub(crate) lingering: Lingering,
    next_stream: AtomicU32,
    interface: OnceLock<Arc<InterfaceWatch>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("id", &self.id)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl ProviderAdapter for Core {
    type Entry = DeviceListEntry;

    fn list(&self, order: RemovalOrder, object: DeviceObject) -> Result<DeviceListEntry> {
        self.device.add_object(order, object)
    }

    fn info(&self) -> AdapterInfo {
        let options = &self.options;
        let limits = options.limits;
        let mut info = AdapterInfo::default();
        // The letters SN, because softnd has no registered OUI.
        info.vendor_id = 0x534E;
        info.device_id = 1;
        info.adapter_id = self.id;
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
        info.max_shared_receive_queue_depth = limits.shared_receive_queue_depth; // INFO-016
        info.max_completion_queue_depth = limits.completion_queue_depth;
        info.inline_request_threshold = limits.inline_data_size.min(256);
        info.large_request_threshold = 64 * 1024;
        info.max_caller_data = options.private_data;
        info.max_callee_data = options.private_data;
        info.flags = AdapterFlags::IN_ORDER_DMA_SUPPORTED
            | AdapterFlags::MULTI_ENGINE_SUPPORTED
            | AdapterFlags::CQ_RESIZE_SUPPORTED
            | AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED;
        info
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ND2
            | Capabilities::FETCH_ADD
            | Capabilities::FETCH_ADD_MASK
            | Capabilities::COMPARE_SWAP
            | Capabilities::COMPARE_SWAP_MASK
            | Capabilities::IMMEDIATE_8
    }

    fn present(&self) -> Result<()> {
        self.device.present()
    }

    fn admit(&self, call: Call) -> Result<()> {
        self.device.admit(call)
    }

    fn addresses(&self) -> &[IpAddr] {
        self.addresses.listed()
    }

    /// Returns true if connections may use this local address.
    fn serves(&self, address: IpAddr) -> bool {
        self.addresses.serves(address)
    }

    /// The local address for connections to `peer`: of several the one that the system's route takes.
    fn local_address_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let own = self.addresses.listed().iter().copied();
        let mut family = own.filter(|own| own.is_ipv4() == peer.is_ipv4());
        let first = family.next()?;
        if family.next().is_none() || self.driver.environment.world().is_some() {
            return Some(first);
        }
        let routed = interfaces::source_for(SocketAddr::new(peer, 0));
        let routed = routed.ok().filter(|routed| self.addresses.serves(*routed));
        Some(routed.unwrap_or(first))
    }

    /// The processors on which the background thread may run (CQ-003, CQ-009). It issues all notifications, except those that a waiting
    /// thread issues itself.
    fn notify_affinity(&self) -> Option<Affinity> {
        let mask = self.driver.processors()?;
        Some(Affinity { group: 0, mask })
    }
}

impl Core {
    pub(crate) fn new(
        id: AdapterId,
        addresses: LocalAddresses,
        options: Options,
        transport: Transport,
    ) -> io::Result<Arc<Self>> {
        descriptors::allow();
        let environment = transport.environment();
        let strict = options.profile == Profile::Strict;
        let leniency = Arc::new(Leniency::new(addresses.listed().first().copied()));
        let table = TableOptions::default()
            .strict_sinks(strict)
            .capacity(options.limits.memory_tokens)
            .on_lenient_sink({
                let leniency = Arc::clone(&leniency);
                move |stag| leniency.note_read_sink(stag)
            });
        let table = match environment {
            // In a simulation STags follow from the seed. A peer that guesses an STag is part of the same program.
            Environment::Sim(_) => table.seed(environment.random()?),
            Environment::System => table,
        };
        let table = Arc::new(Table::with_options(&table).map_err(io::Error::other)?);
        let buffers = Buffers::new(Arc::clone(&table));
        let faults = options.faults.clone().map(Faults::new);
        if let Some(faults) = &faults {
            transport.follow(faults);
        }
        let driver = Driver::start(transport, buffers, options.capture.clone())?;
        driver.protection_faults.set_limit(options.fault_limit);
        let core = Arc::new_cyclic(|this: &Weak<Self>| Self {
            this: this.clone(),
            id,
            addresses,
            options,
            driver: Arc::new(driver),
            table,
            device: Arc::new(Device::new(faults)),
            leniency,
            lingering: Lingering::default(),
            next_stream: AtomicU32::new(1),
            interface: OnceLock::new(),
        });
        let remover: Weak<dyn FaultOwner> = Arc::<Self>::downgrade(&core);
        core.device.removed_by(remover);
        let owner: Weak<dyn DriverOwner> = Arc::<Self>::downgrade(&core);
        core.driver.owned_by(owner);
        if let Some(world) = core.driver.environment.world() {
            let adapter: Weak<dyn SimAdapter> = Arc::<Self>::downgrade(&core);
            world.add_adapter(adapter);
        }
        Ok(core)
    }

    /// Removes the device when the network interface with this number has gone. A system that does not permit to watch the interface lets
    /// the adapter stay: its connections then end as those of a network that is gone.
    pub(crate) fn watch_interface(&self, index: u32) {
        let owner: Weak<dyn InterfaceOwner> = self.this.clone();
        match InterfaceWatch::start(&self.driver.control, index, owner) {
            // An adapter has one interface.
            Ok(watch) => drop(self.interface.set(watch)),
            Err(error) => {
                tracing::debug!(target: targets::ADAPTER, %error, "the network interface is not watched")
            }
        }
    }

    /// The error of a wait that cannot continue. In a simulation that has stopped, the error has the report of all waits.
    #[cold]
    pub(crate) fn cannot_wait(&self, error: &io::Error) -> Error {
        if error.kind() == io::ErrorKind::Deadlock {
            let world = self.driver.environment.world();
            let waits = world.map_or_else(Vec::new, World::report).join("; ");
            tracing::error!(target: targets::ADAPTER, waits, "{error}");
            Error::new(Status::POSSIBLE_DEADLOCK, format!("{error}; {waits}"))
        } else {
            let status = if is_refusal(error) {
                Status::UNSUCCESSFUL
            } else {
                Status::INVALID_DEVICE_REQUEST
            };
            Error::new(status, error.to_string())
        }
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

    /// Removes the device from under the adapter (GEN-015).
    pub(crate) fn remove_device(&self, planned: bool) -> Result<()> {
        self.device.remove(planned)?;
        // The device no longer lists queue pairs that their client has released. A queue pair released meanwhile is in one of both places.
        device::end_all(&self.lingering.list(), |qp| qp.shut(ConnectionEnd::Removed));
        Ok(())
    }
}

impl InterfaceOwner for Core {
    fn interface_gone(&self) {
        let addresses = self.addresses.listed();
        tracing::warn!(
            target: targets::ADAPTER,
            ?addresses,
            "the network interface has gone, and its adapter is removed"
        );
        self.device.remove_by_plan();
    }
}

impl DriverOwner for Core {
    fn driver_panicked(&self) {
        // Fails if the device was removed before.
        drop(self.remove_device(true));
    }

    fn call_panicked(&self) {
        tracing::error!(target: targets::ADAPTER, "a panic has passed through an adapter, and the adapter ends");
        self.device.remove_by_plan();
    }
}

/// Moves a world to its next event, or to `until`. The error has no report of the waits, because a client may call this in a loop.
pub(crate) fn step(world: &World, until: Option<Instant>) -> Result<()> {
    if let Err(error) = world.check_thread() {
        return Err(Error::new(
            Status::INVALID_DEVICE_REQUEST,
            error.to_string(),
        ));
    }
    if world.step_until(until) {
        return Ok(());
    }
    Err(Error::new(Status::POSSIBLE_DEADLOCK, Stuck.to_string()))
}

impl SimulatedTime for Core {
    fn now(&self) -> Instant {
        self.driver.now()
    }

    fn set_alarm(&self, at: Instant) -> u64 {
        let world = self.driver.environment.world();
        world.map_or(0, |world| world.set_alarm(at))
    }

    fn clear_alarm(&self, alarm: u64) {
        if let Some(world) = self.driver.environment.world() {
            world.clear_alarm(alarm);
        }
    }

    fn step(&self, until: Option<Instant>) -> Result<()> {
        let Some(world) = self.driver.environment.world() else {
            return Ok(());
        };
        step(world, until)
    }
}

impl SimAdapter for Core {
    fn waits(&self) -> Vec<String> {
        let prefix = self
            .addresses
            .listed()
            .first()
            .map_or_else(String::new, |address| format!("{address}: "));
        let waits = self.device.waits().into_iter();
        waits.map(|what| format!("{prefix}{what}")).collect()
    }

    /// The connections of released queue pairs can reach no peer any more.
    fn abandoned(&self) {
        self.lingering.clear();
    }
}

/// Held by every handle that a client has of an adapter and of its objects, some of them by way of their [file](crate::file::File). A
/// simulated network exists as long as one of these handles does. Over TCP and UDP it holds nothing, because each adapter has a thread
/// there.
#[derive(Clone, Debug)]
pub(crate) struct NetworkHold(
    #[expect(dead_code, reason = "kept until it is dropped")] Option<World>,
);

impl NetworkHold {
    /// Of a client of this simulated network, or of an adapter of the host.
    pub(crate) fn new(world: Option<&World>) -> Self {
        Self(world.cloned())
    }
}

impl FaultOwner for Core {
    fn remove_device(&self) {
        self.driver.set_timer(self.driver.now(), self.this.clone());
    }
}

impl Timed for Core {
    /// Removes the device for a fault plan. Called with no lock held.
    fn expired(&self, _: TimerKey, _: Instant) {
        // Fails when the client has removed the device meanwhile.
        drop(self.remove_device(true));
    }
}
