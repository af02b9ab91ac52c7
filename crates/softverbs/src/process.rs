//! The shared objects of a process: the devices, one driver, one table of registered memory, and the numbers of queue pairs and
//! connections.

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use iwarp_io::buffers::Buffers;
use iwarp_io::capture::{Capture, CaptureOptions};
use iwarp_io::descriptors;
use iwarp_io::driver::Driver;
use iwarp_io::endpoint::lingering::{AnyEndpoint, Lingering};
use iwarp_io::endpoint::{ConnectionEnd, StreamId};
use iwarp_io::environment::Environment;
use iwarp_io::faults::Faults;
use iwarp_io::interfaces::{self, NetworkInterface, NetworkInterfaces, SharedAddress};
use iwarp_io::lenient_cases::LenientCases;
use iwarp_io::living::Living;
use iwarp_io::log::targets;
use iwarp_io::memory::{Table, TableOptions};
use iwarp_io::progress::background::DriverOwner;
use iwarp_io::progress::interrupts::{self, Sleep};
use iwarp_io::progress::polling;
use iwarp_io::progress::waiters::{ANYTHING, Waiters};
use iwarp_io::protection_faults::ProtectionFaults;
use iwarp_io::simulation::World;
use iwarp_io::simulation::world::SimAdapter;
use iwarp_io::transport::Transport;
use iwarp_io::transport::chosen_congestion::{CongestedTransport, choose};
use iwarp_io::transport::chosen_same_host;
use iwarp_io::transport::congestion_control::CongestionControl;
use iwarp_io::transport::quic::security::Security;
use iwarp_io::transport::quic::{self, Quic, QuicOptions};
use iwarp_io::transport::same_host::SameHost;
use iwarp_io::transport::tcp::{Tcp, TcpOptions};
use parking_lot::Mutex;

use crate::counters_file;
use crate::device::{Device, DeviceKind, limits};
use crate::dropped_datagrams::DatagramCounters;
use crate::error::{Errno, Error, Result, fail};
use crate::faults::Plan;
use crate::writes::WriteCompletion;

/// The options of a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessOptions {
    /// The kind of device that programs see.
    pub kind: DeviceKind,
    /// The text in front of the index in the names of devices, for programs that expect an adapter of one kind. At most
    /// [`LONGEST_NAMES`](Self::LONGEST_NAMES) octets: ASCII letters, digits, `_` and `-`, not a digit at the end.
    pub names: String,
    /// The only interface to have a device for. Without a name every interface has one, but the loopback interface only if there is no
    /// other.
    pub interface: Option<String>,
    /// The ports that connections and listeners use if the program names none; without it, those of the transport's own range.
    pub ports: Option<RangeInclusive<u16>>,
    /// Called when a signal has interrupted a call of the system that waits: returns true if the waiting call is to end with EINTR. Without
    /// a function, calls continue to wait.
    pub interrupts: Option<fn() -> bool>,
    /// How calls that wait end because their thread is cancelled. Without it, they do not end.
    pub cancellation: Option<Cancellation>,
    /// Streams carry CRCs. They also do if the peer asks for CRCs. Without a choice they carry CRCs, but not through shared memory.
    pub crc: Option<bool>,
    /// Connections within this machine go through shared memory, where both ends have this and belong to the same user; without a choice, that
    /// of the variable `SOFTND_SAME_HOST`. Over UDP none do.
    pub same_host: Option<bool>,
    /// The pcapng file into which the traffic of all connections is captured. It is made with the first object that needs the driver.
    pub capture: Option<PathBuf>,
    /// The folder into which [`write_counters`](Process::write_counters) writes.
    pub counters: Option<PathBuf>,
    /// The room that the capture may take.
    pub capture_room: CaptureOptions,
    /// The fault plan, which has been [checked](crate::faults::check). Events are counted in the whole process.
    pub faults: Option<Plan>,
    /// Called for each fault of the plan, with a sentence. The caller may hold locks.
    pub on_fault: Option<fn(&str)>,
    /// Called with a sentence when a connection has ended other than by a disconnect of either side, which says who ended it, and by what;
    /// when a queue pair has found no connection; and when Writes cannot be confirmed. The caller may hold locks.
    pub on_end: Option<fn(&str)>,
    /// When Writes are done; without a choice, as on adapters of this [`kind`](Self::kind).
    pub writes: Option<WriteCompletion>,
    /// Connections are streams of QUIC over UDP, encrypted and authenticated so, and there are none over TCP. They have no CRCs.
    pub udp: Option<Security>,
    /// The congestion control of connections over the system's sockets; without a choice, that of the variable `SOFTND_CONGESTION`.
    pub congestion: CongestionControl,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        Self {
            kind: DeviceKind::default(),
            names: "softnd".to_owned(),
            interface: None,
            ports: None,
            interrupts: None,
            cancellation: None,
            crc: None,
            same_host: None,
            capture: None,
            counters: None,
            capture_room: CaptureOptions::default(),
            faults: None,
            on_fault: None,
            on_end: None,
            writes: None,
            udp: None,
            congestion: CongestionControl::default(),
        }
    }
}

