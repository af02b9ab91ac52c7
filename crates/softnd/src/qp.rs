//! Queue pairs, ND2's `IND2QueuePair`: the engine's connection, the stream under it, and who drives them.

mod flush;
mod handle;
mod removal;

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::Instant;

use iwarp::{
    Connection, Event, InitiatorWqe, QueueSizes, Scope, Sge, StreamConfig, StreamEnd, StreamId,
    TerminateCode, mpa, terminate_frame,
};
use netdirect::{CompletionResult, Error, Immediate, QueuePairOptions, Result, Status};

use crate::core::{Breakable, Core, PD};
use crate::cq::{Cq, Entry, Feeder, Firing};
use crate::fault_names;
use crate::leniency::Act;
use crate::options::Profile;
use crate::status::{fail, post_error, request_type, result_status};
use iwarp_io::endpoint::gather::{Gather, Leaves};
use iwarp_io::endpoint::stream_io::{self, StreamIo, Visit};
use iwarp_io::limited;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Domain, Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::progress::turns::Turns;
use iwarp_io::sync::MutexGuard;
use iwarp_io::transport::stream::Stream;

use flush::Flush;
pub(crate) use flush::FlushGuard;
pub(crate) use handle::Handle;

/// Results placed in their queue at a time.
const RESULTS: usize = 16;

bitflags::bitflags! {
    /// What the connector has to know of its queue pair's connection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Signals: u8 {
        /// The peer's first FPDU has arrived.
        const READY = 1;
        /// The peer has closed its direction in good order.
        const PEER_CLOSED = 2;
        /// One of the two ends found an error, and the connection ends.
        const FAILED = 4;
        /// The peer reported the error, by a Terminate.
        const TERMINATED = 8;
        /// The stream was reset, by either end.
        const RESET = 16;
        /// Nothing is left of the stream, and all results have been placed.
        const GONE = 32;
    }
}

/// Who makes and ends the connection of a queue pair: a connector. Called with no lock of the queue pair held.
pub(crate) trait ConnectionOwner: Send + Sync {
    /// Something has happened to the connection.
    fn signalled(&self, signals: Signals);

    /// The client has released the queue pair.
    fn queue_pair_released(&self);
}

/// Where a queue pair stands with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Never connected; a failed attempt leaves it so (CONN-033).
    Fresh,
    /// A connector is making a connection for it.
    Claimed,
    /// The stream is there, initiator requests are not accepted yet.
    Starting,
    /// Connected as the passive side, and nothing was posted yet that a peer could notice: whether the peer has sent
    /// anything is looked at with the first such post (AMB-040).
    Unheard,
    /// Connected.
    Open,
    /// Failed, or ended by the peer.
    Ended,
    /// Ended by the local client; not to be used again (CONN-114).
    Disconnected,
    /// The device was removed (GEN-015).
    Removed,
}

impl Phase {
    /// The connection has ended by itself, where it had not been ended before.
    fn ended(self) -> Self {
        match self {
            Self::Disconnected | Self::Removed => self,
            _ => Self::Ended,
        }
    }
}

/// How a queue pair's stream starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The client may post at once.
    Open,
    /// The client may post when the peer's first FPDU has arrived, for which the connector's Accept waits.
    Awaited,
    /// The client has not completed its Connect: what comes in stays in the transport (IW-066), until
    /// [`open`](Qp::open).
    Held,
}

impl Start {
    fn drivers(self) -> Drivers {
        match self {
            Self::Open | Self::Held => Drivers::Queues,
            Self::Awaited => Drivers::Control,
        }
    }
}

/// From where a stream is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drivers {
    /// From its completion queues: polls, waits for results, the background thread.
    Queues,
    /// From where connections are made and ended, while a request of the connector waits for the stream.
    Control,
}

/// The queue pair itself, shared by its handle, its connector and the drivers.
pub(crate) struct Qp {
    core: Arc<Core>,
    id: StreamId,
    context: u64,
    receive_cq: Arc<Cq>,
    initiator_cq: Arc<Cq>,
    state: Turns<State>,
    /// As narrow as adapters are (AMB-071).
    strict: bool,
    /// SGEs that the client has asked for, for initiator requests and for Receives.
    asked_sges: (u32, u32),
    this: Weak<Self>,
}

