//! The parts of an open adapter that its objects share.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};

use netdirect::{
    AdapterFlags, AdapterId, AdapterInfo, Buffer, Call, Capabilities, Error, Result, Sge, Status,
};
use netdirect_provider::ProviderAdapter;
use netdirect_provider::removal::{DeviceObject, RemovalOrder};
use parking_lot::{Mutex, RwLock};
use rdma_buffer::signals;

use crate::device::Device;
use crate::driver::{Driver, Source};
use crate::handle::{
    Access, AsyncEvent, CmEvent, CmEventKind, CmId, CompletionChannelQueue, Context, EventChannel,
    LocalSge, ProtectionDomain, Registration,
};
use crate::limits::Limits;
use crate::options::{Options, Timeouts};
use crate::quirks::Needs;
use crate::status::{bind_status, shortage};
use crate::sys::Libraries;

/// The first of the ports that are picked (CONN-005).
const FIRST_PORT: u16 = 49152;
/// The number of ports that are tried.
const PORTS: u32 = 256;

/// The owner of an identifier of the connection manager.
pub(crate) trait CmOwner: Send + Sync {
    fn on_cm_event(&self, event: CmEvent);
}

/// The owner of an object that breaks down, or reports events, by itself.
pub(crate) trait AsyncOwner: Send + Sync {
    fn on_async_event(&self, event: AsyncEvent);
}

pub(crate) struct Core {
    pub(crate) id: AdapterId,
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) limits: Limits,
    pub(crate) needs: Needs,
    pub(crate) pd: Arc<ProtectionDomain>,
    pub(crate) driver: Arc<Driver>,
    channel: Arc<EventChannel>,
    /// A completion queue that is kept so that the driver's memory for it is reserved: the driver's library refuses a queue at one place of
    /// that memory.
    #[expect(dead_code, reason = "kept until it is dropped")]
    reserved: Option<CompletionChannelQueue>,
    /// Eight octets for requests that must have an entry.
    spare: Registration,
    tokens: (u64, u64),
    pub(crate) timeouts: Timeouts,
    events: Mutex<Events>,
    cm_owners: Mutex<HashMap<u64, Weak<dyn CmOwner>>>,
    async_owners: Mutex<HashMap<u64, Weak<dyn AsyncOwner>>>,
    pub(crate) device: Device,
    /// The registered memory by its local keys, for drivers that do not report why they fail a request.
    regions: RwLock<HashMap<u32, RegisteredRange>>,
}

/// Memory that is registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisteredRange {
    pub(crate) address: u64,
    pub(crate) length: u64,
}

/// Events that were taken from the channel and have to be passed on in order.
#[derive(Default)]
struct Events {
    queue: VecDeque<CmEvent>,
    /// A thread passes them on.
    telling: bool,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl ProviderAdapter for Core {
    type Entry = ();

    fn list(&self, order: RemovalOrder, object: DeviceObject) -> Result<()> {
        self.device.add_object(order, object);
        Ok(())
    }

    fn info(&self) -> AdapterInfo {
        let limits = &self.limits;
        let mut info = AdapterInfo::default();
        // The lower half of an OUI, or of the driver's substitute.
        let half = |number: u32| u16::try_from(number & 0xFFFF).unwrap_or(0);
        info.vendor_id = half(limits.device.vendor_id);
        info.device_id = half(limits.device.vendor_part_id);
        info.adapter_id = self.id;
        info.max_registration_size = limits.registration_size;
        info.max_window_size = limits.registration_size;
        info.max_initiator_sge = limits.sges;
        info.max_receive_sge = limits.sges;
        info.max_read_sge = limits.read_sges;
        info.max_transfer_length = limits.transfer_length;
        info.max_inline_data_size = limits.inline;
        info.max_inbound_read_limit = limits.inbound_reads;
        info.max_outbound_read_limit = limits.outbound_reads;
        info.max_receive_queue_depth = limits.queue_depth;
        info.max_initiator_queue_depth = limits.queue_depth;
        info.max_shared_receive_queue_depth = limits.shared_receive_depth;
        info.max_completion_queue_depth = limits.completion_queue_depth;
        info.inline_request_threshold = limits.inline;
        info.large_request_threshold = 64 * 1024;
        info.max_caller_data = limits.caller_data;
        info.max_callee_data = limits.callee_data;
        info.flags =
            AdapterFlags::MULTI_ENGINE_SUPPORTED | AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED;
        info.flags.set(
            AdapterFlags::IN_ORDER_DMA_SUPPORTED,
            self.needs.places_in_order,
        );
        info.flags
            .set(AdapterFlags::CQ_RESIZE_SUPPORTED, limits.resizes_queues);
        info
    }

    /// No driver reports which results are solicited.
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::empty();
        if !self.limits.is_iwarp {
            capabilities |= Capabilities::IMMEDIATE_4;
        }
        if self.limits.windows.is_some() {
            capabilities |= Capabilities::MEMORY_WINDOWS;
        }
        if self.limits.device.has_atomics {
            capabilities |= Capabilities::FETCH_ADD | Capabilities::COMPARE_SWAP;
        }
        capabilities
    }

