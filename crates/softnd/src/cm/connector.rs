//! Connectors, ND2's `IND2Connector`: the state machine of catalogue section 1.1, both sides.
//!
//! [`active`] has Connect and CompleteConnect, [`passive`] Accept; what both sides share is here. The connector's lock is
//! held while its queue pair is called, so the queue pair's signals are left in an atomic and taken up by whoever holds
//! the lock, before it goes.

mod active;
mod passive;
mod removal;
mod requests;

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp::StreamConfig;
use iwarp::mpa::startup::{Agreed, Frame};
use netdirect::{
    Call, Error, Overlapped, OverlappedFile, OverlappedObject, PendingOverlapped, QueuePair,
    ReadLimits, Result, Started, Status,
};
use parking_lot::{Mutex, MutexGuard};

use super::greeting::Arrival;
use super::listener::Listener;
use super::{Done, Exchange};
use crate::core::{Core, downcast};
use crate::device::{Enlistment, Rank, Removable};
use crate::file::File;
use crate::qp::{self, Claim, ConnectionOwner, Drivers, FlushGuard, Qp, Signals};
use crate::status::{bind_error, fail};
use iwarp_io::endpoint::EARLY;
use iwarp_io::limited;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::transport::stream::Stream;
use iwarp_io::transport::{Bound, ports};

use active::Attempt;
use requests::Requests;

/// The connector itself.
pub(crate) struct Connector {
    core: Arc<Core>,
    file: Arc<File>,
    state: Mutex<State>,
    signals: AtomicU8,
    this: Weak<Self>,
}

/// Where a connector stands; the names in brackets are those of the catalogue's table.
#[derive(Debug, Default)]
enum Phase {
    /// Made, bound or not, or back here after an attempt that may be repeated (A0, A1, P0).
    #[default]
    Idle,
    /// A Connect is under way (A2).
    Connecting(Box<Attempt>),
    /// The peer has accepted, the client has not completed (A3).
    Answered(Box<Answered>),
    /// A client of this listener waits for a request to arrive here (P1).
    Waiting(Weak<Listener>),
    /// A request has arrived (P2).
    Offered(Box<Offered>),
    /// The peer has given up before the client decided (P2g).
    Gone,
    /// The Reply has left, the peer's ready-to-receive message has not come (P3).
    Accepting,
    /// Connected (C, C1, E).
    Connected,
    /// Waiting for the peer's end (D1).
    Disconnecting,
    /// Disconnected (D).
    Disconnected,
    /// Rejected, cancelled or failed for good (AX, PX).
    Dead,
}

impl Phase {
    /// Nothing comes after it: there is no peer any more, and no local address.
    fn is_over(&self) -> bool {
        matches!(self, Self::Disconnected | Self::Dead)
    }
}

/// An answered attempt.
#[derive(Debug)]
struct Answered {
    /// `None` when the ready-to-receive message was sent ahead of the client: the queue pair has the stream.
    stream: Option<Stream>,
    agreed: Agreed,
}

/// A request from a peer.
#[derive(Debug)]
struct Offered {
    exchange: Exchange,
    request: Frame,
    /// Where it came from.
    listener: Weak<Listener>,
}

/// A local address that no connector has taken yet.
struct Binding {
    bound: Bound,
    local: SocketAddr,
    /// Nobody has chosen the port.
    picked: bool,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    local: Option<SocketAddr>,
    /// The reserved local address, until an attempt uses it up.
    bound: Option<Bound>,
    /// Nobody has chosen the local port, nor seen it: another one does as well.
    picked: bool,
    /// The last attempt failed and may be repeated: Bind replaces the binding (AMB-034).
    failed: bool,
    peer: Option<SocketAddr>,
    private_data: Option<Vec<u8>>,
    limits: Option<ReadLimits>,
    qp: Option<Arc<Qp>>,
    requests: Requests,
    /// From the start of the stream until the queue pair has told of its end.
    guard: Option<Arc<FlushGuard>>,
    /// The connection has ended for the queue pair, though the client has not disconnected.
    ended: bool,
    timer: Option<TimerKey>,
    /// What is to be done when the lock is released: every holder owes it.
    done: Done,
}

