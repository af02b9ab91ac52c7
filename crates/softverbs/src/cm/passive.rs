//! The passive side: listeners, requests, `rdma_accept` and `rdma_reject`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use iwarp_io::descriptors;
use iwarp_io::endpoint::{ConnectionEnd, Drivers};
use iwarp_io::setup::{
    Acceptance, Acceptor, AcceptorConfig, AcceptorOwner, HalfOpenLimits, Incoming, PassiveOutcome,
    PassiveSide, ReadyKinds, ResponderConfig, ResponderFailure, Role,
};

use super::carrier::carrier;
use super::datagrams::{MessageKind, OwnPair};
use super::event::{CmEventKind, ConnParameters, status_of};
use super::pending::Pending;
use super::resolve::any;
use super::space::PortSpace;
use super::state::{Accepting, Arrival, CmId, IdState, Phase, READ_LIMITS, UNSTATED_READ_LIMIT};
use crate::error::{Errno, Error, Result, fail};
use crate::qp::{QueuePair, Signals};
use crate::writes::stated;

/// The time limit of a peer from its connection to its whole Request, and from this side's Reply to its ready-to-receive message.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The most requests that wait if the program names no number, and no more than half of the descriptors of the process.
const LONGEST_BACKLOG: usize = 16 * 1024;

impl CmId {
    pub(super) fn listen_locked(&self, state: &mut IdState, backlog: i32) -> Result<()> {
        if !matches!(state.phase, Phase::Idle) {
            return fail(Errno::INVAL, "the identifier is in use");
        }
        let longest = LONGEST_BACKLOG.min(descriptors::limit() / 2).max(1);
        state.backlog = usize::try_from(backlog)
            .ok()
            .filter(|backlog| (1..longest).contains(backlog))
            .unwrap_or(longest);
        if self.space() == PortSpace::Udp {
            return self.listen_udp(state);
        }
        if state.local.is_none() {
            self.bind_locked(state, any(true))?;
        }
        let owner: Weak<dyn AcceptorOwner> = self.this.clone();
        let config = AcceptorConfig {
            responder: ResponderConfig {
                most: READ_LIMITS,
                unstated: UNSTATED_READ_LIMIT,
                request_within: Some(REQUEST_WITHIN),
                ready_within: Some(READY_WITHIN),
                spares_crc: self.process.spares_crcs(),
            },
            faults: self.process.faults.clone(),
            fault_owner: self.process.clone(),
        };
        let acceptor = Acceptor::new(&self.engine.driver, config, owner);
        let half_open = HalfOpenLimits::for_process(None, None, descriptors::limit());
        self.pending.get_or_init(Pending::default);
        let bound = std::mem::take(&mut state.bound);
        acceptor
            .listen(bound, state.local, half_open)
            .map_err(|error| Error::of_system(&error, "cannot listen"))?;
        state.phase = Phase::Listening(acceptor);
        Ok(())
    }

    /// A whole Request has arrived for which the backlog has room: makes an identifier for it, and queues an event. Returns the Request if
    /// it has to be refused.
    pub(super) fn take_request(&self, incoming: Arc<Incoming>) -> Option<Arc<Incoming>> {
        let Some(pending) = self.pending.get() else {
            return Some(incoming);
        };
        let (key, peer) = (incoming.key(), incoming.peer().ip());
        let Ok(id) = Self::create(&self.channel()) else {
            return Some(incoming);
        };
        // A peer that has ended meanwhile gets no identifier.
        let request = incoming.take()?;
        let Some(device) = self.process.device_of(request.local().ip()).cloned() else {
            return None; // The drop resets the stream: no device has this address.
        };
        let offered = request.offered();
        let parameters = ConnParameters::of_peer(request.private_data().to_vec(), offered);
        {
            let mut state = id.state.lock();
            state.device = Some(device);
            (state.local, state.peer) = (Some(request.local()), Some(request.peer()));
            state.limits = offered;
            state.arrival = Some(Arrival {
                key,
                accepted: Arc::clone(&pending.accepted),
            });
            let passive = PassiveSide::watch(request, &self.engine.driver, id.this.clone())?;
            state.phase = Phase::Offered(Box::new(passive));
        }
        let place = pending.requests.add(key, peer, id.this.clone());
        self.tell_request(id, parameters, place);
        None
    }

    /// Notices a peer that has given up before the program decided.
    pub(super) fn look_for_end(&self, state: &mut IdState) {
        if let Phase::Offered(passive) = &mut state.phase
            && passive.has_ended()
        {
            state.phase = Phase::Gone;
        }
    }