impl ProcessOptions {
    /// The greatest length of [`names`](Self::names), in octets. The kernel's names have at most 63 octets.
    pub const LONGEST_NAMES: usize = 32;

    /// Returns true if devices may have such names.
    pub fn are_names(names: &str) -> bool {
        let permitted = |octet: u8| octet.is_ascii_alphanumeric() || b"_-".contains(&octet);
        (1..=Self::LONGEST_NAMES).contains(&names.len())
            && names.bytes().all(permitted)
            && names.starts_with(|first: char| first.is_ascii_alphabetic())
            && !names.ends_with(|last: char| last.is_ascii_digit())
    }
}

/// How calls that wait end because their thread is cancelled.
#[derive(Clone, Copy, Debug)]
pub struct Cancellation {
    /// How a thread sleeps in a call that waits: a thread is cancelled here alone.
    pub sleep: Sleep,
    /// Returns true if the calling thread was cancelled. The call then fails with EINTR and leaves the event that it waits for.
    pub is_cancelled: fn() -> bool,
}

/// The interval at which [`Process::finish`] checks if everything has arrived.
const LOOK: Duration = Duration::from_millis(1);

/// The devices of a process and the state that their objects share.
///
/// A program has one. The driver, with its thread, starts with the first object that needs it.
///
/// After a fork the child makes a new one and never again touches an object that belongs to the old one: it calls [`forget`](Self::forget),
/// which neither closes nor sends anything.
pub struct Process {
    options: ProcessOptions,
    transport: Transport,
    devices: Vec<Arc<Device>>,
    /// The addresses of the loopback interface.
    loopback: Vec<IpAddr>,
    engine: Mutex<Option<Arc<Engine>>>,
    pub(crate) this: Weak<Self>,
    /// The fault plan of the options.
    pub(crate) faults: Option<Arc<Faults>>,
    /// Counts what devices permit and iWARP adapters refuse.
    pub(crate) lenient_cases: LenientCases,
    next_stream: AtomicU32,
    pub(crate) numbers: Numbers,
    /// The datagrams that were dropped.
    pub(crate) datagrams: DatagramCounters,
    /// The ports that numbers of queue pairs name.
    pub(crate) ports: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// The transport of connections by numbers: over TCP also if others are over UDP.
    number_transport: Transport,
    /// Queue pairs that the program has destroyed and whose connections have not ended.
    pub(crate) lingering: Lingering,
    /// The shared objects of each device's identifiers, by the index of the device.
    pub(crate) shared_devices: Mutex<HashMap<usize, Weak<dyn Any + Send + Sync>>>,
    witnesses: Mutex<Living<dyn FatalWitness>>,
    connections: Mutex<Living<dyn AnyEndpoint>>,
    broken: OnceLock<Broken>,
    /// A simulated network exists as long as the program holds an object of it.
    #[expect(dead_code, reason = "kept until it is dropped")]
    world: Option<World>,
}

/// The reason why devices cannot be used any more.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Broken {
    /// A panic has passed through the driver.
    Panic,
    /// The fault plan removes them.
    Removed,
}

/// The driver, and the table of registered memory.
pub(crate) struct Engine {
    pub(crate) driver: Arc<Driver>,
    pub(crate) table: Arc<Table>,
    /// For completion queues without a channel, and for asynchronous events.
    pub(crate) waiters: Arc<Waiters>,
    capture: Option<Capture>,
    process: Weak<Process>,
}

