//! The state of a connector, and the functions that both sides use.

use std::net::SocketAddr;
use std::sync::Arc;

use iwarp_io::endpoint::{COPIED_BELOW, EARLY};
use iwarp_io::limited;
use iwarp_io::progress::turns::HandOff;
use iwarp_io::setup::{ActiveSide, Agreed, PassiveSide, Role, StreamConfig};
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::stream::Stream;
use iwarp_io::transport::{Bound, local_ports};
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
}

/// The set-up of a connection, in the states in which there is one.
#[derive(Default)]
pub(super) enum Setup {
    #[default]
    None,
    /// A Connect is under way.
    Connecting(Box<ActiveSide>),
    /// The peer has accepted, and the client has not completed.
    Answered(Box<Answered>),
    /// A request has arrived.
    Offered(Box<PassiveSide>),
    /// The Reply was sent, and the peer's ready-to-receive message has not arrived.
    Accepting(Box<PassiveSide>),
}

/// An attempt that the peer has accepted.
pub(super) struct Answered {
    /// The queue pair has its stream when the ready-to-receive message was sent before the client completed the Connect.
    pub(super) active: Box<ActiveSide>,
    pub(super) agreed: Agreed,
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
