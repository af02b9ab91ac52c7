//! The state of a connector, and the functions that both sides use.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use iwarp_io::endpoint::{COPIED_BELOW, EARLY};
use iwarp_io::limited;
use iwarp_io::progress::timers::TimerKey;
use iwarp_io::setup::{Agreed, Initiator, MpaStartup, Responder, Role, StreamConfig};
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::stream::Stream;
use iwarp_io::transport::{Bound, Dialer, local_ports};
use netdirect::Result;
use netdirect_provider::connector::{self, Binding, ConnectorRules};

use crate::core::Core;
use crate::qp::{FlushGuard, Qp};
use crate::status::bind_error;

/// A connector over the transports of `iwarp-io`.
pub(crate) struct Connector {
    pub(super) rules: ConnectorRules<Self>,
    pub(super) core: Arc<Core>,
    /// The signals of the queue pair that no thread has taken up yet.
    pub(super) signals: AtomicU8,
}

/// The locked state of a connector.
pub(super) type ConnectorState = connector::ConnectorState<Connector>;

/// The state of the line for a connection.
#[derive(Default)]
pub(crate) struct LineState {
    /// The set-up under way.
    pub(super) setup: Setup,
    /// Holds flushed requests back, from the start of the stream until the queue pair has reported the end of the connection.
    pub(super) guard: Option<Arc<FlushGuard>>,
    /// The end of the transport's attempt to connect, or of the time for which a fault plan holds it back.
    pub(super) dial_timer: Option<TimerKey>,
}

/// The set-up of a connection, in the states in which there is one.
#[derive(Default)]
pub(super) enum Setup {
    #[default]
    None,
    /// A Connect is under way.
    Connecting(Box<DialedAttempt>),
    /// The peer has accepted, and the client has not completed.
    Answered(Box<Answered>),
    /// A request has arrived.
    Offered(Box<MpaStartup<Responder>>),
    /// The Reply was sent, and the peer's ready-to-receive message has not arrived.
    Accepting(Box<MpaStartup<Responder>>),
}

/// A Connect under way.
pub(super) struct DialedAttempt {
    pub(super) destination: SocketAddr,
    pub(super) dial: Dial,
    pub(super) startup: MpaStartup<Initiator>,
}

/// The progress of the transport with an attempt.
pub(super) enum Dial {
    /// A fault plan holds the attempt back, to open the connection later or never.
    Held { opens: bool },
    /// The transport is connecting.
    UnderWay { dialer: Dialer, token: u64 },
    /// The transport has connected, or has not begun.
    Idle,
}

impl DialedAttempt {
    /// The event that the Connect waits for, in words.
    pub(super) fn waits(&self) -> String {
        let to = self.destination;
        match self.dial {
            Dial::UnderWay { .. } => format!("Connect waits for a connection to {to}"),
            _ => format!("Connect waits for {to} to accept or reject"),
        }
    }

    /// Gives up: the peer sees a reset.
    pub(super) fn reset(self, core: &Core) {
        if let Dial::UnderWay { dialer, token } = self.dial {
            core.driver.control.remove(&dialer, token);
            dialer.reset();
        }
        self.startup.reset();
    }
}

/// An attempt that the peer has accepted.
pub(super) struct Answered {
    /// The queue pair has its stream when the ready-to-receive message was sent before the client completed the Connect.
    pub(super) startup: MpaStartup<Initiator>,
    pub(super) agreed: Agreed,
}

impl Connector {
    /// The client sees flushed requests, once the requests that end now have ended (CONN-106).
    pub(super) fn show_flushed(&self, state: &mut ConnectorState) {
        if let Some(guard) = state.line.guard.take() {
            state.done.last(guard);
        }
    }

    pub(super) fn set_dial_timer(&self, state: &mut ConnectorState, limit: Option<Duration>) {
        self.clear_dial_timer(state);
        let driver = &self.core.driver;
        state.line.dial_timer =
            limit.map(|limit| driver.set_timer(driver.now() + limit, self.rules.this().clone()));
    }

    pub(super) fn clear_dial_timer(&self, state: &mut ConnectorState) {
        if let Some(key) = state.line.dial_timer.take() {
            self.core.driver.cancel_timer(key);
        }
    }

    pub(super) fn binding(&self, address: SocketAddr) -> Result<Binding<Bound>> {
        let transport = &self.core.driver.transport;
        let bound = local_ports::bind(transport, address, Purpose::Connecting);
        let bound = bound.map_err(|why| bind_error(&why))?;
        Ok(Binding {
            local: bound.local().unwrap_or(address),
            bound,
        })
    }

    /// The configuration of the stream once the start-up is over.
    pub(super) fn stream_config(
        &self,
        qp: &Qp,
        role: Role,
        agreed: &Agreed,
        stream: &Stream,
    ) -> StreamConfig {
        let options = &self.core.options;
        if options.confirm_writes && agreed.limits.ord == 0 {
            limited!(warn, local = %stream.local(), peer = %stream.peer(),
                "Writes to this peer complete unconfirmed: it serves no Reads");
        }
        StreamConfig {
            role,
            crc: agreed.crc,
            markers: agreed.markers,
            limits: agreed.limits,
            ready: agreed.ready,
            receive_wait: qp.owner().receive_wait(),
            copied: stream.copied_payload(),
            copied_below: COPIED_BELOW,
            confirm_writes: options.confirm_writes,
            early: EARLY,
        }
    }
}
