//! The active side: `rdma_connect`, the wait for the Reply, `rdma_establish`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use iwarp_io::progress::Edges;
use iwarp_io::setup::{
    Agreement, Initiator, InitiatorConfig, InitiatorFailure, InitiatorOutcome, MpaStartup, Offer,
    ReadLimits, ReadyKinds, Role, StreamEnd,
};
use iwarp_io::system_call::errno;
use iwarp_io::transport::Dialer;

use super::carrier::carrier;
use super::event::{CmEventKind, ConnParameters, status_of};
use super::resolve::is_taken;
use super::state::{Answered, Attempt, CmId, Dial, IdState, Phase, UNSTATED_READ_LIMIT};
use crate::device::{DeviceKind, limits};
use crate::error::{Errno, Error, Result, fail};
use crate::qp::{ConnectionOwner, QueuePair};

/// The time limit of the transport for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(21);
/// The time limit of the Reply, from its first octet to its last.
const REPLY_FRAME_WITHIN: Duration = Duration::from_secs(10);
/// The number of ports that are tried if the program has chosen none and the first ones are taken.
const PORTS: u32 = 256;
/// The time after the first refusal until the transport connects again; it doubles with each further refusal.
const FIRST_RETRY_AFTER: Duration = Duration::from_millis(10);
/// The number of refusals that are followed by another attempt: the last attempt is 1.27 s after the first.
const RETRIES: u32 = 7;

/// The reasons of InfiniBand for which a peer rejects: no program listens, and the program decides so.
const NO_LISTENER: i32 = 8;
const BY_PROGRAM: i32 = 28;

impl CmId {
    pub(super) fn connect_locked(
        &self,
        state: &mut IdState,
        parameters: &ConnParameters,
    ) -> Result<()> {
        let (Phase::RouteResolved, Some(destination)) = (&state.phase, state.peer) else {
            return fail(
                Errno::INVAL,
                "a connection is made after its route was resolved",
            );
        };
        Self::check_private_data(&parameters.private_data)?;
        if destination.port() == 0 {
            return fail(
                Errno::INVAL,
                "cannot connect to port 0: give the port the peer listens on",
            );
        }
        self.take_named(state, parameters.qp_num);
        if let Some(qp) = &state.qp {
            self.take_over(qp)?;
        }
        state.gives_up_after = parameters.gives_up_after(state.ack_timeout);
        state.retries =
            [parameters.retry_count, parameters.rnr_retry_count].map(|count| count.min(7));
        let config = self.initiator_config(parameters);
        let startup = MpaStartup::new(
            Initiator::new(config),
            &self.engine.driver,
            self.this.clone(),
        );
        state.phase = Phase::Connecting(Box::new(Attempt {
            destination,
            dial: Dial::Idle,
            refusals: 0,
            startup,
        }));
        self.dial(state);
        Ok(())
    }

    /// The offer to the peer.
    fn initiator_config(&self, parameters: &ConnParameters) -> InitiatorConfig {
        let most = limits::READS;
        let offer = Offer {
            revision: 2,
            peer_to_peer: true,
            ready: ReadyKinds::UNSEEN,
            crc: self.process.options().crc,
            markers: false,
            limits: parameters.read_limits(),
            private_data: parameters.private_data.clone(),
        };
        InitiatorConfig {
            offer,
            most: ReadLimits {
                ird: most,
                ord: most,
            },
            unstated: UNSTATED_READ_LIMIT,
            strict_peer_to_peer: false,
            revision_1_fallback: true,
            reply_within: None,
            reply_frame_within: Some(REPLY_FRAME_WITHIN),
            hold_ready: None,
        }
    }

    fn dial(&self, state: &mut IdState) {
        let dialing = self.dialer(state).and_then(|dialer| {
            let edges = Edges::READ | Edges::WRITE;
            let control = &self.engine.driver.control;
            let token = control.add(&dialer, self.this.clone(), edges)?;
            Ok(Dial::UnderWay { dialer, token })
        });
        match (dialing, &mut state.phase) {
            (Ok(dial), Phase::Connecting(attempt)) => {
                attempt.dial = dial;
                self.set_timer(state, CONNECT_WITHIN);
            }
            (Ok(_), _) => {}
            (Err(error), _) => self.dial_failed(state, &error),
        }
    }

    /// Begins to connect. A connection from that port to the same peer may have ended a moment ago (TIME-WAIT). If the program has not
    /// chosen the port, another port is tried then.
    fn dialer(&self, state: &mut IdState) -> io::Result<Dialer> {
        let Phase::Connecting(attempt) = &state.phase else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let destination = attempt.destination;
        let is_picked = state.local.is_some_and(|local| local.port() == 0);
        let mut left = PORTS;
        loop {
            let bound = self.binding(state);
            let bound = bound.map_err(|error| io::Error::from(error.errno()))?;
            match bound.connect(destination) {
                Err(error) if is_picked && left > 0 && is_taken(&error) => left -= 1,
                dialer => return dialer,
            }
        }
    }

