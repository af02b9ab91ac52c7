//! Identifiers: their state, and the functions that all parts of the connection manager use.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use iwarp_io::endpoint::{Drivers, ReadLimits, Recognition, Start};
use iwarp_io::planted;
use iwarp_io::progress::timers::TimerKey;
use iwarp_io::progress::turns::HandOff;
use iwarp_io::setup::{
    Acceptor, ActiveSide, Agreed, Confirmations, PassiveSide, Role, stream_config,
};
use iwarp_io::transport::Bound;
use iwarp_io::transport::stream::Stream;
use parking_lot::Mutex;

use super::carrier::init_attributes;
use super::channel::{Attachment, ChannelOf, EventOf};
use super::datagrams::{Asked, Asking, BoundUdp, DatagramListener};
use super::event::{CmEventKind, ConnParameters, LastEvent};
use super::options::IdQpOptions;
use super::pending::{Pending, PendingList, PendingPlace};
use super::shared::SharedDevice;
use super::space::PortSpace;
use crate::cq::CompletionQueue;
use crate::device::{Device, DeviceKind, limits};
use crate::error::{Errno, Error, Result, fail};
use crate::pd::ProtectionDomain;
use crate::process::{Engine, Process};
use crate::qp::{
    ConnectionNumber, QpAttributes, QpDeferredWork, QpFlushGuard, QpMask, QpState, QueuePair,
};
use crate::srq::SharedReceiveQueue;
use crate::users::{Acknowledgements, Tag};
use crate::writes::kept;

/// The read limit that a peer is assumed to have if it states none.
pub(super) const UNSTATED_READ_LIMIT: u32 = 32;

/// The most Reads that the device allows.
pub(super) const READ_LIMITS: ReadLimits = ReadLimits {
    ird: limits::READS,
    ord: limits::READS,
};

/// The channel of identifiers.
pub type EventChannel = ChannelOf<CmId>;

/// An event of an identifier.
pub type CmEvent = EventOf<CmId>;

/// An identifier of the connection manager: a connection or a listener, like `struct rdma_cm_id`.
pub struct CmId {
    pub(super) process: Arc<Process>,
    pub(super) engine: Arc<Engine>,
    /// Locked after the state, if both are; that of a listener before that of a request.
    pub(super) channel: Mutex<Attachment<Self>>,
    /// The event that a call of a synchronous identifier has waited for last.
    pub(super) last_event: Mutex<Option<LastEvent>>,
    pub(super) state: Mutex<IdState>,
    space: PortSpace,
    /// The connections of a listener that are not established.
    pub(super) pending: OnceLock<Pending<Self>>,
    /// Signals of the queue pair that were not handled yet.
    pub(super) signals: HandOff,
    /// The number of the connection.
    pub(super) number: u32,
    /// The object that has the number.
    #[expect(dead_code, reason = "the table of numbers refers to it")]
    named: Arc<ConnectionNumber>,
    pub(super) acknowledgements: Arc<Acknowledgements>,
    tag: Tag,
    pub(super) this: Weak<Self>,
}

/// The state of an identifier.
#[derive(Default)]
pub(super) enum Phase {
    /// Made, bound or not.
    #[default]
    Idle,
    AddressResolved,
    RouteResolved,
    Listening(Arc<Acceptor>),
    /// Listening for requests by datagrams.
    Serving(Arc<DatagramListener<CmId>>),
    /// The peer was asked for a queue pair for datagrams.
    Asking(Box<Asking<CmId>>),
    /// A request for a queue pair for datagrams has arrived.
    Asked(Box<Asked<CmId>>),
    /// `rdma_connect` is under way.
    Connecting(Box<ActiveSide>),
    /// The peer has accepted, and the program has not completed the connection.
    Answered(Box<ActiveSide>),
    /// A request has arrived.
    Offered(Box<PassiveSide>),
    /// The peer has given up before the program decided.
    Gone,
    /// The Reply was sent, and the peer's ready-to-receive message has not arrived.
    Accepting(Box<Accepting>),
    Connected,
    /// The program has disconnected, and the peer has not ended its direction.
    Disconnecting,
    /// Over: rejected, failed, disconnected or destroyed.
    Over,
}

