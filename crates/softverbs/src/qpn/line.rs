//! The way of a queue pair from its change to RTR to its stream.
//!
//! | state | ends with |
//! |---|---|
//! | `Idle`: before RTR. A call is held, one at a time, for [`HELD_FOR`] | RTR |
//! | `Waiting`: to be called, or for the next attempt | a call; the time |
//! | `Dialing`: this side connects | an agreement; a failure, then `Waiting`; a call that is taken in its place |
//! | `SelfDialing`: a socket connects to itself | the connection |
//! | `Accepting`: a call was answered | the caller's first octets; its end, then `Waiting` |
//! | `Over`: connected, or given up. Calls are refused | RESET |
//!
//! One stream is used for each change to RTR: a peer that begins anew would otherwise find the last life of this queue pair.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use iwarp_io::endpoint::{Recognition, Role, StreamConfig};
use iwarp_io::log::targets;
use iwarp_io::planted;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::setup::{
    Acceptance, ActiveConfig, ActiveOutcome, ActiveSide, Agreed, AwaitedFpdu, ConnectionRequest,
    Heard, InitiatorConfig, Offer, OwnConnection, PassiveSide, ReadyKinds, stream_config,
};
use iwarp_io::transport::stream::Stream;
use parking_lot::{Mutex, MutexGuard};

use super::call::Call;
use super::ports::{Callee, Port, Ports, READ_LIMITS, fault_owner, port_of, refuse};
use crate::ah::GlobalRoute;
use crate::device::{Device, limits};
use crate::error::{Errno, Error, Result, fail};
use crate::process::Process;
use crate::writes::kept;

/// The time in which the side with the smaller number calls. After it the other side connects too, because one direction may be closed.
const CALLED_WITHIN: Duration = Duration::from_millis(250);
/// The time for which a call before RTR is held.
const HELD_FOR: Duration = Duration::from_secs(10);
/// The time until the peer's Reply: the peer may hold the call.
const REPLY_WITHIN: Duration = Duration::from_secs(15);
const REPLY_FRAME_WITHIN: Duration = Duration::from_secs(10);
/// The time limit of the transport.
const CONNECT_WITHIN: Duration = Duration::from_secs(21);
/// The time from the first failure to the second attempt, which doubles each time, and its limits while a request waits and otherwise.
const FIRST_RETRY_AFTER: Duration = Duration::from_millis(10);
const LONGEST_WAITED: Duration = Duration::from_secs(1);
const LONGEST_IDLE: Duration = Duration::from_secs(30);
/// The shortest time in which a request that waits for its connection fails.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// Work of a queue pair that is done once the line is unlocked: dropping it does it.
pub(crate) type Deferred = Box<dyn Send>;

/// The queue pair that gets the stream.
pub(crate) trait StreamTaker: Send + Sync {
    /// Starts full operation on a stream.
    fn start_on(&self, stream: Stream, config: StreamConfig) -> (std::io::Result<()>, Deferred);

    /// Returns true if there was a stream, and it has ended.
    fn has_ended(&self) -> bool;

    /// There will be no stream: requests fail. Those of unreliable queue pairs are dropped, and there may be a stream later.
    fn abandon(&self) -> Deferred;

    /// At most this many Reads are outstanding from now on.
    fn limit_reads(&self, reads: u32);
}

/// What the change to RTS says about requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// The time after which a request fails that has found no connection; `None` is for ever.
    pub(crate) limit: Option<Duration>,
    /// The most Reads that may be outstanding.
    pub(crate) reads: u32,
}

impl Patience {
    /// That of unreliable queue pairs, whose changes of state say nothing about it.
    pub(crate) const UNRELIABLE: Self = Self {
        limit: Some(LEAST_PATIENCE),
        reads: 0,
    };

    /// That of the attributes of RTS: four times the time that an adapter needs to find that its peer does not answer.
    pub(crate) fn new(timeout: u8, retry_cnt: u8, reads: u8) -> Self {
        let once = Duration::from_nanos(4096 << u64::from(timeout.min(31)));
        let limit = once * (u32::from(retry_cnt) + 1) * 4;
        Self {
            limit: (timeout > 0).then(|| limit.max(LEAST_PATIENCE)),
            reads: reads.into(),
        }
    }
}

