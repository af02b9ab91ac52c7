//! The connection manager: identifiers of connections and listeners, and the channel of their events.

use std::ffi::{CStr, c_void};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use netdirect::{ReadLimits, Status};

use super::{QueuePairHandle, context, is_empty, made, never_block, outcome};
use crate::sys::{Libraries, bindings as c};

/// The channel on which the events of identifiers arrive.
#[derive(Debug)]
pub(crate) struct EventChannel {
    libraries: &'static Libraries,
    raw: NonNull<c::rdma_event_channel>,
}

// SAFETY: librdmacm allows any thread to use a channel.
unsafe impl Send for EventChannel {}
// SAFETY: as above.
unsafe impl Sync for EventChannel {}

/// The contents of an event.
#[derive(Debug)]
pub(crate) enum CmEventKind {
    AddressResolved,
    RouteResolved,
    /// A peer asks for a connection. The event's key is that of the listener.
    Request(CmId),
    /// The peer has accepted, and waits for `rdma_establish`. Not on iWARP.
    Response,
    Established,
    Rejected,
    Unreachable,
    /// The address or route cannot be resolved.
    Unresolved,
    /// The connection cannot be made.
    Failed,
    Disconnected,
    DeviceRemoved,
    Other,
}

impl CmEventKind {
    /// Returns true if there is no peer any more. On InfiniBand a peer that gives up sends a rejection, also after it has asked for a
    /// connection or was answered.
    pub(crate) fn has_lost_peer(&self) -> bool {
        matches!(
            self,
            Self::Disconnected | Self::Rejected | Self::Unreachable | Self::Failed
        )
    }
}

/// An event of the connection manager.
#[derive(Debug)]
pub(crate) struct CmEvent {
    /// The key of the identifier that the event is about.
    pub(crate) key: u64,
    /// The key of a new identifier.
    pub(crate) new_key: u64,
    pub(crate) kind: CmEventKind,
    /// 0, an errno, or a code of the transport.
    pub(crate) status: i32,
    pub(crate) private_data: Vec<u8>,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
}

impl EventChannel {
    pub(crate) fn new(libraries: &'static Libraries) -> io::Result<Arc<Self>> {
        // SAFETY: the function takes nothing.
        let raw = made(unsafe { (libraries.cm.rdma_create_event_channel)() })?;
        let channel = Self { libraries, raw };
        never_block(channel.descriptor())?;
        Ok(Arc::new(channel))
    }

