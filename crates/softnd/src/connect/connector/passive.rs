//! The passive side: a request arrives, Accept, the wait for the peer's ready-to-receive message.

use std::sync::{Arc, Weak};

use netdirect::{Error, Overlapped, QueuePair, ReadLimits, Result, Started, Status};

use super::state::{AwaitedListener, Connector, ConnectorState, Offered, Phase};
use crate::qp::{Claim, Drivers, Qp, Signals, Start};
use crate::status::fail;
use iwarp_io::limited;
use iwarp_io::setup::{
    Acceptance, ConnectionRequest, ReadyKinds, ResponderFailure, ResponderOutcome, Role, StreamEnd,
};

impl Connector {
    /// A peer's request has arrived, at a listener at which the connector waits.
    pub(super) fn take_request(
        &self,
        state: &mut ConnectorState,
        listener: Weak<AwaitedListener>,
        request: ConnectionRequest,
    ) {
        state.local = Some(request.local());
        state.peer = Some(request.peer());
        // What the peer asks for, seen from this side and cut to both adapters (IW-009).
        let limits = request.offered();
        state.limits = Some(ReadLimits {
            inbound: limits.ird,
            outbound: limits.ord,
        });
        state.private_data = Some(request.private_data().to_vec());
        // Watched for the peer's end while the client thinks.
        state.phase = match request.watch(&self.core.driver, self.this.clone()) {
            Ok(startup) => Phase::Offered(Box::new(Offered { startup, listener })),
            Err(error) => {
                limited!(warn, %error, "cannot watch a peer that asks for a connection");
                Phase::Gone
            }
        };
    }

    /// Gives back what [`take_request`](Self::take_request) has put here and nobody has answered: the connector is as it was
    /// before. `None` when the peer has given up.
    pub(super) fn give_back(
        &self,
        state: &mut ConnectorState,
        listener: &Weak<AwaitedListener>,
    ) -> Result<Option<ConnectionRequest>> {
        self.look_for_end(state);
        let is_this =
            |other: &Weak<_>| std::ptr::addr_eq(Weak::as_ptr(other), Weak::as_ptr(listener));
        match &state.phase {
            Phase::Offered(offered) if is_this(&offered.listener) => {}
            Phase::Gone => {}
            _ => {
                return fail(
                    Status::CONNECTION_INVALID,
                    "the connector neither waits for nor holds a request of this listener",
                );
            }
        }
        let bound = state.bound.as_ref();
        state.local = bound.and_then(|bound| bound.local().ok());
        (state.peer, state.private_data, state.limits) = (None, None, None);
        let Phase::Offered(offered) = std::mem::take(&mut state.phase) else {
            return Ok(None);
        };
        Ok(offered.startup.into_request())
    }

    /// Notices a peer that has given up. Until the Reply is sent, whatever comes from the peer is its end or a violation (MPA-015).
    pub(super) fn look_for_end(&self, state: &mut ConnectorState) {
        if let Phase::Offered(offered) = &mut state.phase
            && let Some(ResponderOutcome::Failed(_)) = offered.startup.ready()
        {
            self.enter(state, Phase::Gone);
        }
    }

    /// Answers a request with R = 1 (MPA-019).
    pub(super) fn refuse(&self, state: &mut ConnectorState, private_data: &[u8]) {
        if matches!(state.phase, Phase::Offered(_))
            && let Phase::Offered(offered) = std::mem::replace(&mut state.phase, Phase::Dead)
        {
            offered.startup.reject(private_data);
        }
    }

    pub(super) fn accept(
        &self,
        state: &mut ConnectorState,
        qp: &Arc<dyn QueuePair>,
        limits: ReadLimits,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let qp = self.queue_pair(qp)?;
        self.core.device.present()?; // CONN-053
        let peer = state.peer.map(|peer| peer.ip());
        self.check_private_data(private_data, "MaxCalleeData", peer)?;
        self.look_for_end(state);
        match state.phase {
            Phase::Offered(_) => {}
            Phase::Gone => {
                state.phase = Phase::Dead;
                return fail(Status::CONNECTION_ABORTED, "the peer has given up"); // CONN-055
            }
            Phase::Accepting(_) | Phase::Connected | Phase::Connecting(_) | Phase::Answered(_) => {
                return fail(
                    Status::CONNECTION_ACTIVE,
                    "the connector is connected or connecting",
                );
            }
            _ => return fail(Status::CONNECTION_INVALID, "no request has arrived here"), // CONN-060
        }
        qp.claim(self.this.clone())?;
        let request = match self.begin(overlapped) {
            Ok(request) => request,
            Err(error) => {
                qp.unclaim();
                return Err(error);
            }
        };
        state.requests.add_state_change(request);
        self.reply(state, qp, limits, private_data);
        Ok(Started::Pending)
    }