struct State {
    connection: Connection,
    phase: Phase,
    link: Option<StreamIo>,
    connector: Option<Weak<dyn ConnectionOwner>>,
    /// Results on their way from the engine to the queues, in order.
    results: Vec<(bool, Entry)>,
    /// Notifications that placed results have set off; delivered when the lock is released.
    firings: Firings,
    signals: Signals,
    flush: Flush,
    /// Nothing is left of the stream, and [`Signals::GONE`] has not been signalled.
    over: bool,
    /// Octets received in this visit.
    received: usize,
    /// Until when the Send of the peer that found no Receive last may wait for one.
    stall: Option<Instant>,
    gather: Gather,
    /// When the end of the connection is forced (IW-065).
    deadline: Option<Instant>,
    timer: Option<(Instant, TimerKey)>,
}

/// Notifications of the two queues.
#[derive(Default)]
struct Firings {
    receive: Option<Firing>,
    initiator: Option<Firing>,
}

impl Firings {
    fn is_empty(&self) -> bool {
        self.receive.is_none() && self.initiator.is_none()
    }

    fn add(of: &mut Option<Firing>, firing: Option<Firing>) {
        if let Some(firing) = firing {
            *of = Some(match of.take() {
                Some(before) => before.and(firing),
                None => firing,
            });
        }
    }
}

