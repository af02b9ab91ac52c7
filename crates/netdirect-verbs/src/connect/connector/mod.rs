//! The line below the connectors: identifiers of the connection manager, whose events report changes of peers.

mod active;
mod passive;
mod removal;
mod state;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use netdirect::{ConnectionEnd, Error, QueuePair, ReadLimits, Result, Status};
use netdirect_provider::checks::own;
use netdirect_provider::connector::machine::{Event, State};
use netdirect_provider::connector::{Acceptance, Attempt, Binding, ConnectorLine, ConnectorRules};
use netdirect_provider::requests::Work;

use super::private_data::CmMessage;
use crate::connection_end::{of_peer, of_this_side};
use crate::core::{CmOwner, Core};
use crate::handle::{CmEvent, CmId, QueuePairHandle};
use crate::qp::{self, ConnectionOwner, Qp, QpHandle};
use crate::status::fail;

pub(crate) use state::{Connector, PeerRequest, received, reject};
use state::{ConnectorState, LineState};

impl ConnectorLine for Connector {
    type Adapter = Core;
    type QueuePair = Qp;
    type Claim = Arc<QueuePairHandle>;
    /// An identifier for the next Connect, with its key.
    type Bound = (CmId, u64);
    type PeerRequest = PeerRequest;
    type State = LineState;
    type Action = Work;

    fn new(rules: ConnectorRules<Self>) -> Self {
        Self {
            core: Arc::clone(rules.adapter()),
            rules,
        }
    }

    fn rules(&self) -> &ConnectorRules<Self> {
        &self.rules
    }

    fn asked_limits(&self, inbound: u32, outbound: u32) -> ReadLimits {
        ReadLimits {
            inbound: inbound.min(self.core.limits.inbound_reads),
            outbound: outbound.min(self.core.limits.outbound_reads),
        }
    }

    fn caller_data(&self, _: IpAddr) -> u32 {
        self.core.limits.caller_data
    }

    fn callee_data(&self, _: Option<IpAddr>) -> u32 {
        self.core.limits.callee_data
    }

    fn queue_pair(&self, qp: &Arc<dyn QueuePair>) -> Result<Arc<Qp>> {
        let qp = own::queue_pair::<QpHandle>(qp, &self.core)?;
        Ok(Arc::clone(&qp.line().0))
    }

    fn claim(&self, qp: &Arc<Qp>) -> Result<Arc<QueuePairHandle>> {
        match self.rules.this().upgrade() {
            Some(this) => qp.claim(this),
            None => fail(Status::INVALID_DEVICE_STATE, "the connector was released"),
        }
    }

    fn unclaim(&self, qp: &Qp) {
        qp.unclaim();
    }

    fn bind(&self, address: SocketAddr) -> Result<Binding<Self::Bound>> {
        let (id, key, local) = self.core.bind(address)?;
        Ok(Binding {
            bound: (id, key),
            local,
        })
    }

    fn connect(&self, state: &mut ConnectorState, attempt: Attempt<'_, Self::Claim>) {
        self.start_attempt(state, attempt);
    }

    fn complete_connect(&self, state: &mut ConnectorState) -> Result<(), Error> {
        self.complete(state)
    }

    fn offer(&self, state: &mut ConnectorState, request: PeerRequest) -> bool {
        self.take_request(state, request);
        true
    }

    fn take_back(&self, state: &mut ConnectorState) -> Option<PeerRequest> {
        Self::give_back(state)
    }

    fn accept(&self, state: &mut ConnectorState, acceptance: Acceptance<'_, Qp, Self::Claim>) {
        self.answer(state, acceptance);
    }

    fn refuse_request(&self, state: &mut ConnectorState, private_data: &[u8]) -> Result<()> {
        let field = self.field(private_data, CmMessage::Rejection);
        let id = state.line.id.take();
        let rejected = id.as_ref().map(|id| id.reject(&field));
        state.done.after(move || drop(id));
        if let Some(Err(error)) = rejected {
            tracing::debug!(target: crate::log::TARGET, %error, "the peer was gone at Reject");
            return fail(Status::CONNECTION_ABORTED, "the peer has given up"); // CONN-071
        }
        Ok(())
    }

    fn drop_request(&self, state: &mut ConnectorState) {
        let id = state.line.id.take();
        state.done.after(move || drop(id));
    }

