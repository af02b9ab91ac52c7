//! The state of a connector, and the functions that both sides use.

use std::sync::Arc;

use netdirect::{ConnectionEnd, ReadLimits};
use netdirect_provider::connector::machine::State;
use netdirect_provider::connector::{self, ConnectorRules};

use crate::connect::private_data::{self, CmMessage};
use crate::core::Core;
use crate::driver::Deadline;
use crate::handle::{CmId, QueuePairHandle};
use crate::qp;

/// A connector over the connection manager.
pub(crate) struct Connector {
    pub(super) rules: ConnectorRules<Self>,
    pub(super) core: Arc<Core>,
}

/// The locked state of a connector.
pub(super) type ConnectorState = connector::ConnectorState<Connector>;

/// A peer's request for a connection.
#[derive(Debug)]
pub(crate) struct PeerRequest {
    pub(crate) id: CmId,
    pub(crate) key: u64,
    pub(crate) private_data: Vec<u8>,
    pub(crate) limits: ReadLimits,
}

/// A Connect under way.
pub(super) struct AskedPeer {
    pub(super) limits: ReadLimits,
    pub(super) private_data: Vec<u8>,
    pub(super) raw: Arc<QueuePairHandle>,
}

/// The state of the line for a connection.
#[derive(Default)]
pub(crate) struct LineState {
    /// The Connect under way.
    pub(super) attempt: Option<Box<AskedPeer>>,
    /// The identifier of the connection, and its key. Without one the key is 0, or that of the last identifier.
    pub(super) id: Option<Arc<CmId>>,
    pub(super) key: u64,
    /// The time when Accept gives up.
    pub(super) deadline: Option<Deadline>,
}

impl Drop for Connector {
    fn drop(&mut self) {
        self.core.disown_connection(self.rules.get_mut().line.key);
    }
}

impl Connector {
    /// The client's private data in a message.
    pub(super) fn field(&self, data: &[u8], message: CmMessage) -> Vec<u8> {
        field(&self.core, data, message)
    }

    /// The private data in the field of the peer's message.
    pub(super) fn received(&self, field: Vec<u8>) -> Vec<u8> {
        received(&self.core, field)
    }

    /// Notifies the peer of the end of the connection, which on iWARP the driver does. On InfiniBand the peer learns only by this of a
    /// queue pair that has failed, and a peer that disconnects waits for it as the answer.
    pub(super) fn disconnect_peer(&self, state: &ConnectorState) {
        if !self.core.limits.is_iwarp
            && let Some(id) = &state.line.id
            && let Err(error) = id.disconnect()
        {
            tracing::debug!(target: crate::log::TARGET, %error, "the peer does not wait for the end of the connection");
        }
    }

    /// The connection has ended, or ends, for this reason. The first reason counts.
    pub(super) fn ends(state: &mut ConnectorState, end: ConnectionEnd) {
        if state.end.is_none() {
            let first = match &state.qp {
                Some(qp) => qp.ends(end),
                None => end,
            };
            state.end = Some(first);
        }
    }

    /// This side ends the connection.
    pub(super) fn begin_end(state: &ConnectorState, phase: qp::QpPhase) {
        if let Some(qp) = &state.qp {
            qp.begin_end(phase);
        }
        if let Some(id) = &state.line.id {
            let _ = id.disconnect();
        }
    }

    /// The connection was ended by the peer or by an error.
    pub(super) fn end_queue_pair(state: &mut ConnectorState) {
        if let Some(qp) = state.qp.clone() {
            state.done.after(move || qp.end(qp::QpPhase::Ended));
        }
    }

    /// Gives up a Connect or Accept that is under way, or an answer that was not completed. A thread of the driver may be blocked with the
    /// identifier and with the device's queue pair, so they are destroyed in another thread.
    pub(super) fn abandon(&self, state: &mut ConnectorState, from: State) {
        self.core.disown_connection(state.line.key);
        let (id, qp) = (state.line.id.take(), state.qp.take());
        let attempt = state.line.attempt.take();
        state.done.before(move || {
            let mut raw = None;
            match (from, &qp) {
                (State::Connecting, Some(qp)) => qp.remake(),
                // Until the peer has completed the connection, drivers wait when it is to be ended (iw_cm_disconnect).
                (State::Accepting, Some(qp)) => raw = qp.give_up(),
                (_, Some(qp)) => {
                    if let Some(id) = &id {
                        let _ = id.disconnect();
                    }
                    qp.end(qp::QpPhase::Disconnected);
                }
                (_, None) => {}
            }
            // The identifier ends first.
            Core::bury((id, raw, attempt));
        });
    }
}

/// The field of a message for private data.
fn field(core: &Core, data: &[u8], message: CmMessage) -> Vec<u8> {
    if core.limits.is_iwarp {
        return data.to_vec();
    }
    private_data::with_length(data, message)
}

/// Rejects a peer for which there is no place, or no connector any more.
pub(crate) fn reject(core: &Core, id: &CmId) {
    let field = field(core, &[], CmMessage::Rejection);
    if let Err(error) = id.reject(&field) {
        tracing::debug!(target: crate::log::TARGET, %error, "a peer was gone before it was rejected");
    }
}

/// The private data in the field of a peer's message.
pub(crate) fn received(core: &Core, field: Vec<u8>) -> Vec<u8> {
    if core.limits.is_iwarp {
        return field;
    }
    private_data::cut(field)
}
