//! The passive side: a request arrives, Accept, the wait for the peer.

use std::sync::{Arc, Weak};

use netdirect::{Overlapped, ReadLimits, Result, Started, Status};
use netdirect_provider::checks::sizes;

use super::active::parameters;
use super::state::{Connector, ConnectorState, Phase};
use crate::connect::private_data::CmMessage;
use crate::driver::Timed;
use crate::handle::{CmEvent, CmNews, NotReady, QueuePairHandle};
use crate::qp::{self, Qp};
use crate::sockets;
use crate::status::fail;

impl Connector {
    pub(super) fn accept(
        &self,
        state: &mut ConnectorState,
        qp: &Arc<Qp>,
        limits: ReadLimits,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.core.device.present()?; // CONN-053
        sizes::private_data(private_data, self.core.limits.callee_data, "MaxCalleeData")?;
        match state.phase {
            Phase::Offered(_) => {}
            Phase::Gone => {
                state.phase = Phase::Dead;
                return fail(Status::CONNECTION_ABORTED, "the peer has given up"); // CONN-055
            }
            Phase::Accepting | Phase::Connected | Phase::Connecting(_) | Phase::Answered => {
                return fail(
                    Status::CONNECTION_ACTIVE,
                    "the connector is connected or connecting",
                );
            }
            _ => return fail(Status::CONNECTION_INVALID, "no request has arrived here"), // CONN-060
        }
        let raw = qp.claim(self.owner()?)?;
        let request = self.begin(overlapped).inspect_err(|_| qp.unclaim())?;
        state.requests.add_state_change(request);
        // CONN-063
        let offered = state.limits.unwrap_or_default();
        let limits = ReadLimits {
            inbound: limits.inbound.min(offered.inbound),
            outbound: limits.outbound.min(offered.outbound),
        };
        state.limits = Some(limits);
        state.qp = Some(Arc::clone(qp));
        state.phase = Phase::Accepting;
        let asked = ReadLimits {
            inbound: limits
                .inbound
                .max(u32::from(self.core.needs.accepts_a_read)),
            ..limits
        };
        let accepted = match &state.id {
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
            Err(error) => self.acceptance_failed(state, error.status()), // CONN-061
        }
        Ok(Started::Pending)
    }

    /// Limits the wait for a peer that never completes the connection (CONN-059, IW-068). On InfiniBand the connection manager has a
    /// limit of its own.
    fn begin_to_wait(&self, state: &mut ConnectorState) {
        let Some(limit) = self.core.timeouts.ready else {
            return;
        };
        if self.core.limits.is_iwarp {
            let this: Weak<dyn Timed> = self.this.clone();
            state.deadline = Some(self.core.driver.remind(limit, state.key, this));
        }
    }

    /// Has the driver read what it may have left untouched. What arrives from now on, it reads by itself. That there are octets of the
    /// peer also says that the peer knows the answer, and so may be sent something (RFC 5044 §7.1.2).
    fn look_for_octets(
        &self,
        state: &mut ConnectorState,
        qp: &Arc<Qp>,
        raw: Arc<QueuePairHandle>,
        limits: ReadLimits,
    ) {
        let (Some(local), Some(peer)) = (state.local, state.peer) else {
            return;
        };
        if !self.core.needs.leaves_first_octets || limits.outbound == 0 {
            return;
        }
        let qp = Arc::clone(qp);
        state.done.after(move || {
            if sockets::unread(local, peer).is_some_and(|octets| octets > 0) {
                tracing::debug!(%peer, "the driver is made to read the peer's first octets");
                qp.ask_for_response(&raw);
            }
        });
    }

    /// The connection manager tells of the Accept.
    pub(super) fn acceptance_told(&self, state: &mut ConnectorState, event: &CmEvent) {
        match event.news {
            CmNews::Established => {
                if let Some(qp) = state.qp.clone() {
                    qp.open(state.limits.map_or(0, |limits| limits.outbound));
                    state.done.after(move || qp.settle());
                }
                self.finish(state, Phase::Connected, Status::SUCCESS);
            }
            CmNews::Unreachable => self.acceptance_failed(state, Status::IO_TIMEOUT), // CONN-059
            CmNews::Rejected => self.acceptance_failed(state, Status::CONNECTION_REFUSED),
            CmNews::Failed | CmNews::Disconnected => {
                self.acceptance_failed(state, Status::CONNECTION_ABORTED);
            }
            _ => {}
        }
    }

    fn acceptance_failed(&self, state: &mut ConnectorState, status: Status) {
        self.core.disown_connection(state.key);
        let (id, qp) = (state.id.take(), state.qp.take());
        state.done.before(move || {
            if let Some(qp) = qp {
                qp.end(qp::QpPhase::Disconnected);
            }
            drop(id);
        });
        self.finish(state, Phase::Dead, status);
    }
}

impl Timed for Connector {
    fn time_is_up(&self, key: u64) {
        let mut state = self.lock();
        if state.key != key || !matches!(state.phase, Phase::Accepting) {
            return;
        }
        let requests = state.requests.take_state_change();
        self.abandon(&mut state);
        state.done.end(requests, Status::IO_TIMEOUT);
    }
}