    /// A descriptor that is readable when there is an event.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel exists as long as `self`.
        let descriptor = unsafe { self.raw.as_ref() }.fd;
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }

    /// Takes the next event; `None` if there is none. A new identifier gets the key `new_key`. Only one thread at a time may
    /// take events, so that no event of a new identifier is taken before it has its key.
    pub(crate) fn next(self: &Arc<Self>, new_key: u64) -> io::Result<Option<CmEvent>> {
        let mut raw = ptr::null_mut();
        let get = self.libraries.cm.rdma_get_cm_event;
        // SAFETY: the channel exists, and its descriptor does not block.
        match outcome(unsafe { get(self.raw.as_ptr(), &raw mut raw) }) {
            Ok(()) => {}
            Err(error) if is_empty(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        // SAFETY: the event was got above, and is not acknowledged yet.
        let event = unsafe { &*raw };
        let read = self.read(event, new_key);
        // SAFETY: the event is acknowledged once, and nothing refers to it any more.
        let _ = unsafe { (self.libraries.cm.rdma_ack_cm_event)(raw) };
        Ok(Some(read))
    }

    fn read(self: &Arc<Self>, event: &c::rdma_cm_event, new_key: u64) -> CmEvent {
        let is_request = event.event == c::RDMA_CM_EVENT_CONNECT_REQUEST;
        let about = if is_request {
            event.listen_id
        } else {
            event.id
        };
        // SAFETY: destroying an identifier waits until its events are acknowledged, so this one exists.
        let key = unsafe { (*about).context } as u64;
        let kind = match event.event {
            c::RDMA_CM_EVENT_ADDR_RESOLVED => CmEventKind::AddressResolved,
            c::RDMA_CM_EVENT_ROUTE_RESOLVED => CmEventKind::RouteResolved,
            c::RDMA_CM_EVENT_CONNECT_REQUEST => match NonNull::new(event.id) {
                Some(raw) => {
                    let id = CmId {
                        channel: Arc::clone(self),
                        raw,
                    };
                    id.set_key(new_key);
                    CmEventKind::Request(id)
                }
                None => CmEventKind::Other,
            },
            c::RDMA_CM_EVENT_CONNECT_RESPONSE => CmEventKind::Response,
            c::RDMA_CM_EVENT_ESTABLISHED => CmEventKind::Established,
            c::RDMA_CM_EVENT_REJECTED => CmEventKind::Rejected,
            c::RDMA_CM_EVENT_UNREACHABLE => CmEventKind::Unreachable,
            c::RDMA_CM_EVENT_ADDR_ERROR | c::RDMA_CM_EVENT_ROUTE_ERROR => CmEventKind::Unresolved,
            c::RDMA_CM_EVENT_CONNECT_ERROR => CmEventKind::Failed,
            c::RDMA_CM_EVENT_DISCONNECTED => CmEventKind::Disconnected,
            c::RDMA_CM_EVENT_DEVICE_REMOVAL => CmEventKind::DeviceRemoved,
            _ => CmEventKind::Other,
        };
        // SAFETY: the identifiers are of connections, whose events have this member of the union.
        let connection = unsafe { &event.param.conn };
        let length = usize::from(connection.private_data_len);
        let private_data = if connection.private_data.is_null() || length == 0 {
            Vec::new()
        } else {
            let start = connection.private_data.cast::<u8>();
            // SAFETY: the event holds this many octets until it is acknowledged.
            unsafe { std::slice::from_raw_parts(start, length) }.to_vec()
        };
        CmEvent {
            key,
            new_key,
            kind,
            status: event.status,
            private_data,
            responder_resources: connection.responder_resources,
            initiator_depth: connection.initiator_depth,
        }
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        // SAFETY: all identifiers hold their channel, so none is left.
        unsafe { (self.libraries.cm.rdma_destroy_event_channel)(self.raw.as_ptr()) };
    }
}

/// The number of times that a peer sends a message again for which there was no Receive, and the code of the 327.68 ms that it waits each
/// time. Then its request fails with ND_IO_TIMEOUT, after about 2 s (AMB-008). The highest number of times means without end: a shared
/// receive queue may be empty for a while, and this must not end the connection (ADPT-076).
const RECEIVE_RETRIES: u8 = 6;
const SHARED_RECEIVE_RETRIES: u8 = 7;
const RECEIVE_TIMER: u8 = 30;

/// The parameters that both sides exchange during connection set-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionParameters<'a> {
    pub(crate) private_data: &'a [u8],
    pub(crate) inbound_reads: u8,
    pub(crate) outbound_reads: u8,
}

impl ConnectionParameters<'_> {
    /// The parameters for the connection of this queue pair.
    fn raw(&self, pair: &QueuePairHandle) -> io::Result<c::rdma_conn_param> {
        let is_shared = pair.shares_receives();
        Ok(c::rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len())
                .map_err(|_| io::ErrorKind::InvalidInput)?,
            responder_resources: self.inbound_reads,
            initiator_depth: self.outbound_reads,
            retry_count: 7,
            rnr_retry_count: if is_shared {
                SHARED_RECEIVE_RETRIES
            } else {
                RECEIVE_RETRIES
            },
            srq: is_shared.into(),
            qp_num: pair.number(),
            ..c::rdma_conn_param::default()
        })
    }
}

/// The reason why a connection is not made at its last step.
#[derive(Debug)]
pub(crate) enum NotReady {
    /// The connection manager no longer has the connection: the peer has disconnected.
    Gone(io::Error),
    /// The device refuses to change the queue pair.
    Refused(io::Error),
}

impl NotReady {
    /// Logs the reason. Returns the status of the call.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Gone(error) => {
                tracing::debug!(target: crate::log::TARGET, %error, "the peer was gone at the last step of a connection");
                Status::CONNECTION_ABORTED
            }
            Self::Refused(error) => {
                tracing::error!(target: crate::log::TARGET, %error, "the device does not make a queue pair ready");
                Status::INSUFFICIENT_RESOURCES
            }
        }
    }
}

/// An identifier of a connection or a listener.
#[derive(Debug)]
pub(crate) struct CmId {
    channel: Arc<EventChannel>,
    raw: NonNull<c::rdma_cm_id>,
}

// SAFETY: librdmacm allows any thread to use an identifier.
unsafe impl Send for CmId {}
// SAFETY: as above.
unsafe impl Sync for CmId {}

impl CmId {
    /// An identifier that is bound to no address. Its events carry `key`.
    pub(crate) fn new(channel: &Arc<EventChannel>, key: u64) -> io::Result<Self> {
        let mut raw = ptr::null_mut();
        let create = channel.libraries.cm.rdma_create_id;
        let context = ptr::without_provenance_mut::<c_void>(usize::try_from(key).unwrap_or(0));
        // SAFETY: the channel exists. The key is a number, which is never used as a pointer.
        outcome(unsafe { create(channel.raw.as_ptr(), &raw mut raw, context, c::RDMA_PS_TCP) })?;
        Ok(Self {
            channel: Arc::clone(channel),
            raw: made(raw)?,
        })
    }