/// Learns that the devices cannot be used any more.
pub(crate) trait FatalWitness: Send + Sync {
    /// A panic has passed through the driver, or the fault plan removes the devices.
    fn device_broke(&self);
}

/// Numbers by which a program names objects: 24 bits for queue pairs, 16 bits for connections, so that no connection has the number of
/// a queue pair.
#[derive(Default)]
pub(crate) struct Numbers {
    state: Mutex<NumbersInUse>,
}

#[derive(Default)]
struct NumbersInUse {
    objects: HashMap<u32, Weak<dyn Any + Send + Sync>>,
    last_queue_pair: u32,
    last_connection: u32,
}

/// The first number of a queue pair that listens at no port. Lower ones name connections, and those from
/// [`FIRST_WITH_PORT`] on name ports.
pub(crate) const FIRST_QUEUE_PAIR: u32 = 0x1_0000;
/// The first number of a queue pair that names a port, which is not one of the first 1,024.
pub(crate) const FIRST_WITH_PORT: u32 = 1024 * PER_PORT;
/// The queue pairs whose numbers name one port.
pub(crate) const PER_PORT: u32 = 256;
const QUEUE_PAIRS: u32 = FIRST_WITH_PORT - FIRST_QUEUE_PAIR;

impl Numbers {
    /// Takes a number for a queue pair that listens at no port.
    pub(crate) fn take_queue_pair(&self) -> Result<u32> {
        let mut state = self.state.lock();
        for _ in 0..QUEUE_PAIRS {
            state.last_queue_pair = (state.last_queue_pair + 1) % QUEUE_PAIRS;
            let number = FIRST_QUEUE_PAIR + state.last_queue_pair;
            if let Entry::Vacant(free) = state.objects.entry(number) {
                free.insert(Weak::<()>::new());
                return Ok(number);
            }
        }
        fail(Errno::NOMEM, "there are too many queue pairs: destroy some")
    }

    /// Takes a number for a connection.
    pub(crate) fn take_connection(&self) -> Result<u32> {
        let mut state = self.state.lock();
        for _ in 1..FIRST_QUEUE_PAIR {
            state.last_connection = state.last_connection % (FIRST_QUEUE_PAIR - 1) + 1;
            let number = state.last_connection;
            if let Entry::Vacant(free) = state.objects.entry(number) {
                free.insert(Weak::<()>::new());
                return Ok(number);
            }
        }
        fail(
            Errno::NOMEM,
            "there are too many connections: destroy identifiers of connections",
        )
    }

    /// Gives a number to an object.
    pub(crate) fn set(&self, number: u32, object: Weak<dyn Any + Send + Sync>) {
        self.state.lock().objects.insert(number, object);
    }

    /// Finds the object with a number.
    pub(crate) fn find<T: Any + Send + Sync>(&self, number: u32) -> Option<Arc<T>> {
        let object = self.state.lock().objects.get(&number)?.upgrade()?;
        object.downcast().ok()
    }

