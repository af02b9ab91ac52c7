//! The active side of a connection, from a destination to an agreement with the peer: a local port, the transport's connection, the Request,
//! and what follows if one of them fails.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Duration;

use iwarp::mpa::startup::Agreed;
use iwarp::{Role, StreamEnd};
use tracing::Span;

use super::initiator::{Agreement, Initiator, InitiatorConfig, InitiatorFailure, InitiatorOutcome};
use super::mpa_startup::{MpaStartup, StartupOwner};
use crate::driver::Driver;
use crate::faults::{FaultOwner, Faults, Verdict};
use crate::log::{connection_span, has_local, targets};
use crate::progress::Edges;
use crate::progress::timers::{Timed, TimerKey};
use crate::system_call::{errno, is_refusal};
use crate::transport::local_ports::{self, BindError};
use crate::transport::purpose::Purpose;
use crate::transport::stream::Stream;
use crate::transport::{Bound, Dialer};

/// The most ports that are tried if the application has chosen none and the first ones are taken.
const PORTS: u32 = 256;

/// The edges by which an attempt to connect is reported.
const DIAL_EDGES: Edges = Edges::READ.union(Edges::WRITE);

/// The time after the first refusal until the transport connects again; it doubles with each further refusal.
const FIRST_RETRY_AFTER: Duration = Duration::from_millis(10);

/// What the application and its interface decide about the active side.
#[derive(Debug)]
pub struct ActiveConfig {
    /// The peer's address.
    pub destination: SocketAddr,
    /// The local address that the application has reserved, if it has.
    pub bound: Option<Bound>,
    /// The local address; with port 0 any port.
    pub local: SocketAddr,
    /// The application has not chosen the port, so that another one may take its place.
    pub any_port: bool,
    /// The range from which a port is taken; `None` is the transport's own.
    pub ports: Option<RangeInclusive<u16>>,
    /// The time limit of the transport's connection.
    pub connect_within: Option<Duration>,
    /// How often the transport connects again after the peer has refused because no program listens at the port. Programs such as qperf send
    /// their port to the peer before they listen at it; with an adapter the peer's request takes long enough.
    pub retries: u32,
    /// The Request, and the limits for the Reply. A peer that is known to speak revision 1 only gets a Request of that revision.
    pub initiator: InitiatorConfig,
    /// The fault plan of the adapter.
    pub faults: Option<Arc<Faults>>,
    /// Removes the device if the fault plan demands it.
    pub fault_owner: Arc<dyn FaultOwner>,
}

/// An event of an active side.
#[derive(Debug)]
pub enum ActiveOutcome {
    /// The transport has connected, and the Request was sent.
    Connected {
        /// The local address of the connection.
        local: SocketAddr,
        /// The peer's address.
        peer: SocketAddr,
    },
    /// The peer has accepted.
    Agreed(Box<Agreement>),
    /// The application has not completed in time: the ready-to-receive message has to be sent without it.
    SendReady,
    /// There will be no connection. The active side has to be [reset](ActiveSide::reset).
    Failed(ConnectFailure),
}

/// The reason why the active side has no connection.
#[derive(Debug)]
pub enum ConnectFailure {
    /// There is no local address for another attempt.
    NoLocalAddress(BindError),
    /// The transport has not connected: an error of the peer, of the network or of the system.
    Dialing(io::Error),
    /// This machine refuses a call that the connection needs. The error names the call.
    RefusedHere(io::Error),
    /// A fault plan refuses the connection.
    RefusedByPlan,
    /// The transport has not connected with this peer in time.
    NotInTime(SocketAddr),
    /// The exchange of start-up frames has failed: no Reply in time, a rejection, a malformed Reply, or the end of the stream.
    Exchange(InitiatorFailure),
}

impl ConnectFailure {
    fn of_system(error: io::Error) -> Self {
        match is_refusal(&error) {
            true => Self::RefusedHere(error),
            false => Self::Dialing(error),
        }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLocalAddress(error) => error.fmt(f),
            Self::Dialing(error) | Self::RefusedHere(error) => error.fmt(f),
            Self::RefusedByPlan => f.write_str("a fault plan refuses the connection"),
            Self::NotInTime(peer) => write!(f, "no connection with {peer} in time"),
            Self::Exchange(failure) => failure.fmt(f),
        }
    }
}