impl std::fmt::Debug for Qp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qp")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Qp {
    fn new(
        core: Arc<Core>,
        receive_cq: Arc<Cq>,
        initiator_cq: Arc<Cq>,
        options: &QueuePairOptions,
    ) -> Arc<Self> {
        let strict = core.options.profile == Profile::Strict;
        let limits = core.options.limits;
        let grant = |asked: u32| {
            if strict || asked == 0 {
                asked // AMB-036: none is none
            } else {
                asked.max(2).min(limits.sges) // AMB-009
            }
        };
        let initiator_sges = grant(options.max_initiator_request_sge);
        let sizes = QueueSizes {
            initiator_depth: options.initiator_queue_depth,
            receive_depth: options.receive_queue_depth,
            initiator_sges,
            receive_sges: grant(options.max_receive_request_sge),
            read_sges: initiator_sges.min(limits.read_sges),
            inline: options.inline_data_size,
            max_transfer: limits.transfer_length,
        };
        let id = core.next_stream();
        Arc::new_cyclic(|this: &Weak<Self>| {
            receive_cq.attach(this.clone());
            if !Arc::ptr_eq(&receive_cq, &initiator_cq) {
                initiator_cq.attach(this.clone());
            }
            let state = State {
                connection: Connection::new(sizes, Scope { pd: PD, stream: id }),
                phase: Phase::Fresh,
                link: None,
                connector: None,
                results: Vec::new(),
                firings: Firings::default(),
                signals: Signals::empty(),
                flush: Flush::Free,
                over: false,
                received: 0,
                stall: None,
                gather: Gather::default(),
                deadline: None,
                timer: None,
            };
            Self {
                core,
                id,
                context: options.context,
                receive_cq,
                initiator_cq,
                state: Turns::new(state),
                strict,
                asked_sges: (
                    options.max_initiator_request_sge,
                    options.max_receive_request_sge,
                ),
                this: this.clone(),
            }
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    // ---- what the connector does with it ----

    /// Reserves the queue pair for a connection attempt.
    pub(crate) fn claim(&self, connector: Weak<dyn ConnectionOwner>) -> Result<()> {
        let mut state = self.lock();
        match state.phase {
            Phase::Fresh => {}
            Phase::Claimed | Phase::Starting | Phase::Unheard | Phase::Open => {
                return fail(
                    Status::CONNECTION_ACTIVE,
                    "the queue pair is connected or connecting",
                ); // CONN-020
            }
            Phase::Ended | Phase::Disconnected => {
                return fail(
                    Status::INVALID_DEVICE_STATE,
                    "the queue pair was connected before, or its completion queue has overflowed; create a new one",
                ); // AMB-035
            }
            Phase::Removed => return Err(removal::removed()),
        }
        state.phase = Phase::Claimed;
        state.connector = Some(connector);
        Ok(())
    }

    /// The attempt has failed before anything was started.
    pub(crate) fn unclaim(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Claimed {
            state.phase = Phase::Fresh;
            state.connector = None;
        }
    }

    // Those that follow are called with the connector locked. They leave their news to its holder, who delivers them when
    // it has unlocked: what runs then may use the connector.

    /// Starts full operation on a stream; as Initiator the ready-to-receive message leaves first.
    pub(crate) fn start(
        &self,
        stream: Stream,
        config: StreamConfig,
        start: Start,
    ) -> (io::Result<()>, News) {
        let mut state = self.lock();
        if state.phase != Phase::Claimed {
            stream.reset(); // one of its completion queues broke meanwhile
            return (
                Err(io::ErrorKind::ConnectionReset.into()),
                state.into_news(),
            );
        }
        let initiator = config.role == iwarp::Role::Initiator;
        state.connection.start(config);
        if initiator {
            state.connection.send_ready(); // MPA2-028: before anything can be posted
        }
        state.phase = match start {
            Start::Open if initiator => Phase::Open,
            Start::Open => Phase::Unheard,
            Start::Awaited | Start::Held => Phase::Starting,
        };
        let mut link = StreamIo::new(stream, start != Start::Held, &self.core.driver.buffers);
        state.results.reserve(RESULTS);
        let attached = self.attach(&mut link, start.drivers());
        if attached.is_err() && initiator {
            // MPA2-030: the peer learns that it is not its fault, as far as that still works.
            let code = TerminateCode::new(2, 0, mpa::Error::LocalCatastrophic.code());
            let last = terminate_frame(code, config.crc, config.markers.sent);
            let _ = link.stream().send_frame(&last);
        }
        state.link = Some(link);
        if attached.is_err() {
            state.cut(self, StreamEnd::Reset, 0);
        }
        state.work(Edges::KICK);
        (attached, state.into_news())
    }

    /// Has the stream driven by others from now on, and by nobody else: what happens on it wakes one thread and not two.
    pub(crate) fn drive_from(&self, drivers: Drivers) -> News {
        let mut state = self.lock();
        if let Some(link) = &mut state.link
            && let Err(error) = self.attach(link, drivers)
        {
            // Those of before see to it, only a wake-up later.
            limited!(warn, %error, "cannot change who drives a stream");
        }
        state.into_news()
    }

    fn attach(&self, link: &mut StreamIo, drivers: Drivers) -> io::Result<()> {
        let this: Weak<dyn Source> = self.this.clone();
        match drivers {
            Drivers::Queues => {
                let domains = [&self.receive_cq.domain, &self.initiator_cq.domain];
                link.move_to(domains.into_iter(), &this)
            }
            Drivers::Control => link.move_to(std::iter::once(&self.core.driver.control), &this),
        }
    }

    /// CompleteConnect after the ready-to-receive message was sent ahead of it.
    pub(crate) fn open(&self) -> News {
        let mut state = self.lock();
        if state.phase == Phase::Starting {
            state.phase = Phase::Open;
        }
        if let Some(link) = &mut state.link {
            link.reading = true;
        }
        state.work(Edges::KICK);
        state.into_news()
    }

    /// Local Disconnect, or release of the last reference: flushes, sends what was begun, ends our direction, and
    /// gives the peer a bounded time to end its own (IW-020, IW-064, IW-065). True when nothing was left of the stream before;
    /// otherwise that is signalled.
    pub(crate) fn disconnect(&self) -> (bool, News) {
        let mut state = self.lock();
        let gone = state.is_gone();
        if !matches!(
            state.phase,
            Phase::Fresh | Phase::Claimed | Phase::Disconnected | Phase::Removed
        ) {
            state.phase = Phase::Disconnected;
            let State {
                connection, link, ..
            } = &mut *state;
            connection.disconnect();
            if let Some(link) = link {
                link.reading = true;
                link.drop_unsent(connection);
            }
            state.work(Edges::KICK);
        }
        (gone, state.into_news())
    }

    /// Ends the connection with a reset, whatever is under way.
    pub(crate) fn abort(&self) -> News {
        let mut state = self.lock();
        state.cut(self, StreamEnd::Reset, 0);
        state.work(Edges::empty());
        state.into_news()
    }

    /// A fault plan breaks both queues down, when no lock is held any more.
    #[cold]
    fn break_queues(&self, status: &str) {
        if let Some(status) = fault_names::status(status) {
            for queue in [&self.receive_cq, &self.initiator_cq] {
                let queue = Arc::downgrade(&(Arc::clone(queue) as Arc<dyn Breakable>));
                self.core.break_soon(queue, status);
            }
        }
    }

    // ---- what the client does with it ----

    /// Posts an initiator request. The first ones after a poll leave at once, in this thread; those that follow in a row
    /// are gathered, and leave with the next poll, when enough have come together, or by the background thread.
    fn post(&self, wqe: InitiatorWqe<'_>) -> Result<()> {
        let polls = self.initiator_cq.domain.polls();
        let octets = wqe.operation.octets();
        let mut state = self.lock();
        match state.phase {
            Phase::Open | Phase::Ended => {}
            Phase::Unheard => {
                let local = wqe.operation.is_local();
                self.may_speak_first(&mut state, local)?;
            }
            phase => return Err(removal::refused(phase)),
        }
        state.connection.post_initiator(wqe).map_err(post_error)?;
        let most = stream_io::batch_octets(&state.connection) as u64;
        match state
            .gather
            .add(polls, (octets, most), || self.core.driver.now())
        {
            Leaves::Now => {
                state.send();
                state.gather.sent(|| self.core.driver.now());
            }
            Leaves::Later { first: false } => {}
            Leaves::Later { first: true } => {
                drop(state);
                self.initiator_cq.domain.defer(self.this.clone());
                self.core.driver.notice(&self.initiator_cq.domain);
                self.initiator_cq.wake();
            }
        }
        Ok(())
    }

    /// The first post of the passive side, but for local ones: some adapters refuse it while the peer has not sent anything
    /// (AMB-040).
    #[cold]
    fn may_speak_first(&self, state: &mut State, local: bool) -> Result<()> {
        if local {
            return Ok(());
        }
        let first = state.connection.would_speak_first();
        if first && self.strict {
            return fail(
                Status::CONNECTION_INVALID,
                "the passive side may not send before it has received; the strict profile is as narrow as adapters are",
            ); // AMB-071
        }
        if first {
            self.core.leniency.count(Act::PassiveFirst);
        }
        state.phase = Phase::Open;
        Ok(())
    }

    /// An initiator request was posted with so many SGEs.
    fn posted_sges(&self, count: usize) {
        self.count_surplus(count, self.asked_sges.0);
    }

    /// A Receive was posted with so many SGEs.
    fn posted_receive_sges(&self, count: usize) {
        self.count_surplus(count, self.asked_sges.1);
    }

    fn count_surplus(&self, count: usize, asked: u32) {
        if count > asked as usize {
            self.core.leniency.count(Act::SurplusSges); // AMB-009
        }
    }

    fn post_receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        let mut state = self.lock();
        let flushed = match state.phase {
            Phase::Removed => return Err(removal::removed()),
            Phase::Ended | Phase::Disconnected => true,
            _ => false,
        };
        let stalled = state.connection.is_stalled();
        state
            .connection
            .post_receive(context, sges)
            .map_err(post_error)?;
        if stalled || flushed {
            state.work(Edges::KICK);
        }
        Ok(())
    }

    fn flush(&self) {
        let mut state = self.lock();
        state.connection.flush();
        if matches!(state.phase, Phase::Unheard | Phase::Open) {
            state.phase = Phase::Ended;
        }
        state.work(Edges::KICK);
    }

    /// The client has released its last reference (QP-074).
    fn released(&self) {
        let connector = self.lock().connector();
        if let Some(connector) = connector {
            connector.queue_pair_released();
        }
        let (gone, news) = self.disconnect();
        drop(news);
        self.flush_unconnected();
        if !gone && let Some(this) = self.this.upgrade() {
            self.core.linger(self.id, this);
            // It may have ended before it was put there.
            if self.lock().is_gone() {
                drop(self.core.unlinger(self.id));
            }
        }
    }

    /// Ends the Receives of a queue pair that never was connected (QP-074).
    fn flush_unconnected(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Fresh | Phase::Claimed) {
            state.phase = Phase::Disconnected;
            state.connection.flush();
            state.work(Edges::empty());
        }
    }

    // ---- progress ----

    /// The lock, unless somebody has it.
    fn try_lock(&self) -> Option<Locked<'_>> {
        Some(Locked {
            qp: self,
            state: Some(self.state.try_lock()?),
            visit: Visit::Finished,
        })
    }

    fn lock(&self) -> Locked<'_> {
        Locked {
            qp: self,
            state: Some(self.state.lock()),
            visit: Visit::Finished,
        }
    }

    /// A budget ended the work: the next driver goes on, the background thread at the latest.
    fn defer(&self) {
        self.receive_cq.domain.defer(self.this.clone());
        self.core.driver.notice(&self.receive_cq.domain);
        self.receive_cq.wake();
    }

    /// Releases the lock, delivers notifications and signals.
    fn release(&self, mut state: MutexGuard<'_, State>) {
        if !state.has_news() {
            return;
        }
        let firings = std::mem::take(&mut state.firings);
        let signals = std::mem::take(&mut state.signals);
        let connector = if signals.is_empty() {
            None
        } else {
            state.connector()
        };
        drop(state);
        if let Some(firing) = firings.receive {
            self.receive_cq.deliver(firing);
        }
        if let Some(firing) = firings.initiator {
            self.initiator_cq.deliver(firing);
        }
        if let Some(connector) = connector {
            connector.signalled(signals);
        }
        if signals.contains(Signals::GONE) {
            drop(self.core.unlinger(self.id));
        }
    }

    /// Makes progress, or leaves the edges to whoever is at it.
    fn drive(&self, edges: Edges) -> Turn {
        self.state.drive(edges, |mut state, edges| {
            let unfinished = state.work(self, edges) == Visit::Unfinished;
            let turn = Turn {
                unfinished,
                blocked: state.link.as_ref().is_some_and(StreamIo::is_sending),
                octets: std::mem::take(&mut state.received),
            };
            self.release(state);
            turn
        })
    }
}

