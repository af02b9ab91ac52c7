//! The active side: Connect, the wait for the Reply, CompleteConnect.

use std::io;
use std::net::SocketAddr;

use iwarp_io::faults::Verdict;
use iwarp_io::progress::Edges;
use iwarp_io::setup::{
    Agreed, Agreement, Initiator, InitiatorConfig, InitiatorFailure, InitiatorOutcome, MpaStartup,
    Offer, ReadyKinds, Role,
};
use iwarp_io::transport::Dialer;
use iwarp_io::transport::stream::Stream;
use netdirect::{Error, ReadLimits, Status};
use netdirect_provider::checks::addresses;
use netdirect_provider::connector::machine::Event;
use netdirect_provider::connector::{Attempt, ConnectorRules};

use super::state::{Answered, Connector, ConnectorState, Dial, DialedAttempt, Setup};
use crate::core::UNSTATED_READ_LIMIT;
use crate::leniency::LenientCase;
use crate::options::Profile;
use crate::qp::{Claim, Start};
use crate::status::{connect_error, is_taken};

/// The most ports that are tried if the client has chosen none and the first ones are taken.
const PORTS: u32 = 256;

impl Connector {
    /// Begins to connect.
    pub(super) fn start_attempt(&self, state: &mut ConnectorState, attempt: &Attempt<'_, ()>) {
        let destination = attempt.destination;
        let initiator = Initiator::new(self.initiator_config(attempt));
        let startup = MpaStartup::new(initiator, &self.core.driver, self.rules.this().clone());
        state.line.setup = Setup::Connecting(Box::new(DialedAttempt {
            destination,
            dial: Dial::Idle,
            startup,
        }));
        self.dial(state);
    }

