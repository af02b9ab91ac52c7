//! The active side: Connect, the wait for the Reply, CompleteConnect.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iwarp::TerminateCode;
use iwarp::mpa::startup::{
    ConcludeError, Frame, FrameKind, FrameReader, Offer, ReadyKinds, peer_limits,
};
use iwarp_io::faults::Verdict;
use iwarp_io::progress::Edges;
use iwarp_io::transport::Dialer;
use netdirect::{Error, Overlapped, QueuePair, ReadLimits, Result, Started, Status};

use super::{Answered, Binding, Connector, Phase, State};
use crate::cm::{Exchange, Heard};
use crate::core::{Core, UNSTATED_READ_LIMIT};
use crate::leniency::Act;
use crate::options::Profile;
use crate::qp::{Claim, Qp, Start};
use crate::status::{connect_status, fail, is_taken};

/// A peer that closes on revision 2 within this time, without an octet, may speak revision 1 only.
const FALLBACK_WITHIN: Duration = Duration::from_secs(5);

/// Ports that are tried when nobody has chosen one and the first ones are taken.
const PORTS: u32 = 256;

/// A Connect under way.
#[derive(Debug)]
pub(super) struct Attempt {
    step: Step,
    offer: Offer,
    destination: SocketAddr,
    /// When the Request was sent.
    requested: Option<Instant>,
}

#[derive(Debug)]
enum Step {
    /// The transport's own handshake.
    Dialing { dialer: Dialer, token: u64 },
    /// The Request has left.
    Reply(Box<Exchange>),
    /// A fault plan holds the attempt back, to open the connection later or never.
    Held { opens: bool },
    /// Between two steps.
    Moving,
}

impl Attempt {
    /// What the Connect waits for.
    pub(super) fn waits(&self) -> String {
        let to = self.destination;
        match self.step {
            Step::Dialing { .. } => format!("Connect waits for a connection to {to}"),
            _ => format!("Connect waits for {to} to accept or reject"),
        }
    }

    /// Gives up: the peer sees a reset.
    pub(super) fn reset(self, core: &Core) {
        match self.step {
            Step::Dialing { dialer, token } => {
                core.driver.control.remove(&dialer, token);
                dialer.reset();
            }
            Step::Reply(exchange) => exchange.reset(),
            Step::Held { .. } | Step::Moving => {}
        }
    }
}

impl Connector {
    pub(super) fn connect(
        &self,
        qp: &Arc<dyn QueuePair>,
        destination: SocketAddr,
        limits: ReadLimits,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let qp = self.queue_pair(qp)?;
        let mut state = self.lock();
        self.core.device.present()?; // CONN-019
        match state.phase {
            Phase::Idle => {}
            Phase::Dead | Phase::Disconnected => {
                return fail(
                    Status::INVALID_DEVICE_STATE,
                    "the connector was used before; create a new one",
                );
            }
            _ => {
                return fail(
                    Status::CONNECTION_ACTIVE,
                    "the connector is connected or connecting",
                );
            }
        }
        self.check_private_data(private_data, "MaxCallerData", Some(destination.ip()))?;
        if destination.ip().is_unspecified() {
            return fail(
                Status::BAD_NETWORK_NAME,
                "the unspecified address is nobody's",
            ); // AMB-032
        }
        if destination.port() == 0 {
            return fail(Status::INVALID_ADDRESS, "port 0 is nobody's");
        }
        qp.claim(self.this.clone())?;
        let started = self.start_attempt(
            &mut state,
            &qp,
            destination,
            limits,
            private_data,
            overlapped,
        );
        started.inspect_err(|_| qp.unclaim())?;
        Ok(Started::Pending)
    }

