//! What a connector is: its states, and what both sides do with them.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

use netdirect::{Overlapped, OverlappedFile, PendingOverlapped, ReadLimits, Result, Status};
use netdirect_provider::listener;
use netdirect_provider::requests::{AfterUnlock, Requests, Work};
use parking_lot::{Mutex, MutexGuard};

use crate::connect::private_data::{self, CmMessage};
use crate::core::Core;
use crate::driver::Deadline;
use crate::file::File;
use crate::handle::{CmId, QueuePairHandle};
use crate::qp::{self, Qp};
use crate::status::fail;

pub(crate) struct Connector {
    pub(super) core: Arc<Core>,
    pub(super) file: Arc<File>,
    state: Mutex<ConnectorState>,
    pub(super) this: Weak<Self>,
}

/// The listener at which a connector waits for a request.
pub(super) type AwaitedListener = dyn listener::AwaitedListener<Connector>;

/// A peer's request for a connection.
#[derive(Debug)]
pub(crate) struct PeerRequest {
    pub(crate) id: CmId,
    pub(crate) key: u64,
    pub(crate) private_data: Vec<u8>,
    pub(crate) limits: ReadLimits,
}

#[derive(Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    Connecting(Box<Attempt>),
    /// The peer has accepted.
    Answered,
    Waiting(Weak<AwaitedListener>),
    /// A peer's request waits for the client.
    Offered(Weak<AwaitedListener>),
    /// The peer of the request has given up.
    Gone,
    Accepting,
    Connected,
    Disconnecting,
    Disconnected,
    Dead,
}

impl Phase {
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Disconnected | Self::Dead)
    }
}

/// A Connect under way.
pub(super) struct Attempt {
    pub(super) limits: ReadLimits,
    pub(super) private_data: Vec<u8>,
    pub(super) raw: Arc<QueuePairHandle>,
}

/// An identifier that is bound to a local address.
pub(super) struct Binding {
    id: CmId,
    key: u64,
    local: SocketAddr,
    picked: bool,
}

#[derive(Default)]
pub(super) struct ConnectorState {
    pub(super) phase: Phase,
    pub(super) local: Option<SocketAddr>,
    /// An identifier for the next Connect, with its key.
    pub(super) bound: Option<(CmId, u64)>,
    /// The port was picked, and the client does not know it.
    pub(super) picked: bool,
    /// The last Connect has failed.
    pub(super) failed: bool,
    pub(super) peer: Option<SocketAddr>,
    pub(super) private_data: Option<Vec<u8>>,
    pub(super) limits: Option<ReadLimits>,
    pub(super) qp: Option<Arc<Qp>>,
    /// The identifier of the connection, and its key. Without one the key is 0, or that of the last identifier.
    pub(super) id: Option<Arc<CmId>>,
    pub(super) key: u64,
    pub(super) requests: Requests,
    /// The connection has ended, by the connection manager's word.
    pub(super) ended: bool,
    /// When Accept gives up.
    pub(super) deadline: Option<Deadline>,
    pub(super) done: AfterUnlock<Work>,
}

impl ConnectorState {
    pub(super) fn take_binding(&mut self, binding: Binding) {
        self.local = Some(binding.local);
        self.bound = Some((binding.id, binding.key));
        self.picked = binding.picked;
        self.failed = false;
    }

    pub(super) fn end_notifications(&mut self) {
        let notifications = self.requests.take_notifications();
        self.done.end(notifications, Status::SUCCESS);
    }

    pub(super) fn cancel_requests(&mut self) {
        self.done.end(self.requests.take_all(), Status::CANCELED);
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        self.core.disown_connection(self.state.get_mut().key);
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(core: Arc<Core>, file: Arc<File>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            core,
            file,
            state: Mutex::default(),
            this: this.clone(),
        })
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        Locked(Some(self.state.lock()))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn begin(&self, overlapped: &Overlapped) -> Result<PendingOverlapped> {
        let file: Arc<dyn OverlappedFile> = self.file.clone();
        overlapped.begin(&file)
    }

    /// Limits above the adapter's are cut to them, without an error (CONN-027).
    pub(super) fn cut(&self, inbound: u32, outbound: u32) -> ReadLimits {
        ReadLimits {
            inbound: inbound.min(self.core.limits.inbound_reads),
            outbound: outbound.min(self.core.limits.outbound_reads),
        }
    }

    pub(super) fn binding(&self, address: SocketAddr) -> Result<Binding> {
        let (id, key, local) = self.core.bind(address)?;
        Ok(Binding {
            id,
            key,
            local,
            picked: address.port() == 0,
        })
    }

    /// Enters a phase, and ends the request that has led there.
    pub(super) fn finish(&self, state: &mut ConnectorState, phase: Phase, status: Status) {
        state.phase = phase;
        self.forget_deadline(state);
        let requests = state.requests.take_state_change();
        state.done.end(requests, status);
    }

    pub(super) fn forget_deadline(&self, state: &mut ConnectorState) {
        if let Some(deadline) = state.deadline.take() {
            self.core.driver.forget(deadline);
        }
    }