    /// The configuration of the Initiator, with the contents of the Request.
    fn initiator_config(&self, attempt: &Attempt<'_, ()>) -> InitiatorConfig {
        let destination = attempt.destination;
        let limits = attempt.limits;
        let most = self.core.read_limits();
        let options = &self.core.options;
        let peer = options.for_peer(destination.ip());
        // Revision 2, because only its Request carries read limits (MPA2-008).
        let is_old = self.core.speaks_revision_1_only(destination.ip());
        let offer = Offer {
            revision: if is_old { 1 } else { 2 },
            peer_to_peer: peer.peer_to_peer,
            ready: ReadyKinds::UNSEEN, // IW-003
            crc: options.crc,
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

    fn dial(&self, state: &mut ConnectorState) {
        let Setup::Connecting(attempt) = &mut state.line.setup else {
            return;
        };
        let faults = self.core.device.faults();
        match faults.and_then(|faults| faults.connect(attempt.destination)) {
            None => self.dial_now(state),
            Some(verdict) => self.connect_with_fault(state, &verdict),
        }
    }

    #[cold]
    fn connect_with_fault(&self, state: &mut ConnectorState, verdict: &Verdict) {
        let Setup::Connecting(attempt) = &mut state.line.setup else {
            return;
        };
        let time = match verdict {
            Verdict::Refuse => {
                let what = "a fault plan refuses the connection";
                return self.attempt_failed(state, Error::new(Status::CONNECTION_REFUSED, what));
            }
            Verdict::Hold(time) => *time,
            Verdict::Effect(_) => {
                self.core.device.remove_by_plan();
                None
            }
        };
        let limit = self.core.options.timeouts.connect;
        let opens = time.is_some_and(|time| limit.is_none_or(|limit| time < limit));
        attempt.dial = Dial::Held { opens };
        self.set_dial_timer(state, if opens { time } else { limit });
    }

    /// The time for the transport to connect is over, or the time for which a fault plan has held it back.
    pub(super) fn dial_expired(&self, state: &mut ConnectorState) {
        match &state.line.setup {
            Setup::Connecting(attempt) if matches!(attempt.dial, Dial::Held { opens: true }) => {
                self.dial_now(state);
            }
            Setup::Connecting(attempt) => {
                let what = format!("no connection with {} in time", attempt.destination);
                self.attempt_failed(state, Error::new(Status::IO_TIMEOUT, what));
            }
            _ => {}
        }
    }

    fn dial_now(&self, state: &mut ConnectorState) {
        let dialing = self.dialer(state).and_then(|dialer| {
            let edges = Edges::READ | Edges::WRITE;
            let control = &self.core.driver.control;
            let token = control.add(&dialer, self.rules.this().clone(), edges)?;
            Ok(Dial::UnderWay { dialer, token })
        });
        match (dialing, &mut state.line.setup) {
            (Ok(dial), Setup::Connecting(attempt)) => {
                attempt.dial = dial;
                self.set_dial_timer(state, self.core.options.timeouts.connect);
            }
            (Ok(_), _) => {}
            (Err(error), _) => self.attempt_failed(state, connect_error(&error)),
        }
    }

    /// Begins to connect from the reserved address. A connection from that port to the same peer may have ended a moment ago (TIME-WAIT).
    /// If the client has not chosen the port, another port is tried then.
    fn dialer(&self, state: &mut ConnectorState) -> io::Result<Dialer> {
        let Setup::Connecting(attempt) = &state.line.setup else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let destination = attempt.destination;
        let mut left = PORTS;
        loop {
            let bound = state.bound.take().ok_or(io::ErrorKind::NotConnected)?;
            match (bound.connect(destination), state.local) {
                (Err(error), Some(local)) if state.picked && left > 0 && is_taken(&error) => {
                    left -= 1;
                    let another = self.binding(SocketAddr::new(local.ip(), 0));
                    state.take_binding(another.map_err(|_| error)?, true);
                }
                (dialer, _) => return dialer,
            }
        }
    }

    /// Continues a Connect after the transport has reported `edges`.
    pub(super) fn advance(&self, state: &mut ConnectorState, edges: Edges) {
        let Setup::Connecting(attempt) = &mut state.line.setup else {
            return;
        };
        match &mut attempt.dial {
            Dial::Held { .. } => {}
            Dial::UnderWay { dialer, .. } => match dialer.is_connected(edges) {
                Ok(true) => self.send_request(state),
                Ok(false) => {}
                Err(error) => self.attempt_failed(state, connect_error(&error)),
            },
            Dial::Idle => {
                let outcome = attempt.startup.ready();
                self.initiator_told(state, outcome);
            }
        }
    }

    /// The transport has connected: sends the Request.
    fn send_request(&self, state: &mut ConnectorState) {
        self.clear_dial_timer(state);
        let Setup::Connecting(attempt) = &mut state.line.setup else {
            return;
        };
        let Dial::UnderWay { dialer, token } = std::mem::replace(&mut attempt.dial, Dial::Idle)
        else {
            return;
        };
        let sent = dialer.into_wire().and_then(|wire| {
            let stream = self.core.stream(wire, Role::Initiator);
            (state.peer, state.local) = (Some(stream.peer()), Some(stream.local()));
            attempt.startup.send_request(stream, token)
        });
        if let Err(error) = sent {
            self.attempt_failed(state, connect_error(&error));
        }
    }

    /// Handles the outcome of the set-up.
    pub(super) fn initiator_told(
        &self,
        state: &mut ConnectorState,
        outcome: Option<InitiatorOutcome>,
    ) {
        match outcome {
            None => {}
            Some(InitiatorOutcome::Agreed(agreement)) => self.agreed(state, *agreement),
            Some(InitiatorOutcome::SendReady) => self.send_ready_early(state),
            Some(InitiatorOutcome::FallBack) => self.dial_again(state),
            Some(InitiatorOutcome::Failed(failure)) => {
                if let Setup::Connecting(attempt) = &mut state.line.setup
                    && let Some(error) = attempt.startup.take_refusal()
                {
                    return self.attempt_failed(state, connect_error(&error));
                }
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
                self.attempt_failed(state, Error::new(status, what));
            }
        }
    }

    /// The next attempt asks for revision 1.
    fn dial_again(&self, state: &mut ConnectorState) {
        let Some(mut local) = state.local else {
            return self.attempt_failed(state, Status::CONNECTION_REFUSED);
        };
        if state.picked {
            local.set_port(0); // The port of the first attempt may still be taken.
        }
        match self.binding(local) {
            Ok(binding) => {
                state.take_binding(binding, local.port() == 0);
                self.dial(state);
            }
            Err(error) => self.attempt_failed(state, addresses::taken_at_connect(error)),
        }
    }

    /// The peer has accepted. The queue pair gets the stream when the client completes the connection.
    fn agreed(&self, state: &mut ConnectorState, agreement: Agreement) {
        let Setup::Connecting(attempt) = std::mem::take(&mut state.line.setup) else {
            return;
        };
        let DialedAttempt {
            destination,
            startup,
            ..
        } = *attempt;
        let agreed = agreement.agreed;
        if agreement.changes_peer_to_peer {
            self.core.leniency.count(LenientCase::NoReadyMessage);
        }
        if agreed.revision == 1 && startup.offer().revision == 1 {
            self.core.remember_revision_1(destination.ip());
        }
        state.private_data = Some(agreement.private_data);
        // If the Reply states no limits they are UNSTATED_READ_LIMIT (IW-069).
        state.limits = Some(ReadLimits {
            inbound: agreement.limits.ird,
            outbound: agreement.limits.ord,
        });
        state.line.setup = Setup::Answered(Box::new(Answered { startup, agreed }));
        ConnectorRules::happens(self, state, Event::PeerAccepts);
    }

    /// The Connect has failed. The client may call Connect again (CONN-021 to CONN-024).
    fn attempt_failed(&self, state: &mut ConnectorState, end: impl Into<Error>) {
        if let Setup::Connecting(attempt) = std::mem::take(&mut state.line.setup) {
            attempt.reset(&self.core);
        }
        if let Some(qp) = state.qp.take() {
            qp.unclaim();
        }
        ConnectorRules::fails(self, state, Event::AttemptFails, end);
    }

    /// Completes the connection. The peer may have disconnected meanwhile (CONN-042).
    pub(super) fn complete(&self, state: &mut ConnectorState) {
        let Setup::Answered(mut answered) = std::mem::take(&mut state.line.setup) else {
            return;
        };
        let started = match answered.startup.complete() {
            Some(stream) => self.start(state, stream, &answered.agreed, Start::Open),
            None => {
                if let Some(qp) = state.qp.clone() {
                    state.done.after(qp.open());
                }
                Ok(())
            }
        };
        if let Err(error) = started {
            tracing::debug!(%error, "the peer was gone at CompleteConnect");
            self.ended_at_start(state);
        }
    }

    /// The client has not completed its Connect for some time. The ready-to-receive message is sent without it, because some peers give up
    /// without this message (IW-067).
    fn send_ready_early(&self, state: &mut ConnectorState) {
        let Setup::Answered(answered) = &mut state.line.setup else {
            return;
        };
        let agreed = answered.agreed;
        if let Some(stream) = answered.startup.take_stream()
            && let Err(error) = self.start(state, stream, &agreed, Start::Held)
        {
            tracing::debug!(%error, "the peer was gone before CompleteConnect");
            self.ended_at_start(state);
        }
    }

    /// The stream could not be started, perhaps because the queue pair was dead already, which then signals nothing.
    fn ended_at_start(&self, state: &mut ConnectorState) {
        state.ended = true;
        self.show_flushed(state);
    }

    /// Gives the stream to the queue pair, which sends the ready-to-receive message.
    fn start(
        &self,
        state: &mut ConnectorState,
        stream: Stream,
        agreed: &Agreed,
        start: Start,
    ) -> io::Result<()> {
        let Some(qp) = &state.qp else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let config = self.stream_config(qp, Role::Initiator, agreed, &stream);
        state.line.guard = Some(qp.guard_flush());
        let (started, news) = qp.start(stream, config, start);
        state.done.after(news);
        started
    }
}
