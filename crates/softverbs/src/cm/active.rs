//! The active side: `rdma_connect`, the wait for the Reply, `rdma_establish`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use iwarp_io::lenient_cases::LenientCase;
use iwarp_io::log::targets;
use iwarp_io::setup::{
    ActiveConfig, ActiveOutcome, ActiveSide, Agreement, ConnectFailure, InitiatorConfig,
    InitiatorFailure, Offer, ReadyKinds, Role, StreamEnd,
};
use iwarp_io::system_call::errno;

use super::carrier::carrier;
use super::event::{CmEventKind, ConnParameters, status_of};
use super::resolve::bind_error;
use super::space::PortSpace;
use super::state::{CmId, IdState, Phase, READ_LIMITS, UNSTATED_READ_LIMIT};
use crate::device::DeviceKind;
use crate::error::{Errno, Error, Result, fail};
use crate::qp::{ConnectionOwner, QueuePair};
use crate::writes::stated;

/// The time limit of the transport for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(21);
/// The time limit of the Reply, from its first octet to its last.
const REPLY_FRAME_WITHIN: Duration = Duration::from_secs(10);
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
        if self.space() == PortSpace::Udp {
            return self.ask(state, destination, parameters);
        }
        self.take_named(state, parameters.qp_num);
        if let Some(qp) = &state.qp {
            self.take_over(qp)?;
        }
        state.gives_up_after = parameters.gives_up_after(state.ack_timeout);
        state.retries =
            [parameters.retry_count, parameters.rnr_retry_count].map(|count| count.min(7));
        let Some(local) = state.local else {
            return fail(Errno::INVAL, "the identifier has no local address");
        };
        let config = ActiveConfig {
            destination,
            bound: state.bound.pop(),
            local,
            any_port: false, // a port that the program has bound stays
            ports: self.process.options().ports.clone(),
            connect_within: Some(CONNECT_WITHIN),
            retries: RETRIES,
            initiator: self.initiator_config(parameters),
            faults: self.process.faults.clone(),
            fault_owner: self.process.clone(),
        };
        let (active, outcome) = ActiveSide::start(config, &self.engine.driver, self.this.clone());
        state.phase = Phase::Connecting(Box::new(active));
        self.active_side_came_to(state, outcome);
        Ok(())
    }

    /// The offer to the peer.
    fn initiator_config(&self, parameters: &ConnParameters) -> InitiatorConfig {
        let offer = Offer {
            revision: 2,
            peer_to_peer: true,
            ready: ReadyKinds::UNSEEN,
            crc: self.process.asks_for_crcs(),
            markers: false,
            limits: stated(self.process.options().kind, parameters.read_limits()),
            private_data: parameters.private_data.clone(),
        };
        InitiatorConfig {
            offer,
            spares_crc: self.process.spares_crcs(),
            most: READ_LIMITS,
            unstated: UNSTATED_READ_LIMIT,
            strict_peer_to_peer: false,
            // Over UDP every peer speaks revision 2.
            revision_1_fallback: self.process.options().udp.is_none(),
            reply_within: None,
            reply_frame_within: Some(REPLY_FRAME_WITHIN),
            hold_ready: None,
        }
    }

    /// Handles an outcome of the active side.
    pub(super) fn active_side_came_to(&self, state: &mut IdState, outcome: Option<ActiveOutcome>) {
        match outcome {
            None | Some(ActiveOutcome::SendReady) => {}
            Some(ActiveOutcome::Connected { local, peer }) => {
                (state.local, state.peer) = (Some(local), Some(peer));
            }
            Some(ActiveOutcome::Agreed(agreement)) => self.agreed(state, *agreement),
            Some(ActiveOutcome::Failed(failure)) => self.attempt_failed(state, failure),
        }
    }

    fn attempt_failed(&self, state: &mut IdState, failure: ConnectFailure) {
        let what = match state.peer {
            Some(peer) => format!("cannot connect to {peer}: {failure}"),
            None => failure.to_string(),
        };
        let mut parameters = ConnParameters::default();
        let unreachable = |errno| (CmEventKind::Unreachable, status_of(errno));
        let error = |errno| (CmEventKind::ConnectError, status_of(errno));
        let rejected = |reason, errno| {
            let status = self.rejected(state, reason, errno);
            (CmEventKind::Rejected, status)
        };
        let (kind, status) = match failure {
            ConnectFailure::NoLocalAddress(why) => error(bind_error(&why).errno()),
            ConnectFailure::Dialing(why) => match errno_of(&why) {
                refused @ (Errno::CONNREFUSED | Errno::CONNRESET) => rejected(NO_LISTENER, refused),
                absent @ (Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH) => {
                    unreachable(absent)
                }
                other => error(other),
            },
            ConnectFailure::RefusedHere(why) => error(errno_of(&why)),
            ConnectFailure::RefusedByPlan => rejected(NO_LISTENER, Errno::CONNREFUSED),
            ConnectFailure::NotInTime(_) | ConnectFailure::Exchange(InitiatorFailure::TimedOut) => {
                unreachable(Errno::TIMEDOUT)
            }
            ConnectFailure::Exchange(InitiatorFailure::Rejected { private_data }) => {
                parameters.private_data = private_data;
                rejected(BY_PROGRAM, Errno::CONNREFUSED)
            }
            ConnectFailure::Exchange(InitiatorFailure::Ended(
                StreamEnd::Fin | StreamEnd::Reset,
            )) => rejected(BY_PROGRAM, Errno::CONNRESET),
            ConnectFailure::Exchange(
                InitiatorFailure::Malformed(_) | InitiatorFailure::Unacceptable { .. },
            ) => error(Errno::PROTO),
        };
        if let Phase::Connecting(active) = std::mem::replace(&mut state.phase, Phase::Over) {
            active.reset();
        }
        self.let_go(state);
        let cause = Error::new(errno_of_status(status), what);
        self.tell_with(kind, status, parameters, 0, Some(cause));
    }

    /// The status of a rejection, as devices of this kind state it.
    fn rejected(&self, state: &IdState, reason: i32, errno: Errno) -> i32 {
        let kind = state.device.as_ref().map(|device| device.kind());
        match kind {
            Some(DeviceKind::Iwarp) => status_of(errno),
            _ => reason,
        }
    }

    /// The peer has accepted. A queue pair that was made for the identifier is connected at once; without one the program completes.
    fn agreed(&self, state: &mut IdState, agreement: Agreement) {
        let Phase::Connecting(active) = std::mem::replace(&mut state.phase, Phase::Over) else {
            return;
        };
        if agreement.changes_peer_to_peer {
            self.process
                .lenient_cases
                .count(LenientCase::NoReadyMessage);
        }
        state.limits = agreement.agreed.limits;
        let parameters = ConnParameters::of_peer(agreement.private_data, agreement.limits);
        let span = active.span().clone();
        state.phase = Phase::Answered(active);
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
                tracing::debug!(target: targets::CONNECT, parent: &span, %error, "the peer was gone after its Reply");
                state.phase = Phase::Over;
                state.done.guard = state.guard.take();
                let status = status_of(error.errno());
                self.tell(CmEventKind::ConnectError, status, parameters);
            }
        }
    }

    /// Gives the stream of an answered attempt to a queue pair, which sends the ready-to-receive message.
    pub(super) fn complete_locked(&self, state: &mut IdState, qp: &Arc<QueuePair>) -> Result<()> {
        let Phase::Answered(mut active) = std::mem::replace(&mut state.phase, Phase::Connected)
        else {
            return fail(Errno::INVAL, "no peer has accepted a connection here");
        };
        let due = active.complete();
        let (stream, agreed) =
            due.ok_or_else(|| Error::new(Errno::CONNRESET, "the peer has gone"))?;
        let owner: std::sync::Weak<dyn ConnectionOwner> = self.this.clone();
        qp.connected()?.claim(owner)?;
        self.start(state, qp, stream, Role::Initiator, &agreed)
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
            if let Phase::Answered(active) = std::mem::replace(&mut state.phase, Phase::Over) {
                active.close();
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

/// The number that goes with a status: a negative errno, or a reason for which a peer rejects.
fn errno_of_status(status: i32) -> Errno {
    match status {
        ..0 => Errno::from_raw_os_error(-status),
        _ => Errno::CONNREFUSED,
    }
}

fn errno_of(error: &io::Error) -> Errno {
    errno(error).unwrap_or(Errno::IO)
}