    /// Gives a number back.
    pub(crate) fn release(&self, number: u32) {
        self.state.lock().objects.remove(&number);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// The interfaces that have devices.
fn with_devices(found: NetworkInterfaces, wanted: Option<&str>) -> Result<Vec<NetworkInterface>> {
    let NetworkInterfaces { list, shared } = found;
    if let Some(wanted) = wanted {
        let one = list.iter().find(|one| one.name == wanted);
        return match one {
            Some(one) => Ok(vec![one.clone()]),
            None => fail(Errno::NODEV, no_interface(wanted, &list, &shared)),
        };
    }
    let is_device = |one: &NetworkInterface| !one.is_loopback && one.has_carrier;
    let has_others = list.iter().any(is_device);
    let with_devices = list.into_iter();
    Ok(with_devices
        .filter(|one| match has_others {
            true => is_device(one),
            false => one.is_loopback,
        })
        .collect())
}

/// The reason why an interface has no device.
fn no_interface(wanted: &str, list: &[NetworkInterface], shared: &[SharedAddress]) -> String {
    let names: Vec<_> = list.iter().map(|one| one.name.as_str()).collect();
    let names = names.join(", ");
    let shared = shared.iter().filter(|shared| shared.other == wanted);
    let shared: Vec<_> = shared.map(ToString::to_string).collect();
    if shared.is_empty() {
        format!("there is no interface {wanted} that is up with an address; there are: {names}")
    } else {
        let shared = shared.join(", ");
        format!("the interface {wanted} has no address for itself: {shared}; there are: {names}")
    }
}

/// The congestion control that the options or the environment choose.
fn congestion(options: &ProcessOptions) -> Result<CongestionControl> {
    choose_congestion(options.congestion.clone(), options.udp.is_some())
}

/// This congestion control; if it chooses nothing, that of the environment.
///
/// # Errors
///
/// EINVAL: connections cannot have it. The error has those that there are, and names the variable if the environment chooses.
pub fn choose_congestion(
    congestion: CongestionControl,
    is_over_udp: bool,
) -> Result<CongestionControl> {
    let transport = match is_over_udp {
        false => CongestedTransport::Tcp,
        true => CongestedTransport::Quic,
    };
    let chosen = choose(congestion, transport);
    chosen.map_err(|error| Error::new(Errno::INVAL, error.to_string()))
}

fn over_udp(
    environment: Environment,
    security: &Security,
    options: &ProcessOptions,
) -> Result<Transport> {
    let congestion = match environment {
        Environment::System => congestion(options)?,
        Environment::Sim(_) => CongestionControl::default(),
    };
    let quic_options = QuicOptions {
        ports: options.ports.clone(),
        congestion,
        ..QuicOptions::default()
    };
    let quic = Quic::with(environment, security, quic_options);
    let quic =
        quic.map_err(|error| Error::of_system(&error, "cannot prepare encrypted connections"))?;
    Ok(Transport::Quic(quic))
}

impl Process {
    /// The devices over the interfaces of this machine.
    ///
    /// # Errors
    ///
    /// ENODEV if the interface that the options name does not exist; errors of the system.
    pub fn of_system(options: ProcessOptions) -> Result<Arc<Self>> {
        let found = interfaces::of_system()
            .map_err(|error| Error::of_system(&error, "cannot list the network interfaces"))?;
        let transport = match &options.udp {
            None => {
                let wanted = chosen_same_host::choose(options.same_host)
                    .map_err(|error| Error::new(Errno::INVAL, error.to_string()))?;
                let options = TcpOptions {
                    congestion: congestion(&options)?,
                    same_host: wanted.then(SameHost::if_possible).flatten(),
                    ..TcpOptions::default()
                };
                Transport::Tcp(Tcp::new(options))
            }
            Some(security) => over_udp(Environment::System, security, &options)?,
        };
        Self::new(transport, found, options, None)
    }

    /// The devices of a host in a simulated network.
    ///
    /// # Errors
    ///
    /// As [`of_system`](Self::of_system).
    pub fn simulated(
        world: &World,
        interfaces: Vec<NetworkInterface>,
        options: ProcessOptions,
    ) -> Result<Arc<Self>> {
        let transport = match &options.udp {
            None => Transport::Sim(world.own()),
            Some(security) => over_udp(Environment::Sim(world.own()), security, &options)?,
        };
        Self::new(
            transport,
            NetworkInterfaces {
                list: interfaces,
                shared: Vec::new(),
            },
            options,
            Some(world.clone()),
        )
    }

    fn new(
        transport: Transport,
        interfaces: NetworkInterfaces,
        options: ProcessOptions,
        world: Option<World>,
    ) -> Result<Arc<Self>> {
        let loopback = interfaces.list.iter().filter(|one| one.is_loopback);
        let loopback = loopback.flat_map(|one| one.addresses.clone()).collect();
        if !ProcessOptions::are_names(&options.names) {
            return fail(
                Errno::INVAL,
                format!(
                    "{:?} is no beginning of a device's name: use at most {} letters, digits, _ and -, a letter first, and no digit \
                     at the end",
                    options.names,
                    ProcessOptions::LONGEST_NAMES
                ),
            );
        }
        let interfaces = with_devices(interfaces, options.interface.as_deref())?;
        let plan = options.faults.clone();
        let faults = plan.map(|plan| match options.on_fault {
            Some(told) => Faults::telling(plan, told),
            None => Faults::new(plan),
        });
        let devices = interfaces.into_iter().enumerate();
        let kind = options.kind;
        let devices =
            devices.map(|(index, one)| Arc::new(Device::new(index, &options.names, kind, one)));
        let devices = devices.collect();
        let number_transport = match &transport {
            Transport::Quic(_) => match &world {
                Some(world) => Transport::Sim(world.own()),
                None => Transport::Tcp(Tcp::default()),
            },
            other => other.clone(),
        };
        Ok(Arc::new_cyclic(|this| Self {
            devices,
            loopback,
            options,
            transport,
            engine: Mutex::default(),
            this: this.clone(),
            faults,
            lenient_cases: LenientCases::default(),
            next_stream: AtomicU32::new(1),
            numbers: Numbers::default(),
            datagrams: DatagramCounters::default(),
            ports: OnceLock::new(),
            number_transport,
            lingering: Lingering::default(),
            shared_devices: Mutex::default(),
            witnesses: Mutex::default(),
            connections: Mutex::default(),
            broken: OnceLock::new(),
            world,
        }))
    }

    /// The devices.
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// The options.
    pub fn options(&self) -> &ProcessOptions {
        &self.options
    }

    /// The device of a local address. Addresses of the loopback interface belong to the first device if that interface has none.
    pub fn device_of(&self, address: IpAddr) -> Option<&Arc<Device>> {
        let address = address.to_canonical();
        let mut devices = self.devices.iter();
        let own = devices.find(|device| device.has_address(address));
        let is_loopback = || address.is_loopback() || self.loopback.contains(&address);
        own.or_else(|| self.devices.first().filter(|_| is_loopback()))
    }

    /// Leaves all objects of this process object alone until the process ends: none of them is closed, sends anything or is waited for. For
    /// the child of a fork, which shares the sockets with its parent.
    pub fn forget(self: &Arc<Self>) {
        // The engine keeps the sockets of its streams as long as it exists.
        std::mem::forget(Arc::clone(self));
        if let Some(engine) = self.engine.try_lock().and_then(|engine| engine.clone()) {
            std::mem::forget(engine);
        }
    }

    /// Returns false if nothing has begun that [`finish`](Self::finish) would end, as in a program that only lists the devices. It never
    /// waits, so it may be called where a signal has interrupted another call.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        // A lock that is held is one of a call that needs the engine.
        self.engine.try_lock().is_none_or(|engine| engine.is_some())
    }

    /// The counters of all devices, since they were made: those that an adapter of NetworkDirect has over the same transport, under the same
    /// names. Counters never decrease, and one that is 0 is listed too.
    ///
    /// | group | counts |
    /// |---|---|
    /// | `lenient` | what the program or its peer did and iWARP adapters refuse; `surplus_sges` stays 0, because such a request is refused, and so does `read_sink`, because `LOCAL_WRITE` makes memory the sink of Reads |
    /// | `faults` | faults of the [plan](ProcessOptions::faults) that have happened |
    /// | `protection_faults`, `refused_for_faults` | messages that named memory which the peer may not use, by peer |
    /// | `datagrams` | datagrams of queue pairs (`IBV_QPT_UD`) that were dropped, by reason |
    /// | `udp` | over UDP, what was refused of strangers and peers |
    ///
    /// ```
    /// use softverbs::{Process, ProcessOptions};
    ///
    /// # fn main() -> softverbs::Result<()> {
    /// let process = Process::of_system(ProcessOptions::default())?;
    /// assert_eq!(process.counters()["lenient.receive_wait"], 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn counters(&self) -> BTreeMap<Cow<'static, str>, u64> {
        let engine = self.engine.lock().clone();
        let read_sinks = engine
            .as_ref()
            .map_or(0, |engine| engine.table.lenient_sinks());
        let planned = self.faults.iter().flat_map(|plan| plan.happened());
        let happened = planned.map(|(_, count)| count).sum();
        let of_peers = match &engine {
            Some(engine) => engine.driver.protection_faults.counters(),
            None => ProtectionFaults::default().counters(),
        };
        let named = self.lenient_cases.counters(read_sinks);
        let named = named.chain(self.transport.counters());
        let named = named.chain(self.datagrams.counters());
        let named = named.chain([("faults.happened", happened)]);
        let named = named.map(|(name, count)| (Cow::Borrowed(name), count));
        named.chain(of_peers).collect()
    }

