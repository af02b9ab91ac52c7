//! The active side: Connect, the wait for the answer, CompleteConnect.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread;

use netdirect::{Error, Overlapped, ReadLimits, Result, Started, Status};
use netdirect_provider::checks::{addresses, sizes};

use super::state::{Attempt, Binding, Connector, ConnectorState, Phase};
use crate::connect::private_data::CmMessage;
use crate::core::CmOwner;
use crate::handle::{CmEvent, CmNews, ConnectionParameters, NotReady};
use crate::qp::{ConnectionOwner, Qp};
use crate::status::{connect_status, fail};

/// How long an address or route may take to be resolved, in milliseconds.
const RESOLVE: i32 = 5000;

/// The reason of a rejection on InfiniBand that an application has made (`IB_CM_REJ_CONSUMER_DEFINED`).
const REJECTED_BY_CLIENT: i32 = 28;

/// The status for an errno that is told with either sign.
fn told_status(status: i32) -> Status {
    connect_status(status.saturating_abs())
}

impl Connector {
    pub(super) fn connect(
        &self,
        state: &mut ConnectorState,
        qp: &Arc<Qp>,
        destination: SocketAddr,
        limits: ReadLimits,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.core.device.present()?; // CONN-019
        Self::check_idle(state)?;
        sizes::private_data(private_data, self.core.limits.caller_data, "MaxCallerData")?;
        addresses::destination(destination)?;
        let raw = qp.claim(self.owner()?)?;
        let attempt = Attempt {
            limits,
            private_data: private_data.to_vec(),
            raw,
        };
        let started = self.start_attempt(state, qp, destination, attempt, overlapped);
        started.inspect_err(|_| qp.unclaim())?;
        Ok(Started::Pending)
    }

    /// This connector, for its queue pair.
    pub(super) fn owner(&self) -> Result<Arc<dyn ConnectionOwner>> {
        match self.this.upgrade() {
            Some(this) => Ok(this),
            None => fail(Status::INVALID_DEVICE_STATE, "the connector was released"),
        }
    }

    fn start_attempt(
        &self,
        state: &mut ConnectorState,
        qp: &Arc<Qp>,
        destination: SocketAddr,
        attempt: Attempt,
        overlapped: &Overlapped,
    ) -> Result<()> {
        let binding = self.binding_for(state, destination)?;
        let request = self.begin(overlapped)?;
        // All errors that the call can return have been returned by now, and the connector has not changed (AMB-005).
        if let Some(binding) = binding {
            state.take_binding(binding);
        }
        state.requests.add_state_change(request);
        state.qp = Some(Arc::clone(qp));
        state.peer = Some(destination);
        state.private_data = None;
        state.limits = None;
        state.failed = false;
        state.phase = Phase::Connecting(Box::new(attempt));
        let Some((id, key)) = state.bound.take() else {
            self.attempt_failed(state, Status::INSUFFICIENT_RESOURCES);
            return Ok(());
        };
        let this: Weak<dyn CmOwner> = self.this.clone();
        self.core.own_connection(key, this);
        state.key = key;
        let resolving = id.resolve_address(destination, RESOLVE);
        state.id = Some(Arc::new(id));
        if let Err(error) = resolving {
            let errno = error.raw_os_error().unwrap_or_default();
            self.attempt_failed(state, told_status(errno));
        }
        Ok(())
    }

    /// An identifier for the next attempt; `None` if the connector has one already.
    fn binding_for(
        &self,
        state: &ConnectorState,
        destination: SocketAddr,
    ) -> Result<Option<Binding>> {
        let address = match state.local {
            Some(local) if local.is_ipv4() != destination.is_ipv4() => {
                return fail(
                    Status::NETWORK_UNREACHABLE,
                    "the connector is bound to an address of the other family",
                ); // CONN-021
            }
            Some(_) if state.bound.is_some() => return Ok(None),
            // The port of the last attempt may not be free yet.
            Some(local) if state.picked => SocketAddr::new(local.ip(), 0),
            Some(local) => local,
            None => {
                let own = self.core.local_address_for(destination.ip());
                let own = own.ok_or_else(|| {
                    let what = format!(
                        "the adapter has no address of the family of {}",
                        destination.ip()
                    );
                    Error::new(Status::NETWORK_UNREACHABLE, what)
                })?;
                SocketAddr::new(own, 0)
            }
        };
        let binding = self.binding(address).map_err(addresses::taken_at_connect);
        binding.map(Some)
    }

    /// The connection manager tells of the attempt.
    pub(super) fn attempt_told(&self, state: &mut ConnectorState, event: CmEvent) {
        match event.news {
            CmNews::AddressResolved => {
                let resolving = state.id.as_ref().map(|id| id.resolve_route(RESOLVE));
                if let Some(Err(error)) = resolving {
                    let errno = error.raw_os_error().unwrap_or_default();
                    self.attempt_failed(state, told_status(errno));
                }
            }
            CmNews::RouteResolved => self.start_connecting(state),
            CmNews::Established | CmNews::Response => self.answered(state, event),
            CmNews::Rejected => {
                // The connection manager itself rejects peers as well, without private data.
                let by_client = self.core.limits.is_iwarp || event.status == REJECTED_BY_CLIENT;
                let field = by_client.then(|| self.received(event.private_data));
                state.private_data = Some(field.unwrap_or_default()); // CONN-089
                self.attempt_failed(state, Status::CONNECTION_REFUSED);
            }
            CmNews::Unresolved => {
                let status = match event.status.saturating_abs() {
                    // The network knows no such neighbour.
                    libc::ETIMEDOUT => Status::HOST_UNREACHABLE,
                    errno => connect_status(errno),
                };
                self.attempt_failed(state, status);
            }
            CmNews::Unreachable => self.attempt_failed(state, Status::IO_TIMEOUT), // CONN-024
            CmNews::Failed | CmNews::Disconnected => {
                self.attempt_failed(state, Status::CONNECTION_REFUSED); // CONN-023
            }
            CmNews::Request(_) | CmNews::DeviceRemoved | CmNews::Other => {}
        }
    }