    fn set_key(&self, key: u64) {
        let context = ptr::without_provenance_mut::<c_void>(usize::try_from(key).unwrap_or(0));
        // SAFETY: called once, for a new identifier, whose events no thread takes yet; librdmacm leaves the field to its user.
        unsafe { (*self.raw.as_ptr()).context = context };
    }

    pub(crate) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let mut address = to_raw(address);
        let bind = self.channel.libraries.cm.rdma_bind_addr;
        // SAFETY: the identifier exists, and the structure holds a whole address.
        outcome(unsafe { bind(self.raw.as_ptr(), (&raw mut address).cast()) })
    }

    /// Starts to look for the device that leads to the peer. `AddressResolved` or `Unresolved` follows.
    pub(crate) fn resolve_address(&self, peer: SocketAddr, milliseconds: i32) -> io::Result<()> {
        let mut peer = to_raw(peer);
        let resolve = self.channel.libraries.cm.rdma_resolve_addr;
        // SAFETY: the identifier exists, and the structure holds a whole address.
        outcome(unsafe {
            resolve(
                self.raw.as_ptr(),
                ptr::null_mut(),
                (&raw mut peer).cast(),
                milliseconds,
            )
        })
    }

    /// Starts to look for a route. `RouteResolved` or `Unresolved` follows.
    pub(crate) fn resolve_route(&self, milliseconds: i32) -> io::Result<()> {
        let resolve = self.channel.libraries.cm.rdma_resolve_route;
        // SAFETY: the identifier exists.
        outcome(unsafe { resolve(self.raw.as_ptr(), milliseconds) })
    }

    /// Asks the peer for a connection of `pair`. The call may block as long as the peer's host does not answer.
    pub(crate) fn connect(
        &self,
        pair: &QueuePairHandle,
        parameters: &ConnectionParameters<'_>,
    ) -> io::Result<()> {
        let mut raw = parameters.raw(pair)?;
        let connect = self.channel.libraries.cm.rdma_connect;
        // SAFETY: the identifier exists, and the structure and its private data live through the call.
        outcome(unsafe { connect(self.raw.as_ptr(), &raw mut raw) })
    }

    pub(crate) fn accept(
        &self,
        pair: &QueuePairHandle,
        parameters: &ConnectionParameters<'_>,
    ) -> io::Result<()> {
        let mut raw = parameters.raw(pair)?;
        let accept = self.channel.libraries.cm.rdma_accept;
        // SAFETY: the identifier exists, and the structure and its private data live through the call.
        outcome(unsafe { accept(self.raw.as_ptr(), &raw mut raw) })
    }

    /// Notifies the peer that the active side is ready. Not on iWARP.
    pub(crate) fn establish(&self) -> io::Result<()> {
        let establish = self.channel.libraries.cm.rdma_establish;
        // SAFETY: the identifier exists.
        outcome(unsafe { establish(self.raw.as_ptr()) })
    }

    /// Moves the queue pair to the states in which it receives, and then sends. On iWARP the driver does so. The port and the partition key
    /// of the route are set first. Without `limits` those hold that both sides have exchanged; before Accept these are only those of the
    /// peer's request.
    pub(crate) fn make_ready(
        &self,
        pair: &QueuePairHandle,
        limits: Option<ReadLimits>,
    ) -> Result<(), NotReady> {
        for state in [c::IBV_QPS_INIT, c::IBV_QPS_RTR, c::IBV_QPS_RTS] {
            let mut attributes = c::ibv_qp_attr {
                qp_state: state,
                ..c::ibv_qp_attr::default()
            };
            let mut mask = 0;
            let prepare = self.channel.libraries.cm.rdma_init_qp_attr;
            // SAFETY: the identifier exists, and both may be written.
            let prepared =
                unsafe { prepare(self.raw.as_ptr(), &raw mut attributes, &raw mut mask) };
            outcome(prepared).map_err(NotReady::Gone)?;
            if let Some(limits) = limits {
                attributes.max_dest_rd_atomic = u8::try_from(limits.inbound).unwrap_or(u8::MAX);
                attributes.max_rd_atomic = u8::try_from(limits.outbound).unwrap_or(u8::MAX);
            }
            match state {
                c::IBV_QPS_INIT => attributes.qp_access_flags = pair.access(),
                c::IBV_QPS_RTR => attributes.min_rnr_timer = RECEIVE_TIMER,
                _ => {}
            }
            let modified = pair.modify(&mut attributes, mask.cast_unsigned());
            modified.map_err(NotReady::Refused)?;
        }
        Ok(())
    }

    pub(crate) fn listen(&self, backlog: i32) -> io::Result<()> {
        let listen = self.channel.libraries.cm.rdma_listen;
        // SAFETY: the identifier exists.
        outcome(unsafe { listen(self.raw.as_ptr(), backlog) })
    }

    pub(crate) fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let length = u8::try_from(private_data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let reject = self.channel.libraries.cm.rdma_reject;
        // SAFETY: the identifier exists, and the private data lives through the call.
        outcome(unsafe { reject(self.raw.as_ptr(), private_data.as_ptr().cast(), length) })
    }

    pub(crate) fn disconnect(&self) -> io::Result<()> {
        let disconnect = self.channel.libraries.cm.rdma_disconnect;
        // SAFETY: the identifier exists.
        outcome(unsafe { disconnect(self.raw.as_ptr()) })
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        // SAFETY: the identifier exists as long as `self`.
        let storage = unsafe { &raw const (*self.addresses()).__bindgen_anon_1 };
        // SAFETY: the union has a storage that all kinds of addresses fit in.
        unsafe { from_raw(storage.cast()) }
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        let storage = unsafe { &raw const (*self.addresses()).__bindgen_anon_2 };
        // SAFETY: as above.
        unsafe { from_raw(storage.cast()) }
    }

    /// The addresses. librdmacm writes them in Bind, in Listen, when an address is to be resolved, and while it takes the event that
    /// reports this address, or a new identifier. Callers look at them only after a later event of the identifier, or at those of a new
    /// identifier.
    fn addresses(&self) -> *const c::rdma_addr {
        let id = self.raw.as_ptr();
        // SAFETY: the identifier exists as long as `self`.
        unsafe { &raw const (*id).route.addr }
    }

    /// The name of the device, once an address of the identifier is known to belong to one.
    pub(crate) fn device(&self) -> Option<String> {
        // SAFETY: the identifier exists.
        let context = unsafe { (*self.raw.as_ptr()).verbs };
        let context = NonNull::new(context)?;
        // SAFETY: librdmacm keeps the contexts of identifiers open.
        let device = unsafe { context.as_ref() }.device;
        // SAFETY: the device of an open context exists.
        let name = unsafe { (self.channel.libraries.verbs.ibv_get_device_name)(device) };
        // SAFETY: the name ends with a zero, and lives as long as the device.
        let name = unsafe { CStr::from_ptr(name) };
        Some(name.to_string_lossy().into_owned())
    }

    /// Returns true if the port is down to which the address of the identifier belongs, and false if that is unknown.
    pub(crate) fn is_port_down(&self) -> bool {
        // SAFETY: the identifier exists.
        let number = unsafe { (*self.raw.as_ptr()).port_num };
        // SAFETY: as above.
        let context = unsafe { (*self.raw.as_ptr()).verbs };
        let Some(context) = NonNull::new(context).filter(|_| number != 0) else {
            return false;
        };
        // SAFETY: librdmacm keeps the contexts of identifiers open.
        let port = unsafe { context::port(self.channel.libraries, context, number) };
        port.is_ok_and(|port| port.is_down)
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        let destroy = self.channel.libraries.cm.rdma_destroy_id;
        // SAFETY: the identifier is destroyed once. No thread holds an event of it, because the taker of events acknowledges each before it
        // releases the lock under which it takes them.
        let _ = unsafe { destroy(self.raw.as_ptr()) };
    }
}

fn family(number: i32) -> libc::sa_family_t {
    number.try_into().unwrap_or_default()
}

fn to_raw(address: SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: all zero is a value of this structure of numbers.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    match address {
        SocketAddr::V4(address) => {
            let raw = libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for every kind of address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
        }
        SocketAddr::V6(address) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
        }
    }
    storage
}

/// # Safety
///
/// `storage` points to a whole `sockaddr_storage`.
unsafe fn from_raw(storage: *const libc::sockaddr_storage) -> Option<SocketAddr> {
    // SAFETY: the caller's promise.
    let family = i32::from(unsafe { (*storage).ss_family });
    match family {
        libc::AF_INET => {
            // SAFETY: an address of this family has this type.
            let raw = unsafe { storage.cast::<libc::sockaddr_in>().read() };
            let ip = IpAddr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(raw.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { storage.cast::<libc::sockaddr_in6>().read() };
            let ip = IpAddr::from(raw.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip, u16::from_be(raw.sin6_port)))
        }
        _ => None,
    }
}