    /// Writes the counters into the file `PROGRAM-PID.json` of the options' folder, in the place of an earlier one. Does nothing without a
    /// folder, and as long as nothing [has begun](Self::has_begun).
    ///
    /// # Errors
    ///
    /// Those of the system, when the file cannot be written.
    pub fn write_counters(&self) -> Result<()> {
        let Some(folder) = &self.options.counters else {
            return Ok(());
        };
        if !self.has_begun() {
            return Ok(());
        }
        let written = counters_file::write(folder, &self.counters());
        written.map_err(|error| Error::of_system(&error, "cannot write the counters"))
    }

    /// Ends all connections, for a program that exits: posted requests have `limit` to be sent and to arrive.
    pub fn finish(&self, limit: Duration) {
        let Some(engine) = self.engine.lock().clone() else {
            return;
        };
        self.finish_connections(&engine, limit);
        if let Some(Err(error)) = engine.capture.as_ref().map(Capture::flush) {
            tracing::warn!(target: targets::CAPTURE, %error, "the capture is not complete");
        }
    }

    fn finish_connections(&self, engine: &Engine, limit: Duration) {
        let connections: Vec<_> = self.connections.lock().take().collect();
        let end = engine.driver.now() + limit;
        let all = |holds: fn(&dyn AnyEndpoint) -> bool| {
            let done = || connections.iter().all(|connection| holds(&**connection));
            // No event announces the moment, so the loop polls.
            while !done() && engine.driver.now() < end {
                let soon = engine.driver.now() + LOOK;
                if engine
                    .park(&engine.waiters, &done, Some(soon.min(end)))
                    .is_err()
                {
                    return;
                }
            }
        };
        all(|connection| connection.is_idle());
        for connection in &connections {
            connection.end();
        }
        all(|connection| connection.is_gone());
        if self.options.udp.is_some() && self.environment().world().is_none() {
            // The system does not tell peers that the process has ended.
            quic::close_all(end.saturating_duration_since(engine.driver.now()));
        }
    }