/// The locked state of a queue pair. When it goes, notifications and signals are delivered, and what other threads left
/// behind because they did not get the lock is taken up: every holder owes them that, however short it held the lock.
struct Locked<'a> {
    qp: &'a Qp,
    /// Taken only in the drop.
    state: Option<MutexGuard<'a, State>>,
    visit: Visit,
}

impl Locked<'_> {
    fn work(&mut self, edges: Edges) {
        let qp = self.qp;
        self.visit = State::work(self, qp, edges);
    }

    fn send(&mut self) {
        let qp = self.qp;
        self.visit = State::send(self, qp);
    }

    /// Unlocks without delivering anything.
    fn into_news(mut self) -> News {
        drop(self.state.take());
        News {
            qp: self.qp.this.clone(),
            visit: self.visit,
        }
    }
}

/// What was left undelivered when a queue pair was unlocked. Dropping it delivers, and takes up what other threads have left
/// meanwhile: not to be done with a lock held that what runs then might take.
#[must_use = "dropping it delivers"]
#[derive(Debug)]
pub(crate) struct News {
    qp: Weak<Qp>,
    visit: Visit,
}

impl Drop for News {
    fn drop(&mut self) {
        if let Some(qp) = self.qp.upgrade() {
            let mut state = qp.lock();
            state.visit = self.visit;
        }
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("taken only in the drop")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("taken only in the drop")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else {
            return;
        };
        self.qp.release(state);
        let left = self.qp.state.has_left() && self.qp.drive(Edges::empty()).unfinished;
        if left || self.visit == Visit::Unfinished {
            self.qp.defer();
        }
    }
}

