//! Connectors, ND2's `IND2Connector`: the states of a connection, on both sides.
//!
//! What the client calls, and what the connection manager and the queue pair tell, locks the connector. What follows from it for
//! others is done when the lock is released.

mod active;
mod passive;
mod removal;
mod state;

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use netdirect::{
    Call, Error, Overlapped, OverlappedObject, QueuePair, ReadLimits, Result, Started, Status,
};
use netdirect_provider::checks::{addresses, own, sizes};
use netdirect_provider::listener::WaitingConnector;
use netdirect_provider::owned;

use super::private_data::CmMessage;
use crate::core::{CmOwner, Core};
use crate::file::File;
use crate::handle::CmEvent;
use crate::qp::{self, ConnectionOwner, QpHandle};
use crate::status::fail;

use state::{AwaitedListener, Phase};
pub(crate) use state::{Connector, PeerRequest, received, reject};

impl Connector {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        let mut state = self.lock();
        self.core.device.present()?; // CONN-007
        match state.phase {
            Phase::Idle if state.local.is_none() || state.failed => {}
            Phase::Dead | Phase::Disconnected => {
                return fail(
                    Status::INVALID_DEVICE_STATE,
                    "the connector was used before; create a new one",
                );
            }
            _ => {
                return fail(
                    Status::ADDRESS_ALREADY_ASSOCIATED,
                    "the connector is bound already",
                );
            } // CONN-011
        }
        addresses::local(address.ip(), |ip| self.core.serves(ip))?;
        self.core.device.admit(Call::BindConnector)?;
        state.bound = None; // The client may ask for the same port again.
        let binding = self.binding(address)?;
        state.take_binding(binding);
        Ok(())
    }

    fn reject(&self, private_data: &[u8]) -> Result<()> {
        let mut state = self.lock();
        self.core.device.present()?; // CONN-070
        sizes::private_data(private_data, self.core.limits.callee_data, "MaxCalleeData")?;
        match state.phase {
            Phase::Offered(_) => {
                state.phase = Phase::Dead;
                let id = state.id.take();
                let field = self.field(private_data, CmMessage::Rejection);
                let rejected = id.as_ref().map(|id| id.reject(&field));
                state.done.after(move || drop(id));
                if let Some(Err(error)) = rejected {
                    tracing::debug!(%error, "the peer was gone at Reject");
                    return fail(Status::CONNECTION_ABORTED, "the peer has given up"); // CONN-071
                }
            }
            // The connection is established for the device, so the peer sees its end.
            Phase::Answered => self.abandon(&mut state),
            Phase::Gone => {
                state.phase = Phase::Dead;
                return fail(Status::CONNECTION_ABORTED, "the peer has given up");
            }
            _ => return fail(Status::CONNECTION_INVALID, "there is nothing to reject"), // CONN-076
        }
        Ok(())
    }

    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        let mut state = self.lock();
        self.core.device.present()?; // CONN-111
        if !matches!(state.phase, Phase::Connected) {
            return fail(Status::CONNECTION_INVALID, "the connector is not connected"); // CONN-112
        }
        state.requests.add_state_change(self.begin(overlapped)?);
        state.phase = Phase::Disconnecting;
        if let Some(qp) = &state.qp {
            qp.begin_end(qp::QpPhase::Disconnected);
        }
        let has_ended = state.ended;
        let told = state.id.as_ref().map(|id| id.disconnect());
        if has_ended || !matches!(told, Some(Ok(()))) {
            self.disconnected(&mut state);
        }
        Ok(Started::Pending)
    }

    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        let mut state = self.lock();
        self.core.device.present()?; // GEN-015
        match state.phase {
            Phase::Connected | Phase::Disconnecting | Phase::Disconnected => {}
            _ => {
                return fail(
                    Status::CONNECTION_INVALID,
                    "the connector never was connected",
                );
            } // CONN-104
        }
        let request = self.begin(overlapped)?;
        if state.ended || matches!(state.phase, Phase::Disconnected) {
            state.done.end([request], Status::SUCCESS); // CONN-107
        } else {
            state.requests.add_notification(request);
        }
        Ok(Started::Pending)
    }

    fn cancel(&self) {
        let mut state = self.lock();
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting => self.abandon(&mut state),
            // The connection ends all the same; no request waits for it any more.
            Phase::Disconnecting => self.disconnected(&mut state),
            _ => {}
        }
        state.cancel_requests(); // CONN-105, TST-044
    }

    /// The client has released its last reference.
    fn released(&self) {
        let mut state = self.lock();
        let waited = match &state.phase {
            Phase::Waiting(listener) => listener.upgrade(),
            _ => None,
        };
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting | Phase::Answered => self.abandon(&mut state),
            Phase::Offered(_) => {
                state.phase = Phase::Dead;
                let id = state.id.take();
                let core = Arc::clone(&self.core);
                state.done.after(move || {
                    if let Some(id) = id {
                        reject(&core, &id);
                    }
                });
            }
            Phase::Disconnecting => self.disconnected(&mut state),
            Phase::Waiting(_) => state.phase = Phase::Dead,
            _ => {}
        }
        state.cancel_requests();
        drop(state); // The listener locks connectors, so it must not be called under a connector's lock.
        if let Some(listener) = waited {
            listener.connector_released(self);
        }
    }

    // ---- called by the queue pair ----

    /// The client has released its queue pair (CONN-018, CONN-052, CONN-110).
    fn lose_queue_pair(&self) {
        let mut state = self.lock();
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting | Phase::Answered => {
                self.abandon(&mut state);
                state.cancel_requests();
            }
            // The queue pair disconnects itself. For the client the connection ends here (CONN-116).
            Phase::Connected | Phase::Disconnecting => {
                state.end_notifications(); // CONN-105
                if let Some(qp) = &state.qp {
                    qp.begin_end(qp::QpPhase::Disconnected);
                }
                if let Some(id) = &state.id {
                    let _ = id.disconnect();
                }
                self.finish(&mut state, Phase::Disconnected, Status::CANCELED); // CONN-110
                state.qp = None;
            }
            _ => {}
        }
    }

    fn flush_queue_pair(&self) {
        let mut state = self.lock();
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting => {
                self.abandon(&mut state);
                state.cancel_requests();
            }
            Phase::Connected => {
                state.ended = true;
                state.end_notifications();
                if let Some(qp) = &state.qp {
                    qp.begin_end(qp::QpPhase::Ended);
                }
                if let Some(id) = &state.id {
                    let _ = id.disconnect();
                }
            }
            _ => {}
        }
    }
}