/// A queue pair whose number names a port.
pub(crate) struct Line {
    process: Weak<Process>,
    device: Arc<Device>,
    port: Arc<Port>,
    number: u32,
    /// The queue pair is unreliable: its requests do not fail without a connection.
    is_unreliable: bool,
    taker: OnceLock<Weak<dyn StreamTaker>>,
    state: Mutex<LineState>,
    this: Weak<Self>,
}

/// The peer that the program has named.
#[derive(Clone, Copy, Debug)]
struct Peer {
    number: u32,
    route: GlobalRoute,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Waiting,
    Dialing {
        active: Box<ActiveSide>,
        /// The transport has connected.
        stands: bool,
    },
    SelfDialing(OwnConnection),
    Accepting(Box<Accepting>),
    Over,
}

struct Accepting {
    passive: PassiveSide,
    heard: AwaitedFpdu,
    agreed: Agreed,
}

/// A call that came before RTR.
struct Held {
    passive: Box<PassiveSide>,
    call: Call,
    until: TimerKey,
}

#[derive(Default)]
struct LineState {
    phase: Phase,
    peer: Option<Peer>,
    held: Option<Held>,
    patience: Patience,
    /// The next attempt.
    retry: Option<TimerKey>,
    /// When the request that waits fails.
    gives_up: Option<TimerKey>,
    /// Attempts that have failed.
    failures: u32,
    /// A request waits for the connection.
    is_awaited: bool,
    /// The reason for which the last attempt failed.
    reason: Option<String>,
    /// Work to do once the line is unlocked.
    deferred: Vec<Deferred>,
}

/// The locked state of a line. Dropping it unlocks the line and does the work that was deferred.
struct LockedLine<'a>(Option<MutexGuard<'a, LineState>>);

impl Deref for LockedLine<'_> {
    type Target = LineState;

    fn deref(&self) -> &LineState {
        self.0.as_ref().expect("taken only in the drop")
    }
}

impl DerefMut for LockedLine<'_> {
    fn deref_mut(&mut self) -> &mut LineState {
        self.0.as_mut().expect("taken only in the drop")
    }
}

impl Drop for LockedLine<'_> {
    fn drop(&mut self) {
        let deferred = std::mem::take(&mut self.deferred);
        drop(self.0.take());
        drop(deferred);
    }
}

impl Line {
    pub(crate) fn new(
        process: &Process,
        device: &Arc<Device>,
        (number, port): (u32, Arc<Port>),
        is_unreliable: bool,
    ) -> Arc<Self> {
        let line = Arc::new_cyclic(|this| Self {
            process: process.this.clone(),
            device: Arc::clone(device),
            port,
            number,
            is_unreliable,
            taker: OnceLock::new(),
            state: Mutex::default(),
            this: this.clone(),
        });
        let callee: Weak<dyn Callee> = Arc::<Self>::downgrade(&line);
        line.port.add(number, callee);
        line
    }

    /// Names the queue pair that gets the stream. Called once.
    pub(crate) fn serve(&self, taker: Weak<dyn StreamTaker>) {
        let _ = self.taker.set(taker);
    }