    /// Asks the peer, in a thread of its own, since the driver may wait for the peer's host.
    fn start_connecting(&self, state: &mut ConnectorState) {
        let (Phase::Connecting(attempt), Some(id)) = (&state.phase, &state.id) else {
            return;
        };
        let (id, key, connector) = (Arc::clone(id), state.key, self.this.clone());
        let raw = Arc::clone(&attempt.raw);
        let limits = attempt.limits;
        let private_data = self.field(&attempt.private_data, CmMessage::Request);
        let work = move || {
            let parameters = parameters(limits, &private_data);
            let asked = id.connect(&raw, &parameters);
            // If the attempt was given up, they end here.
            drop(id);
            drop(raw);
            if let (Err(error), Some(connector)) = (asked, connector.upgrade()) {
                connector.refused_at_once(key, error.raw_os_error().unwrap_or_default());
            }
        };
        let thread = thread::Builder::new().name("netdirect-verbs connect".to_owned());
        if let Err(error) = thread.spawn(work) {
            tracing::warn!(%error, "cannot start a thread for Connect");
            self.attempt_failed(state, Status::INSUFFICIENT_RESOURCES);
        }
    }

    /// The call that asks the peer has failed, and no event follows.
    fn refused_at_once(&self, key: u64, errno: i32) {
        let mut state = self.lock();
        if state.key == key && matches!(state.phase, Phase::Connecting(_)) {
            self.attempt_failed(&mut state, told_status(errno));
        }
    }

    /// The peer has accepted.
    fn answered(&self, state: &mut ConnectorState, event: CmEvent) {
        let Phase::Connecting(attempt) = std::mem::take(&mut state.phase) else {
            return;
        };
        let is_established = matches!(event.news, CmNews::Established);
        let (inbound, outbound) = if self.core.needs.swaps_limits_when_established && is_established
        {
            (event.initiator_depth, event.responder_resources)
        } else {
            (event.responder_resources, event.initiator_depth)
        };
        state.limits = Some(ReadLimits {
            inbound: attempt.limits.inbound.min(inbound.into()),
            outbound: attempt.limits.outbound.min(outbound.into()),
        });
        state.private_data = Some(self.received(event.private_data));
        if let Some(id) = &state.id {
            state.local = id.local().or(state.local);
            state.peer = id.peer().or(state.peer);
        }
        self.finish(state, Phase::Answered, Status::SUCCESS);
    }

    /// The attempt has failed, and another one may follow (CONN-033). What it has used ends before the request does, so that the
    /// next one finds the port free.
    fn attempt_failed(&self, state: &mut ConnectorState, status: Status) {
        let phase = std::mem::take(&mut state.phase);
        self.core.disown_connection(state.key);
        let (id, qp) = (state.id.take(), state.qp.take());
        state.done.before(move || {
            drop(phase);
            drop(id);
            if let Some(qp) = qp {
                qp.remake();
            }
        });
        state.failed = true;
        self.finish(state, Phase::Idle, status);
    }

    pub(super) fn complete_connect(
        &self,
        state: &mut ConnectorState,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.core.device.present()?; // CONN-045
        if !matches!(state.phase, Phase::Answered) {
            return fail(Status::CONNECTION_INVALID, "no Connect has succeeded here"); // CONN-044
        }
        let request = self.begin(overlapped)?;
        state.requests.add_state_change(request);
        let Some(qp) = state.qp.clone() else {
            self.finish(state, Phase::Dead, Status::CANCELED);
            return Ok(Started::Pending);
        };
        if !self.core.limits.is_iwarp
            && let Err(error) = self.establish(state, &qp)
        {
            let status = error.status();
            if let NotReady::Refused(_) = error {
                let requests = state.requests.take_state_change();
                self.abandon(state); // CONN-047
                state.done.end(requests, status);
                return Ok(Started::Pending);
            }
            state.ended = true;
        }
        qp.open(state.limits.map_or(0, |limits| limits.outbound));
        state.done.after(move || qp.settle());
        // NotifyDisconnect tells of a connection that is over already (CONN-042).
        self.finish(state, Phase::Connected, Status::SUCCESS);
        if state.ended {
            self.connection_over(state);
        }
        Ok(Started::Pending)
    }

    /// The third step of a connection, which iWARP does not have.
    fn establish(&self, state: &ConnectorState, qp: &Qp) -> Result<(), NotReady> {
        if let (Some(id), Some(raw)) = (&state.id, qp.raw()) {
            // The limits are those of the peer's reply, which the connection manager knows.
            id.make_ready(&raw, None)?;
            id.establish().map_err(NotReady::Gone)?;
        }
        Ok(())
    }
}

/// What is told to the peer. The adapter's limits are such that both numbers fit.
pub(super) fn parameters(limits: ReadLimits, private_data: &[u8]) -> ConnectionParameters<'_> {
    ConnectionParameters {
        private_data,
        inbound_reads: u8::try_from(limits.inbound).unwrap_or(u8::MAX),
        outbound_reads: u8::try_from(limits.outbound).unwrap_or(u8::MAX),
    }
}
