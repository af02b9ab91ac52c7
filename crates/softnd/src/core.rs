//! What all objects of one opened adapter share.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use iwarp_io::descriptors;
use iwarp_io::driver::Driver;
use iwarp_io::endpoint::buffers::Buffers;
use iwarp_io::endpoint::{ReadLimits, Role, StreamId};
use iwarp_io::environment::Environment;
use iwarp_io::faults::Faults;
use iwarp_io::memory::{Pd, Table, TableOptions};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::transport::sim::World;
use iwarp_io::transport::sim::world::{Stuck, Witness};
use iwarp_io::transport::stream::Stream;
use iwarp_io::transport::{Transport, Wire};
use netdirect::{AdapterId, Affinity, Error, Result, Simulation, Status};
use parking_lot::Mutex;

use crate::device::{Device, DeviceObject, RemovalScheduler};
use crate::leniency::{Leniency, LenientCase};
use crate::options::{Options, Profile};
use crate::status::fail;

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
    pub(crate) driver: Arc<Driver>,
    pub(crate) table: Arc<Table>,
    pub(crate) device: Arc<Device>,
    pub(crate) leniency: Arc<Leniency>,
    /// Faults that wait for a moment when no lock is held.
    effects: Mutex<Vec<PlannedEffect>>,
    /// Queue pairs that the client has released and whose connections have not ended yet.
    lingering: Mutex<HashMap<StreamId, Arc<dyn DeviceObject>>>,
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
    pub(crate) fn new(
        id: AdapterId,
        addresses: Vec<IpAddr>,
        options: Options,
        transport: Transport,
    ) -> io::Result<Arc<Self>> {
        descriptors::allow();
        let environment = transport.environment();
        let strict = options.profile == Profile::Strict;
        let leniency = Arc::new(Leniency::new(addresses.first().copied()));
        let table = TableOptions::default()
            .strict_sinks(strict)
            .capacity(options.limits.memory_tokens)
            .on_lenient_sink({
                let leniency = Arc::clone(&leniency);
                move |stag| leniency.tell(LenientCase::ReadSink, Some(stag))
            });
        let table = match environment {
            // What a peer could guess in a simulation, it could be told as well.
            Environment::Sim(_) => table.seed(environment.random()?),
            Environment::System => table,
        };
        let table = Arc::new(Table::with_options(&table).map_err(io::Error::other)?);
        let buffers = Buffers::new(Arc::clone(&table));
        let driver = Driver::start(transport, buffers, options.capture.clone())?;
        let faults = options.faults.clone().map(Faults::new);
        let core = Arc::new_cyclic(|this: &Weak<Self>| Self {
            this: this.clone(),
            id,
            addresses,
            options,
            driver: Arc::new(driver),
            table,
            device: Arc::new(Device::new(faults)),
            effects: Mutex::default(),
            leniency,
            lingering: Mutex::default(),
            next_stream: AtomicU32::new(1),
            revision_1_peers: Mutex::default(),
        });
        let remover = Arc::downgrade(&(Arc::clone(&core) as Arc<dyn RemovalScheduler>));
        core.device.removed_by(remover);
        if let Some(world) = core.driver.environment.world() {
            let witness: Weak<dyn Witness> = Arc::<Self>::downgrade(&core);
            world.add_witness(witness);
        }
        Ok(core)
    }

    /// What a wait in a simulation ends with that cannot go on.
    #[cold]
    pub(crate) fn cannot_wait(&self, error: &io::Error) -> Error {
        if error.kind() == io::ErrorKind::Deadlock {
            let world = self.driver.environment.world();
            let waits = world.map_or_else(Vec::new, World::report).join("; ");
            tracing::error!(waits, "{error}");
            Error::new(Status::POSSIBLE_DEADLOCK, format!("{error}; {waits}"))
        } else {
            Error::new(Status::INVALID_DEVICE_REQUEST, error.to_string())
        }
    }

    /// The processors that notifications of a completion queue, or of a shared receive queue, come from.
    pub(crate) fn notify_affinity(&self) -> Result<Affinity> {
        self.device.present()?; // CQ-007, SRQ-006
        // A thread that waits is notified where it runs; everybody else by the background thread (CQ-003, CQ-009).
        match self.driver.processors() {
            Some(mask) => Ok(Affinity { group: 0, mask }),
            None => fail(
                Status::NOT_SUPPORTED,
                "it is not known on which of the first 64 processors notifications are made",
            ), // CQ-008, SRQ-007
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

    /// Whether connections may use the local address: one of the adapter's, or another of the loopback network where
    /// the adapter has one of it.
    pub(crate) fn serves(&self, address: IpAddr) -> bool {
        serves(&self.addresses, address)
    }

    /// The local address for connections to `peer`.
    pub(crate) fn local_address_for(&self, peer: IpAddr) -> Option<IpAddr> {
        self.addresses
            .iter()
            .copied()
            .find(|own| own.is_ipv4() == peer.is_ipv4())
    }

    /// Keeps a released queue pair until its connection has ended.
    pub(crate) fn linger(&self, id: StreamId, qp: Arc<dyn DeviceObject>) {
        self.lingering.lock().insert(id, qp);
    }

    /// The connection of a queue pair has ended. The caller drops what is returned when it holds no lock.
    #[must_use]
    pub(crate) fn unlinger(&self, id: StreamId) -> Option<Arc<dyn DeviceObject>> {
        self.lingering.lock().remove(&id)
    }

    /// The stream of a connection that was just established.
    pub(crate) fn stream(&self, wire: Wire, role: Role) -> Stream {
        let owner: Arc<Device> = Arc::clone(&self.device);
        self.driver.stream(wire, role, self.device.faults(), owner)
    }

    /// Removes the device from under the adapter (GEN-015).
    pub(crate) fn remove_device(&self, planned: bool) -> Result<()> {
        self.device.remove(planned)?;
        // The device no longer lists queue pairs that their client has released. A queue pair released meanwhile is in one of both places.
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
        self.driver.now()
    }

    fn step(&self, until: Option<Instant>) -> Result<()> {
        let Some(world) = self.driver.environment.world() else {
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

/// What ends when one of its queues breaks down: a queue pair.
pub(crate) trait QueueUser: Send + Sync {
    /// The queue has broken down. Called with no lock held.
    fn queue_broke(&self);
}

/// Something that can break down for good: a completion queue, or a shared receive queue.
pub(crate) trait BreakableQueue: Send + Sync {
    /// Breaks down, with everything that depends on it. Called with no lock held.
    fn break_down(&self, status: Status);
}

/// What a plan has happen to more than one stream.
enum PlannedEffect {
    RemoveDevice,
    BreakQueue(Weak<dyn BreakableQueue>, Status),
}

impl Core {
    /// A plan has a completion queue break down, when no lock is held any more.
    pub(crate) fn break_soon(&self, queue: Weak<dyn BreakableQueue>, status: Status) {
        self.perform_soon(PlannedEffect::BreakQueue(queue, status));
    }

    fn perform_soon(&self, effect: PlannedEffect) {
        self.effects.lock().push(effect);
        self.driver.set_timer(self.driver.now(), self.this.clone());
    }
}

impl RemovalScheduler for Core {
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

pub(crate) fn serves(own: &[IpAddr], address: IpAddr) -> bool {
    own.contains(&address)
        || matches!(address, IpAddr::V4(v4) if v4.is_loopback())
            && own.iter().any(|own| own.is_ipv4() && own.is_loopback())
}

/// The provider's own object behind a trait object, if it is one and `ours` says so (GEN-022).
pub(crate) fn downcast<T: Any + Send + Sync>(
    object: Arc<dyn Any + Send + Sync>,
    ours: impl FnOnce(&T) -> bool,
) -> Option<Arc<T>> {
    let object = object.downcast::<T>().ok()?;
    ours(&object).then_some(object)
}