/// The progress of the transport.
enum Dial {
    /// A fault plan holds the attempt back, to connect later or never.
    Held { connects: bool },
    /// The transport is connecting.
    UnderWay { dialer: Dialer, token: u64 },
    /// The peer has refused, and is asked again when the timer expires.
    Refused,
    /// The transport has connected, or has not begun.
    Idle,
}

/// The active side of a connection that is being set up, as a value in its owner's locked state. The owner passes on what is
/// [ready](Self::ready) and what has [expired](Self::expired), and acts on the outcomes.
pub struct ActiveSide {
    config: ActiveConfig,
    driver: Arc<Driver>,
    owner: Weak<dyn StartupOwner>,
    dial: Dial,
    /// The end of the transport's attempt, or of the wait for the next one.
    timer: Option<TimerKey>,
    refusals: u32,
    startup: MpaStartup<Initiator>,
    /// The parameters of the stream, once the peer has accepted.
    agreed: Option<Agreed>,
    /// Of the connection that is being set up. A further attempt has a further span.
    span: Span,
}

impl fmt::Debug for ActiveSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveSide")
            .field("destination", &self.config.destination)
            .field("startup", &self.startup)
            .finish_non_exhaustive()
    }
}

impl ActiveSide {
    /// Begins to connect. The outcome is there if the attempt has failed already.
    pub fn start(
        mut config: ActiveConfig,
        driver: &Arc<Driver>,
        owner: Weak<dyn StartupOwner>,
    ) -> (Self, Option<ActiveOutcome>) {
        let mut initiator = config.initiator.clone();
        if driver.revision_1_peers.has(config.destination.ip()) {
            initiator.offer.revision = 1;
        }
        config.any_port |= config.local.port() == 0;
        let mut this = Self {
            config,
            driver: Arc::clone(driver),
            dial: Dial::Idle,
            timer: None,
            refusals: 0,
            startup: MpaStartup::new(Initiator::new(initiator), driver, owner.clone()),
            agreed: None,
            owner,
            span: Span::none(),
        };
        let outcome = this.dial();
        this.log_failure(outcome.as_ref());
        (this, outcome)
    }

    /// The span of the connection, as the parent of events about it.
    pub fn span(&self) -> &Span {
        &self.span
    }

    #[inline]
    fn log_failure(&self, outcome: Option<&ActiveOutcome>) {
        if let Some(ActiveOutcome::Failed(failure)) = outcome {
            tracing::info!(target: targets::CONNECT, parent: &self.span, %failure, "no connection");
        }
    }

    /// The stream may be ready, or the transport has something to report.
    pub fn ready(&mut self, edges: Edges) -> Option<ActiveOutcome> {
        let outcome = self.handle_ready(edges);
        self.log_failure(outcome.as_ref());
        outcome
    }

    fn handle_ready(&mut self, edges: Edges) -> Option<ActiveOutcome> {
        match &mut self.dial {
            Dial::Held { .. } | Dial::Refused => None,
            Dial::UnderWay { dialer, .. } => match dialer.is_connected(edges) {
                Ok(true) => self.send_request(),
                Ok(false) => {
                    self.driver.control.arm(dialer, DIAL_EDGES);
                    None
                }
                Err(error) => self.dial_failed(error),
            },
            Dial::Idle => {
                let outcome = self.startup.ready();
                self.exchanged(outcome)
            }
        }
    }

    /// A deadline of the owner has passed.
    pub fn expired(&mut self, key: TimerKey) -> Option<ActiveOutcome> {
        let outcome = self.handle_timeout(key);
        self.log_failure(outcome.as_ref());
        outcome
    }

    fn handle_timeout(&mut self, key: TimerKey) -> Option<ActiveOutcome> {
        if self.timer.take_if(|own| *own == key).is_none() {
            let outcome = self.startup.expired(key);
            return self.exchanged(outcome);
        }
        match self.dial {
            Dial::Held { connects: true } | Dial::Refused => self.dial_now(),
            _ => failed(ConnectFailure::NotInTime(self.config.destination)),
        }
    }