    /// Returns true if streams carry CRCs. Over UDP each packet is protected better.
    pub(crate) fn asks_for_crcs(&self) -> bool {
        self.options.crc.unwrap_or(true) && self.options.udp.is_none()
    }

    /// When Writes are done.
    pub(crate) fn writes(&self) -> WriteCompletion {
        let options = &self.options;
        options.writes.unwrap_or(WriteCompletion::of(options.kind))
    }

    /// Returns true if nobody has chosen CRCs, so that connections through shared memory do without. A fault plan may damage octets.
    pub(crate) fn spares_crcs(&self) -> bool {
        self.options.crc.is_none() && self.options.faults.is_none()
    }

    /// Returns true if the transport of connections has sockets for all addresses of the machine.
    pub(crate) fn has_wildcards(&self) -> bool {
        self.options.udp.is_none() && self.environment().world().is_none()
    }

    /// The addresses of the machine at which a listener listens that names none.
    pub(crate) fn all_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let devices = self.devices.iter();
        let own = devices.flat_map(|device| device.interface().addresses.iter());
        let others = self.loopback.iter().filter(|address| {
            let mut devices = self.devices.iter();
            !devices.any(|device| device.has_address(**address))
        });
        own.chain(others).copied()
    }

    /// Makes [`finish`](Self::finish) end a connection.
    pub(crate) fn ends(&self, connection: Weak<dyn AnyEndpoint>) {
        self.connections.lock().add(connection);
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn number_transport(&self) -> &Transport {
        &self.number_transport
    }

    /// The transport of a queue pair that is connected to itself: always a socket.
    pub(crate) fn own_transport(&self) -> Transport {
        match &self.number_transport {
            Transport::Tcp(_) => Transport::Tcp(Tcp::default()),
            other => other.clone(),
        }
    }

    pub(crate) fn environment(&self) -> Environment {
        self.transport.environment()
    }

    /// The driver, which starts now if it has not started.
    pub(crate) fn engine(&self) -> Result<Arc<Engine>> {
        match self.broken.get() {
            None => {}
            Some(Broken::Panic) => {
                return fail(
                    Errno::IO,
                    "a panic has passed through the driver; its message is on standard error",
                );
            }
            Some(Broken::Removed) => {
                return fail(Errno::IO, "the fault plan has removed the devices");
            }
        }
        let mut engine = self.engine.lock();
        if let Some(engine) = &*engine {
            return Ok(Arc::clone(engine));
        }
        let started = Engine::start(self)
            .map_err(|error| Error::of_system(&error, "cannot start the driver"))?;
        Ok(Arc::clone(engine.insert(Arc::new(started))))
    }

    pub(crate) fn next_stream(&self) -> StreamId {
        StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed))
    }

    /// Notifies `witness` when the devices break.
    pub(crate) fn witness(&self, witness: Weak<dyn FatalWitness>) {
        self.witnesses.lock().add(witness);
    }

    /// Ends the devices after a panic: contexts get IBV_EVENT_DEVICE_FATAL, and calls that need the driver fail with EIO.
    pub fn break_down(&self) {
        self.break_by(Broken::Panic);
    }

    pub(crate) fn break_by(&self, reason: Broken) {
        if self.broken.set(reason).is_err() {
            return;
        }
        match reason {
            Broken::Panic => {
                tracing::error!(target: targets::ADAPTER, "a panic has passed through the driver, and the devices end");
            }
            Broken::Removed => {
                tracing::info!(target: targets::ADAPTER, "the fault plan removes the devices");
                let connections = self.connections.lock().take();
                connections.for_each(|connection| connection.abort(ConnectionEnd::Removed));
            }
        }
        let witnesses = self.witnesses.lock().take();
        witnesses.for_each(|witness| witness.device_broke());
    }
}