impl Phase {
    /// Returns true from the attempt to connect, or the acceptance of a request, to the end of the connection.
    pub(super) fn has_connection(&self) -> bool {
        matches!(
            self,
            Self::Connecting(_)
                | Self::Answered(_)
                | Self::Accepting(_)
                | Self::Connected
                | Self::Disconnecting
        )
    }
}

/// A connection that the program has accepted.
pub(super) struct Accepting {
    pub(super) passive: Box<PassiveSide>,
    /// The place among those of its listener that wait for the ready-to-receive message.
    #[expect(dead_code, reason = "counted until it is dropped")]
    pub(super) place: Option<PendingPlace<CmId>>,
}

/// The request for which an identifier was made.
pub(super) struct Arrival {
    /// Its number at the listener.
    pub(super) key: u64,
    /// The accepted identifiers of the listener.
    pub(super) accepted: Arc<PendingList<CmId>>,
}

#[derive(Default)]
pub(super) struct IdState {
    pub(super) phase: Phase,
    pub(super) device: Option<Arc<Device>>,
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
    /// The reserved local addresses, until they are used up.
    pub(super) bound: Vec<Bound>,
    /// The same for datagrams.
    pub(super) bound_udp: Option<BoundUdp>,
    /// Listen for one address family only.
    pub(super) one_family: bool,
    /// The exponent of the time limit of an acknowledgement, if the program has set it.
    pub(super) ack_timeout: Option<u8>,
    /// The time after which the connection ends if the peer acknowledges nothing.
    pub(super) gives_up_after: Option<Duration>,
    /// `retry_count` and `rnr_retry_count` of the parameters.
    pub(super) retries: [u8; 2],
    /// The most requests that wait in the channel.
    pub(super) backlog: usize,
    /// The request for which the identifier was made.
    pub(super) arrival: Option<Arrival>,
    /// The queue pair of the program, or one that carries a connection of a program without a queue pair.
    pub(super) qp: Option<Arc<QueuePair>>,
    /// The program has made the queue pair for this identifier, or has named it.
    pub(super) owns_qp: bool,
    /// The completion queues that were made with the queue pair.
    pub(super) own_queues: Vec<Arc<CompletionQueue>>,
    /// The shared receive queue of the program.
    pub(super) srq: Option<Arc<SharedReceiveQueue>>,
    /// The context and the protection domain of objects for which the program names none.
    pub(super) shared: Option<Arc<SharedDevice>>,
    /// The options of the queue pairs that a listener makes for its connections.
    pub(super) template: Option<IdQpOptions>,
    /// The limits of a request, or those that were agreed on.
    pub(super) limits: ReadLimits,
    /// Holds flushed requests back until the program can get the event of the end.
    pub(super) guard: Option<Arc<QpFlushGuard>>,
    /// The event of the end is in the channel.
    pub(super) end_reported: bool,
    /// The time for [`CmEventKind::TimewaitExit`].
    pub(super) timer: Option<TimerKey>,
    pub(super) done: Done,
}

impl IdState {
    /// Moves the queue pair of a connection that was set up to RTS, with the attributes that it has from now on.
    pub(super) fn make_ready(&self, number: u32, qp: &QueuePair) {
        let attributes = [QpState::Rtr, QpState::Rts];
        let attributes = attributes.map(|to| self.qp_attributes(number, to));
        qp.advance(QpState::Rts, attributes.into_iter().flatten());
    }

