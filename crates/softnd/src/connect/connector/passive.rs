//! The passive side: a request arrives, Accept, the wait for the peer's ready-to-receive message.

use netdirect::{Error, ReadLimits, Status};
use netdirect_provider::connector::machine::Event;
use netdirect_provider::connector::{self, ConnectorRules};
use tracing::Span;

use super::state::{Connector, ConnectorState, Setup};
use crate::connection_end;
use crate::qp::{Drivers, Qp, Signals, Start};
use iwarp_io::endpoint::ConnectionEnd;
use iwarp_io::log::targets;
use iwarp_io::setup::{
    Acceptance, ConnectionRequest, PassiveOutcome, PassiveSide, ReadyKinds, ResponderFailure, Role,
    StreamEnd,
};

impl Connector {
    /// A peer's request has arrived. Returns false if the peer has disconnected.
    pub(super) fn take_request(
        &self,
        state: &mut ConnectorState,
        request: ConnectionRequest,
    ) -> bool {
        state.local = Some(request.local());
        state.peer = Some(request.peer());
        // The peer's limits, seen from this side and cut to both adapters (IW-009).
        let limits = request.offered();
        state.limits = Some(ReadLimits {
            inbound: limits.ird,
            outbound: limits.ord,
        });
        state.private_data = Some(request.private_data().to_vec());
        // Watched for the peer's end while the client decides.
        let owner = self.rules.this().clone();
        let Some(passive) = PassiveSide::watch(request, &self.core.driver, owner) else {
            return false;
        };
        state.line.setup = Setup::Offered(Box::new(passive));
        true
    }

    /// Notices a peer that has given up.
    pub(super) fn look_for_peers_end(&self, state: &mut ConnectorState) {
        if let Setup::Offered(passive) = &mut state.line.setup
            && passive.has_ended()
        {
            ConnectorRules::happens(self, state, Event::PeerLeaves);
        }
    }

    /// Accepts the peer's request.
    pub(super) fn reply(
        &self,
        state: &mut ConnectorState,
        acceptance: connector::Acceptance<'_, Qp, ()>,
    ) {
        let connector::Acceptance {
            qp,
            limits,
            private_data,
            claim: (),
        } = acceptance;
        let gone = Error::new(Status::CONNECTION_ABORTED, "the peer has given up");
        let Setup::Offered(mut passive) = std::mem::take(&mut state.line.setup) else {
            return ConnectorRules::fails(self, state, Event::AcceptFails, gone);
        };
        let options = &self.core.options;
        let peer = state.peer.map(|peer| options.for_peer(peer.ip()));
        let accepted = passive.accept(Acceptance {
            crc: options.asks_for_crcs(),
            markers: peer.is_some_and(|peer| peer.markers),
            ready: ReadyKinds::UNSEEN, // IW-003
            // The set-up cuts them to the peer's offer (IW-010, CONN-063).
            limits: iwarp_io::setup::ReadLimits {
                ird: limits.inbound,
                ord: limits.outbound,
            },
            private_data: private_data.to_vec(),
        });
        let span = accepted
            .as_ref()
            .map_or_else(Span::none, |(stream, ..)| stream.span().clone());
        let Some((stream, agreed, sent)) = accepted else {
            state.done.after(qp.disconnect().1); // CONN-061
            return ConnectorRules::fails(self, state, Event::AcceptFails, gone);
        };
        state.line.setup = Setup::Accepting(passive);
        // If no ready-to-receive message was agreed on, Accept ends when the Reply has been sent (IW-005).
        let open = agreed.ready.is_none();
        let start = if open { Start::Open } else { Start::Awaited };
        if sent.is_err() {
            state.done.after(qp.disconnect().1); // CONN-061
        }
        let started =
            sent.and_then(|()| self.start(state, &qp, stream, Role::Responder, &agreed, start));
        if let Err(error) = started {
            tracing::debug!(target: targets::CONNECT, parent: &span, %error, "the peer was gone at Accept");
            let what = format!("the peer was gone at Accept: {error}");
            let gone = Error::new(Status::CONNECTION_ABORTED, what);
            return ConnectorRules::fails(self, state, Event::AcceptFails, gone);
        }
        state.qp = Some(qp);
        if open {
            ConnectorRules::happens(self, state, Event::PeerCompletes);
        }
    }

    /// Takes up signals of the queue pair while Accept waits for the ready-to-receive message (AMB-004).
    pub(super) fn accepting(&self, state: &mut ConnectorState, signals: Signals) {
        if let Setup::Accepting(passive) = &mut state.line.setup {
            let outcome = passive.signalled(signals);
            self.passive_side_came_to(state, outcome);
        }
    }

    /// Ends Accept with the outcome of the wait for the ready-to-receive message.
    pub(super) fn passive_side_came_to(
        &self,
        state: &mut ConnectorState,
        outcome: Option<PassiveOutcome>,
    ) {
        let failure = match outcome {
            None => return,
            Some(PassiveOutcome::Connected) => {
                if let Some(qp) = &state.qp {
                    state.done.after(qp.drive_from(Drivers::Queues));
                }
                return ConnectorRules::happens(self, state, Event::PeerCompletes);
            }
            Some(PassiveOutcome::Failed(failure)) => failure,
        };
        state.end = Some(connection_end::of_accept(&failure));
        let qp = state.qp.take();
        let what = failure.to_string();
        let (status, deferred) = match failure {
            ResponderFailure::TimedOut => {
                let deferred = qp.map(|qp| qp.abort(ConnectionEnd::NotReady));
                (Status::IO_TIMEOUT, deferred) // CONN-059
            }
            ResponderFailure::Ended(StreamEnd::Fin) => {
                (Status::CONNECTION_REFUSED, qp.map(|qp| qp.disconnect().1))
            }
            _ => (Status::CONNECTION_ABORTED, qp.map(|qp| qp.disconnect().1)),
        };
        if let Some(deferred) = deferred {
            state.done.after(deferred);
        }
        let error = Error::new(status, what);
        ConnectorRules::fails(self, state, Event::AcceptFails, error);
    }
}