    /// What a message carries for the client's private data.
    pub(super) fn field(&self, data: &[u8], message: CmMessage) -> Vec<u8> {
        field(&self.core, data, message)
    }

    /// The private data in what the peer's message carries.
    pub(super) fn received(&self, field: Vec<u8>) -> Vec<u8> {
        received(&self.core, field)
    }

    /// Tells the peer of the end of the connection, which on iWARP the driver does. On InfiniBand the peer learns of a queue pair
    /// that has failed by this alone, and a peer that disconnects waits for it as the answer.
    pub(super) fn disconnect_peer(&self, state: &ConnectorState) {
        if !self.core.limits.is_iwarp
            && let Some(id) = &state.id
            && let Err(error) = id.disconnect()
        {
            tracing::debug!(%error, "the peer does not wait for the end of the connection");
        }
    }

    /// The connection was ended by the peer or by an error.
    pub(super) fn connection_over(&self, state: &mut ConnectorState) {
        state.ended = true;
        state.end_notifications(); // CONN-102
        if let Some(qp) = state.qp.clone() {
            state.done.after(move || qp.end(qp::QpPhase::Ended));
        }
    }

    /// The client's Disconnect ends. The requests of NotifyDisconnect end before it (AMB-033), and results of requests that were
    /// cancelled are there when it has ended.
    pub(super) fn disconnected(&self, state: &mut ConnectorState) {
        let notifications = state.requests.take_notifications();
        let requests = state.requests.take_state_change();
        let qp = state.qp.take();
        state.ended = true;
        state.phase = Phase::Disconnected;
        state.done.before(move || {
            for request in notifications {
                request.complete(Status::SUCCESS);
            }
            let disconnected = move || {
                for request in requests {
                    request.complete(Status::SUCCESS);
                }
            };
            match qp {
                Some(qp) => qp.end_then(qp::QpPhase::Disconnected, disconnected),
                None => disconnected(),
            }
        });
    }

    /// Gives up a Connect or Accept that is under way, or an answer that was not completed. A thread of the driver may be blocked
    /// with the identifier and with the device's queue pair, so they end elsewhere.
    pub(super) fn abandon(&self, state: &mut ConnectorState) {
        let phase = std::mem::replace(&mut state.phase, Phase::Dead);
        self.forget_deadline(state);
        self.core.disown_connection(state.key);
        let (id, qp) = (state.id.take(), state.qp.take());
        state.done.before(move || {
            let mut raw = None;
            match (&phase, &qp) {
                (Phase::Connecting(_), Some(qp)) => qp.remake(),
                // Until the peer has completed the connection, drivers wait when it is to be ended (iw_cm_disconnect).
                (Phase::Accepting, Some(qp)) => raw = qp.give_up(),
                (_, Some(qp)) => {
                    if let Some(id) = &id {
                        let _ = id.disconnect();
                    }
                    qp.end(qp::QpPhase::Disconnected);
                }
                (_, None) => {}
            }
            // The identifier ends first.
            Core::bury((id, raw, phase_parts(phase)));
        });
    }

    /// Fails unless the connector can begin a connection.
    pub(super) fn check_idle(state: &ConnectorState) -> Result<()> {
        match state.phase {
            Phase::Idle => Ok(()),
            Phase::Dead | Phase::Disconnected => fail(
                Status::INVALID_DEVICE_STATE,
                "the connector was used before; create a new one",
            ),
            _ => fail(Status::CONNECTION_ACTIVE, "the connector is in use"),
        }
    }
}

/// What a message carries for private data.
fn field(core: &Core, data: &[u8], message: CmMessage) -> Vec<u8> {
    if core.limits.is_iwarp {
        return data.to_vec();
    }
    private_data::with_length(data, message)
}

/// Rejects a peer for which there is no place, or no connector any more.
pub(crate) fn reject(core: &Core, id: &CmId) {
    let field = field(core, &[], CmMessage::Rejection);
    if let Err(error) = id.reject(&field) {
        tracing::debug!(%error, "a peer was gone before it was rejected");
    }
}

/// The private data in what a peer's message carries.
pub(crate) fn received(core: &Core, field: Vec<u8>) -> Vec<u8> {
    if core.limits.is_iwarp {
        return field;
    }
    private_data::cut(field)
}

/// The locked state of a connector. Dropping it unlocks the connector, and then does what the change of state entails.
pub(super) struct Locked<'a>(Option<MutexGuard<'a, ConnectorState>>);

impl Deref for Locked<'_> {
    type Target = ConnectorState;

    fn deref(&self) -> &ConnectorState {
        self.0.as_ref().expect("taken only in the drop")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut ConnectorState {
        self.0.as_mut().expect("taken only in the drop")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let done = std::mem::take(&mut self.done);
        drop(self.0.take());
        done.run();
    }
}

/// What a phase holds of the device.
fn phase_parts(phase: Phase) -> Option<Box<Attempt>> {
    match phase {
        Phase::Connecting(attempt) => Some(attempt),
        _ => None,
    }
}
