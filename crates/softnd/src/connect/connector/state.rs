//! What a connector is: its states, and what both sides do with them.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Weak};
use std::time::Duration;

use netdirect::{
    Error, Overlapped, OverlappedFile, PendingOverlapped, QueuePair, ReadLimits, Result, Status,
};
use netdirect_provider::checks::{own, sizes};
use netdirect_provider::listener;
use netdirect_provider::requests::Requests;
use parking_lot::Mutex;

use crate::connect::requests::Done;
use crate::core::Core;
use crate::file::File;
use crate::qp::{FlushGuard, Qp, QpHandle};
use crate::status::bind_error;
use iwarp_io::endpoint::{COPIED_BELOW, EARLY};
use iwarp_io::limited;
use iwarp_io::progress::timers::TimerKey;
use iwarp_io::setup::{Agreed, Initiator, MpaStartup, Responder, Role, StreamConfig};
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::stream::Stream;
use iwarp_io::transport::{Bound, Dialer, local_ports};

/// The connector itself.
pub(crate) struct Connector {
    pub(super) core: Arc<Core>,
    pub(super) file: Arc<File>,
    pub(super) state: Mutex<ConnectorState>,
    /// What the queue pair has signalled and nobody has taken up yet.
    pub(super) signals: AtomicU8,
    pub(super) this: Weak<Self>,
}

/// The listener at which a connector waits for a request.
pub(super) type AwaitedListener = dyn listener::AwaitedListener<Connector>;

/// What a connector is doing.
#[derive(Default)]
pub(super) enum Phase {
    /// Made, bound or not, or back here after an attempt that may be repeated.
    #[default]
    Idle,
    /// A Connect is under way.
    Connecting(Box<Attempt>),
    /// The peer has accepted, the client has not completed.
    Answered(Box<Answered>),
    /// A client of this listener waits for a request to arrive here.
    Waiting(Weak<AwaitedListener>),
    /// A request has arrived.
    Offered(Box<Offered>),
    /// The peer has given up before the client decided.
    Gone,
    /// The Reply has left, the peer's ready-to-receive message has not come.
    Accepting(Box<MpaStartup<Responder>>),
    /// Connected.
    Connected,
    /// Waiting for the peer's end.
    Disconnecting,
    /// Disconnected.
    Disconnected,
    /// Rejected, cancelled or failed for good.
    Dead,
}

impl Phase {
    /// The connector cannot be used again. It has no peer and no local address any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Disconnected | Self::Dead)
    }
}

/// A Connect under way.
pub(super) struct Attempt {
    pub(super) destination: SocketAddr,
    pub(super) dial: Dial,
    pub(super) startup: MpaStartup<Initiator>,
}

/// Where the transport stands with an attempt.
pub(super) enum Dial {
    /// A fault plan holds the attempt back, to open the connection later or never.
    Held { opens: bool },
    /// It connects.
    UnderWay { dialer: Dialer, token: u64 },
    /// It has connected, or has not begun.
    Idle,
}

impl Attempt {
    /// What the Connect waits for.
    pub(super) fn waits(&self) -> String {
        let to = self.destination;
        match self.dial {
            Dial::UnderWay { .. } => format!("Connect waits for a connection to {to}"),
            _ => format!("Connect waits for {to} to accept or reject"),
        }
    }

    /// Gives up: the peer sees a reset.
    pub(super) fn reset(self, core: &Core) {
        if let Dial::UnderWay { dialer, token } = self.dial {
            core.driver.control.remove(&dialer, token);
            dialer.reset();
        }
        self.startup.reset();
    }
}

/// An attempt that the peer has accepted.
pub(super) struct Answered {
    /// The queue pair has its stream when the ready-to-receive message was sent before the client completed the Connect.
    pub(super) startup: MpaStartup<Initiator>,
    pub(super) agreed: Agreed,
}

/// A request from a peer.
pub(super) struct Offered {
    pub(super) startup: MpaStartup<Responder>,
    /// The listener at which it arrived.
    pub(super) listener: Weak<AwaitedListener>,
}

/// A local address that no connector has taken yet.
pub(super) struct Binding {
    bound: Bound,
    local: SocketAddr,
    /// softnd has chosen the port, not the client.
    picked: bool,
}