    fn start_attempt(
        &self,
        state: &mut State,
        qp: &Arc<Qp>,
        destination: SocketAddr,
        limits: ReadLimits,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<()> {
        let binding = self.binding_for(state, destination)?;
        let request = self.begin(overlapped)?;
        // Every mistake has been found by now, and until here the connector is as it was (AMB-005).
        if let Some(binding) = binding {
            state.take_binding(binding);
        }
        let most = self.core.read_limits();
        let towards = self.core.options.towards(destination.ip());
        let offer = Offer {
            // With read limits to exchange there always is need of revision 2 (MPA2-008).
            revision: if self.core.speaks_revision_1_only(destination.ip()) {
                1
            } else {
                2
            },
            peer_to_peer: towards.peer_to_peer,
            ready: ReadyKinds::UNSEEN, // IW-003
            crc: self.core.options.crc,
            markers: towards.markers,
            // Above the adapter's they are cut silently (CONN-027).
            limits: iwarp::ReadLimits {
                ird: limits.inbound.min(most.ird),
                ord: limits.outbound.min(most.ord),
            },
            private_data: private_data.to_vec(),
        };
        state.requests.add_step(request);
        state.qp = Some(Arc::clone(qp));
        state.private_data = None;
        state.limits = None;
        state.failed = false;
        let attempt = Attempt {
            step: Step::Moving,
            offer,
            destination,
            requested: None,
        };
        state.phase = Phase::Connecting(Box::new(attempt));
        self.dial(state);
        Ok(())
    }

    /// A socket for a connector that the client has not bound, or whose last attempt has used its socket up (AMB-031).
    fn binding_for(&self, state: &State, destination: SocketAddr) -> Result<Option<Binding>> {
        let address = match state.local {
            Some(local) if local.is_ipv4() != destination.is_ipv4() => {
                return fail(
                    Status::NETWORK_UNREACHABLE,
                    "the connector is bound to an address of the other family",
                ); // CONN-021
            }
            Some(_) if state.bound.is_some() => return Ok(None),
            Some(local) => local,
            None => {
                let own = self.core.address_towards(destination.ip());
                let own = own.ok_or_else(|| {
                    let what = format!(
                        "the adapter has no address of the family of {}",
                        destination.ip()
                    );
                    Error::new(Status::NETWORK_UNREACHABLE, what)
                })?;
                SocketAddr::new(own, 0)
            }
        };
        self.binding(address).map(Some)
    }

    fn dial(&self, state: &mut State) {
        let Phase::Connecting(attempt) = &mut state.phase else {
            return;
        };
        let faults = self.core.device.faults();
        match faults.and_then(|faults| faults.connect(attempt.destination)) {
            None => self.dial_now(state),
            Some(verdict) => self.connect_with_fault(state, &verdict),
        }
    }

    #[cold]
    fn connect_with_fault(&self, state: &mut State, verdict: &Verdict) {
        let Phase::Connecting(attempt) = &mut state.phase else {
            return;
        };
        let time = match verdict {
            Verdict::Refuse => return self.attempt_failed(state, Status::CONNECTION_REFUSED),
            Verdict::Hold(time) => *time,
            Verdict::Effect(_) => {
                self.core.device.remove_by_plan();
                None
            }
        };
        let limit = self.core.options.timeouts.connect;
        let opens = time.is_some_and(|time| limit.is_none_or(|limit| time < limit));
        attempt.step = Step::Held { opens };
        self.set_timer(state, if opens { time } else { limit });
    }

    /// The time for an attempt to connect is over, or the time for which a fault plan has held it.
    pub(super) fn attempt_expired(&self, state: &mut State) {
        match &state.phase {
            Phase::Connecting(attempt) if matches!(attempt.step, Step::Held { opens: true }) => {
                self.dial_now(state);
            }
            _ => self.attempt_failed(state, Status::IO_TIMEOUT),
        }
    }

    fn dial_now(&self, state: &mut State) {
        let dialing = self.dialer(state).and_then(|dialer| {
            let edges = Edges::READ | Edges::WRITE;
            let token = self
                .core
                .driver
                .control
                .add(&dialer, self.source(), edges)?;
            Ok(Step::Dialing { dialer, token })
        });
        match (dialing, &mut state.phase) {
            (Ok(step), Phase::Connecting(attempt)) => {
                attempt.step = step;
                self.set_timer(state, self.core.options.timeouts.connect);
            }
            (Ok(_), _) => {}
            (Err(error), _) => self.attempt_failed(state, connect_status(&error)),
        }
    }

    /// Begins to connect from the reserved address. A connection from that port to the same peer may have ended a moment ago
    /// (TIME-WAIT): where nobody has chosen the port, the next one is tried.
    fn dialer(&self, state: &mut State) -> io::Result<Dialer> {
        let Phase::Connecting(attempt) = &state.phase else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let destination = attempt.destination;
        let mut left = PORTS;
        loop {
            let bound = state.bound.take().ok_or(io::ErrorKind::NotConnected)?;
            match (bound.connect(destination), state.local) {
                (Err(error), Some(local)) if state.picked && left > 0 && is_taken(&error) => {
                    left -= 1;
                    let another = self.binding(SocketAddr::new(local.ip(), 0));
                    state.take_binding(another.map_err(|_| error)?);
                }
                (dialer, _) => return dialer,
            }
        }
    }

    /// Goes on with an attempt, as far as what is ready allows.
    pub(super) fn advance(&self, state: &mut State, edges: Edges) {
        let Phase::Connecting(attempt) = &mut state.phase else {
            return;
        };
        match &mut attempt.step {
            Step::Dialing { dialer, .. } => match dialer.is_connected(edges) {
                Ok(true) => self.send_request(state),
                Ok(false) => {}
                Err(error) => self.attempt_failed(state, connect_status(&error)),
            },
            Step::Reply(exchange) => match exchange.hear() {
                Heard::Nothing => exchange.wake_later(&self.core),
                Heard::Frame(reply) => self.answered(state, &reply),
                Heard::End => self.peer_gone(state, None),
                Heard::Broken(error) => self.peer_gone(state, Some(&error)),
                Heard::Malformed(error) => {
                    let peer = exchange.stream.peer();
                    tracing::warn!(%peer, %error, "the peer does not speak iWARP");
                    self.attempt_failed(state, Status::CONNECTION_REFUSED) // CONN-023
                }
            },
            Step::Held { .. } | Step::Moving => {}
        }
    }

    /// The transport has a connection: the Request leaves, in one write.
    fn send_request(&self, state: &mut State) {
        let Phase::Connecting(attempt) = &mut state.phase else {
            return;
        };
        let Step::Dialing { dialer, token } = std::mem::replace(&mut attempt.step, Step::Moving)
        else {
            return;
        };
        let mut request = Vec::new();
        attempt.offer.request().encode(&mut request);
        let sent = dialer.into_wire().and_then(|wire| {
            let stream = self.core.stream(wire, iwarp::Role::Initiator);
            stream.send_frame(&request).map(|()| stream)
        });
        match sent {
            Ok(stream) => {
                attempt.requested = Some(self.core.driver.now());
                state.peer = Some(stream.peer());
                state.local = Some(stream.local());
                let reader = FrameReader::new(FrameKind::Reply);
                let mut exchange = Box::new(Exchange {
                    stream,
                    control: Arc::clone(&self.core.driver.control),
                    token,
                    reader,
                    source: self.source(),
                    wake: None,
                });
                exchange.wake_later(&self.core);
                attempt.step = Step::Reply(exchange);
                self.set_timer(state, self.core.options.timeouts.reply);
            }
            Err(error) => self.attempt_failed(state, connect_status(&error)),
        }
    }

    /// The peer has ended or reset the stream instead of answering.
    fn peer_gone(&self, state: &mut State, error: Option<&io::Error>) {
        let Phase::Connecting(attempt) = &mut state.phase else {
            return;
        };
        let started = matches!(&attempt.step, Step::Reply(exchange) if exchange.reader.started());
        let soon = attempt.requested.is_some_and(|at| {
            self.core.driver.now().saturating_duration_since(at) < FALLBACK_WITHIN
        });
        let towards = self.core.options.towards(attempt.destination.ip());
        let fallback =
            towards.revision_1_fallback && attempt.offer.revision == 2 && !started && soon;
        if !fallback {
            tracing::debug!(peer = %attempt.destination, ?error, started, "the peer closed without a whole answer");
            return self.attempt_failed(state, Status::CONNECTION_REFUSED);
        }
        tracing::debug!(peer = %attempt.destination, "closed on revision 2; once more with revision 1");
        attempt.offer.revision = 1;
        if let Step::Reply(exchange) = std::mem::replace(&mut attempt.step, Step::Moving) {
            exchange.close();
        }
        let Some(mut local) = state.local else {
            return self.attempt_failed(state, Status::CONNECTION_REFUSED);
        };
        if state.picked {
            local.set_port(0); // that of the first attempt may not be free yet
        }
        match self.bind_to(state, local) {
            Ok(()) => self.dial(state),
            Err(error) => self.attempt_failed(state, error.status()),
        }
    }

    /// A whole Reply is there; it is validated before the queue pair gets the stream (MPA-030).
    fn answered(&self, state: &mut State, reply: &Frame) {
        let Phase::Connecting(attempt) = &mut state.phase else {
            return;
        };
        let Step::Reply(exchange) = std::mem::replace(&mut attempt.step, Step::Moving) else {
            return;
        };
        let concluded = attempt.offer.conclude(reply, self.core.read_limits());
        let strict = self.core.options.profile == Profile::Strict;
        let towards = self.core.options.towards(attempt.destination.ip());
        match concluded {
            // MPA2-022: taken by default, since what we send first is legal without an agreement as well.
            Ok(agreed) if strict && agreed.peer_to_peer != attempt.offer.asks_peer_to_peer() => {
                let status = self.turned_down(state, ConcludeError::NoReady, exchange, reply);
                self.attempt_failed(state, status)
            }
            Ok(mut agreed) => {
                if agreed.peer_to_peer != attempt.offer.asks_peer_to_peer() {
                    self.core.leniency.count(Act::NoReadyMessage);
                }
                if agreed.revision == 1 && attempt.offer.revision == 1 {
                    self.core.remember_revision_1(attempt.destination.ip());
                }
                // Limits that the Reply does not state (IW-069). What it may read goes by our Request (MPA2-019).
                let (ird, ord) = peer_limits(reply);
                let cut = |limit: u32, stated: Option<u32>| match stated {
                    Some(_) => limit,
                    None => limit.min(UNSTATED_READ_LIMIT),
                };
                agreed.limits.ord = cut(agreed.limits.ord, ord);
                state.private_data = Some(reply.private_data.clone());
                state.limits = Some(ReadLimits {
                    inbound: cut(agreed.limits.ird, ird),
                    outbound: agreed.limits.ord,
                });
                let mut stream = exchange.into_stream();
                if agreed.markers.sent {
                    stream.send_markers();
                }
                let stream = Some(stream);
                self.finish(
                    state,
                    Phase::Answered(Box::new(Answered { stream, agreed })),
                    Status::SUCCESS,
                );
                self.set_timer(state, towards.hold_ready);
            }
            Err(why) => {
                let status = self.turned_down(state, why, exchange, reply);
                self.attempt_failed(state, status)
            }
        }
    }

    fn turned_down(
        &self,
        state: &mut State,
        why: ConcludeError,
        exchange: Box<Exchange>,
        reply: &Frame,
    ) -> Status {
        if let Some(error) = why.terminate() {
            let crc = self.core.options.crc || reply.crc;
            let code = TerminateCode::new(2, 0, error.code());
            let _ = exchange
                .stream
                .send_frame(&iwarp::terminate_frame(code, crc, reply.markers));
        }
        tracing::debug!(peer = %exchange.stream.peer(), %why, "no connection");
        match why {
            ConcludeError::Rejected => {
                state.private_data = Some(reply.private_data.clone()); // CONN-089
                exchange.close();
                Status::CONNECTION_REFUSED
            }
            ConcludeError::Malformed(_) => {
                exchange.reset();
                Status::CONNECTION_REFUSED
            }
            ConcludeError::InsufficientIrd | ConcludeError::NoReady => {
                exchange.close();
                Status::CONNECTION_REFUSED
            }
        }
    }

    /// The attempt has failed in a way that may be repeated (CONN-021 to CONN-024).
    pub(super) fn attempt_failed(&self, state: &mut State, status: Status) {
        if let Phase::Connecting(attempt) = std::mem::take(&mut state.phase) {
            attempt.reset(&self.core);
        }
        if let Some(qp) = state.qp.take() {
            qp.unclaim();
        }
        state.failed = true;
        self.finish(state, Phase::Idle, status);
    }

    pub(super) fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started> {
        let mut state = self.lock();
        self.core.device.present()?; // CONN-045
        if !matches!(state.phase, Phase::Answered(_)) {
            return fail(Status::CONNECTION_INVALID, "no Connect has succeeded here"); // CONN-044
        }
        let request = self.begin(overlapped)?;
        state.requests.add_step(request);
        self.clear_timer(&mut state);
        let Phase::Answered(answered) = std::mem::replace(&mut state.phase, Phase::Connected)
        else {
            return fail(Status::CONNECTION_INVALID, "no Connect has succeeded here");
        };
        let started = self.hand_over(&mut state, *answered, Start::Open);
        let (phase, status) = match started {
            Ok(()) => (Phase::Connected, Status::SUCCESS),
            Err(error) => {
                tracing::debug!(%error, "the peer was gone at CompleteConnect");
                (Phase::Dead, Status::CONNECTION_ABORTED)
            }
        };
        self.finish(&mut state, phase, status);
        Ok(Started::Pending)
    }

    /// The client takes its time: the peer's adapter may not (IW-067).
    pub(super) fn send_ready_early(&self, state: &mut State) {
        let Phase::Answered(answered) = &mut state.phase else {
            return;
        };
        let early = Answered {
            stream: answered.stream.take(),
            agreed: answered.agreed,
        };
        if let Err(error) = self.hand_over(state, early, Start::Held) {
            tracing::debug!(%error, "the peer was gone before CompleteConnect");
        }
    }

    /// Gives the stream to the queue pair, which sends the ready-to-receive message.
    fn hand_over(&self, state: &mut State, mut answered: Answered, start: Start) -> io::Result<()> {
        let Some(qp) = &state.qp else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        match answered.stream.take() {
            Some(stream) => {
                let config = self.stream_config(iwarp::Role::Initiator, &answered.agreed, &stream);
                state.guard = Some(qp.guard_flush());
                let (started, news) = qp.start(stream, config, start);
                state.done.news.push(news);
                started
            }
            None if state.ended => Err(io::ErrorKind::ConnectionReset.into()),
            None => {
                state.done.news.push(qp.open());
                Ok(())
            }
        }
    }
}