    fn lock(&self) -> LockedLine<'_> {
        LockedLine(Some(self.state.lock()))
    }

    fn process(&self) -> Result<Arc<Process>> {
        let gone = || Error::new(Errno::IO, "the process has ended");
        self.process.upgrade().ok_or_else(gone)
    }

    /// The change to RTR: names the peer.
    pub(crate) fn arm(&self, number: u32, route: GlobalRoute) -> Result<()> {
        if port_of(number).is_none() || number >= 1 << 24 {
            return fail(
                Errno::INVAL,
                format!(
                    "queue pair {number:#x} has no port: the peer's program states the number that ibv_create_qp gave it"
                ),
            );
        }
        self.port.listen()?;
        let mut locked = self.lock();
        let state = &mut *locked;
        let peer = Peer { number, route };
        state.peer = Some(peer);
        state.phase = Phase::Waiting;
        if let Some(held) = self.take_held(state) {
            if self.is_of_peer(&peer, &held.call) {
                self.answer(state, *held.passive);
                return Ok(());
            }
            held.passive.reject(&[]);
        }
        if self.is_own(&peer) || self.calls_first(&peer) {
            self.dial(state);
        } else {
            self.set_retry(state, CALLED_WITHIN);
        }
        Ok(())
    }

    /// The change to RTS.
    pub(crate) fn set_patience(&self, patience: Patience) {
        let mut state = self.lock();
        state.patience = patience;
        if let (Phase::Over, Some(taker)) = (&state.phase, self.taker()) {
            taker.limit_reads(patience.reads);
        }
    }

    /// A request was posted that waits for the stream.
    pub(crate) fn request_waits(&self) {
        let mut locked = self.lock();
        let state = &mut *locked;
        if matches!(state.phase, Phase::Idle | Phase::Over) || state.is_awaited {
            return;
        }
        state.is_awaited = true;
        let Ok(engine) = self.process().and_then(|process| process.engine()) else {
            return;
        };
        let driver = &engine.driver;
        if let Some(limit) = state.patience.limit {
            let target: Weak<dyn Timed> = self.this.clone();
            state.gives_up = Some(driver.set_timer(driver.now() + limit, target));
        }
        // The next attempt may be far away.
        if matches!(state.phase, Phase::Waiting) && state.failures > 0 {
            state.failures = 0;
            self.set_retry(state, FIRST_RETRY_AFTER);
        }
    }

    /// Back to RESET: another peer may be named.
    pub(crate) fn reset(&self) {
        let mut locked = self.lock();
        let state = &mut *locked;
        if !matches!(state.phase, Phase::Idle) {
            self.give_up(state);
            *state = LineState {
                deferred: std::mem::take(&mut state.deferred),
                ..LineState::default()
            };
        }
    }

    /// The queue pair is in error, or destroyed: there will be no stream.
    pub(crate) fn end(&self) {
        let mut locked = self.lock();
        let state = &mut *locked;
        if let Some(held) = self.take_held(state) {
            held.passive.reject(&[]);
        }
        self.give_up(state);
    }

    fn take_call(&self, request: ConnectionRequest, call: &Call) {
        let Ok(process) = self.process() else {
            return;
        };
        let mut locked = self.lock();
        let state = &mut *locked;
        let is_welcome = match (&state.phase, &state.peer) {
            (Phase::Idle, _) => {
                self.forget_ended(state);
                state.held.is_none() && self.is_own_gid(call)
            }
            (_, None) => false,
            (_, Some(peer)) if !self.is_of_peer(peer, call) => false,
            (Phase::Over, _) => self.takes_another(),
            (Phase::Waiting, _) => true,
            // Where both connect, one of the two streams is kept.
            (Phase::Dialing { stands, .. }, Some(peer)) => !(*stands && self.calls_first(peer)),
            (Phase::SelfDialing(_) | Phase::Accepting(_), _) => false,
        };
        if !is_welcome {
            drop(locked);
            return refuse(request, &process);
        }
        let Ok(engine) = process.engine() else {
            return;
        };
        let Some(passive) = PassiveSide::watch(request, &engine.driver, self.this.clone()) else {
            return;
        };
        if let Phase::Idle = state.phase {
            let end = engine.driver.now() + HELD_FOR;
            state.held = Some(Held {
                passive: Box::new(passive),
                call: *call,
                until: engine.driver.set_timer(end, self.this.clone()),
            });
            return;
        }
        self.answer(state, passive);
    }

    // ---- who is who ----

    /// Returns true if the program has named this queue pair itself.
    fn is_own(&self, peer: &Peer) -> bool {
        let gids = self.device.gids();
        peer.number == self.number && gids.iter().any(|row| row.gid == peer.route.peer_gid)
    }

    /// The smaller number connects first; of equal numbers that with the smaller GID.
    fn calls_first(&self, peer: &Peer) -> bool {
        (self.number, peer.route.own_gid) < (peer.number, peer.route.peer_gid)
    }

    fn is_own_gid(&self, call: &Call) -> bool {
        let gids = self.device.gids();
        call.to == self.number && gids.iter().any(|row| row.gid == call.to_gid)
    }

    /// Returns true if the call is that of the peer that the program has named.
    fn is_of_peer(&self, peer: &Peer, call: &Call) -> bool {
        let is_named = (call.from, call.from_gid) == (peer.number, peer.route.peer_gid);
        is_named && call.is_unreliable == self.is_unreliable && self.is_own_gid(call)
    }

    fn taker(&self) -> Option<Arc<dyn StreamTaker>> {
        self.taker.get()?.upgrade()
    }

    // ---- attempts ----

    fn dial(&self, state: &mut LineState) {
        self.clear_retry(state);
        let Some(peer) = state.peer else {
            return;
        };
        if self.is_own(&peer) {
            return self.dial_itself(state);
        }
        match self.start_dial(&peer) {
            Ok((active, outcome)) => {
                state.phase = Phase::Dialing {
                    active: Box::new(active),
                    stands: false,
                };
                self.dial_came_to(state, outcome);
            }
            Err(error) => self.failed(state, error.to_string()),
        }
    }

    fn start_dial(&self, peer: &Peer) -> Result<(ActiveSide, Option<ActiveOutcome>)> {
        let process = self.process()?;
        let engine = process.engine()?;
        let own = peer.route.own();
        let bound = process.number_transport().bind_any_port(own);
        let bound = bound
            .map_err(|error| Error::of_system(&error, &format!("cannot connect from {own}")))?;
        let call = Call {
            is_unreliable: self.is_unreliable,
            from: self.number,
            to: peer.number,
            from_gid: peer.route.own_gid,
            to_gid: peer.route.peer_gid,
        };
        let port = port_of(peer.number).unwrap_or_default();
        let config = ActiveConfig {
            destination: SocketAddr::new(peer.route.peer(), port),
            bound: Some(bound),
            local: SocketAddr::new(own, 0),
            any_port: false,
            ports: None,
            connect_within: Some(CONNECT_WITHIN),
            retries: 0,
            initiator: InitiatorConfig {
                offer: Offer {
                    revision: 2,
                    peer_to_peer: true,
                    ready: ReadyKinds::UNSEEN,
                    crc: process.asks_for_crcs(),
                    markers: false,
                    limits: READ_LIMITS,
                    private_data: call.encode(),
                },
                spares_crc: process.spares_crcs(),
                most: READ_LIMITS,
                unstated: limits::READS,
                strict_peer_to_peer: false,
                revision_1_fallback: false,
                reply_within: Some(REPLY_WITHIN),
                reply_frame_within: Some(REPLY_FRAME_WITHIN),
                hold_ready: None,
            },
            faults: process.faults.clone(),
            fault_owner: fault_owner(&process),
        };
        Ok(ActiveSide::start(config, &engine.driver, self.this.clone()))
    }

    fn dial_came_to(&self, state: &mut LineState, outcome: Option<ActiveOutcome>) {
        let Phase::Dialing { active, stands } = &mut state.phase else {
            return;
        };
        match outcome {
            None | Some(ActiveOutcome::SendReady) => {}
            Some(ActiveOutcome::Connected { .. }) => *stands = true,
            Some(ActiveOutcome::Agreed(_)) => match active.complete() {
                Some((stream, agreed)) => self.start(state, stream, Role::Initiator, &agreed),
                None => self.failed(state, "the peer has gone".to_owned()),
            },
            Some(ActiveOutcome::Failed(failure)) => self.failed(state, failure.to_string()),
        }
    }

    /// Connects a socket to its own address, for a queue pair that the program connects to itself.
    fn dial_itself(&self, state: &mut LineState) {
        let Some(peer) = state.peer else {
            return;
        };
        let started = self.process().and_then(|process| {
            let engine = process.engine()?;
            let (transport, own) = (process.own_transport(), peer.route.peer());
            OwnConnection::start(&transport, own, &engine.driver, self.this.clone())
                .map_err(|error| Error::of_system(&error, "a socket does not connect to itself"))
        });
        match started {
            Ok(own) => {
                state.phase = Phase::SelfDialing(own);
                self.own_dial_is_ready(state, Default::default());
            }
            Err(error) => self.failed(state, error.to_string()),
        }
    }

    fn own_dial_is_ready(&self, state: &mut LineState, edges: Edges) {
        let (Phase::SelfDialing(own), Ok(process)) = (&mut state.phase, self.process()) else {
            return;
        };
        match own.ready(edges, process.faults.as_ref(), fault_owner(&process)) {
            Ok(None) => {}
            Ok(Some(stream)) => {
                let agreed = Agreed::with_itself(process.asks_for_crcs(), READ_LIMITS);
                self.start(state, stream, Role::Initiator, &agreed);
            }
            Err(error) => self.failed(state, error.to_string()),
        }
    }

    /// Answers a call, in the place of an own attempt.
    fn answer(&self, state: &mut LineState, mut passive: PassiveSide) {
        self.end_attempt(state);
        let Ok(process) = self.process() else {
            return;
        };
        let Ok(engine) = process.engine() else {
            return;
        };
        let accepted = passive.accept(Acceptance {
            crc: process.asks_for_crcs(),
            markers: false,
            ready: ReadyKinds::UNSEEN,
            limits: READ_LIMITS,
            private_data: Vec::new(),
        });
        let watched = match accepted {
            Some((stream, agreed, Ok(()))) => {
                AwaitedFpdu::watch(stream, &engine.driver, self.this.clone())
                    .map(|heard| (heard, agreed))
            }
            Some((stream, _, Err(error))) => {
                stream.reset();
                Err(error)
            }
            None => Err(std::io::ErrorKind::ConnectionReset.into()),
        };
        match watched {
            Ok((heard, agreed)) => {
                state.phase = Phase::Accepting(Box::new(Accepting {
                    passive,
                    heard,
                    agreed,
                }));
                self.listen_for_caller(state);
            }
            Err(error) => self.failed(state, error.to_string()),
        }
    }

    /// A queue pair whose connection was made takes no other one.
    fn takes_another(&self) -> bool {
        let has_ended = self.taker().is_some_and(|taker| taker.has_ended());
        [
            planted!(SecondConnectionTaken),
            planted!(ConnectionTakenAfterEnd),
        ][usize::from(has_ended)]
    }

    /// Looks whether the caller has sent its ready-to-receive message.
    fn listen_for_caller(&self, state: &mut LineState) {
        let Phase::Accepting(accepting) = &state.phase else {
            return;
        };
        match accepting.heard.ready() {
            Heard::Nothing => {}
            Heard::Octets => {
                if let Phase::Accepting(accepting) =
                    std::mem::replace(&mut state.phase, Phase::Waiting)
                {
                    let Accepting { heard, agreed, .. } = *accepting;
                    if let Some(stream) = heard.take() {
                        self.start(state, stream, Role::Responder, &agreed);
                    }
                }
            }
            Heard::End => self.failed(state, "the caller has given up".to_owned()),
        }
    }

    /// Gives the queue pair its stream.
    fn start(&self, state: &mut LineState, stream: Stream, role: Role, agreed: &Agreed) {
        self.end_attempt(state);
        self.clear_timers(state);
        state.phase = Phase::Over;
        let Some(taker) = self.taker() else {
            return stream.reset();
        };
        let Ok(process) = self.process() else {
            return stream.reset();
        };
        // The version in the private data says that the peer serves one Read more than it states.
        let confirmations = process.writes().confirmations(true);
        let mut config: StreamConfig =
            stream_config(&stream, role, agreed, Duration::MAX, confirmations);
        config.limits = kept(self.device.kind(), agreed.limits);
        if state.patience.reads > 0 {
            config.limits.ord = config.limits.ord.min(state.patience.reads);
        }
        // By the version in the private data.
        config.recognition = Recognition::Agreed;
        let span = stream.span().clone();
        let (started, deferred) = taker.start_on(stream, config);
        state.deferred.push(deferred);
        if let Err(error) = started {
            tracing::debug!(target: targets::CONNECT, parent: &span, %error, "a stream of a queue pair did not start");
        }
    }

    /// An attempt has failed. Plans the next one.
    fn failed(&self, state: &mut LineState, reason: String) {
        self.end_attempt(state);
        if matches!(state.phase, Phase::Idle | Phase::Over) {
            return;
        }
        state.phase = Phase::Waiting;
        state.reason = Some(reason);
        let longest = match state.is_awaited {
            true => LONGEST_WAITED,
            false => LONGEST_IDLE,
        };
        let after = FIRST_RETRY_AFTER * (1 << state.failures.min(16));
        state.failures = state.failures.saturating_add(1);
        let after = after.min(longest);
        self.set_retry(state, after - self.random_part(after / 2));
    }

    /// A part of a time that cannot be predicted, so that two sides do not refuse each other again and again.
    fn random_part(&self, of: Duration) -> Duration {
        let random = self
            .process()
            .ok()
            .and_then(|process| process.environment().random().ok());
        let most = u64::try_from(of.as_micros())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        Duration::from_micros(random.map_or(0, |random| random % most))
    }

    /// No request finds a connection any more.
    fn gave_up(&self, state: &mut LineState) {
        if self.is_unreliable {
            // Requests are dropped, and later ones may find a connection.
            state.is_awaited = false;
            let dropped = self.taker().map(|taker| taker.abandon());
            return state.deferred.extend(dropped);
        }
        let reason = state.reason.take();
        let peer = state.peer;
        self.give_up(state);
        if let (Some(peer), Ok(process)) = (peer, self.process())
            && let Some(tell) = process.options().on_end
        {
            let reason =
                reason.unwrap_or_else(|| "the peer has not called, and was not reached".to_owned());
            let at = SocketAddr::new(peer.route.peer(), port_of(peer.number).unwrap_or_default());
            let own = match process.device_of(at.ip()) {
                Some(_) => {
                    ". The address is one of this host: if another host is meant, several of its interfaces have addresses that \
                            exist here too; choose one by --interface"
                }
                None => "",
            };
            tell(&format!(
                "queue pair {:#x} has found no connection with queue pair {:#x} at {at}: {reason}{own}",
                self.number, peer.number
            ));
        }
        if let Some(taker) = self.taker() {
            state.deferred.push(taker.abandon());
        }
    }

    /// Ends attempts and waits. There is no other before RESET.
    fn give_up(&self, state: &mut LineState) {
        self.end_attempt(state);
        self.clear_timers(state);
        state.phase = Phase::Over;
    }

    fn end_attempt(&self, state: &mut LineState) {
        match std::mem::take(&mut state.phase) {
            Phase::Dialing { active, .. } => drop(active.reset()),
            Phase::SelfDialing(own) => drop(own),
            Phase::Accepting(accepting) => drop(accepting),
            other => {
                state.phase = other;
                return;
            }
        }
        state.phase = Phase::Waiting;
    }

    // ---- times ----

    fn set_retry(&self, state: &mut LineState, after: Duration) {
        self.clear_retry(state);
        if let Ok(engine) = self.process().and_then(|process| process.engine()) {
            let driver = &engine.driver;
            let target: Weak<dyn Timed> = self.this.clone();
            state.retry = Some(driver.set_timer(driver.now() + after, target));
        }
    }

    fn clear_retry(&self, state: &mut LineState) {
        let key = state.retry.take();
        self.cancel(key);
    }

    fn clear_timers(&self, state: &mut LineState) {
        self.clear_retry(state);
        let key = state.gives_up.take();
        self.cancel(key);
    }

    fn cancel(&self, key: Option<TimerKey>) {
        if let Some(key) = key
            && let Ok(engine) = self.process().and_then(|process| process.engine())
        {
            engine.driver.cancel_timer(key);
        }
    }

    fn take_held(&self, state: &mut LineState) -> Option<Held> {
        let held = state.held.take()?;
        self.cancel(Some(held.until));
        Some(held)
    }

    /// Forgets a held call whose caller has given up.
    fn forget_ended(&self, state: &mut LineState) {
        let has_ended = |held: &mut Held| held.passive.has_ended();
        if state.held.as_mut().is_some_and(has_ended) {
            drop(self.take_held(state));
        }
    }
}

