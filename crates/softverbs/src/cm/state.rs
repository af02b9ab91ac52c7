//! Identifiers, event channels and events: what they are, and what all parts of the connection manager do with them.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use iwarp_io::endpoint::{Drivers, ReadLimits, Start};
use iwarp_io::progress::timers::TimerKey;
use iwarp_io::setup::{Acceptor, Agreed, Initiator, MpaStartup, Responder, Role};
use iwarp_io::transport::stream::Stream;
use iwarp_io::transport::{Bound, Dialer};
use parking_lot::Mutex;

use super::event::{CmEventKind, ConnParameters};
use crate::device::{Device, DeviceKind, limits};
use crate::error::{Errno, Result, fail};
use crate::events::EventQueue;
use crate::process::{Engine, Process};
use crate::qp::{ConnectionNumber, QpFlushGuard, QpNews, QueuePair};
use crate::users::{Acknowledgements, Tag, User, Users};

/// The read limit that a peer is assumed to have where it states none.
pub(super) const UNSTATED_READ_LIMIT: u32 = 32;

/// A channel of the connection manager's events.
pub struct EventChannel {
    pub(super) process: Arc<Process>,
    pub(super) engine: Arc<Engine>,
    pub(super) events: EventQueue<CmEvent>,
    users: Users,
    tag: Tag,
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventChannel").finish_non_exhaustive()
    }
}

impl EventChannel {
    /// Makes a channel.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn create(process: &Arc<Process>) -> Result<Arc<Self>> {
        let engine = process.engine()?;
        let events = EventQueue::new(&engine.driver.environment)?;
        events.wait_in(&engine.parking()?);
        Ok(Arc::new(Self {
            process: Arc::clone(process),
            engine,
            events,
            users: Users::default(),
            tag: Tag::default(),
        }))
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The descriptor that is readable while an event waits; `None` in a simulation.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.events.descriptor()
    }

    /// Returns true while an event waits.
    pub fn has_event(&self) -> bool {
        self.events.is_ready()
    }

    /// The next event. Waits for it, and drives the connections meanwhile, unless the descriptor has `O_NONBLOCK`.
    ///
    /// # Errors
    ///
    /// EAGAIN where the call must not wait. In a simulation EDEADLK when nothing is left that could lead to an event.
    pub fn get_event(&self) -> Result<CmEvent> {
        let event = self.events.get(|| Ok(Arc::clone(&self.engine)))?;
        event.counts_at().acknowledgements.handed_out();
        Ok(event)
    }

    /// Prepares to release the channel.
    ///
    /// # Errors
    ///
    /// EBUSY while identifiers use the channel.
    pub fn destroy(&self) -> Result<()> {
        self.users.check_none("the event channel", "identifiers")
    }
}

/// An event of the connection manager. The program [acknowledges](Self::acknowledge) each.
#[must_use = "an identifier is not destroyed before its events are acknowledged"]
pub struct CmEvent {
    pub(super) kind: CmEventKind,
    pub(super) id: Arc<CmId>,
    pub(super) listener: Option<Arc<CmId>>,
    pub(super) status: i32,
    pub(super) parameters: ConnParameters,
}

impl fmt::Debug for CmEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmEvent")
            .field("kind", &self.kind)
            .field("id", &self.id)
            .field("status", &self.status)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

impl CmEvent {
    /// The kind of the event.
    pub fn kind(&self) -> CmEventKind {
        self.kind
    }

    /// The identifier; with [`CmEventKind::ConnectRequest`] a new one.
    pub fn id(&self) -> &Arc<CmId> {
        &self.id
    }

    /// The identifier at which the peer has asked for a connection.
    pub fn listener(&self) -> Option<&Arc<CmId>> {
        self.listener.as_ref()
    }

    /// 0, a negative errno, or a reason for which a peer rejects.
    pub fn status(&self) -> i32 {
        self.status
    }

    /// The parameters. The private data has the length that the peer has sent.
    pub fn parameters(&self) -> &ConnParameters {
        &self.parameters
    }