    /// The application completes the connection. Returns the stream, on which the ready-to-receive message has to be sent, and what both sides
    /// have agreed on; `None` if the stream was [taken](Self::take_stream) before.
    pub fn complete(&mut self) -> Option<(Stream, Agreed)> {
        self.startup.complete().zip(self.agreed)
    }

    /// Takes the stream out, to send the ready-to-receive message before the application completes the connection.
    pub fn take_stream(&mut self) -> Option<(Stream, Agreed)> {
        self.startup.take_stream().zip(self.agreed)
    }

    /// The event that is awaited, in words.
    pub fn waits(&self) -> String {
        let to = self.config.destination;
        match self.dial {
            Dial::UnderWay { .. } => format!("Connect waits for a connection to {to}"),
            _ => format!("Connect waits for {to} to accept or reject"),
        }
    }

    /// Gives up: the peer sees a reset. Returns the reserved local address if it was not used.
    pub fn reset(mut self) -> Option<Bound> {
        self.end_dial();
        let bound = self.config.bound.take();
        self.startup.end(StreamEnd::Reset);
        bound
    }

    /// Ends the set-up in good order: the peer sees the end of the stream.
    pub fn close(mut self) {
        self.end_dial();
        self.startup.end(StreamEnd::Fin);
    }

    /// Ends the transport's attempt.
    fn end_dial(&mut self) {
        self.clear_timer();
        if let Dial::UnderWay { dialer, token } = std::mem::replace(&mut self.dial, Dial::Idle) {
            self.driver.control.remove(&dialer, token);
            dialer.reset();
        }
    }

    fn set_timer(&mut self, after: Option<Duration>) {
        self.clear_timer();
        let target: Weak<dyn Timed> = self.owner.clone();
        self.timer = after.map(|after| self.driver.set_timer(self.driver.now() + after, target));
    }

    fn clear_timer(&mut self) {
        if let Some(key) = self.timer.take() {
            self.driver.cancel_timer(key);
        }
    }

    fn new_span(&self) -> Span {
        connection_span(self.driver.transport.name_of_all(), self.config.destination)
    }

    /// Connects, or does what a fault plan demands in its place.
    fn dial(&mut self) -> Option<ActiveOutcome> {
        self.span = self.new_span();
        let faults = self.config.faults.as_ref();
        let Some(verdict) = faults.and_then(|faults| faults.connect(self.config.destination))
        else {
            return self.dial_now();
        };
        let time = match verdict {
            Verdict::Refuse => return failed(ConnectFailure::RefusedByPlan),
            Verdict::Hold(time) => time,
            Verdict::Effect(_) => {
                self.config.fault_owner.remove_device();
                None
            }
        };
        let limit = self.config.connect_within;
        let connects = time.is_some_and(|time| limit.is_none_or(|limit| time < limit));
        self.dial = Dial::Held { connects };
        self.set_timer(if connects { time } else { limit });
        None
    }

    fn dial_now(&mut self) -> Option<ActiveOutcome> {
        self.dial = Dial::Idle;
        let dialer = match self.dialer() {
            Ok(dialer) => dialer,
            Err(ConnectFailure::Dialing(error)) => return self.dial_failed(error),
            Err(failure) => return failed(failure),
        };
        match self
            .driver
            .control
            .add(&dialer, self.owner.clone(), DIAL_EDGES)
        {
            Ok(token) => {
                self.dial = Dial::UnderWay { dialer, token };
                self.set_timer(self.config.connect_within);
                None
            }
            Err(error) => self.dial_failed(error),
        }
    }