impl Engine {
    fn start(process: &Process) -> io::Result<Self> {
        descriptors::allow();
        let environment = process.environment();
        let options = TableOptions::default().capacity(limits::REGIONS);
        let options = match environment {
            // In a simulation STags follow from the seed.
            Environment::Sim(_) => options.seed(environment.random()?),
            Environment::System => options,
        };
        let table = Arc::new(Table::with_options(&options).map_err(io::Error::other)?);
        let buffers = Buffers::new(Arc::clone(&table));
        let capture = process.options.capture.as_ref();
        let room = &process.options.capture_room;
        let capture = capture.map(|path| room.clone().create(path)).transpose()?;
        let driver = Driver::start(process.transport.clone(), buffers, capture.clone())?;
        let driver = Arc::new(driver);
        let owner: Weak<dyn DriverOwner> = process.this.clone();
        driver.owned_by(owner);
        if let Some(faults) = &process.faults {
            driver.transport.follow(faults);
        }
        if let Some(world) = environment.world() {
            let adapter: Weak<dyn SimAdapter> = process.this.clone();
            world.add_adapter(adapter);
        }
        Ok(Self {
            waiters: Arc::new(driver.waiters()?),
            driver,
            table,
            capture,
            process: process.this.clone(),
        })
    }

    /// Makes a group of waiters, in which threads can wait.
    pub(crate) fn waiters(&self) -> Result<Arc<Waiters>> {
        let waiters = self.driver.waiters();
        let waiters = waiters.map_err(|error| Error::of_system(&error, "cannot make a channel"))?;
        Ok(Arc::new(waiters))
    }

    /// Waits in `waiters`, and drives, until `done` returns true. Fails with EINTR after a signal, if the options say so.
    pub(crate) fn wait(&self, waiters: &Waiters, done: &dyn Fn() -> bool) -> Result<()> {
        let process = self.process.upgrade();
        let options =
            process.map(|process| (process.options.interrupts, process.options.cancellation));
        let Some((Some(ends), cancellation)) = options else {
            return self.park(waiters, done, None);
        };
        let is_cancelled =
            || cancellation.is_some_and(|cancellation| (cancellation.is_cancelled)());
        interrupts::take(); // of earlier waits
        let is_interrupted = Cell::new(false);
        let or_interrupted = || {
            if interrupts::take() && (is_cancelled() || ends()) {
                is_interrupted.set(true);
            }
            is_interrupted.get() || done()
        };
        let sleep = cancellation.map(|cancellation| cancellation.sleep);
        interrupts::sleeping_by(sleep, || self.park(waiters, &or_interrupted, None))?;
        if is_cancelled() {
            // Also if the event is there: it is for another thread, or for a later call.
            return fail(Errno::INTR, "the thread was cancelled");
        }
        if is_interrupted.get() && !done() {
            return fail(Errno::INTR, "a signal has ended the wait");
        }
        Ok(())
    }