    /// The program has acted on the event.
    pub fn acknowledge(self) {
        self.counts_at().acknowledgements.acknowledge(1);
    }

    fn counts_at(&self) -> &CmId {
        self.listener.as_ref().unwrap_or(&self.id)
    }
}

/// An identifier of the connection manager: a connection or a listener, as `struct rdma_cm_id`.
pub struct CmId {
    pub(super) process: Arc<Process>,
    pub(super) engine: Arc<Engine>,
    /// The channel, in which the identifier counts as a user. Locked after the state, where both are.
    pub(super) channel: Mutex<(Arc<EventChannel>, User)>,
    pub(super) state: Mutex<IdState>,
    /// What the queue pair has signalled and nobody has taken up yet.
    pub(super) signals: AtomicU8,
    /// The number of the connection.
    pub(super) number: u32,
    /// What the number names.
    #[expect(dead_code, reason = "the table of numbers refers to it")]
    named: Arc<ConnectionNumber>,
    pub(super) acknowledgements: Acknowledgements,
    tag: Tag,
    pub(super) this: Weak<Self>,
}

/// What an identifier is doing.
#[derive(Default)]
pub(super) enum Phase {
    /// Made, bound or not.
    #[default]
    Idle,
    AddressResolved,
    RouteResolved,
    Listening(Arc<Acceptor>),
    /// `rdma_connect` is under way.
    Connecting(Box<Attempt>),
    /// The peer has accepted, and the program has not completed the connection.
    Answered(Box<Answered>),
    /// A request has arrived.
    Offered(Box<MpaStartup<Responder>>),
    /// The peer has given up before the program decided.
    Gone,
    /// The Reply has left, and the peer's ready-to-receive message has not come.
    Accepting(Box<MpaStartup<Responder>>),
    Connected,
    /// The program has disconnected, and the peer has not ended its direction.
    Disconnecting,
    /// Over: rejected, failed, disconnected or destroyed.
    Over,
}

/// A connection attempt under way.
pub(super) struct Attempt {
    pub(super) destination: SocketAddr,
    pub(super) dial: Dial,
    /// How often the peer has refused the transport's attempt, because no program listens at the port.
    pub(super) refusals: u32,
    pub(super) startup: MpaStartup<Initiator>,
}

/// Where the transport stands with an attempt.
pub(super) enum Dial {
    UnderWay {
        dialer: Dialer,
        token: u64,
    },
    /// The peer has refused, and is asked again when the timer expires.
    Refused,
    /// It has connected, or has not begun.
    Idle,
}

/// An attempt that the peer has accepted.
pub(super) struct Answered {
    pub(super) startup: MpaStartup<Initiator>,
    pub(super) agreed: Agreed,
}

#[derive(Default)]
pub(super) struct IdState {
    pub(super) phase: Phase,
    pub(super) device: Option<Arc<Device>>,
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
    /// The reserved local addresses, until they are used up.
    pub(super) bound: Vec<Bound>,
    /// Listen for one address family only.
    pub(super) one_family: bool,
    /// The most requests that wait in the channel.
    pub(super) backlog: usize,
    /// The queue pair of the program, or one that carries a connection without.
    pub(super) qp: Option<Arc<QueuePair>>,
    /// The program has made the queue pair for this identifier.
    pub(super) owns_qp: bool,
    /// What a request asks for, or what was agreed on.
    pub(super) limits: ReadLimits,
    /// Holds flushed requests back until the program can get the event of the end.
    pub(super) guard: Option<Arc<QpFlushGuard>>,
    /// The event of the end is in the channel.
    pub(super) end_told: bool,
    /// The end of the transport's attempt to connect, the next attempt, or the time for [`CmEventKind::TimewaitExit`].
    pub(super) timer: Option<TimerKey>,
    pub(super) done: Done,
}