impl WaitingConnector for Connector {
    type PeerRequest = PeerRequest;

    fn wait_for_request(&self, listener: Weak<AwaitedListener>) -> Result<()> {
        let mut state = self.lock();
        Self::check_idle(&state)?; // LSTN-031
        state.phase = Phase::Waiting(listener);
        Ok(())
    }

    fn request_cancelled(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Waiting(_)) {
            state.phase = Phase::Idle;
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.lock().phase, Phase::Waiting(_))
    }

    fn offer(&self, request: PeerRequest) -> Option<PeerRequest> {
        let mut state = self.lock();
        let Phase::Waiting(listener) = &state.phase else {
            return Some(request);
        };
        let listener = listener.clone();
        let this: Weak<dyn CmOwner> = self.this.clone();
        self.core.own_connection(request.key, this);
        state.local = request.id.local();
        state.peer = request.id.peer();
        state.limits = Some(request.limits);
        state.private_data = Some(request.private_data);
        state.key = request.key;
        state.id = Some(Arc::new(request.id));
        state.phase = Phase::Offered(listener);
        None
    }

    fn take_back(&self, listener: &Weak<AwaitedListener>) -> Result<Option<PeerRequest>> {
        let mut state = self.lock();
        let is_this =
            |other: &Weak<_>| std::ptr::addr_eq(Weak::as_ptr(other), Weak::as_ptr(listener));
        match &state.phase {
            Phase::Offered(own) if is_this(own) => {}
            Phase::Gone => {}
            _ => {
                return fail(
                    Status::CONNECTION_INVALID,
                    "the connector neither waits for nor holds a request of this listener",
                );
            }
        }
        state.phase = Phase::Idle;
        state.local = None;
        state.peer = None;
        let (id, data, limits) = (
            state.id.take(),
            state.private_data.take(),
            state.limits.take(),
        );
        let id = id.and_then(|id| Arc::try_unwrap(id).ok());
        Ok(id.map(|id| PeerRequest {
            id,
            key: std::mem::take(&mut state.key), // the listener's again
            private_data: data.unwrap_or_default(),
            limits: limits.unwrap_or_default(),
        }))
    }
}