    /// Waits in `waiters`, and drives, until `done` returns true or the deadline has passed.
    pub(crate) fn park(
        &self,
        waiters: &Waiters,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let drive = || waiters.park(ANYTHING, done, deadline, polling::stop);
        let parked = self.driver.driving(drive);
        parked.map_err(|error| match error.kind() {
            io::ErrorKind::Deadlock => {
                let world = self.driver.environment.world();
                let waits = world.map_or_else(Vec::new, World::report).join("; ");
                Error::new(Errno::DEADLK, format!("{error}; {waits}"))
            }
            _ => Error::of_system(&error, "cannot wait"),
        })
    }
}

impl DriverOwner for Process {
    fn driver_panicked(&self) {
        self.break_down();
    }
}

impl SimAdapter for Process {
    fn waits(&self) -> Vec<String> {
        Vec::new()
    }

    fn abandoned(&self) {
        self.lingering.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, is_loopback: bool) -> NetworkInterface {
        let mut interface = NetworkInterface::simulated(1, vec![[10, 0, 0, 1].into()]);
        interface.name = name.to_owned();
        interface.is_loopback = is_loopback;
        interface
    }

    fn found(list: Vec<NetworkInterface>) -> NetworkInterfaces {
        let shared = Vec::new();
        NetworkInterfaces { list, shared }
    }

    fn names(found: NetworkInterfaces, wanted: Option<&str>) -> Vec<String> {
        let found = with_devices(found, wanted).unwrap();
        found.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn the_loopback_interface_has_a_device_only_alone_or_by_name() {
        let both = || found(vec![interface("eth0", false), interface("lo", true)]);
        assert_eq!(names(both(), None), ["eth0"]);
        assert_eq!(names(both(), Some("lo")), ["lo"]);
        assert_eq!(names(found(vec![interface("lo", true)]), None), ["lo"]);
        let error = with_devices(both(), Some("eth1")).unwrap_err();
        assert_eq!(error.errno(), Errno::NODEV);
        assert!(error.to_string().contains("eth0, lo"));
    }

    #[test]
    fn an_interface_without_a_carrier_has_a_device_only_by_name() {
        let mut docker0 = interface("docker0", false);
        docker0.has_carrier = false;
        let lo = interface("lo", true);
        let two = || found(vec![docker0.clone(), lo.clone()]);
        assert_eq!(names(two(), None), ["lo"]);
        assert_eq!(names(two(), Some("docker0")), ["docker0"]);
        let three = found(vec![interface("eth0", false), docker0, lo]);
        assert_eq!(names(three, None), ["eth0"]);
    }

    #[test]
    fn an_interface_whose_address_belongs_to_another_says_so() {
        let mut two = found(vec![interface("eth0", false), interface("lo", true)]);
        two.shared.push(SharedAddress {
            address: [10, 0, 0, 1].into(),
            owner: "eth0".into(),
            other: "eth1".into(),
        });
        let error = with_devices(two, Some("eth1")).unwrap_err().to_string();
        let why = "eth0 and eth1 both have the address 10.0.0.1, and eth0 answers for it";
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn connections_and_queue_pairs_never_share_a_number() {
        let numbers = Numbers::default();
        let connection = numbers.take_connection().unwrap();
        let queue_pair = numbers.take_queue_pair().unwrap();
        assert!(connection > 0 && connection < FIRST_QUEUE_PAIR);
        assert!((FIRST_QUEUE_PAIR..FIRST_WITH_PORT).contains(&queue_pair));
        let object = Arc::new(7_u8);
        numbers.set(queue_pair, Arc::<u8>::downgrade(&object));
        assert_eq!(numbers.find::<u8>(queue_pair).as_deref(), Some(&7));
        assert!(numbers.find::<u16>(queue_pair).is_none());
        numbers.release(queue_pair);
        assert!(numbers.find::<u8>(queue_pair).is_none());
    }

    #[test]
    fn connections_get_numbers_until_all_are_in_use() {
        let numbers = Numbers::default();
        for _ in 1..FIRST_QUEUE_PAIR {
            numbers.take_connection().unwrap();
        }
        assert_eq!(numbers.take_connection().unwrap_err().errno(), Errno::NOMEM);
        numbers.release(9);
        assert_eq!(numbers.take_connection().unwrap(), 9);
    }
}