    fn reply(
        &self,
        state: &mut ConnectorState,
        qp: Arc<Qp>,
        limits: ReadLimits,
        private_data: &[u8],
    ) {
        let Phase::Offered(offered) = std::mem::take(&mut state.phase) else {
            return;
        };
        let mut startup = offered.startup;
        let options = &self.core.options;
        let peer = state.peer.map(|peer| options.for_peer(peer.ip()));
        let accepted = startup.accept(Acceptance {
            crc: options.crc,
            markers: peer.is_some_and(|peer| peer.markers),
            ready: ReadyKinds::UNSEEN, // IW-003
            // The set-up cuts them to what the peer offers (IW-010, CONN-063).
            limits: iwarp_io::setup::ReadLimits {
                ird: limits.inbound,
                ord: limits.outbound,
            },
            private_data: private_data.to_vec(),
        });
        let Some((stream, agreed, sent)) = accepted else {
            state.done.after(qp.disconnect().1); // CONN-061
            let gone = Error::new(Status::CONNECTION_ABORTED, "the peer has given up");
            return self.finish(state, Phase::Dead, gone);
        };
        state.phase = Phase::Accepting(Box::new(startup));
        let config = self.stream_config(&qp, Role::Responder, &agreed, &stream);
        // Where no ready-to-receive message was agreed on, Accept ends when the Reply has been sent (IW-005).
        let open = agreed.ready.is_none();
        let start = if open { Start::Open } else { Start::Awaited };
        if sent.is_err() {
            state.done.after(qp.disconnect().1); // CONN-061
        }
        let started = sent.and_then(|()| {
            state.guard = Some(qp.guard_flush());
            let (started, news) = qp.start(stream, config, start);
            state.done.after(news);
            started
        });
        if let Err(error) = started {
            tracing::debug!(%error, "the peer was gone at Accept");
            let what = format!("the peer was gone at Accept: {error}");
            let gone = Error::new(Status::CONNECTION_ABORTED, what);
            return self.finish(state, Phase::Dead, gone);
        }
        state.qp = Some(qp);
        if open {
            self.finish(state, Phase::Connected, Status::SUCCESS);
        }
    }

    /// Takes up signals of the queue pair while Accept waits for the ready-to-receive message (AMB-004).
    pub(super) fn accepting(&self, state: &mut ConnectorState, signals: Signals) {
        let Phase::Accepting(startup) = &mut state.phase else {
            return;
        };
        let outcome = if signals.contains(Signals::READY) {
            startup.handle_ready()
        } else if signals.intersects(Signals::PEER_CLOSED | Signals::TERMINATED) {
            startup.handle_end(StreamEnd::Fin)
        } else if signals.intersects(Signals::RESET | Signals::FAILED | Signals::GONE) {
            startup.handle_end(StreamEnd::Reset)
        } else {
            None
        };
        self.responder_told(state, outcome);
    }

    /// Ends Accept with the outcome of the wait for the ready-to-receive message.
    pub(super) fn responder_told(
        &self,
        state: &mut ConnectorState,
        outcome: Option<ResponderOutcome>,
    ) {
        let failure = match outcome {
            None | Some(ResponderOutcome::Requested) => return,
            Some(ResponderOutcome::Connected) => {
                if let Some(qp) = &state.qp {
                    state.done.after(qp.drive_from(Drivers::Queues));
                }
                return self.finish(state, Phase::Connected, Status::SUCCESS);
            }
            Some(ResponderOutcome::Failed(failure)) => failure,
        };
        let qp = state.qp.take();
        let what = failure.to_string();
        let (status, news) = match failure {
            ResponderFailure::TimedOut => (Status::IO_TIMEOUT, qp.map(|qp| qp.abort())), // CONN-059
            ResponderFailure::Ended(StreamEnd::Fin) => {
                (Status::CONNECTION_REFUSED, qp.map(|qp| qp.disconnect().1))
            }
            _ => (Status::CONNECTION_ABORTED, qp.map(|qp| qp.disconnect().1)),
        };
        if let Some(news) = news {
            state.done.after(news);
        }
        self.finish(state, Phase::Dead, Error::new(status, what));
    }
}