impl State {
    fn take_binding(&mut self, binding: Binding) {
        self.local = Some(binding.local);
        self.bound = Some(binding.bound);
        self.picked = binding.picked;
        self.failed = false;
    }

    /// The connection is over for the client: its requests of NotifyDisconnect end well.
    fn end_notifications(&mut self) {
        let notifications = self.requests.take_notifications();
        self.done.push(notifications, Status::SUCCESS);
    }

    fn cancel_requests(&mut self) {
        self.done.push(self.requests.take_all(), Status::CANCELED);
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl Connector {
    fn new(core: Arc<Core>, file: Arc<File>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            core,
            file,
            state: Mutex::default(),
            signals: AtomicU8::new(0),
            this: this.clone(),
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn begin(&self, overlapped: &Overlapped) -> Result<PendingOverlapped> {
        let file: Arc<dyn OverlappedFile> = self.file.clone();
        overlapped.begin(&file)
    }

    fn source(&self) -> Weak<dyn Source> {
        self.this.clone()
    }

    fn lock(&self) -> Locked<'_> {
        Locked {
            connector: self,
            state: Some(self.state.lock()),
        }
    }

    fn set_timer(&self, state: &mut State, limit: Option<Duration>) {
        self.clear_timer(state);
        state.timer = limit.map(|limit| {
            self.core
                .driver
                .set_timer(self.core.driver.now() + limit, self.this.clone())
        });
    }

    fn clear_timer(&self, state: &mut State) {
        if let Some(key) = state.timer.take() {
            self.core.driver.cancel_timer(key);
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
        if !self.core.serves(address.ip()) {
            let what = format!("{} is not an address of this adapter", address.ip());
            return Err(Error::new(Status::INVALID_ADDRESS, what)); // CONN-012
        }
        self.core.device.admit(Call::BindConnector)?;
        state.bound = None; // before its port is asked for again
        self.bind_to(&mut state, address)
    }

    fn bind_to(&self, state: &mut State, address: SocketAddr) -> Result<()> {
        state.take_binding(self.binding(address)?);
        Ok(())
    }

    fn binding(&self, address: SocketAddr) -> Result<Binding> {
        let bound =
            ports::bind(&self.core.driver.transport, address).map_err(|why| bind_error(&why))?;
        Ok(Binding {
            local: bound.local().unwrap_or(address),
            bound,
            picked: address.port() == 0,
        })
    }

    /// Ends the step that is under way.
    fn finish(&self, state: &mut State, phase: Phase, status: Status) {
        self.enter(state, phase);
        state.done.push(state.requests.take_step(), status);
    }

    fn enter(&self, state: &mut State, phase: Phase) {
        self.clear_timer(state);
        state.phase = phase;
    }

    // ---- what the queue pair and the deadlines tell ----

    fn attend(&self) {
        // Who finds the connector locked leaves signals to the holder, who looks for them after it has unlocked. With a fence
        // on both sides, one of the two sees what the other has done.
        fence(Ordering::SeqCst);
        while self.signals.load(Ordering::SeqCst) != 0 {
            let Some(mut state) = self.state.try_lock() else {
                return;
            };
            let signals = Signals::from_bits_truncate(self.signals.swap(0, Ordering::SeqCst));
            self.take(&mut state, signals);
            let done = std::mem::take(&mut state.done);
            drop(state);
            done.deliver();
        }
    }

    fn take(&self, state: &mut State, signals: Signals) {
        if matches!(state.phase, Phase::Accepting) {
            self.accepting(state, signals);
        }
        let mut end = Signals::PEER_CLOSED | Signals::FAILED | Signals::RESET | Signals::GONE;
        if iwarp::planted!(NotificationLate) {
            end = Signals::GONE;
        }
        if signals.intersects(end) {
            state.done.guard = state.guard.take();
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

    /// The own Disconnect ends, and before it what waited for the end of the connection (AMB-033).
    fn disconnected(&self, state: &mut State) {
        state.end_notifications();
        self.finish(state, Phase::Disconnected, Status::SUCCESS);
    }

    /// The client has released its queue pair (CONN-018, CONN-052, CONN-110).
    fn lose_queue_pair(&self) {
        let mut state = self.lock();
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting => {
                self.give_up(&mut state);
                state.cancel_requests();
            }
            Phase::Answered(_) => self.abandon_answer(&mut state),
            // The queue pair disconnects itself, and for the client that is the end of the connection (CONN-116).
            Phase::Connected | Phase::Disconnecting => {
                state.end_notifications(); // CONN-105
                self.finish(&mut state, Phase::Disconnected, Status::CANCELED); // CONN-110
                state.done.guard = state.guard.take();
                state.qp = None;
            }
            _ => {}
        }
    }

    /// Ends an attempt that is under way, visibly as one that was given up (AMB-004).
    fn give_up(&self, state: &mut State) {
        let qp = state.qp.take();
        if let Phase::Connecting(attempt) = std::mem::take(&mut state.phase) {
            attempt.reset(&self.core);
            qp.inspect(|qp| qp.unclaim());
        } else if let Some(qp) = qp {
            state.done.news.push(qp.abort());
        }
        self.enter(state, Phase::Dead);
    }

    /// Turns down an answer: the peer sees the end of the stream without any message on it (AMB-004, IW-017).
    fn abandon_answer(&self, state: &mut State) {
        self.clear_timer(state);
        if let Phase::Answered(mut answered) = std::mem::replace(&mut state.phase, Phase::Dead)
            && let Some(stream) = answered.stream.take()
        {
            stream.close_write();
            if let Some(qp) = state.qp.take() {
                qp.unclaim();
            }
        } else if let Some(qp) = state.qp.take() {
            state.done.news.push(qp.disconnect().1);
        }
    }

    fn cancel(&self) {
        let mut state = self.lock();
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting => self.give_up(&mut state),
            // The end of the connection goes its way, only nobody waits for it any more.
            Phase::Disconnecting => self.enter(&mut state, Phase::Disconnected),
            _ => {}
        }
        state.cancel_requests(); // CONN-105, TST-044
        state.done.guard = state.guard.clone();
    }

    /// The client has released its last reference.
    fn released(&self) {
        let mut state = self.lock();
        let waited = match &state.phase {
            Phase::Waiting(listener) => listener.upgrade(),
            _ => None,
        };
        match state.phase {
            Phase::Connecting(_) | Phase::Accepting => self.give_up(&mut state),
            Phase::Answered(_) => self.abandon_answer(&mut state),
            Phase::Offered(_) => self.refuse(&mut state, &[]),
            Phase::Disconnecting => self.enter(&mut state, Phase::Disconnected),
            Phase::Waiting(_) => self.enter(&mut state, Phase::Dead),
            _ => {}
        }
        state.cancel_requests();
        state.done.guard = state.guard.take();
        drop(state); // the listener locks connectors, so that it is not to be called under this lock
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
            // MPA has no place for the private data of this reject (IW-018).
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
        state.requests.add_step(self.begin(overlapped)?);
        state.phase = Phase::Disconnecting;
        let (gone, news) = qp.disconnect();
        state.done.news.push(news);
        if gone {
            self.disconnected(&mut state);
        } else {
            let news = qp.drive_from(Drivers::Control);
            state.done.news.push(news);
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
            state.done.push([request], Status::SUCCESS); // CONN-107
        } else {
            state.requests.add_notification(request);
        }
        Ok(Started::Pending)
    }

    /// Private data that the adapter, or a peer that is known, would not carry.
    fn check_private_data(
        &self,
        private_data: &[u8],
        limit: &str,
        peer: Option<IpAddr>,
    ) -> Result<()> {
        let options = &self.core.options;
        let most = peer.map_or(options.private_data, |peer| {
            options.towards(peer).private_data
        });
        if private_data.len() <= most as usize {
            return Ok(());
        }
        let what = format!(
            "{} octets of private data, {limit} is {most}",
            private_data.len()
        );
        Err(Error::new(Status::INVALID_BUFFER_SIZE, what)) // CONN-017, CONN-058, CONN-073
    }

    /// The client's queue pair, if it is one of this adapter's (CONN-062).
    fn queue_pair(&self, qp: &Arc<dyn QueuePair>) -> Result<Arc<Qp>> {
        downcast::<qp::Handle>(qp.clone(), |qp| {
            Arc::ptr_eq(qp.0.owner().core(), &self.core)
        })
        .map(|qp| Arc::clone(&qp.0))
        .ok_or_else(|| {
            Error::new(
                Status::INVALID_PARAMETER_1,
                "the queue pair is not one of this adapter's",
            )
        })
    }

    /// How the stream runs once the start-up is over.
    fn stream_config(&self, role: iwarp::Role, agreed: &Agreed, stream: &Stream) -> StreamConfig {
        let options = &self.core.options;
        if options.confirm_writes && agreed.limits.ord == 0 {
            limited!(warn, local = %stream.local(), peer = %stream.peer(),
                "Writes to this peer complete unconfirmed: it serves no Reads");
        }
        StreamConfig {
            role,
            crc: agreed.crc,
            markers: agreed.markers,
            limits: agreed.limits,
            ready: agreed.ready,
            receive_wait: options.effective_receive_wait(),
            private_payload: stream.copies(),
            confirm_writes: options.confirm_writes,
            early: EARLY,
        }
    }
}

/// The locked state of a connector. When it goes, requests are completed, and signals that came meanwhile are taken up:
/// every holder owes them that, however short it held the lock.
struct Locked<'a> {
    connector: &'a Connector,
    /// Taken only in the drop.
    state: Option<MutexGuard<'a, State>>,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("taken only in the drop")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("taken only in the drop")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let done = std::mem::take(&mut self.done);
        drop(self.state.take());
        done.deliver();
        self.connector.attend();
    }
}

impl ConnectionOwner for Connector {
    fn signalled(&self, signals: Signals) {
        self.signals.fetch_or(signals.bits(), Ordering::SeqCst);
        self.attend();
    }

