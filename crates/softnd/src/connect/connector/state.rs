//! The state of a connector, and the functions that both sides use.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use iwarp_io::progress::turns::HandOff;
use iwarp_io::setup::{ActiveSide, Agreed, Confirmations, PassiveSide, Role, stream_config};
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::stream::Stream;
use iwarp_io::transport::{Bound, local_ports};
use netdirect::Result;
use netdirect_provider::connector::{self, Binding, ConnectorRules};

use crate::core::Core;
use crate::qp::{FlushGuard, Qp, Start};
use crate::status::bind_error;

/// A connector over the transports of `iwarp-io`.
pub(crate) struct Connector {
    pub(super) rules: ConnectorRules<Self>,
    pub(super) core: Arc<Core>,
    /// The signals of the queue pair that no thread has taken up yet.
    pub(super) signals: HandOff,
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
    /// The name of the transport, once the queue pair has the stream.
    pub(super) transport: Option<&'static str>,
}

/// The set-up of a connection, in the states in which there is one.
#[derive(Default)]
pub(super) enum Setup {
    #[default]
    None,
    /// A Connect is under way.
    Connecting(Box<ActiveSide>),
    /// The peer has accepted, and the client has not completed. The queue pair has the stream when the ready-to-receive message was sent
    /// before.
    Answered(Box<ActiveSide>),
    /// A request has arrived.
    Offered(Box<PassiveSide>),
    /// The Reply was sent, and the peer's ready-to-receive message has not arrived.
    Accepting(Box<PassiveSide>),
}

impl Connector {
    /// The client sees flushed requests, once the requests that end now have ended (CONN-106).
    pub(super) fn show_flushed(&self, state: &mut ConnectorState) {
        if let Some(guard) = state.line.guard.take() {
            state.done.last(guard);
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

    /// Gives a stream to the queue pair, after the start-up.
    pub(super) fn start(
        &self,
        state: &mut ConnectorState,
        qp: &Qp,
        stream: Stream,
        role: Role,
        agreed: &Agreed,
        start: Start,
    ) -> io::Result<()> {
        let confirmations = match self.core.options.confirm_writes {
            true => Confirmations::EachWrite,
            false => Confirmations::Off,
        };
        let receive_wait = qp.owner().receive_wait();
        let config = stream_config(&stream, role, agreed, receive_wait, confirmations);
        state.line.guard = Some(qp.guard_flush());
        state.line.transport = Some(stream.transport());
        let (started, deferred) = qp.start(stream, config, start);
        state.done.after(deferred);
        started
    }
}