#[derive(Default)]
pub(super) struct ConnectorState {
    pub(super) phase: Phase,
    pub(super) local: Option<SocketAddr>,
    /// The reserved local address, until an attempt uses it up.
    pub(super) bound: Option<Bound>,
    /// The client has neither chosen nor seen the local port, so another port may take its place.
    pub(super) picked: bool,
    /// The last attempt failed and may be repeated: Bind replaces the binding (AMB-034).
    pub(super) failed: bool,
    pub(super) peer: Option<SocketAddr>,
    pub(super) private_data: Option<Vec<u8>>,
    pub(super) limits: Option<ReadLimits>,
    pub(super) qp: Option<Arc<Qp>>,
    pub(super) requests: Requests,
    /// Holds flushed requests back, from the start of the stream until the queue pair has told of the end of the connection.
    pub(super) guard: Option<Arc<FlushGuard>>,
    /// The connection has ended for the queue pair, though the client has not disconnected.
    pub(super) ended: bool,
    /// The end of the transport's attempt to connect, or of the time for which a fault plan holds it back.
    pub(super) dial_timer: Option<TimerKey>,
    /// What whoever holds the lock has to do after unlocking.
    pub(super) done: Done,
}

impl ConnectorState {
    pub(super) fn take_binding(&mut self, binding: Binding) {
        self.local = Some(binding.local);
        self.bound = Some(binding.bound);
        self.picked = binding.picked;
        self.failed = false;
    }

    /// The connection is over for the client: its requests of NotifyDisconnect end with success.
    pub(super) fn end_notifications(&mut self) {
        let notifications = self.requests.take_notifications();
        self.done.end(notifications, Status::SUCCESS);
    }

    /// The client sees flushed requests, once the requests that end now have ended (CONN-106).
    pub(super) fn show_flushed(&mut self) {
        if let Some(guard) = self.guard.take() {
            self.done.last(guard);
        }
    }

    pub(super) fn cancel_requests(&mut self) {
        self.done.end(self.requests.take_all(), Status::CANCELED);
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
            signals: AtomicU8::new(0),
            this: this.clone(),
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn begin(&self, overlapped: &Overlapped) -> Result<PendingOverlapped> {
        let file: Arc<dyn OverlappedFile> = self.file.clone();
        overlapped.begin(&file)
    }

    pub(super) fn set_dial_timer(&self, state: &mut ConnectorState, limit: Option<Duration>) {
        self.clear_dial_timer(state);
        let driver = &self.core.driver;
        state.dial_timer =
            limit.map(|limit| driver.set_timer(driver.now() + limit, self.this.clone()));
    }

    pub(super) fn clear_dial_timer(&self, state: &mut ConnectorState) {
        if let Some(key) = state.dial_timer.take() {
            self.core.driver.cancel_timer(key);
        }
    }

    pub(super) fn bind_to(&self, state: &mut ConnectorState, address: SocketAddr) -> Result<()> {
        state.take_binding(self.binding(address)?);
        Ok(())
    }

    pub(super) fn binding(&self, address: SocketAddr) -> Result<Binding> {
        let transport = &self.core.driver.transport;
        let bound = local_ports::bind(transport, address, Purpose::Connecting);
        let bound = bound.map_err(|why| bind_error(&why))?;
        Ok(Binding {
            local: bound.local().unwrap_or(address),
            bound,
            picked: address.port() == 0,
        })
    }

    /// Ends the Connect, CompleteConnect, Accept or Disconnect that is in flight.
    pub(super) fn finish(&self, state: &mut ConnectorState, phase: Phase, end: impl Into<Error>) {
        self.enter(state, phase);
        state.done.end(state.requests.take_state_change(), end);
    }

    pub(super) fn enter(&self, state: &mut ConnectorState, phase: Phase) {
        self.clear_dial_timer(state);
        state.phase = phase;
    }

    /// Returns an error for private data that is too long for the adapter, or for what is known of the peer.
    pub(super) fn check_private_data(
        &self,
        private_data: &[u8],
        limit: &str,
        peer: Option<IpAddr>,
    ) -> Result<()> {
        let options = &self.core.options;
        let most = peer.map_or(options.private_data, |peer| {
            options.for_peer(peer).private_data
        });
        sizes::private_data(private_data, most, limit)
    }

    /// The client's queue pair, if it is one of this adapter's (CONN-062).
    pub(super) fn queue_pair(&self, qp: &Arc<dyn QueuePair>) -> Result<Arc<Qp>> {
        let qp = own::queue_pair::<QpHandle>(qp, &self.core)?;
        Ok(Arc::clone(&qp.0))
    }

    /// How the stream runs once the start-up is over.
    pub(super) fn stream_config(
        &self,
        qp: &Qp,
        role: Role,
        agreed: &Agreed,
        stream: &Stream,
    ) -> StreamConfig {
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
            receive_wait: qp.owner().receive_wait(),
            copied: stream.copied_payload(),
            copied_below: COPIED_BELOW,
            confirm_writes: options.confirm_writes,
            early: EARLY,
        }
    }
}