impl Source for Qp {
    fn ready(&self, edges: Edges) -> Turn {
        self.drive(edges)
    }

    fn incoming_core(&self) -> Option<usize> {
        self.lock().link.as_ref()?.stream().incoming_core()
    }

    fn leave(&self, domain: &Domain) -> bool {
        let state = self.lock();
        state
            .link
            .as_ref()
            .is_some_and(|link| link.leave_set(domain))
    }

    fn rejoin(&self, domain: &Domain) -> bool {
        let state = self.lock();
        let link = state.link.as_ref();
        link.is_none_or(|link| link.rejoin_set(domain))
    }
}

impl Feeder for Qp {
    /// The connection ends, or the queue pair cannot be connected any more (IW-041).
    fn queue_broke(&self) {
        let mut state = self.lock();
        state.cut(self, StreamEnd::Reset, 0);
        if matches!(state.phase, Phase::Fresh | Phase::Claimed) {
            state.phase = Phase::Ended;
        }
        state.work(Edges::empty());
    }
}

impl Timed for Qp {
    fn expired(&self, key: TimerKey, now: Instant) {
        let mut state = self.lock();
        if state.timer.is_some_and(|(_, set)| set == key) {
            state.timer = None;
        }
        if state.deadline.is_some_and(|deadline| deadline <= now) {
            tracing::debug!(qp = ?self.id, "the peer did not end the connection in time; reset");
            state.cut(self, StreamEnd::Reset, 0);
        }
        state.connection.handle_timeout(now);
        let held = state.link.as_ref().map(StreamIo::stream);
        if let Some(stream) = held.filter(|stream| stream.is_faulted()) {
            stream.awake(now);
            return state.work(Edges::KICK | Edges::READ | Edges::WRITE);
        }
        state.work(Edges::KICK);
    }
}