    fn present(&self) -> Result<()> {
        self.device.present()
    }

    fn admit(&self, call: Call) -> Result<()> {
        self.device.admit(call)
    }

    fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Returns true if this is an address of the adapter.
    fn serves(&self, ip: IpAddr) -> bool {
        self.addresses.contains(&ip)
    }

    /// The adapter's address from which a peer is reached, as the system routes; if that is not an address of the adapter, the first one of
    /// the family.
    fn local_address_for(&self, peer: IpAddr) -> Option<IpAddr> {
        if let Some(routed) = routed_from(peer)
            && self.serves(routed)
        {
            return Some(routed);
        }
        let own = self.addresses.iter().copied();
        let mut own = own.filter(|own| own.is_ipv4() == peer.is_ipv4());
        own.next()
    }
}

impl Core {
    pub(crate) fn open(
        libraries: &'static Libraries,
        id: AdapterId,
        name: String,
        addresses: Vec<IpAddr>,
        options: &Options,
    ) -> Result<Arc<Self>> {
        let cannot = shortage("cannot open the device");
        let context = Context::open(libraries, &name).map_err(&cannot)?;
        let pd = ProtectionDomain::new(&context).map_err(&cannot)?;
        let device = context.limits().map_err(&cannot)?;
        let needs = Needs::for_driver(device.vendor_id, context.is_iwarp());
        tracing::debug!(target: crate::log::TARGET, device = name, driver = needs.driver, "opening a device");
        let limits = Limits::query(&pd, &device, needs, options).map_err(&cannot)?;
        let reserved = needs
            .reserves_results
            .map(|depth| CompletionChannelQueue::new(&context, depth, 0, 0));
        let reserved = reserved.transpose().map_err(&cannot)?;
        let spare = Registration::new(&pd, &Buffer::new(8), Access::default()).map_err(&cannot)?;
        let channel = EventChannel::new(libraries).map_err(&cannot)?;
        let driver = Driver::start().map_err(&cannot)?;
        let tokens = (driver.next_key(), driver.next_key());
        let core = Arc::new(Self {
            id,
            name,
            addresses,
            limits,
            needs,
            pd,
            driver: Arc::clone(&driver),
            channel,
            reserved,
            spare,
            tokens,
            timeouts: options.timeouts,
            events: Mutex::default(),
            cm_owners: Mutex::default(),
            async_owners: Mutex::default(),
            device: Device::default(),
            regions: RwLock::default(),
        });
        let this: Weak<Self> = Arc::downgrade(&core);
        for (token, descriptor) in core.control() {
            let added = driver.add(token, descriptor, this.clone());
            added.map_err(&cannot)?;
        }
        Ok(core)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        self.pd.context()
    }

