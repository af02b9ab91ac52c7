//! The active side: Connect, the wait for the answer, CompleteConnect.

use std::sync::{Arc, Weak};
use std::thread;

use netdirect::{ConnectionEnd, ReadLimits, Result, Status};
use netdirect_provider::connector::machine::{Event, State};
use netdirect_provider::connector::{Attempt, ConnectorRules};
use rdma_buffer::signals;

use super::state::{AskedPeer, Connector, ConnectorState};
use crate::connect::private_data::CmMessage;
use crate::connection_end::{self, REJECTED_BY_CLIENT};
use crate::core::CmOwner;
use crate::handle::{CmEvent, CmEventKind, ConnectionParameters, NotReady, QueuePairHandle};
use crate::qp::Qp;
use crate::status::connect_status;

/// The time limit for resolving an address or a route, in milliseconds.
const RESOLVE: i32 = 5000;

/// The status for an errno, which may have either sign.
fn status_of_errno(status: i32) -> Status {
    connect_status(status.saturating_abs())
}

impl Connector {
    /// Begins to connect: the address is resolved first.
    pub(super) fn start_attempt(
        &self,
        state: &mut ConnectorState,
        attempt: Attempt<'_, Arc<QueuePairHandle>>,
    ) {
        let destination = attempt.destination;
        state.peer = Some(destination);
        state.line.attempt = Some(Box::new(AskedPeer {
            limits: attempt.limits,
            private_data: attempt.private_data.to_vec(),
            raw: attempt.claim,
        }));
        let Some((id, key)) = state.bound.take() else {
            let end = connection_end::of_device(
                "the connector has no identifier of the connection manager",
            );
            return self.attempt_failed(state, Status::INSUFFICIENT_RESOURCES, end);
        };
        let this: Weak<dyn CmOwner> = self.rules.this().clone();
        self.core.own_connection(key, this);
        state.line.key = key;
        let resolving = id.resolve_address(destination, RESOLVE);
        state.line.id = Some(Arc::new(id));
        if let Err(error) = resolving {
            self.call_failed(state, error.raw_os_error().unwrap_or_default());
        }
    }

    /// Handles a connection-manager event of the attempt.
    pub(super) fn on_attempt_event(&self, state: &mut ConnectorState, event: CmEvent) {
        let end = |event: &CmEvent| connection_end::of_attempt(event, self.core.limits.is_iwarp);
        match event.kind {
            CmEventKind::AddressResolved => {
                let resolving = state.line.id.as_ref().map(|id| id.resolve_route(RESOLVE));
                if let Some(Err(error)) = resolving {
                    self.call_failed(state, error.raw_os_error().unwrap_or_default());
                }
            }
            CmEventKind::RouteResolved => self.start_connecting(state),
            CmEventKind::Established | CmEventKind::Response => self.answered(state, event),
            CmEventKind::Rejected => {
                let end = end(&event);
                // The connection manager itself rejects peers as well, without private data.
                let by_client = self.core.limits.is_iwarp || event.status == REJECTED_BY_CLIENT;
                let field = by_client.then(|| self.received(event.private_data));
                state.private_data = Some(field.unwrap_or_default()); // CONN-089
                self.attempt_failed(state, Status::CONNECTION_REFUSED, end);
            }
            CmEventKind::Unresolved => {
                let status = match event.status.saturating_abs() {
                    // The network does not know this neighbour.
                    libc::ETIMEDOUT => Status::HOST_UNREACHABLE,
                    errno => connect_status(errno),
                };
                self.attempt_failed(state, status, end(&event));
            }
            CmEventKind::Unreachable => {
                self.attempt_failed(state, Status::IO_TIMEOUT, end(&event)); // CONN-024
            }
            CmEventKind::Failed | CmEventKind::Disconnected => {
                self.attempt_failed(state, Status::CONNECTION_REFUSED, end(&event)); // CONN-023
            }
            CmEventKind::Request(_) | CmEventKind::DeviceRemoved | CmEventKind::Other => {}
        }
    }