    /// The attributes for the change to a state, for the connection of this number.
    ///
    /// # Errors
    ///
    /// EINVAL for other states than INIT, RTR and RTS.
    pub(super) fn qp_attributes(&self, number: u32, to: QpState) -> Result<(QpAttributes, QpMask)> {
        let limit = |limit: u32| u8::try_from(limit).unwrap_or(u8::MAX);
        let attributes = QpAttributes {
            state: to,
            ..QpAttributes::default()
        };
        let device = self.device.as_ref();
        if to == QpState::Init {
            return Ok(init_attributes());
        }
        match to {
            QpState::Rtr => {
                let attributes = QpAttributes {
                    path_mtu: device.map_or(3, |device| device.mtu_number()),
                    dest_qp_num: number,
                    max_dest_rd_atomic: limit(self.limits.ird),
                    ..attributes
                };
                let mask = QpMask::STATE
                    | QpMask::AV
                    | QpMask::PATH_MTU
                    | QpMask::DEST_QPN
                    | QpMask::RQ_PSN
                    | QpMask::MAX_DEST_RD_ATOMIC
                    | QpMask::MIN_RNR_TIMER;
                Ok((attributes, mask))
            }
            QpState::Rts => {
                let attributes = QpAttributes {
                    timeout: self.ack_timeout.unwrap_or(14),
                    retry_cnt: self.retries[0],
                    rnr_retry: self.retries[1],
                    max_rd_atomic: limit(self.limits.ord),
                    ..attributes
                };
                let mask = QpMask::STATE
                    | QpMask::TIMEOUT
                    | QpMask::RETRY_CNT
                    | QpMask::RNR_RETRY
                    | QpMask::SQ_PSN
                    | QpMask::MAX_QP_RD_ATOMIC;
                Ok((attributes, mask))
            }
            other => fail(
                Errno::INVAL,
                format!("there are no attributes for {other:?}"),
            ),
        }
    }

    /// Returns true if the identifier's device is known and is that of the protection domain.
    pub(super) fn is_of_device_of(&self, pd: &ProtectionDomain) -> bool {
        let parent = pd.context().device();
        self.device
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, parent))
    }
}

/// Work to do once the identifier is unlocked.
#[must_use]
#[derive(Default)]
pub(super) struct Done {
    pub(super) deferred: Vec<QpDeferredWork>,
    /// Dropped last, so that flushed requests are seen after the event.
    pub(super) guard: Option<Arc<QpFlushGuard>>,
    /// A queue pair made by the connection manager that is given up.
    pub(super) carrier: Option<Arc<QueuePair>>,
}

impl fmt::Debug for CmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmId")
            .field("number", &self.number)
            .field("tag", &self.tag.get())
            .finish_non_exhaustive()
    }
}

impl CmId {
    /// Makes an identifier for connections of the port space `RDMA_PS_TCP`.
    ///
    /// # Errors
    ///
    /// ENOMEM if all numbers of connections are in use.
    pub fn create(channel: &Arc<EventChannel>) -> Result<Arc<Self>> {
        Self::create_in(channel, PortSpace::Tcp)
    }

    /// Makes an identifier of a port space.
    ///
    /// # Errors
    ///
    /// ENOMEM if all numbers of connections are in use; EOPNOTSUPP for datagrams with devices for iWARP.
    pub fn create_in(channel: &Arc<EventChannel>, space: PortSpace) -> Result<Arc<Self>> {
        Self::attached(Attachment::to(channel), space)
    }