    /// The descriptors of the connection manager and of asynchronous events, with their tokens.
    pub(crate) fn control(&self) -> [(u64, BorrowedFd<'_>); 2] {
        [
            (self.tokens.0, self.channel.descriptor()),
            (self.tokens.1, self.context().descriptor()),
        ]
    }

    /// An entry of no octets.
    pub(crate) fn empty_entry(&self) -> LocalSge {
        LocalSge {
            addr: self.spare.buffer().address(),
            length: 0,
            lkey: self.spare.local_key(),
        }
    }

    /// Notes memory that was registered, if the driver makes that necessary.
    pub(crate) fn add_region(&self, key: u32, range: RegisteredRange) {
        if self.needs.fails_vaguely {
            self.regions.write().insert(key, range);
        }
    }

    pub(crate) fn remove_region(&self, key: u32) {
        if self.needs.fails_vaguely {
            self.regions.write().remove(&key);
        }
    }

    /// Returns true if all entries are inside registered memory, or if the device checks that by itself.
    pub(crate) fn allows(&self, sges: &[Sge]) -> bool {
        if !self.needs.fails_vaguely {
            return true;
        }
        let regions = self.regions.read();
        sges.iter().filter(|sge| sge.length > 0).all(|sge| {
            let Some(range) = regions.get(&sge.token.0) else {
                return false;
            };
            let offset = sge.address.checked_sub(range.address);
            offset.is_some_and(|offset| {
                offset <= range.length && u64::from(sge.length) <= range.length - offset
            })
        })
    }

    /// Makes an identifier that is bound to an address; with port 0 to a port that is picked.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<(CmId, u64, SocketAddr)> {
        let key = self.driver.next_key();
        let cannot = shortage("cannot create an identifier of a connection");
        if address.port() != 0 {
            let id = CmId::new(&self.channel, key).map_err(&cannot)?;
            let bound = id.bind(address);
            bound.map_err(|error| not_bound(address, &error))?;
            return Ok((id, key, address));
        }
        for _ in 0..PORTS {
            let mut random = [0; 2];
            getrandom::fill(&mut random).map_err(|error| {
                let what = format!("the system has no random numbers for a port: {error}");
                Error::new(Status::INSUFFICIENT_RESOURCES, what)
            })?;
            let port = FIRST_PORT | u16::from_ne_bytes(random);
            let picked = SocketAddr::new(address.ip(), port);
            if self.not_of_tcp(picked).is_err() {
                continue;
            }
            // An identifier whose Bind has failed cannot be bound to another address.
            let id = CmId::new(&self.channel, key).map_err(&cannot)?;
            match id.bind(picked) {
                Ok(()) => return Ok((id, key, picked)),
                Err(error) if bind_status(&error) == Status::SHARING_VIOLATION => {}
                Err(error) => return Err(not_bound(address, &error)),
            }
        }
        let what = format!("all ports of {} that were tried are in use", address.ip());
        Err(Error::new(Status::TOO_MANY_ADDRESSES, what))
    }

    /// Fails if a program uses this address for TCP, whose ports software iWARP shares. The driver would report this at Listen, or at
    /// Connect.
    pub(crate) fn not_of_tcp(&self, address: SocketAddr) -> Result<()> {
        if !self.limits.is_iwarp {
            return Ok(());
        }
        match TcpListener::bind(address) {
            Err(error) if bind_status(&error) == Status::SHARING_VIOLATION => Err(Error::new(
                Status::SHARING_VIOLATION,
                format!("{address} is in use by a program over TCP"),
            )), // AMB-029
            _ => Ok(()),
        }
    }

    /// Passes the events of the identifier with this key to `owner`.
    pub(crate) fn own_connection(&self, key: u64, owner: Weak<dyn CmOwner>) {
        self.cm_owners.lock().insert(key, owner);
    }

    pub(crate) fn disown_connection(&self, key: u64) {
        self.cm_owners.lock().remove(&key);
    }

    /// The number of identifiers that have owners.
    #[cfg(test)]
    pub(crate) fn owned_connections(&self) -> usize {
        self.cm_owners.lock().len()
    }

    /// Passes the events of the object with this key to `owner`.
    pub(crate) fn own_object(&self, key: u64, owner: Weak<dyn AsyncOwner>) {
        self.async_owners.lock().insert(key, owner);
    }

    pub(crate) fn disown_object(&self, key: u64) {
        self.async_owners.lock().remove(&key);
    }

