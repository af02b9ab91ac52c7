//! Connectors, ND2's `IND2Connector`: the states of a connection from Connect or Accept to Disconnect, on both sides.
//!
//! [`state`] has the states, [`active`] Connect and CompleteConnect, [`passive`] Accept. What the client calls, and what the queue
//! pair, the stream and the deadlines tell, comes in here and locks the connector. The connector's lock is held while its queue
//! pair is called, so the queue pair's signals are left in an atomic and taken up by whoever holds the lock, before it goes.

mod active;
mod passive;
mod removal;
mod state;

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Instant;

use netdirect::{
    Call, Error, Overlapped, OverlappedObject, QueuePair, ReadLimits, Result, Started, Status,
};
use netdirect_provider::checks::addresses;
use netdirect_provider::listener::WaitingConnector;
use netdirect_provider::owned;
use parking_lot::MutexGuard;

use crate::core::Core;
use crate::device::{DeviceListEntry, DeviceObject, RemovalOrder};
use crate::file::File;
use crate::qp::{Claim, ConnectionOwner, Drivers, Signals};
use crate::status::fail;
use iwarp_io::planted;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::setup::ConnectionRequest;

pub(crate) use state::Connector;
use state::{AwaitedListener, ConnectorState, Phase};

impl Connector {
    fn lock(&self) -> Locked<'_> {
        Locked {
            connector: self,
            state: Some(self.state.lock()),
        }
    }

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
        self.bind_to(&mut state, address)
    }

    // ---- called by the queue pair and by deadlines ----

    fn attend(&self) {
        // A thread that finds the connector locked leaves its signals to the thread with the lock, which looks for signals after
        // it has unlocked. Both threads have a fence, so that at least one of them sees what the other one has done.
        fence(Ordering::SeqCst);
        while self.signals.load(Ordering::SeqCst) != 0 {
            let Some(mut state) = self.state.try_lock() else {
                return;
            };
            let signals = Signals::from_bits_truncate(self.signals.swap(0, Ordering::SeqCst));
            self.take(&mut state, signals);
            let done = std::mem::take(&mut state.done);
            drop(state);
            done.run();
        }
    }

    fn take(&self, state: &mut ConnectorState, signals: Signals) {
        self.accepting(state, signals);
        let mut end = Signals::PEER_CLOSED | Signals::FAILED | Signals::RESET | Signals::GONE;
        if planted!(NotificationLate) {
            end = Signals::GONE;
        }
        if signals.intersects(end) {
            state.show_flushed();
        }
        match state.phase {
            Phase::Connected | Phase::Answered(_) if signals.intersects(end) => {
                state.ended = true;
                state.end_notifications(); // CONN-102
            }
            Phase::Disconnecting if signals.contains(Signals::GONE) => {
                self.disconnected(state);
            }
            _ => {}
        }
    }

    /// The client's Disconnect ends. The requests of NotifyDisconnect end before it (AMB-033).
    fn disconnected(&self, state: &mut ConnectorState) {
        state.end_notifications();
        self.finish(state, Phase::Disconnected, Status::SUCCESS);
    }

    /// The client has released its queue pair (CONN-018, CONN-052, CONN-110).
    fn lose_queue_pair(&self) {
        let mut state = self.lock();
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting(_) => {
                self.give_up(&mut state);
                state.cancel_requests();
            }
            Phase::Answered(_) => self.abandon_answer(&mut state),
            // The queue pair disconnects itself. For the client the connection ends here (CONN-116).
            Phase::Connected | Phase::Disconnecting => {
                state.end_notifications(); // CONN-105
                self.finish(&mut state, Phase::Disconnected, Status::CANCELED); // CONN-110
                state.show_flushed();
                state.qp = None;
            }
            _ => {}
        }
    }

    /// The client has flushed its queue pair: an Accept that is under way ends, as if the queue pair were released.
    fn flush_queue_pair(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Accepting(_)) {
            self.give_up(&mut state);
            state.cancel_requests();
        }
    }

    /// Gives up a Connect or Accept that is under way. The peer sees a reset, by which it tells this from a refusal (AMB-004).
    fn give_up(&self, state: &mut ConnectorState) {
        let qp = state.qp.take();
        if let Phase::Connecting(attempt) = std::mem::take(&mut state.phase) {
            attempt.reset(&self.core);
            qp.inspect(|qp| qp.unclaim());
        } else if let Some(qp) = qp {
            state.done.after(qp.abort());
        }
        self.enter(state, Phase::Dead);
    }

    /// Rejects a peer that has accepted: the peer sees the end of the stream, and no message on it (AMB-004, IW-017).
    fn abandon_answer(&self, state: &mut ConnectorState) {
        let Phase::Answered(mut answered) = std::mem::replace(&mut state.phase, Phase::Dead) else {
            return;
        };
        let stream = answered.startup.take_stream();
        match (stream, state.qp.take()) {
            (Some(stream), qp) => {
                stream.close_write();
                drop(qp.inspect(|qp| qp.unclaim()));
            }
            (None, Some(qp)) => state.done.after(qp.disconnect().1),
            (None, None) => {}
        }
    }

    fn cancel(&self) {
        let mut state = self.lock();
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting(_) => self.give_up(&mut state),
            // The connection ends all the same; no request waits for it any more.
            Phase::Disconnecting => self.enter(&mut state, Phase::Disconnected),
            _ => {}
        }
        state.cancel_requests(); // CONN-105, TST-044
        if let Some(guard) = state.guard.clone() {
            state.done.last(guard);
        }
    }

    /// The client has released its last reference.
    fn released(&self) {
        let mut state = self.lock();
        let waited = match &state.phase {
            Phase::Waiting(listener) => listener.upgrade(),
            _ => None,
        };
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting(_) => self.give_up(&mut state),
            Phase::Answered(_) => self.abandon_answer(&mut state),
            Phase::Offered(_) => self.refuse(&mut state, &[]),
            Phase::Disconnecting => self.enter(&mut state, Phase::Disconnected),
            Phase::Waiting(_) => self.enter(&mut state, Phase::Dead),
            _ => {}
        }
        state.cancel_requests();
        state.show_flushed();
        drop(state); // The listener locks connectors, so it must not be called under a connector's lock.
        if let Some(listener) = waited {
            listener.connector_released(self);
        }
    }

    fn reject(&self, private_data: &[u8]) -> Result<()> {
        let mut state = self.lock();
        self.core.device.present()?; // CONN-070
        let peer = state.peer.map(|peer| peer.ip());
        self.check_private_data(private_data, "MaxCalleeData", peer)?;
        match state.phase {
            Phase::Offered(_) => {
                self.look_for_end(&mut state);
                if matches!(state.phase, Phase::Gone) {
                    state.phase = Phase::Dead;
                    return fail(Status::CONNECTION_ABORTED, "the peer has given up"); // CONN-071
                }
                self.refuse(&mut state, private_data);
            }
            // MPA has no message that could carry the private data of this Reject (IW-018).
            Phase::Answered(_) => self.abandon_answer(&mut state),
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
        let Some(qp) = state.qp.clone() else {
            return fail(Status::CONNECTION_INVALID, "the connector is not connected");
        };
        state.requests.add_state_change(self.begin(overlapped)?);
        state.phase = Phase::Disconnecting;
        let (gone, news) = qp.disconnect();
        state.done.after(news);
        if gone {
            self.disconnected(&mut state);
        } else {
            let news = qp.drive_from(Drivers::Control);
            state.done.after(news);
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
}

impl WaitingConnector for Connector {
    type PeerRequest = ConnectionRequest;

    fn wait_for_request(&self, listener: Weak<AwaitedListener>) -> Result<()> {
        let mut state = self.lock();
        match state.phase {
            Phase::Idle => state.phase = Phase::Waiting(listener),
            Phase::Dead | Phase::Disconnected => {
                return fail(
                    Status::INVALID_DEVICE_STATE,
                    "the connector was used before; create a new one",
                );
            }
            _ => return fail(Status::CONNECTION_ACTIVE, "the connector is in use"), // LSTN-031
        }
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

    fn offer(&self, request: ConnectionRequest) -> Option<ConnectionRequest> {
        let mut state = self.lock();
        let Phase::Waiting(listener) = &state.phase else {
            return Some(request);
        };
        let listener = listener.clone();
        self.take_request(&mut state, listener, request);
        None
    }

    fn take_back(&self, listener: &Weak<AwaitedListener>) -> Result<Option<ConnectionRequest>> {
        self.give_back(&mut self.lock(), listener)
    }
}

/// The locked state of a connector. Dropping it unlocks the connector, then completes requests, then takes up the signals that
/// other threads left meanwhile. Every holder of the lock has to do this, however short it held the lock.
struct Locked<'a> {
    connector: &'a Connector,
    /// Taken only in the drop.
    state: Option<MutexGuard<'a, ConnectorState>>,
}

impl Deref for Locked<'_> {
    type Target = ConnectorState;

    fn deref(&self) -> &ConnectorState {
        self.state.as_ref().expect("taken only in the drop")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut ConnectorState {
        self.state.as_mut().expect("taken only in the drop")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let done = std::mem::take(&mut self.done);
        drop(self.state.take());
        done.run();
        self.connector.attend();
    }
}

impl ConnectionOwner for Connector {
    fn signalled(&self, signals: Signals) {
        self.signals.fetch_or(signals.bits(), Ordering::SeqCst);
        self.attend();
    }

    /// A Connect or Accept that is under way is given up; a connection ends for the client (CONN-018, CONN-052, CONN-110).
    fn queue_pair_released(&self) {
        self.lose_queue_pair();
    }

    fn queue_pair_flushed(&self) {
        self.flush_queue_pair();
    }
}

impl Source for Connector {
    fn ready(&self, edges: Edges) -> Turn {
        let mut state = self.lock();
        match state.phase {
            Phase::Connecting(_) => self.advance(&mut state, edges),
            Phase::Offered(_) => self.look_for_end(&mut state),
            _ => {}
        }
        Turn::default()
    }
}

impl Timed for Connector {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut state = self.lock();
        if state.dial_timer.take_if(|own| *own == key).is_some() {
            return self.dial_expired(&mut state);
        }
        match &mut state.phase {
            Phase::Connecting(attempt) => {
                let outcome = attempt.startup.expired(key);
                self.initiator_told(&mut state, outcome);
            }
            Phase::Answered(answered) => {
                let outcome = answered.startup.expired(key);
                self.initiator_told(&mut state, outcome);
            }
            Phase::Accepting(startup) => {
                let outcome = startup.expired(key);
                self.responder_told(&mut state, outcome);
            }
            _ => {}
        }
    }
}

/// The client's reference to a connector.
#[derive(Debug)]
pub(crate) struct ConnectorHandle(
    pub(crate) Arc<Connector>,
    #[expect(dead_code, reason = "kept until it is dropped")] DeviceListEntry,
);

impl ConnectorHandle {
    pub(crate) fn new(core: Arc<Core>, file: Arc<File>) -> Result<Self> {
        let device = Arc::clone(&core.device);
        let connector = Connector::new(core, file);
        let this = Arc::downgrade(&(Arc::clone(&connector) as Arc<dyn DeviceObject>));
        Ok(Self(
            connector,
            device.add_object(RemovalOrder::Connector, this)?,
        ))
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
        let options = &self.0.core.options;
        let limits = options.asked_limits(inbound_read_limit, outbound_read_limit);
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
        let options = &self.0.core.options;
        let limits = options.asked_limits(inbound_read_limit, outbound_read_limit);
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