    pub(super) fn attached(attachment: Attachment<Self>, space: PortSpace) -> Result<Arc<Self>> {
        let channel = attachment.channel();
        let (process, engine) = (Arc::clone(&channel.process), Arc::clone(&channel.engine));
        if space == PortSpace::Udp && process.options().kind == DeviceKind::Iwarp {
            return fail(
                Errno::OPNOTSUPP,
                "devices for iWARP have no datagrams: the only port space is RDMA_PS_TCP",
            );
        }
        let number = process.numbers.take_connection()?;
        Ok(Arc::new_cyclic(|this: &Weak<Self>| {
            let named = Arc::new(ConnectionNumber(this.clone()));
            let weak: Weak<dyn Any + Send + Sync> = Arc::<ConnectionNumber>::downgrade(&named);
            process.numbers.set(number, weak);
            Self {
                named,
                process,
                engine,
                channel: Mutex::new(attachment),
                last_event: Mutex::default(),
                state: Mutex::default(),
                space,
                pending: OnceLock::new(),
                signals: HandOff::default(),
                number,
                acknowledgements: Arc::default(),
                tag: Tag::default(),
                this: this.clone(),
            }
        }))
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The port space.
    pub fn space(&self) -> PortSpace {
        self.space
    }

    /// The number of the connection, by which `rdma_init_qp_attr` names it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The channel. A [synchronous](Self::create_synchronous) identifier has one for itself.
    pub fn channel(&self) -> Arc<EventChannel> {
        Arc::clone(self.channel.lock().channel())
    }

    /// Returns true if the identifier has a channel for itself, so that its calls wait for their events.
    pub fn is_synchronous(&self) -> bool {
        self.channel.lock().is_own()
    }

    /// Moves the identifier, with the events that wait, to another channel; without one, to a channel for itself, so that the identifier
    /// becomes [synchronous](Self::create_synchronous). The identifiers of requests that wait move with their listener. Waits until the
    /// events that the program has received are acknowledged.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left. In a simulation EDEADLK if events are not acknowledged.
    pub fn migrate(&self, to: Option<&Arc<EventChannel>>) -> Result<()> {
        let attachment = match to {
            Some(channel) => Attachment::to(channel),
            None => Attachment::own(&self.process)?,
        };
        self.forget_last_event();
        self.wait_for_acknowledgements()?;
        let mut own = self.channel.lock();
        let from = std::mem::replace(&mut *own, attachment);
        let events = from.channel().events.extract(|event| self.is_of(event));
        let events = events.into_iter();
        let refused: Vec<_> = events.filter_map(|event| Self::push(&own, event)).collect();
        // Dropped once the channel is unlocked.
        drop(own);
        drop(refused);
        Ok(())
    }

    pub(super) fn forget_last_event(&self) {
        *self.last_event.lock() = None;
    }

    /// Waits until the program has acknowledged all events that it has received.
    pub(super) fn wait_for_acknowledgements(&self) -> Result<()> {
        let is_simulated = self.process.environment().world().is_some();
        self.acknowledgements.wait(is_simulated)
    }

    /// Returns true for events that count at this identifier.
    pub(super) fn is_of(&self, event: &CmEvent) -> bool {
        Arc::ptr_eq(&event.counter, &self.acknowledgements)
    }

    /// Leaves an event in the channel. Called with the state locked, so that the events of an identifier keep their order.
    pub(super) fn tell(&self, kind: CmEventKind, status: i32, parameters: ConnParameters) {
        self.tell_with(kind, status, parameters, 0, None);
    }

    /// As [`tell`](Self::tell), with a number of the program and the cause of a failure.
    pub(super) fn tell_with(
        &self,
        kind: CmEventKind,
        status: i32,
        parameters: ConnParameters,
        argument: u64,
        cause: Option<Error>,
    ) {
        let Some(id) = self.this.upgrade() else {
            return;
        };
        let event = CmEvent {
            kind,
            id,
            listener: None,
            status,
            parameters,
            argument,
            cause,
            counter: Arc::clone(&self.acknowledgements),
            place: None,
        };
        drop(self.channel.lock().channel().events.push(event));
    }

    /// Leaves the request of a peer in the channel of this listener. If the program destroys the listener, the peer is refused.
    pub(super) fn tell_request(
        &self,
        id: Arc<Self>,
        parameters: ConnParameters,
        place: PendingPlace<Self>,
    ) {
        let Some(listener) = self.this.upgrade() else {
            return;
        };
        let event = CmEvent {
            kind: CmEventKind::ConnectRequest,
            id,
            listener: Some(listener),
            status: 0,
            parameters,
            argument: 0,
            cause: None,
            counter: Arc::clone(&self.acknowledgements),
            place: Some(place),
        };
        let refused = Self::push(&self.channel.lock(), event);
        if let Some(event) = refused {
            event.id.give_up_all();
        }
    }

    /// Leaves an event in the channel of `attachment`, to which the identifier of a request goes as well: it was made for the channel that
    /// its listener had before. The event of an identifier that the program destroys comes back.
    fn push(attachment: &Attachment<Self>, event: CmEvent) -> Option<CmEvent> {
        if event.listener.is_some() {
            *event.id.channel.lock() = Attachment::to(attachment.channel());
        }
        attachment.channel().events.push(event)
    }

    /// The identifier has no more events: takes those that the program has not received out of the channel.
    pub(super) fn end_events(&self) -> Vec<CmEvent> {
        if planted!(EventsOfDestroyedStay) {
            return Vec::new();
        }
        let attachment = self.channel.lock();
        attachment.channel().events.end(&self.acknowledgements)
    }

    /// The end of a connection: one event, then the flushed requests.
    pub(super) fn tell_end(&self, state: &mut IdState) {
        if !std::mem::replace(&mut state.end_reported, true) {
            self.tell(CmEventKind::Disconnected, 0, ConnParameters::default());
        }
        state.done.guard = state.guard.take();
    }

    pub(super) fn set_timer(&self, state: &mut IdState, after: Duration) {
        self.clear_timer(state);
        let driver = &self.engine.driver;
        state.timer = Some(driver.set_timer(driver.now() + after, self.this.clone()));
    }

    pub(super) fn clear_timer(&self, state: &mut IdState) {
        if let Some(key) = state.timer.take() {
            self.engine.driver.cancel_timer(key);
        }
    }

    pub(super) fn check_private_data(octets: &[u8]) -> Result<()> {
        if octets.len() > limits::PRIVATE_DATA {
            return fail(
                Errno::INVAL,
                format!(
                    "{} octets of private data; MPA carries at most {}",
                    octets.len(),
                    limits::PRIVATE_DATA
                ),
            );
        }
        Ok(())
    }

    /// Takes the queue pair with this number for the connection, if the device presents itself as an iWARP adapter. Then the connection
    /// manager moves a queue pair that the program has made itself; with InfiniBand the program moves it.
    pub(super) fn take_named(&self, state: &mut IdState, number: u32) {
        let kind = state.device.as_ref().map(|device| device.kind());
        if state.qp.is_none() && kind == Some(DeviceKind::Iwarp) {
            state.qp = self.process.numbers.find(number);
        }
    }

    /// Says that Writes are done when they are sent, to the program's user.
    fn explain_unconfirmed(&self, peer: Option<SocketAddr>) {
        if let (Some(tell), Some(peer)) = (self.process.options().on_end, peer) {
            tell(&format!(
                "Writes to {peer} are done when they are sent, and not when they are placed: the peer serves no Reads that could confirm them"
            ));
        }
    }

    /// Gives the queue pair its stream.
    pub(super) fn start(
        &self,
        state: &mut IdState,
        qp: &Arc<QueuePair>,
        stream: Stream,
        role: Role,
        agreed: &Agreed,
    ) -> std::io::Result<()> {
        if let Some(limit) = state.gives_up_after {
            stream.give_up_after(limit);
        }
        // A message waits for its Receive without a time limit, as with an unlimited retry count.
        let kind = self.process.options().kind;
        let confirmations = self.process.writes().confirmations(false);
        let mut config = stream_config(&stream, role, agreed, Duration::MAX, confirmations);
        config.limits = kept(kind, agreed.limits);
        if confirmations != Confirmations::Off && agreed.limits.ord == 0 {
            self.explain_unconfirmed(state.peer);
        }
        config.recognition = match kind {
            DeviceKind::Roce => Recognition::ByWrites,
            DeviceKind::Iwarp => Recognition::Never,
        };
        let endpoint = qp.endpoint().ok_or(std::io::ErrorKind::InvalidInput)?;
        state.guard = Some(endpoint.guard_flush());
        state.end_reported = false;
        let (started, deferred) = endpoint.start(stream, config, Start::Open);
        state.done.deferred.push(deferred);
        started?;
        if role == Role::Responder && agreed.ready.is_some() {
            // A thread that waits for events of connections waits for the ready-to-receive message.
            state
                .done
                .deferred
                .push(endpoint.drive_from(Drivers::Control));
        }
        state.limits = agreed.limits;
        Ok(())
    }
}

impl Done {
    /// Called with no lock held.
    pub(super) fn deliver(self) {
        drop(self.deferred);
        drop(self.guard);
        drop(self.carrier);
    }
}