    fn give_up(&self, state: &mut ConnectorState, from: State) {
        let end = of_this_side("this side gave the attempt up");
        match from {
            // The queue pair may be connected by another attempt.
            State::Connecting => state.end = Some(end),
            _ => Self::ends(state, end),
        }
        self.abandon(state, from);
    }

    /// The connection is established for the device, so the peer sees its end.
    fn reject_answer(&self, state: &mut ConnectorState) {
        Self::ends(state, of_this_side("this side rejected the peer's answer"));
        self.abandon(state, State::Answered);
    }

    fn disconnect(&self, state: &mut ConnectorState) -> bool {
        Self::ends(state, of_this_side("this side disconnected"));
        if let Some(qp) = &state.qp {
            qp.begin_end(qp::QpPhase::Disconnected);
        }
        let disconnected = state.line.id.as_ref().map(|id| id.disconnect());
        state.ended || !matches!(disconnected, Some(Ok(())))
    }

    /// Results of requests that were cancelled are in their queue when Disconnect has ended.
    fn finish_disconnect(&self, state: &mut ConnectorState) {
        let (notifications, requests) = state.take_disconnect();
        let qp = state.qp.take();
        state.ended = true;
        state.done.before(move || {
            for request in notifications {
                request.complete(Status::SUCCESS);
            }
            let disconnected = move || {
                for request in requests {
                    request.complete(Status::SUCCESS);
                }
            };
            match qp {
                Some(qp) => qp.end_then(qp::QpPhase::Disconnected, disconnected),
                None => disconnected(),
            }
        });
    }

    fn peer_has_left(&self, state: &mut ConnectorState, from: State) {
        self.disconnect_peer(state);
        if from == State::Connected {
            Self::end_queue_pair(state);
        }
    }

    fn end_flushed(&self, state: &mut ConnectorState) {
        Self::ends(
            state,
            of_this_side("this side disconnected: it flushed the queue pair"),
        );
        Self::begin_end(state, qp::QpPhase::Ended);
    }

    fn end_released(&self, state: &mut ConnectorState) {
        Self::ends(
            state,
            of_this_side("this side disconnected: it released the queue pair"),
        );
        Self::begin_end(state, qp::QpPhase::Disconnected);
        state.qp = None;
    }

    fn leave_disconnect(&self, state: &mut ConnectorState) {
        state.ended = true;
        if let Some(qp) = state.qp.take() {
            state.done.before(move || qp.end(qp::QpPhase::Disconnected));
        }
    }

    fn forget_all(&self, state: &mut ConnectorState, from: State) {
        self.forget(state, from);
    }

    fn connection_end(&self, state: &ConnectorState) -> Option<ConnectionEnd> {
        let of_qp = || state.qp.as_ref()?.connection_end();
        state.end.clone().or_else(of_qp)
    }

    fn entered(&self, state: &mut ConnectorState) {
        if let Some(deadline) = state.line.deadline.take() {
            self.core.driver.forget(deadline);
        }
    }
}

impl CmOwner for Connector {
    fn on_cm_event(&self, event: CmEvent) {
        if event.kind.has_lost_peer() && !self.core.needs.fails_vaguely {
            // A request that has failed says more about the end than the event.
            let qp = self.rules.lock(self).qp.clone();
            if let Some(qp) = qp {
                qp.poll();
            }
        }
        let mut state = self.rules.lock(self);
        if event.key != state.line.key {
            return; // of an attempt that was given up
        }
        match state.state() {
            State::Connecting => self.on_attempt_event(&mut state, event),
            State::Accepting => self.on_acceptance_event(&mut state, &event),
            _ if event.kind.has_lost_peer() => {
                if let State::Answered | State::Connected = state.state() {
                    Self::ends(&mut state, of_peer(&event, self.core.limits.is_iwarp));
                }
                ConnectorRules::happens(self, &mut state, Event::ConnectionEnds);
            }
            _ => {}
        }
    }
}

impl ConnectionOwner for Connector {
    /// NotifyDisconnect ends before the flushed requests can be seen. The event of the connection manager follows.
    fn connection_ended(&self) {
        let mut state = self.rules.lock(self);
        ConnectorRules::happens(self, &mut state, Event::RequestsFail);
        if state.state() == State::Connected {
            self.disconnect_peer(&state);
        }
    }
}