    /// An attempt to connect is given up; a connection ends for the client (CONN-018, CONN-052, CONN-110).
    fn queue_pair_released(&self) {
        self.lose_queue_pair();
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
        if state.timer != Some(key) {
            return;
        }
        state.timer = None;
        match state.phase {
            Phase::Connecting(_) => self.attempt_expired(&mut state),
            Phase::Answered(_) => self.send_ready_early(&mut state),
            Phase::Accepting => {
                if let Some(qp) = state.qp.take() {
                    state.done.news.push(qp.abort());
                }
                self.finish(&mut state, Phase::Dead, Status::IO_TIMEOUT); // CONN-059
            }
            _ => {}
        }
    }
}

/// The client's reference to a connector.
#[derive(Debug)]
pub(crate) struct Handle(
    pub(crate) Arc<Connector>,
    #[expect(dead_code, reason = "kept until it is dropped")] Enlistment,
);

impl Handle {
    pub(crate) fn new(core: Arc<Core>, file: Arc<File>) -> Result<Self> {
        let device = Arc::clone(&core.device);
        let connector = Connector::new(core, file);
        let this = Arc::downgrade(&(Arc::clone(&connector) as Arc<dyn Removable>));
        Ok(Self(connector, device.enlist(Rank::Connector, this)?))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.released();
    }
}

impl OverlappedObject for Handle {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.cancel();
        Ok(())
    }
}

impl netdirect::Connector for Handle {
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
        self.0
            .connect(qp, destination, limits, private_data, overlapped)
    }

    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.0.complete_connect(overlapped)
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
        self.0.accept(qp, limits, private_data, overlapped)
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
        state.picked = false; // the client counts on it from here on
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