impl Callee for Line {
    fn called(&self, request: ConnectionRequest, call: &Call) {
        self.take_call(request, call);
    }
}

impl Source for Line {
    fn ready(&self, edges: Edges) -> Turn {
        let mut locked = self.lock();
        let state = &mut *locked;
        match &mut state.phase {
            Phase::Idle => self.forget_ended(state),
            Phase::Dialing { active, .. } => {
                let outcome = active.ready(edges);
                self.dial_came_to(state, outcome);
            }
            Phase::SelfDialing(_) => self.own_dial_is_ready(state, edges),
            Phase::Accepting(_) => self.listen_for_caller(state),
            Phase::Waiting | Phase::Over => {}
        }
        Turn::default()
    }
}

impl Timed for Line {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut locked = self.lock();
        let state = &mut *locked;
        if state.retry.take_if(|own| *own == key).is_some() {
            if let Phase::Waiting = state.phase {
                self.dial(state);
            }
            return;
        }
        if state.gives_up.take_if(|own| *own == key).is_some() {
            if !matches!(state.phase, Phase::Idle | Phase::Over) {
                self.gave_up(state);
            }
            return;
        }
        if let Some(held) = state.held.take_if(|held| held.until == key) {
            return held.passive.reject(&[]);
        }
        match &mut state.phase {
            Phase::Dialing { active, .. } => {
                let outcome = active.expired(key);
                self.dial_came_to(state, outcome);
            }
            Phase::Accepting(accepting) => {
                let was_silent = accepting.passive.expired(key).is_some();
                if was_silent {
                    self.failed(state, "the caller was silent for too long".to_owned());
                }
            }
            _ => {}
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Ok(process) = self.process() {
            Ports::of(&process).give_back(&self.device, self.number);
        }
    }
}
