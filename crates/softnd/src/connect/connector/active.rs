//! The active side: Connect, the wait for the Reply, CompleteConnect.

use std::io;
use std::sync::Arc;

use iwarp_io::faults::FaultOwner;
use iwarp_io::log::targets;
use iwarp_io::setup::{
    ActiveConfig, ActiveOutcome, ActiveSide, Agreed, Agreement, ConnectFailure, InitiatorConfig,
    InitiatorFailure, Offer, ReadyKinds, Role,
};
use iwarp_io::transport::stream::Stream;
use netdirect::{Error, ReadLimits, Status};
use netdirect_provider::checks::addresses;
use netdirect_provider::connector::machine::Event;
use netdirect_provider::connector::{Attempt, ConnectorRules};

use super::state::{Connector, ConnectorState, Setup};
use crate::connection_end;
use crate::core::UNSTATED_READ_LIMIT;
use crate::device::Device;
use crate::leniency::LenientCase;
use crate::options::Profile;
use crate::qp::{Claim, Start};
use crate::status::{bind_error, connect_error};

impl Connector {
    /// Begins to connect.
    pub(super) fn start_attempt(&self, state: &mut ConnectorState, attempt: &Attempt<'_, ()>) {
        let Some(local) = state.local else {
            return self.attempt_failed(state, Status::CONNECTION_INVALID);
        };
        let device: Arc<Device> = Arc::clone(&self.core.device);
        let config = ActiveConfig {
            destination: attempt.destination,
            bound: state.bound.take(),
            local,
            any_port: state.picked,
            ports: None,
            connect_within: self.core.options.timeouts.connect,
            retries: 0, // CONN-023: a refusal is reported
            initiator: self.initiator_config(attempt),
            faults: device.faults().cloned(),
            fault_owner: device as Arc<dyn FaultOwner>,
        };
        let owner = self.rules.this().clone();
        let (active, outcome) = ActiveSide::start(config, &self.core.driver, owner);
        state.line.setup = Setup::Connecting(Box::new(active));
        state.line.transport = None;
        self.active_side_came_to(state, outcome);
    }

    /// The configuration of the Initiator, with the contents of the Request.
    fn initiator_config(&self, attempt: &Attempt<'_, ()>) -> InitiatorConfig {
        let limits = attempt.limits;
        let most = self.core.read_limits();
        let options = &self.core.options;
        let peer = options.for_peer(attempt.destination.ip());
        let offer = Offer {
            revision: 2, // because only its Request carries read limits (MPA2-008)
            peer_to_peer: peer.peer_to_peer,
            ready: ReadyKinds::UNSEEN, // IW-003
            crc: options.asks_for_crcs(),
            markers: peer.markers,
            // Limits above the adapter's are cut to them, without an error (CONN-027).
            limits: iwarp_io::setup::ReadLimits {
                ird: limits.inbound.min(most.ird),
                ord: limits.outbound.min(most.ord),
            },
            private_data: attempt.private_data.to_vec(),
        };
        InitiatorConfig {
            offer,
            spares_crc: options.spares_crcs(),
            most,
            unstated: UNSTATED_READ_LIMIT,
            // A Reply with another A is accepted by default, because the first message that softnd sends is legal without an agreement too
            // (MPA2-022).
            strict_peer_to_peer: options.profile == Profile::Strict,
            revision_1_fallback: peer.revision_1_fallback,
            reply_within: options.timeouts.reply,
            reply_frame_within: options.timeouts.reply_frame,
            hold_ready: peer.hold_ready,
        }
    }

    /// Handles an outcome of the active side.
    pub(super) fn active_side_came_to(
        &self,
        state: &mut ConnectorState,
        outcome: Option<ActiveOutcome>,
    ) {
        match outcome {
            None => {}
            Some(ActiveOutcome::Connected { local, peer }) => {
                (state.local, state.peer) = (Some(local), Some(peer));
            }
            Some(ActiveOutcome::Agreed(agreement)) => self.agreed(state, *agreement),
            Some(ActiveOutcome::SendReady) => self.send_ready_early(state),
            Some(ActiveOutcome::Failed(failure)) => {
                state.end = Some(connection_end::of_attempt(&failure));
                let error = match failure {
                    ConnectFailure::NoLocalAddress(error) => {
                        addresses::taken_at_connect(bind_error(&error))
                    }
                    ConnectFailure::Dialing(error) | ConnectFailure::RefusedHere(error) => {
                        connect_error(&error)
                    }
                    ConnectFailure::RefusedByPlan => {
                        Error::new(Status::CONNECTION_REFUSED, failure.to_string())
                    }
                    ConnectFailure::NotInTime(_) => {
                        Error::new(Status::IO_TIMEOUT, failure.to_string())
                    }
                    ConnectFailure::Exchange(failure) => exchange_error(state, failure),
                };
                self.attempt_failed(state, error);
            }
        }
    }