/// What is left to do when the identifier has been unlocked.
#[must_use]
#[derive(Default)]
pub(super) struct Done {
    pub(super) news: Vec<QpNews>,
    /// Dropped last, so that flushed requests are seen after the event.
    pub(super) guard: Option<Arc<QpFlushGuard>>,
    /// A queue pair of the connection manager's own that is given up.
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
        let process = &channel.process;
        let number = process.numbers.take_connection()?;
        Ok(Arc::new_cyclic(|this: &Weak<Self>| {
            let named = Arc::new(ConnectionNumber(this.clone()));
            let weak: Weak<dyn Any + Send + Sync> = Arc::<ConnectionNumber>::downgrade(&named);
            process.numbers.set(number, weak);
            Self {
                named,
                process: Arc::clone(process),
                engine: Arc::clone(&channel.engine),
                channel: Mutex::new((Arc::clone(channel), channel.users.add())),
                state: Mutex::default(),
                signals: AtomicU8::new(0),
                number,
                acknowledgements: Acknowledgements::default(),
                tag: Tag::default(),
                this: this.clone(),
            }
        }))
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The number of the connection, by which `rdma_init_qp_attr` names it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The channel.
    pub fn channel(&self) -> Arc<EventChannel> {
        Arc::clone(&self.channel.lock().0)
    }

    /// Moves the identifier, with the events that wait, to another channel. Waits until the events that the program has got are
    /// acknowledged.
    ///
    /// # Errors
    ///
    /// In a simulation EDEADLK if events are not acknowledged.
    pub fn migrate(&self, to: &Arc<EventChannel>) -> Result<()> {
        let is_simulated = self.process.environment().world().is_some();
        self.acknowledgements.wait(is_simulated)?;
        let mut channel = self.channel.lock();
        let from = std::mem::replace(&mut *channel, (Arc::clone(to), to.users.add()));
        for event in from.0.events.extract(|event| self.is_of(event)) {
            to.events.push(event);
        }
        Ok(())
    }

    /// Returns true for events that count at this identifier.
    pub(super) fn is_of(&self, event: &CmEvent) -> bool {
        std::ptr::eq(event.counts_at(), self)
    }

    /// Leaves an event in the channel. Called with the state locked, so that the events of an identifier keep their order.
    pub(super) fn tell(&self, kind: CmEventKind, status: i32, parameters: ConnParameters) {
        let Some(id) = self.this.upgrade() else {
            return;
        };
        let event = CmEvent {
            kind,
            id,
            listener: None,
            status,
            parameters,
        };
        self.channel.lock().0.events.push(event);
    }

    /// The end of a connection: one event, then the flushed requests.
    pub(super) fn tell_end(&self, state: &mut IdState) {
        if !std::mem::replace(&mut state.end_told, true) {
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

    /// Takes the queue pair with this number for the connection, where the device presents itself as an iWARP adapter. There the connection
    /// manager moves a queue pair that the program has made itself; with InfiniBand the program moves it.
    pub(super) fn take_named(&self, state: &mut IdState, number: u32) {
        let kind = state.device.as_ref().map(|device| device.kind());
        if state.qp.is_none() && kind == Some(DeviceKind::Iwarp) {
            state.qp = self.process.numbers.find(number);
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
        let config = QueuePair::stream_config(role, agreed, &stream);
        let endpoint = qp.endpoint();
        state.guard = Some(endpoint.guard_flush());
        state.end_told = false;
        let (started, news) = endpoint.start(stream, config, Start::Open);
        state.done.news.push(news);
        started?;
        if role == Role::Responder && agreed.ready.is_some() {
            // Whoever waits for events of connections waits for the ready-to-receive message.
            state.done.news.push(endpoint.drive_from(Drivers::Control));
        }
        state.limits = agreed.limits;
        Ok(())
    }

    /// Takes what the queue pair has signalled since the last call.
    pub(super) fn take_signals(&self) -> u8 {
        self.signals.swap(0, Ordering::SeqCst)
    }
}

impl Done {
    /// Called with no lock held.
    pub(super) fn deliver(self) {
        drop(self.news);
        drop(self.guard);
        drop(self.carrier);
    }
}