impl State {
    fn connector(&self) -> Option<Arc<dyn ConnectionOwner>> {
        self.connector.as_ref()?.upgrade()
    }

    /// Something is to be told when the lock has been released.
    fn has_news(&self) -> bool {
        !self.firings.is_empty() || !self.signals.is_empty()
    }

    /// Sends, receives, and sends what that brought about. Results of what was received are in their queue before an
    /// answer leaves: a Read Response proves that the Sends before it were delivered (RDMAP-094, order matrix).
    fn work(&mut self, qp: &Qp, edges: Edges) -> Visit {
        self.gather.left();
        if let Some(link) = &mut self.link {
            link.note(edges);
        }
        // A poll has nothing to send but what the socket did not take: posts see to themselves.
        let polled = edges == Edges::READ && !self.link.as_ref().is_some_and(StreamIo::is_sending);
        let sent = if polled {
            Visit::Finished
        } else {
            self.step(qp, |link, connection| {
                link.transmit(connection, &qp.core.driver.buffers)
            })
        };
        let received = self.step(qp, |link, connection| {
            link.receive(connection, &qp.core.driver.buffers)
        });
        if let Some(link) = &mut self.link {
            let activity = link.take_activity();
            self.received += activity.octets;
            if polled && !activity.any {
                return Visit::Finished; // it found nothing: most of them
            }
        }
        self.settle(qp);
        if !self.connection.wants_transmit() {
            return sent.and(received);
        }
        let answered = self.step(qp, |link, connection| {
            link.transmit(connection, &qp.core.driver.buffers)
        });
        self.settle(qp);
        sent.and(received).and(answered)
    }

    /// Sends what was posted; what was received meanwhile waits for its own turn.
    fn send(&mut self, qp: &Qp) -> Visit {
        self.gather.left();
        let sent = self.step(qp, |link, connection| {
            link.transmit(connection, &qp.core.driver.buffers)
        });
        self.settle(qp);
        sent
    }

    /// One direction of the stream, if there still is one.
    fn step(
        &mut self,
        qp: &Qp,
        act: impl FnOnce(&mut StreamIo, &mut Connection) -> io::Result<Visit>,
    ) -> Visit {
        let Some(link) = &mut self.link else {
            return Visit::Finished;
        };
        match act(link, &mut self.connection) {
            Ok(visit) => visit,
            Err(error) => {
                tracing::debug!(%error, "a stream broke");
                link.stream().was_reset();
                self.cut(qp, StreamEnd::Reset, 0);
                Visit::Finished
            }
        }
    }

    /// Nothing is left of the stream, and that was signalled.
    fn is_gone(&self) -> bool {
        self.link.is_none() && !self.over
    }

    /// Ends the stream here and now.
    fn cut(&mut self, qp: &Qp, end: StreamEnd, unread: usize) {
        if let Some(link) = self.link.take() {
            link.reset();
            self.settle(qp); // what happened before
            self.connection.handle_stream_end(end, unread);
            self.signals |= Signals::RESET;
            self.over = true;
            self.hold_flush();
            self.phase = self.phase.ended();
        }
    }

    /// Turns the engine's events into results and signals, ends directions that are done, and keeps the timer.
    fn settle(&mut self, qp: &Qp) {
        while self.flush != Flush::Held
            && let Some(event) = self.connection.poll_event()
        {
            self.take(event, qp);
            if self.results.len() == RESULTS {
                self.place_results(qp);
            }
        }
        self.place_results(qp);
        if let Some(link) = &mut self.link {
            if self.connection.write_side_done() {
                link.close_write();
            }
            if link.stream().is_faulted() {
                for status in link.stream().take_broken() {
                    qp.break_queues(&status);
                }
            }
            if link.is_over() {
                self.link.take().expect("looked at above").close();
                self.over = true;
            }
        }
        if self.over && self.flush != Flush::Held {
            self.over = false;
            self.signals |= Signals::GONE;
        }
        self.keep_time(qp);
    }