    /// The peer has accepted. The queue pair gets the stream when the client completes the connection.
    fn agreed(&self, state: &mut ConnectorState, agreement: Agreement) {
        let Setup::Connecting(active) = std::mem::take(&mut state.line.setup) else {
            return;
        };
        if agreement.changes_peer_to_peer {
            self.core
                .leniency
                .count(LenientCase::NoReadyMessage, active.span());
        }
        state.private_data = Some(agreement.private_data);
        // If the Reply states no limits they are UNSTATED_READ_LIMIT (IW-069).
        state.limits = Some(ReadLimits {
            inbound: agreement.limits.ird,
            outbound: agreement.limits.ord,
        });
        state.line.setup = Setup::Answered(active);
        ConnectorRules::happens(self, state, Event::PeerAccepts);
    }

    /// The Connect has failed. The client may call Connect again (CONN-021 to CONN-024).
    fn attempt_failed(&self, state: &mut ConnectorState, end: impl Into<Error>) {
        if let Setup::Connecting(active) = std::mem::take(&mut state.line.setup) {
            state.bound = active.reset();
        }
        if let Some(qp) = state.qp.take() {
            qp.unclaim();
        }
        ConnectorRules::fails(self, state, Event::AttemptFails, end);
    }

    /// Completes the connection. The peer may have disconnected meanwhile (CONN-042).
    pub(super) fn complete(&self, state: &mut ConnectorState) {
        let Setup::Answered(mut active) = std::mem::take(&mut state.line.setup) else {
            return;
        };
        let span = active.span().clone();
        let started = match active.complete() {
            Some((stream, agreed)) => self.start_initiator(state, stream, &agreed, Start::Open),
            None => {
                if let Some(qp) = state.qp.clone() {
                    state.done.after(qp.open());
                }
                Ok(())
            }
        };
        if let Err(error) = started {
            tracing::debug!(target: targets::CONNECT, parent: &span, %error, "the peer was gone at CompleteConnect");
            self.ended_at_start(state);
        }
    }

    /// The client has not completed its Connect for some time. The ready-to-receive message is sent without it, because some peers give up
    /// without this message (IW-067).
    fn send_ready_early(&self, state: &mut ConnectorState) {
        let Setup::Answered(active) = &mut state.line.setup else {
            return;
        };
        let span = active.span().clone();
        if let Some((stream, agreed)) = active.take_stream()
            && let Err(error) = self.start_initiator(state, stream, &agreed, Start::Held)
        {
            tracing::debug!(target: targets::CONNECT, parent: &span, %error, "the peer was gone before CompleteConnect");
            self.ended_at_start(state);
        }
    }

    /// The stream could not be started, perhaps because the queue pair was dead already, which then signals nothing.
    fn ended_at_start(&self, state: &mut ConnectorState) {
        state.ended = true;
        self.show_flushed(state);
    }

    /// Gives the stream to the queue pair, which sends the ready-to-receive message.
    fn start_initiator(
        &self,
        state: &mut ConnectorState,
        stream: Stream,
        agreed: &Agreed,
        start: Start,
    ) -> io::Result<()> {
        let qp = state.qp.clone().ok_or(io::ErrorKind::NotConnected)?;
        self.start(state, &qp, stream, Role::Initiator, agreed, start)
    }
}

/// The error of a Connect whose exchange of start-up frames has failed.
fn exchange_error(state: &mut ConnectorState, failure: InitiatorFailure) -> Error {
    let what = failure.to_string();
    let status = match failure {
        InitiatorFailure::TimedOut => Status::IO_TIMEOUT, // CONN-024
        InitiatorFailure::Rejected { private_data } => {
            state.private_data = Some(private_data); // CONN-089
            Status::CONNECTION_REFUSED
        }
        InitiatorFailure::Malformed(_) // CONN-023
        | InitiatorFailure::Unacceptable { .. }
        | InitiatorFailure::Ended(_) => Status::CONNECTION_REFUSED,
    };
    Error::new(status, what)
}