    /// Begins to connect from the reserved address. A connection from that port to the same peer may have ended a moment ago (TIME-WAIT). If
    /// the application has not chosen the port, another port is tried then.
    fn dialer(&mut self) -> Result<Dialer, ConnectFailure> {
        let mut bound = match self.config.bound.take() {
            Some(bound) => bound,
            None => self.bind().map_err(ConnectFailure::NoLocalAddress)?,
        };
        let mut left = PORTS;
        loop {
            let local = (!self.span.is_disabled()).then(|| bound.local());
            let error = match bound.connect(self.config.destination) {
                Ok(dialer) => {
                    if let Some(Ok(local)) = local {
                        let chosen = (local.port() == 0).then(|| dialer.local()).flatten();
                        has_local(&self.span, chosen.unwrap_or(local));
                    }
                    return Ok(dialer);
                }
                Err(error) => error,
            };
            if !self.config.any_port || left == 0 || !local_ports::is_taken(&error) {
                return Err(ConnectFailure::of_system(error));
            }
            left -= 1;
            bound = self.bind().map_err(|_| ConnectFailure::Dialing(error))?;
        }
    }

    /// Reserves the local address for another attempt.
    fn bind(&self) -> Result<Bound, BindError> {
        let mut local = self.config.local;
        if self.config.any_port {
            local.set_port(0); // the port of the attempt before may still be taken
        }
        let transport = &self.driver.transport;
        let ports = self.config.ports.as_ref();
        let (ip, port) = (local.ip(), local.port());
        let (mut bound, _) =
            local_ports::bind_within(transport, &[ip], port, ports, Purpose::Connecting)?;
        Ok(bound.pop().expect("one address was given"))
    }

    /// The transport has not connected. Plans another attempt if the peer has refused and is to be asked again.
    fn dial_failed(&mut self, error: io::Error) -> Option<ActiveOutcome> {
        let is_refused = errno(&error) == Some(crate::error_number::Errno::CONNREFUSED);
        if !is_refused || self.refusals == self.config.retries {
            return failed(ConnectFailure::of_system(error));
        }
        let after = FIRST_RETRY_AFTER * (1 << self.refusals);
        self.refusals += 1;
        self.span = self.new_span();
        if let Dial::UnderWay { dialer, token } = std::mem::replace(&mut self.dial, Dial::Refused) {
            self.driver.control.remove(&dialer, token);
        }
        self.set_timer(Some(after));
        None
    }

    /// The transport has connected: sends the Request.
    fn send_request(&mut self) -> Option<ActiveOutcome> {
        self.clear_timer();
        let Dial::UnderWay { dialer, token } = std::mem::replace(&mut self.dial, Dial::Idle) else {
            return None;
        };
        let sent = dialer.into_wire().and_then(|wire| {
            let owner = Arc::clone(&self.config.fault_owner);
            let faults = self.config.faults.as_ref();
            let stream = self.driver.stream(
                wire,
                Role::Initiator,
                faults,
                owner,
                Some(self.span.clone()),
            );
            let (local, peer) = (stream.local(), stream.peer());
            self.startup.send_request(stream, token)?;
            Ok(ActiveOutcome::Connected { local, peer })
        });
        Some(sent.unwrap_or_else(|error| ActiveOutcome::Failed(ConnectFailure::of_system(error))))
    }

    /// Handles an outcome of the exchange of start-up frames.
    fn exchanged(&mut self, outcome: Option<InitiatorOutcome>) -> Option<ActiveOutcome> {
        match outcome? {
            InitiatorOutcome::SendReady => Some(ActiveOutcome::SendReady),
            InitiatorOutcome::Agreed(agreement) => {
                if agreement.agreed.revision == 1 && self.startup.offer().revision == 1 {
                    let peer = self.config.destination.ip();
                    self.driver.revision_1_peers.remember(peer);
                }
                self.agreed = Some(agreement.agreed);
                Some(ActiveOutcome::Agreed(agreement))
            }
            InitiatorOutcome::FallBack => match self.bind() {
                Ok(bound) => {
                    self.config.bound = Some(bound);
                    self.dial()
                }
                Err(error) => failed(ConnectFailure::NoLocalAddress(error)),
            },
            InitiatorOutcome::Failed(failure) => failed(match self.startup.take_refusal() {
                Some(error) => ConnectFailure::RefusedHere(error),
                None => ConnectFailure::Exchange(failure),
            }),
        }
    }
}

impl Drop for ActiveSide {
    fn drop(&mut self) {
        self.end_dial();
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the result of functions that may have no outcome"
)]
fn failed(failure: ConnectFailure) -> Option<ActiveOutcome> {
    Some(ActiveOutcome::Failed(failure))
}