    /// Asks the peer, in a separate thread, because the driver may wait for the peer's host.
    fn start_connecting(&self, state: &mut ConnectorState) {
        let (Some(attempt), Some(id)) = (&state.line.attempt, &state.line.id) else {
            return;
        };
        let (id, key, connector) = (Arc::clone(id), state.line.key, self.rules.this().clone());
        let raw = Arc::clone(&attempt.raw);
        let limits = attempt.limits;
        let private_data = self.field(&attempt.private_data, CmMessage::Request);
        let work = move || {
            let parameters = parameters(limits, &private_data);
            let asked = id.connect(&raw, &parameters);
            // If the attempt was given up, they end here.
            drop(id);
            drop(raw);
            if let (Err(error), Some(connector)) = (asked, connector.upgrade()) {
                connector.refused_at_once(key, error.raw_os_error().unwrap_or_default());
            }
        };
        let thread = thread::Builder::new().name("netdirect-verbs connect".to_owned());
        if let Err(error) = signals::blocked(|| thread.spawn(work)) {
            tracing::warn!(target: crate::log::TARGET, %error, "cannot start a thread for Connect");
            let end =
                connection_end::of_device(format!("cannot start a thread for Connect: {error}"));
            self.attempt_failed(state, Status::INSUFFICIENT_RESOURCES, end);
        }
    }

    /// The call that asks the peer has failed, and no event follows.
    fn refused_at_once(&self, key: u64, errno: i32) {
        let mut state = self.rules.lock(self);
        if state.line.key == key && state.state() == State::Connecting {
            self.call_failed(&mut state, errno);
        }
    }

    /// A call of the connection manager has failed.
    fn call_failed(&self, state: &mut ConnectorState, errno: i32) {
        self.attempt_failed(
            state,
            status_of_errno(errno),
            connection_end::of_errno(errno),
        );
    }

    /// The peer has accepted.
    fn answered(&self, state: &mut ConnectorState, event: CmEvent) {
        let Some(attempt) = state.line.attempt.take() else {
            return;
        };
        let is_established = matches!(event.kind, CmEventKind::Established);
        let (inbound, outbound) = if self.core.needs.swaps_limits_when_established && is_established
        {
            (event.initiator_depth, event.responder_resources)
        } else {
            (event.responder_resources, event.initiator_depth)
        };
        state.limits = Some(ReadLimits {
            inbound: attempt.limits.inbound.min(inbound.into()),
            outbound: attempt.limits.outbound.min(outbound.into()),
        });
        state.private_data = Some(self.received(event.private_data));
        if let Some(id) = &state.line.id {
            state.local = id.local().or(state.local);
            state.peer = id.peer().or(state.peer);
        }
        ConnectorRules::happens(self, state, Event::PeerAccepts);
    }

    /// The attempt has failed, and another one may follow (CONN-033). Its resources are released before the request ends, so that the next
    /// attempt finds the port free.
    fn attempt_failed(&self, state: &mut ConnectorState, status: Status, end: ConnectionEnd) {
        tracing::info!(target: crate::log::TARGET, failure = %end, "no connection");
        let error = connection_end::error(status, &end);
        state.end = Some(end);
        let attempt = state.line.attempt.take();
        self.core.disown_connection(state.line.key);
        let (id, qp) = (state.line.id.take(), state.qp.take());
        state.done.before(move || {
            drop(attempt);
            drop(id);
            if let Some(qp) = qp {
                qp.remake();
            }
        });
        ConnectorRules::fails(self, state, Event::AttemptFails, error);
    }

    /// Completes a connection, which may be over already.
    pub(super) fn complete(&self, state: &mut ConnectorState) -> Result<()> {
        let Some(qp) = state.qp.clone() else {
            return Err(Status::CANCELED.into());
        };
        if !self.core.limits.is_iwarp
            && let Err(error) = self.establish(state, &qp)
        {
            let (status, end) = (error.status(), connection_end::of_not_ready(&error));
            let why = connection_end::error(status, &end);
            Self::ends(state, end);
            if let NotReady::Refused(_) = error {
                self.abandon(state, State::Answered); // CONN-047
                return Err(why);
            }
            state.ended = true;
        }
        qp.open(state.limits.map_or(0, |limits| limits.outbound));
        state.done.after(move || qp.settle());
        if state.ended {
            Self::end_queue_pair(state);
        }
        Ok(())
    }

    /// The third step of a connection, which iWARP does not have.
    fn establish(&self, state: &ConnectorState, qp: &Qp) -> Result<(), NotReady> {
        if let (Some(id), Some(raw)) = (&state.line.id, qp.raw()) {
            // The limits are those of the peer's reply, which the connection manager knows.
            id.make_ready(&raw, None)?;
            id.establish().map_err(NotReady::Gone)?;
        }
        Ok(())
    }
}

/// The parameters for the peer. The adapter's limits are such that both numbers fit.
pub(super) fn parameters(limits: ReadLimits, private_data: &[u8]) -> ConnectionParameters<'_> {
    ConnectionParameters {
        private_data,
        inbound_reads: u8::try_from(limits.inbound).unwrap_or(u8::MAX),
        outbound_reads: u8::try_from(limits.outbound).unwrap_or(u8::MAX),
    }
}