impl CmOwner for Connector {
    fn told(&self, event: CmEvent) {
        let mut state = self.lock();
        if event.key != state.key {
            return; // of an attempt that was given up
        }
        match state.phase {
            Phase::Connecting(_) => self.attempt_told(&mut state, event),
            Phase::Accepting => self.acceptance_told(&mut state, &event),
            _ if !event.news.has_lost_peer() => {}
            Phase::Offered(_) => {
                state.phase = Phase::Gone;
                let id = state.id.take();
                state.done.after(move || drop(id));
            }
            Phase::Answered => {
                self.disconnect_peer(&state);
                state.ended = true;
            }
            Phase::Connected => {
                self.disconnect_peer(&state);
                self.connection_over(&mut state);
            }
            Phase::Disconnecting => self.disconnected(&mut state),
            _ => {}
        }
    }
}

impl ConnectionOwner for Connector {
    /// NotifyDisconnect ends before the flushed requests can be seen. The event of the connection manager follows.
    fn connection_ended(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Connected | Phase::Disconnecting) {
            state.end_notifications();
        }
        if matches!(state.phase, Phase::Connected) {
            self.disconnect_peer(&state);
        }
    }

    fn queue_pair_released(&self) {
        self.lose_queue_pair();
    }

    fn queue_pair_flushed(&self) {
        self.flush_queue_pair();
    }
}

/// The client's reference to a connector.
#[derive(Debug)]
pub(crate) struct ConnectorHandle(pub(crate) Arc<Connector>);

impl ConnectorHandle {
    pub(crate) fn new(core: Arc<Core>, file: Arc<File>) -> Self {
        let connector = Connector::new(core, file);
        let object: Weak<Connector> = Arc::downgrade(&connector);
        connector.core().device.add_object(object);
        Self(connector)
    }
}

owned!(ConnectorHandle of Core: |connector| connector.0.core());

impl Drop for ConnectorHandle {
    fn drop(&mut self) {
        self.0.released();
    }
}

impl OverlappedObject for ConnectorHandle {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.cancel();
        Ok(())
    }
}

impl netdirect::Connector for ConnectorHandle {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        self.0.bind(address)
    }

    fn connect(
        &self,
        qp: &Arc<dyn QueuePair>,
        destination: SocketAddr,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let qp = &own::queue_pair::<QpHandle>(qp, self.0.core())?.0;
        let limits = self.0.cut(inbound_read_limit, outbound_read_limit);
        let mut state = self.0.lock();
        self.0.connect(
            &mut state,
            qp,
            destination,
            limits,
            private_data,
            overlapped,
        )
    }

    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.0.complete_connect(&mut self.0.lock(), overlapped)
    }

    fn accept(
        &self,
        qp: &Arc<dyn QueuePair>,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let qp = &own::queue_pair::<QpHandle>(qp, self.0.core())?.0;
        let limits = self.0.cut(inbound_read_limit, outbound_read_limit);
        let mut state = self.0.lock();
        self.0
            .accept(&mut state, qp, limits, private_data, overlapped)
    }

    fn reject(&self, private_data: &[u8]) -> Result<()> {
        self.0.reject(private_data)
    }

    fn get_read_limits(&self) -> Result<ReadLimits> {
        let state = self.0.lock();
        let limits = state.limits.filter(|_| !state.phase.is_over());
        limits.ok_or_else(|| {
            Error::new(
                Status::CONNECTION_INVALID,
                "the peer has not told its read limits",
            )
        }) // CONN-078
    }

    fn get_private_data(&self) -> Result<Vec<u8>> {
        let data = self.0.lock().private_data.clone();
        data.ok_or_else(|| Error::new(Status::CONNECTION_INVALID, "nothing has come from a peer")) // CONN-087
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        let mut state = self.0.lock();
        state.picked = false; // The client knows the port from now on.
        let local = state.local.filter(|_| !state.phase.is_over());
        local.ok_or_else(|| Error::new(Status::CONNECTION_INVALID, "the connector is not bound")) // CONN-094
    }

    fn get_peer_address(&self) -> Result<SocketAddr> {
        let state = self.0.lock();
        let peer = match state.phase {
            Phase::Idle | Phase::Waiting(_) | Phase::Connecting(_) => None,
            _ => state.peer.filter(|_| !state.phase.is_over()),
        };
        peer.ok_or_else(|| Error::new(Status::CONNECTION_INVALID, "the connector is not connected")) // CONN-099
    }

    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.0.notify_disconnect(overlapped)
    }

    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.0.disconnect(overlapped)
    }
}