    fn place_results(&mut self, qp: &Qp) {
        if self.results.is_empty() {
            return;
        }
        if Arc::ptr_eq(&qp.receive_cq, &qp.initiator_cq) {
            let firing = qp
                .receive_cq
                .place(self.results.iter().map(|(_, entry)| *entry));
            Firings::add(&mut self.firings.receive, firing);
        } else {
            let of = |receive| {
                let results = self.results.iter();
                results
                    .filter(move |(is, _)| *is == receive)
                    .map(|(_, entry)| *entry)
            };
            let (initiator, receive) = (
                qp.initiator_cq.place(of(false)),
                qp.receive_cq.place(of(true)),
            );
            Firings::add(&mut self.firings.initiator, initiator);
            Firings::add(&mut self.firings.receive, receive);
        }
        self.results.clear();
    }

    fn take(&mut self, event: Event, qp: &Qp) {
        match event {
            Event::Completed(completion) => {
                if let Some(stag) = completion.failed_bind {
                    qp.core.table.cancel_prepared(stag);
                }
                let kind = request_type(completion.kind);
                let result = CompletionResult::new(kind, completion.context)
                    .status(result_status(completion.status))
                    .bytes_transferred(completion.octets)
                    .queue_pair_context(qp.context)
                    .immediate(completion.immediate.map(Immediate::from));
                let entry = Entry {
                    result,
                    solicited: completion.solicited,
                };
                if iwarp::planted!(ResultLost) && self.results.len() + 1 == RESULTS {
                    return;
                }
                self.results
                    .push((completion.kind == iwarp::RequestKind::Receive, entry));
                if iwarp::planted!(ResultTwice) && self.results.len() == 3 {
                    self.results.push(self.results[2]);
                }
            }
            Event::Ready => {
                self.signals |= Signals::READY;
                if self.phase == Phase::Starting {
                    self.phase = Phase::Unheard;
                }
            }
            Event::PeerClosed => {
                self.signals |= Signals::PEER_CLOSED;
                self.hold_flush();
                self.set_deadline(qp);
            }
            Event::Fault(fault) => {
                tracing::debug!(qp = ?qp.id, ?fault, "the connection failed");
                self.fail(Signals::FAILED, qp);
            }
            Event::Terminated(terminate) => {
                tracing::debug!(qp = ?qp.id, ?terminate, "the peer terminated the connection");
                self.fail(Signals::FAILED | Signals::TERMINATED, qp);
            }
            Event::Ended => {}
            Event::Stalled => {
                qp.core.leniency.count(Act::ReceiveWait); // AMB-008
                self.stall = self.connection.poll_timeout(qp.core.driver.now());
            }
        }
    }

    fn fail(&mut self, signals: Signals, qp: &Qp) {
        self.signals |= signals;
        self.hold_flush();
        self.phase = self.phase.ended();
        self.set_deadline(qp);
    }

    fn set_deadline(&mut self, qp: &Qp) {
        if self.deadline.is_none() {
            self.deadline = qp
                .core
                .options
                .timeouts
                .disconnect
                .map(|limit| qp.core.driver.now() + limit);
        }
    }

    fn keep_time(&mut self, qp: &Qp) {
        if self.phase == Phase::Disconnected {
            self.set_deadline(qp);
        }
        let stall = self.stall.filter(|_| self.connection.is_stalled());
        let wanted = match &self.link {
            Some(link) => {
                let held = link.stream().wake_at();
                [stall, self.deadline, held].into_iter().flatten().min()
            }
            None => None,
        };
        if self.timer.map(|(at, _)| at) == wanted {
            return;
        }
        if let Some((_, key)) = self.timer.take() {
            qp.core.driver.cancel_timer(key);
        }
        self.timer = wanted.map(|at| (at, qp.core.driver.set_timer(at, qp.this.clone())));
    }
}

/// An error for an argument that is not this adapter's.
fn foreign(status: Status, what: &'static str) -> Error {
    Error::new(status, what)
}
