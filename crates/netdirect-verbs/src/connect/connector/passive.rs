//! The passive side: a request arrives, Accept, the wait for the peer.

use std::sync::{Arc, Weak};

use netdirect::{ConnectionEnd, ReadLimits, Status};
use netdirect_provider::connector::machine::{Event, State};
use netdirect_provider::connector::{Acceptance, ConnectorRules};

use super::active::parameters;
use super::state::{Connector, ConnectorState, PeerRequest};
use crate::connect::private_data::CmMessage;
use crate::connection_end;
use crate::core::CmOwner;
use crate::driver::Timed;
use crate::handle::{CmEvent, CmEventKind, NotReady, QueuePairHandle};
use crate::qp::{self, Qp};
use crate::sockets;

impl Connector {
    /// A peer's request has arrived.
    pub(super) fn take_request(&self, state: &mut ConnectorState, request: PeerRequest) {
        let this: Weak<dyn CmOwner> = self.rules.this().clone();
        self.core.own_connection(request.key, this);
        state.local = request.id.local();
        state.peer = request.id.peer();
        state.limits = Some(request.limits);
        state.private_data = Some(request.private_data);
        state.line.key = request.key;
        state.line.id = Some(Arc::new(request.id));
    }

    /// Gives the request back to the listener, which owns it again.
    pub(super) fn give_back(state: &mut ConnectorState) -> Option<PeerRequest> {
        let id = Arc::try_unwrap(state.line.id.take()?).ok()?;
        Some(PeerRequest {
            id,
            key: std::mem::take(&mut state.line.key),
            private_data: state.private_data.take().unwrap_or_default(),
            limits: state.limits.take().unwrap_or_default(),
        })
    }

    /// Accepts the peer's request.
    pub(super) fn answer(
        &self,
        state: &mut ConnectorState,
        acceptance: Acceptance<'_, Qp, Arc<QueuePairHandle>>,
    ) {
        let Acceptance {
            qp,
            limits,
            private_data,
            claim: raw,
        } = acceptance;
        // CONN-063
        let offered = state.limits.unwrap_or_default();
        let limits = ReadLimits {
            inbound: limits.inbound.min(offered.inbound),
            outbound: limits.outbound.min(offered.outbound),
        };
        state.limits = Some(limits);
        state.qp = Some(Arc::clone(&qp));
        let asked = ReadLimits {
            inbound: limits
                .inbound
                .max(u32::from(self.core.needs.accepts_a_read)),
            ..limits
        };
        let accepted = match &state.line.id {
            None => Err(NotReady::Gone(std::io::ErrorKind::NotConnected.into())),
            Some(id) => {
                let ready = if self.core.limits.is_iwarp {
                    Ok(())
                } else {
                    id.make_ready(&raw, Some(limits))
                };
                let field = self.field(private_data, CmMessage::Reply);
                let accept = || id.accept(&raw, &parameters(asked, &field));
                ready.and_then(|()| accept().map_err(NotReady::Gone))
            }
        };
        match accepted {
            Ok(()) => {
                self.begin_to_wait(state);
                self.look_for_octets(state, qp, raw, limits);
            }
            Err(error) => {
                let end = connection_end::of_not_ready(&error);
                self.acceptance_failed(state, error.status(), end); // CONN-061
            }
        }
    }

    /// Limits the wait for a peer that never completes the connection (CONN-059, IW-068). On InfiniBand the connection manager has its own
    /// limit.
    fn begin_to_wait(&self, state: &mut ConnectorState) {
        let Some(limit) = self.core.timeouts.ready else {
            return;
        };
        if self.core.limits.is_iwarp {
            let this: Weak<dyn Timed> = self.rules.this().clone();
            state.line.deadline = Some(self.core.driver.remind(limit, state.line.key, this));
        }
    }

    /// Makes the driver read octets that it may have left untouched. It reads octets that arrive from now on by itself. Octets of the peer
    /// also show that the peer knows the answer, and so may be sent something (RFC 5044 §7.1.2).
    fn look_for_octets(
        &self,
        state: &mut ConnectorState,
        qp: Arc<Qp>,
        raw: Arc<QueuePairHandle>,
        limits: ReadLimits,
    ) {
        let (Some(local), Some(peer)) = (state.local, state.peer) else {
            return;
        };
        if !self.core.needs.leaves_first_octets || limits.outbound == 0 {
            return;
        }
        state.done.after(move || {
            if sockets::unread(local, peer).is_some_and(|octets| octets > 0) {
                tracing::debug!(target: crate::log::TARGET, %peer, "the driver is made to read the peer's first octets");
                qp.ask_for_response(&raw);
            }
        });
    }

    /// Handles a connection-manager event of the Accept.
    pub(super) fn on_acceptance_event(&self, state: &mut ConnectorState, event: &CmEvent) {
        match event.kind {
            CmEventKind::Established => {
                if let Some(qp) = state.qp.clone() {
                    qp.open(state.limits.map_or(0, |limits| limits.outbound));
                    state.done.after(move || qp.settle());
                }
                ConnectorRules::happens(self, state, Event::PeerCompletes);
            }
            CmEventKind::Unreachable => self.event_fails(state, Status::IO_TIMEOUT, event), // CONN-059
            CmEventKind::Rejected => self.event_fails(state, Status::CONNECTION_REFUSED, event),
            CmEventKind::Failed | CmEventKind::Disconnected => {
                self.event_fails(state, Status::CONNECTION_ABORTED, event);
            }
            _ => {}
        }
    }

    fn event_fails(&self, state: &mut ConnectorState, status: Status, event: &CmEvent) {
        self.acceptance_failed(state, status, connection_end::of_acceptance(event));
    }

    fn acceptance_failed(&self, state: &mut ConnectorState, status: Status, end: ConnectionEnd) {
        let error = connection_end::error(status, &end);
        Self::ends(state, end);
        self.core.disown_connection(state.line.key);
        let (id, qp) = (state.line.id.take(), state.qp.take());
        state.done.before(move || {
            if let Some(qp) = qp {
                qp.end(qp::QpPhase::Disconnected);
            }
            drop(id);
        });
        ConnectorRules::fails(self, state, Event::AcceptFails, error);
    }
}

impl Timed for Connector {
    fn time_is_up(&self, key: u64) {
        let mut state = self.rules.lock(self);
        if state.line.key == key && state.state() == State::Accepting {
            let end = connection_end::peer_not_ready();
            let error = connection_end::error(Status::IO_TIMEOUT, &end);
            Self::ends(&mut state, end);
            self.abandon(&mut state, State::Accepting);
            ConnectorRules::fails(self, &mut state, Event::AcceptFails, error);
        }
    }
}