    pub(super) fn accept_locked(
        &self,
        state: &mut IdState,
        parameters: &ConnParameters,
    ) -> Result<()> {
        Self::check_private_data(&parameters.private_data)?;
        self.look_for_end(state);
        match state.phase {
            Phase::Offered(_) => {}
            Phase::Asked(_) => return self.accept_udp(state, parameters),
            Phase::Gone => return fail(Errno::CONNRESET, "the peer has given up"),
            _ => return fail(Errno::INVAL, "no request has arrived here"),
        }
        self.take_named(state, parameters.qp_num);
        let qp = self.queue_pair_for(state)?;
        self.take_over(&qp)?;
        state.gives_up_after = parameters.gives_up_after(state.ack_timeout);
        state.retries =
            [parameters.retry_count, parameters.rnr_retry_count].map(|count| count.min(7));
        let Phase::Offered(mut passive) = std::mem::replace(&mut state.phase, Phase::Over) else {
            return Ok(());
        };
        let accepted = passive.accept(Acceptance {
            crc: self.process.asks_for_crcs(),
            markers: false,
            ready: ReadyKinds::UNSEEN,
            // The set-up cuts them to the peer's offer.
            limits: stated(self.process.options().kind, parameters.read_limits()),
            private_data: parameters.private_data.clone(),
        });
        let Some((stream, agreed, sent)) = accepted else {
            self.let_go(state);
            return fail(Errno::CONNRESET, "the peer has given up");
        };
        state.qp = Some(Arc::clone(&qp));
        let started = sent.and_then(|()| self.start(state, &qp, stream, Role::Responder, &agreed));
        if let Err(error) = started {
            state.done.guard = state.guard.take();
            return Err(Error::of_system(&error, "the peer was gone"));
        }
        state.make_ready(self.number, &qp);
        if agreed.ready.is_none() {
            state.phase = Phase::Connected;
            self.tell(CmEventKind::Established, 0, ConnParameters::default());
        } else {
            let place = state.arrival.as_ref().and_then(|arrival| {
                let peer = state.peer?.ip();
                Some(arrival.accepted.add(arrival.key, peer, self.this.clone()))
            });
            state.phase = Phase::Accepting(Box::new(Accepting { passive, place }));
        }
        Ok(())
    }

    /// The queue pair that the program has made for the identifier or attached; otherwise one that the connection manager makes.
    fn queue_pair_for(&self, state: &IdState) -> Result<Arc<QueuePair>> {
        if let Some(qp) = &state.qp {
            return Ok(Arc::clone(qp));
        }
        let device = state.device.as_ref();
        let device = device.ok_or_else(|| Error::new(Errno::NODEV, "there is no device"))?;
        carrier(&self.process, device)
    }

    pub(super) fn reject_locked(&self, state: &mut IdState, private_data: &[u8]) -> Result<()> {
        Self::check_private_data(private_data)?;
        self.look_for_end(state);
        if matches!(state.phase, Phase::Offered(_) | Phase::Answered(_)) {
            self.let_go(state);
        }
        match std::mem::replace(&mut state.phase, Phase::Over) {
            Phase::Offered(passive) => passive.reject(private_data),
            Phase::Asked(asked) => {
                asked.answer(MessageKind::Rejected, OwnPair::default(), private_data)
            }
            // MPA has no message that could carry the private data of the active side's rejection.
            Phase::Answered(active) => active.close(),
            Phase::Gone => {}
            other => {
                state.phase = other;
                return fail(Errno::INVAL, "there is nothing to reject");
            }
        }
        Ok(())
    }

    /// Takes up signals while the ready-to-receive message is awaited.
    pub(super) fn accepting(&self, state: &mut IdState, signals: Signals) {
        if let Phase::Accepting(accepting) = &mut state.phase {
            let outcome = accepting.passive.signalled(signals);
            self.passive_side_came_to(state, outcome);
        }
    }

    /// Ends the wait for the ready-to-receive message.
    pub(super) fn passive_side_came_to(
        &self,
        state: &mut IdState,
        outcome: Option<PassiveOutcome>,
    ) {
        let failure = match outcome {
            None => return,
            Some(PassiveOutcome::Connected) => {
                if let Some(qp) = &state.qp {
                    let endpoint = qp.endpoint();
                    let deferred = endpoint.map(|endpoint| endpoint.drive_from(Drivers::Queues));
                    state.done.deferred.extend(deferred);
                }
                state.phase = Phase::Connected;
                self.tell(CmEventKind::Established, 0, ConnParameters::default());
                return;
            }
            Some(PassiveOutcome::Failed(failure)) => failure,
        };
        if matches!(state.phase, Phase::Offered(_)) {
            state.phase = Phase::Gone;
            return;
        }
        let (kind, errno) = match failure {
            ResponderFailure::TimedOut => (CmEventKind::Unreachable, Errno::TIMEDOUT),
            _ => (CmEventKind::ConnectError, Errno::CONNRESET),
        };
        self.accepting_failed(state, kind, Error::new(errno, failure.to_string()));
    }

    /// Ends an accepted connection that was not established.
    pub(super) fn accepting_failed(&self, state: &mut IdState, kind: CmEventKind, cause: Error) {
        state.phase = Phase::Over;
        if let Some(qp) = &state.qp {
            let end = match kind {
                CmEventKind::Unreachable => ConnectionEnd::NotReady,
                _ => ConnectionEnd::Disconnected,
            };
            let aborted = qp.endpoint().map(|endpoint| endpoint.abort(end));
            state.done.deferred.extend(aborted);
        }
        state.done.guard = state.guard.take();
        let (status, none) = (status_of(cause.errno()), ConnParameters::default());
        self.tell_with(kind, status, none, 0, Some(cause));
    }
}