    /// Drops an object whose end may block, in a separate thread.
    pub(crate) fn bury(what: impl Send + 'static) {
        let mut kept = Some(what);
        let taken = kept.take();
        let thread = std::thread::Builder::new().name("netdirect-verbs end".to_owned());
        let spawned = signals::blocked(|| thread.spawn(move || drop(taken)));
        if let Err(error) = spawned {
            tracing::warn!(target: crate::log::TARGET, %error, "an object of the device was destroyed in a thread that may block");
        }
    }

    fn take_connection_events(&self) {
        let mut gone = false;
        {
            let mut events = self.events.lock();
            loop {
                match self.channel.next(self.driver.next_key()) {
                    Ok(Some(event)) => events.queue.push_back(event),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::error!(target: crate::log::TARGET, %error, "the connection manager tells no events");
                        gone = matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EIO));
                        break;
                    }
                }
            }
            if events.telling {
                return; // that thread passes them on, in order
            }
            events.telling = true;
        }
        if gone {
            self.remove_device();
        }
        loop {
            let event = {
                let mut events = self.events.lock();
                let next = events.queue.pop_front();
                events.telling = next.is_some();
                next
            };
            let Some(event) = event else { return };
            if matches!(event.kind, CmEventKind::DeviceRemoved) {
                self.remove_device();
                continue;
            }
            let owner = self
                .cm_owners
                .lock()
                .get(&event.key)
                .and_then(Weak::upgrade);
            match owner {
                Some(owner) => owner.on_cm_event(event),
                // The connection was given up. Dropping a new identifier rejects the peer.
                None => {
                    tracing::debug!(target: crate::log::TARGET, ?event, "an event of a connection that was given up")
                }
            }
        }
    }

    fn take_device_events(&self) {
        loop {
            let event = match self.context().next_event() {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(target: crate::log::TARGET, %error, "the device tells no events any more");
                    return self.remove_device();
                }
            };
            match event {
                AsyncEvent::DeviceGone => self.remove_device(),
                AsyncEvent::CompletionQueueBroke(key)
                | AsyncEvent::SharedReceivesBroke(key)
                | AsyncEvent::SharedReceivesLow(key) => {
                    let owner = self.async_owners.lock().get(&key).and_then(Weak::upgrade);
                    if let Some(owner) = owner {
                        owner.on_async_event(event);
                    }
                }
                AsyncEvent::QueuePairBroke(number, error) => {
                    for qp in self.device.queue_pairs() {
                        qp.queue_pair_failed(number, error);
                    }
                }
                AsyncEvent::LastReceiveEnded(number) => {
                    for qp in self.device.queue_pairs() {
                        qp.last_receive_ended(number);
                    }
                }
                AsyncEvent::Other(_) => {}
            }
        }
    }

    /// The device was removed: every request ends, and every later call fails (GEN-015).
    pub(crate) fn remove_device(&self) {
        if !self.device.begin_removal() {
            return;
        }
        for (_, descriptor) in self.control() {
            // The descriptors stay readable, and report nothing more.
            self.driver.unwatch(descriptor);
        }
        self.device.end_objects();
    }
}

impl Source for Core {
    fn ready(&self) {
        if self.device.is_removed() {
            return;
        }
        self.take_device_events();
        self.take_connection_events();
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        for (token, descriptor) in self.control() {
            self.driver.remove(token, descriptor);
        }
        self.driver.stop();
    }
}

/// The address of this machine that the system chooses for a peer. Nothing is sent.
fn routed_from(peer: IpAddr) -> Option<IpAddr> {
    let any = match peer {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    /// The port of the discard service, which is not used: a socket of UDP needs a port to have a peer.
    const DISCARD: u16 = 9;
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((peer, DISCARD)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

fn not_bound(address: SocketAddr, error: &io::Error) -> Error {
    let status = bind_status(error);
    let what = match status {
        Status::SHARING_VIOLATION => format!("{address} is in use"),
        Status::INVALID_ADDRESS => {
            format!("no RDMA device has the address {}: {error}", address.ip())
        }
        _ => format!("cannot bind {address}: {error}"),
    };
    Error::new(status, what)
}