    /// Continues after the transport has reported `edges`.
    pub(super) fn advance(&self, state: &mut IdState, edges: Edges) {
        let Phase::Connecting(attempt) = &mut state.phase else {
            return;
        };
        match &mut attempt.dial {
            Dial::UnderWay { dialer, .. } => match dialer.is_connected(edges) {
                Ok(true) => self.send_request(state),
                Ok(false) => {}
                Err(error) => self.dial_failed(state, &error),
            },
            Dial::Refused => {}
            Dial::Idle => {
                let outcome = attempt.startup.ready();
                self.initiator_came_to(state, outcome);
            }
        }
    }

    /// The transport has connected: sends the Request.
    fn send_request(&self, state: &mut IdState) {
        self.clear_timer(state);
        let Phase::Connecting(attempt) = &mut state.phase else {
            return;
        };
        let Dial::UnderWay { dialer, token } = std::mem::replace(&mut attempt.dial, Dial::Idle)
        else {
            return;
        };
        let sent = dialer.into_wire().and_then(|wire| {
            let role = iwarp_io::endpoint::Role::Initiator;
            let stream = self
                .engine
                .driver
                .stream(wire, role, None, self.process.clone());
            (state.peer, state.local) = (Some(stream.peer()), Some(stream.local()));
            attempt.startup.send_request(stream, token)
        });
        if let Err(error) = sent {
            self.dial_failed(state, &error);
        }
    }

    /// Handles the outcome of the exchange of start-up frames.
    pub(super) fn initiator_came_to(&self, state: &mut IdState, outcome: Option<InitiatorOutcome>) {
        match outcome {
            None | Some(InitiatorOutcome::SendReady) => {}
            Some(InitiatorOutcome::Agreed(agreement)) => self.agreed(state, *agreement),
            Some(InitiatorOutcome::FallBack) => {
                // The next attempt asks for revision 1, from another port: the first one may still be taken.
                if let Some(local) = &mut state.local {
                    local.set_port(0);
                }
                self.dial(state);
            }
            Some(InitiatorOutcome::Failed(failure)) => self.exchange_failed(state, failure),
        }
    }

    fn exchange_failed(&self, state: &mut IdState, failure: InitiatorFailure) {
        let mut parameters = ConnParameters::default();
        let (kind, status) = match failure {
            InitiatorFailure::Rejected { private_data } => {
                parameters.private_data = private_data;
                let status = self.rejected(state, BY_PROGRAM, Errno::CONNREFUSED);
                (CmEventKind::Rejected, status)
            }
            InitiatorFailure::TimedOut => (CmEventKind::Unreachable, status_of(Errno::TIMEDOUT)),
            InitiatorFailure::Ended(StreamEnd::Fin | StreamEnd::Reset) => {
                let status = self.rejected(state, BY_PROGRAM, Errno::CONNRESET);
                (CmEventKind::Rejected, status)
            }
            InitiatorFailure::Malformed(_) | InitiatorFailure::Unacceptable { .. } => {
                (CmEventKind::ConnectError, status_of(Errno::PROTO))
            }
        };
        self.attempt_failed(state, kind, status, parameters);
    }

    /// The status of a rejection, as devices of this kind state it.
    fn rejected(&self, state: &IdState, reason: i32, errno: Errno) -> i32 {
        let kind = state.device.as_ref().map(|device| device.kind());
        match kind {
            Some(DeviceKind::Iwarp) => status_of(errno),
            _ => reason,
        }
    }

    /// The time for the transport to connect is over, or that between two attempts.
    pub(super) fn dial_expired(&self, state: &mut IdState) {
        if let Phase::Connecting(attempt) = &mut state.phase
            && matches!(attempt.dial, Dial::Refused)
        {
            attempt.dial = Dial::Idle;
            self.dial(state);
            return;
        }
        let status = status_of(Errno::TIMEDOUT);
        let none = ConnParameters::default();
        self.attempt_failed(state, CmEventKind::Unreachable, status, none);
    }

    fn dial_failed(&self, state: &mut IdState, error: &io::Error) {
        let errno = errno(error).unwrap_or(Errno::IO);
        if errno == Errno::CONNREFUSED && self.dial_later(state) {
            return;
        }
        let (kind, status) = match errno {
            Errno::CONNREFUSED | Errno::CONNRESET => (
                CmEventKind::Rejected,
                self.rejected(state, NO_LISTENER, errno),
            ),
            Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH => {
                (CmEventKind::Unreachable, status_of(errno))
            }
            _ => (CmEventKind::ConnectError, status_of(errno)),
        };
        self.attempt_failed(state, kind, status, ConnParameters::default());
    }

    /// Plans another attempt after a refusal. Programs such as qperf send their port to the peer before they listen at it; with an adapter
    /// the peer's request takes long enough. Returns false when the peer has refused often enough.
    fn dial_later(&self, state: &mut IdState) -> bool {
        let Phase::Connecting(attempt) = &mut state.phase else {
            return false;
        };
        if attempt.refusals == RETRIES {
            return false;
        }
        let after = FIRST_RETRY_AFTER * (1 << attempt.refusals);
        attempt.refusals += 1;
        if let Dial::UnderWay { dialer, token } =
            std::mem::replace(&mut attempt.dial, Dial::Refused)
        {
            self.engine.driver.control.remove(&dialer, token);
        }
        self.set_timer(state, after);
        true
    }

    fn attempt_failed(
        &self,
        state: &mut IdState,
        kind: CmEventKind,
        status: i32,
        parameters: ConnParameters,
    ) {
        self.clear_timer(state);
        if let Phase::Connecting(attempt) = std::mem::replace(&mut state.phase, Phase::Over) {
            self.give_up(*attempt);
        }
        self.let_go(state);
        self.tell(kind, status, parameters);
    }

    /// Gives an attempt up: the peer sees a reset.
    pub(super) fn give_up(&self, attempt: Attempt) {
        if let Dial::UnderWay { dialer, token } = attempt.dial {
            self.engine.driver.control.remove(&dialer, token);
            dialer.reset();
        }
        attempt.startup.reset();
    }

    /// The peer has accepted. A queue pair that was made for the identifier is connected at once; without one the program completes.
    fn agreed(&self, state: &mut IdState, agreement: Agreement) {
        let Phase::Connecting(attempt) = std::mem::replace(&mut state.phase, Phase::Over) else {
            return;
        };
        let startup = attempt.startup;
        let agreed = agreement.agreed;
        let parameters = parameters(agreement);
        state.limits = agreed.limits;
        state.phase = Phase::Answered(Box::new(Answered { startup, agreed }));
        let Some(qp) = state.qp.clone() else {
            self.tell(CmEventKind::ConnectResponse, 0, parameters);
            return;
        };
        match self.complete_locked(state, &qp) {
            Ok(()) => {
                state.make_ready(self.number, &qp);
                self.tell(CmEventKind::Established, 0, parameters);
            }
            Err(error) => {
                tracing::debug!(%error, "the peer was gone after its Reply");
                self.clear_timer(state);
                state.phase = Phase::Over;
                state.done.guard = state.guard.take();
                let status = status_of(error.errno());
                self.tell(CmEventKind::ConnectError, status, parameters);
            }
        }
    }

    /// Gives the stream of an answered attempt to a queue pair, which sends the ready-to-receive message.
    pub(super) fn complete_locked(&self, state: &mut IdState, qp: &Arc<QueuePair>) -> Result<()> {
        let Phase::Answered(mut answered) = std::mem::replace(&mut state.phase, Phase::Connected)
        else {
            return fail(Errno::INVAL, "no peer has accepted a connection here");
        };
        let stream = answered.startup.complete();
        let stream = stream.ok_or_else(|| Error::new(Errno::CONNRESET, "the peer has gone"))?;
        let owner: std::sync::Weak<dyn ConnectionOwner> = self.this.clone();
        qp.claim(owner)?;
        self.start(state, qp, stream, Role::Initiator, &answered.agreed)
            .map_err(|error| Error::of_system(&error, "cannot complete the connection"))?;
        state.qp = Some(Arc::clone(qp));
        Ok(())
    }

    pub(super) fn complete_with(&self, state: &mut IdState, qp: &Arc<QueuePair>) -> Result<()> {
        if !matches!(state.phase, Phase::Answered(_)) {
            return fail(Errno::INVAL, "no peer has accepted a connection here");
        }
        let taken = self.take_over(qp);
        if let Err(error) = taken.and_then(|()| self.complete_locked(state, qp)) {
            if let Phase::Answered(answered) = std::mem::replace(&mut state.phase, Phase::Over) {
                answered.startup.close();
            }
            state.done.guard = state.guard.take();
            return Err(error);
        }
        state.owns_qp = true;
        state.make_ready(self.number, qp);
        Ok(())
    }

    pub(super) fn establish_locked(&self, state: &mut IdState) -> Result<()> {
        match state.phase {
            Phase::Answered(_) => {}
            // The program has moved its own queue pair to RTR, which has completed the connection.
            Phase::Connected if state.qp.is_some() && !state.owns_qp => return Ok(()),
            _ => return fail(Errno::INVAL, "no peer has accepted a connection here"),
        }
        let device = state.device.clone();
        let device = device.ok_or_else(|| Error::new(Errno::NODEV, "there is no device"))?;
        let qp = carrier(&self.process, &device)?;
        self.complete_locked(state, &qp)
    }
}

/// The parameters of an agreement in the program's event.
fn parameters(agreement: Agreement) -> ConnParameters {
    let limit = |limit: u32| u8::try_from(limit).unwrap_or(u8::MAX);
    ConnParameters {
        private_data: agreement.private_data,
        responder_resources: limit(agreement.limits.ird),
        initiator_depth: limit(agreement.limits.ord),
        ..ConnParameters::default()
    }
}
