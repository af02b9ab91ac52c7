//! One UDP socket with the connections of QUIC on it. A thread that drives one of its streams drives all of it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use quinn_proto::Endpoint;
use rustix::io::Errno;

use super::account::UndeliveredLimits;
use super::address_probe::AddressProbe;
use super::config::{self, Settings};
use super::endpoint::connection::{PortProbing, Probing};
use super::endpoint::{Dial, Outside, QuicEndpoint};
use super::refusals::Refusals;
use super::security::Security;
use crate::environment::Environment;
use crate::faults::Faults;
use crate::log::targets;
use crate::progress::domain::{Domain, Source, Turn};
use crate::progress::shared_descriptor::{CarriedSource, Carrier, CarrierId};
use crate::progress::timers::{Timed, TimerKey};
use crate::progress::{Edges, Readiness, Set};
use crate::system_call::is_refusal;
use crate::transport::datagrams::{
    BATCH, CarriedWatch, Driving, FaultedSocket, LONGEST_TRAIN, PlainSocket, Socket, SocketDrivers,
    with_memory,
};

/// The most receives of one call, so that a flood does not keep the driver from other work for long.
const VISITS: usize = 32;

/// The interval at which a thread looks at a socket that it waits for and that another thread may drive.
const LOOK: Duration = Duration::from_millis(5);

/// The parts of an adapter that its sockets need.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) environment: Environment,
    pub(super) drivers: Arc<OnceLock<SocketDrivers>>,
    pub(super) settings: Settings,
    pub(super) undelivered: UndeliveredLimits,
    pub(super) security: Security,
    pub(super) refusals: Arc<Refusals>,
    /// The fault plan of the adapter, if it has one.
    pub(super) faults: Arc<OnceLock<Arc<Faults>>>,
    pub(super) owner: Weak<dyn SharedSocketOwner>,
}

/// The owner of a socket, which has opened it.
pub(super) trait SharedSocketOwner: Send + Sync {
    /// The socket is no longer used. Called without its lock.
    fn unused(&self, shared: &SharedSocket);
}

/// See the [module](self).
pub(super) struct SharedSocket {
    this: Weak<Self>,
    socket: Socket,
    local: SocketAddr,
    around: Surroundings,
    state: Mutex<QuicEndpoint>,
    driving: Driving<Self>,
}

impl std::fmt::Debug for SharedSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedSocket")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

impl SharedSocket {
    /// Opens a socket at this address.
    pub(super) fn open(around: Surroundings, address: SocketAddr) -> io::Result<Arc<Self>> {
        let (socket, seed) = match &around.environment {
            Environment::System => (PlainSocket::of_system(address)?, None),
            Environment::Sim(world) => {
                let mut seed = [0; 32];
                for octets in seed.chunks_mut(8) {
                    octets.copy_from_slice(&world.random().to_be_bytes());
                }
                (PlainSocket::of_world(world, address)?, Some(seed))
            }
        };
        let local = socket.local()?;
        let faults = around.faults.get();
        // A listener has chosen the port.
        let connects = address.port() == 0;
        let faults = faults.and_then(|faults| faults.datagrams(connects));
        let endpoint = around.security.endpoint_config();
        let mut endpoint = endpoint.map_err(io::Error::other)?;
        config::endpoint(&mut endpoint, seed);
        let endpoint = Endpoint::new(
            Arc::new(endpoint),
            Some(around.settings.server(local.ip(), local.ip())),
            !socket.may_fragment(),
            seed,
        );
        let on_failure = around.security.failure_report();
        let beginning = around.environment.now();
        let refusals = Arc::clone(&around.refusals);
        let in_flight = Arc::clone(around.settings.in_flight());
        let undelivered = around.undelivered;
        let shared = Arc::new_cyclic(|this: &Weak<Self>| Self {
            this: this.clone(),
            socket: match faults {
                None => Socket::Plain(socket),
                Some(faults) => {
                    let (environment, drivers) =
                        (around.environment.clone(), around.drivers.clone());
                    let shared = this.clone();
                    let faulted = FaultedSocket::new(socket, faults, environment, drivers, shared);
                    Socket::Faulted(Box::new(faulted))
                }
            },
            local,
            around,
            state: Mutex::new(QuicEndpoint::new(
                endpoint,
                local,
                on_failure,
                (refusals, in_flight),
                undelivered,
            )),
            driving: Driving::new(this.clone(), beginning),
        });
        shared.driving.settle(shared.drivers());
        Ok(shared)
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.around.environment
    }

    fn drivers(&self) -> Option<&SocketDrivers> {
        self.around.drivers.get()
    }

    /// Calls `act` with the state, then raises the sources that became ready and sets the next deadline.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut QuicEndpoint, Outside<'_>) -> T) -> T {
        let source = || self.source();
        let mut outside = Outside {
            socket: &self.socket,
            now: self.around.environment.now(),
            source: &source,
            settings: &self.around.settings,
        };
        let mut state = self.state.lock();
        let outcome = act(&mut state, outside);
        let mut visits = VISITS;
        while state.has_more_to_send() || (state.unread && visits > 0) {
            // Threads that wait for the socket go first, however much there is to send and to receive.
            MutexGuard::bump(&mut state);
            outside.now = self.around.environment.now();
            state.send_more(outside);
            if state.unread && visits > 0 {
                visits -= 1;
                self.receive(&mut state, outside);
            }
        }
        let raised = state.take_raised();
        let deadlines = [
            state.unread.then_some(outside.now),
            state.next_deadline(),
            self.socket.next_deadline(outside.now),
        ];
        let next = deadlines.into_iter().flatten().min();
        let unused = state.take_unused();
        if state.owes() {
            self.driving.set_overdue();
        } else {
            self.driving.set_due(next);
        }
        drop(state);
        if !raised.is_empty() {
            self.moved();
        }
        for (source, edges) in raised {
            if crate::planted!(RaisedStreamForgotten) && Arc::strong_count(&source) % 4 == 3 {
                continue;
            }
            source.raise(edges);
        }
        self.driving.set_timer(self.drivers(), next);
        if unused && let Some(owner) = self.around.owner.upgrade() {
            owner.unused(self);
        }
        outcome
    }

    /// Reports activity other than keep-alives to the simulation.
    pub(super) fn moved(&self) {
        if let Environment::Sim(world) = &self.around.environment {
            world.moved();
        }
    }

    /// A source for a stream on this socket.
    pub(super) fn source(&self) -> Arc<CarriedSource> {
        self.driving.source()
    }

    /// Handles datagrams that have arrived, and deadlines that have passed. If many datagrams have arrived, `with` continues.
    pub(super) fn visit(&self, state: &mut QuicEndpoint, outside: Outside<'_>) {
        state.send_owed(outside);
        self.receive(state, outside);
        self.time_passed(state, outside);
    }

    fn receive(&self, state: &mut QuicEndpoint, outside: Outside<'_>) {
        with_memory(|buffers, received| {
            match self.socket.receive(buffers, received) {
                Ok(()) => state.unread = received.len() == BATCH,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    received.clear();
                    state.unread = false;
                }
                Err(error) if is_refusal(&error) => {
                    received.clear();
                    state.unread = false;
                    state.cannot_receive(outside, &error);
                }
                // The network's report about a datagram that was sent earlier.
                Err(error) => {
                    tracing::trace!(target: targets::UDP, %error, "a UDP socket reports an error");
                    received.clear();
                    state.unread = true;
                }
            }
            for (train, octets) in received.iter().zip(buffers.chunks(LONGEST_TRAIN)) {
                state.received(outside, train, &octets[..train.len.min(LONGEST_TRAIN)]);
            }
        });
        if !state.unread {
            self.driving.arm(self.drivers(), &self.socket);
        }
        state.take_in(outside);
        while let Some(remote) = self.socket.take_refused() {
            state.refused(outside, remote, Errno::CONNREFUSED);
        }
    }

    fn time_passed(&self, state: &mut QuicEndpoint, outside: Outside<'_>) {
        state.time_passed(outside);
        while let Some((flow, remote)) = state.take_stale() {
            let probe = self.probe(remote).ok().flatten();
            state.dial_anew(outside, flow, self.to_dial(remote, probe));
        }
    }

    /// Asks the system if there is a socket at the address of a peer.
    fn probe(&self, remote: SocketAddr) -> io::Result<Option<Probing>> {
        let Some(drivers) = self.drivers() else {
            return Ok(None);
        };
        if self.socket.is_simulated() {
            return Ok(None);
        }
        let probe = Arc::new(PortProbe {
            probe: AddressProbe::new(self.local, remote)?,
            shared: self.this.clone(),
            remote,
        });
        let source: Arc<dyn Source> = Arc::<PortProbe>::clone(&probe);
        let token = drivers
            .control
            .add(&probe.probe, Arc::downgrade(&source), Edges::READ)?;
        Ok(Some(Box::new(WatchedProbe {
            probe,
            token,
            control: Arc::clone(&drivers.control),
        })))
    }

    /// Begins to open a stream.
    pub(super) fn dial(
        &self,
        source: Arc<CarriedSource>,
        addresses: (SocketAddr, SocketAddr),
    ) -> io::Result<usize> {
        let remote = addresses.1;
        // The answer to a probe waits for the lock, so that it finds the connection.
        self.with(|state, outside| {
            // The existing connection may have been closed meanwhile.
            self.visit(state, outside);
            let probe = if state.knows(remote) {
                None
            } else {
                self.probe(remote)?
            };
            state.dial(outside, source, addresses, self.to_dial(remote, probe))
        })
    }

    fn to_dial(&self, remote: SocketAddr, probe: Option<Probing>) -> Dial {
        Dial {
            config: self.around.settings.client(self.local.ip(), remote.ip()),
            name: self.around.security.name_of(remote.ip()),
            probe,
        }
    }

    /// Returns true if the socket is unused.
    pub(super) fn is_unused(&self) -> bool {
        self.state.lock().is_unused()
    }

    /// Returns true if everything that was sent has arrived, as far as it can.
    pub(super) fn is_settled(&self) -> bool {
        self.state.lock().is_settled()
    }

    /// Returns true if the socket has accepted all packets that were made.
    pub(super) fn has_sent(&self) -> bool {
        self.state.lock().has_sent()
    }

    /// Returns true if there is no connection, not even a closed one whose end may have to be sent again.
    pub(super) fn has_no_connections(&self) -> bool {
        self.state.lock().has_no_connections()
    }

    /// Drives the socket until `wanted` returns true, or until `end`, or until time no longer passes in a simulated world.
    pub(super) fn wait_until(&self, end: Instant, wanted: impl Fn(&Self) -> bool) {
        while !wanted(self) {
            let left = end.saturating_duration_since(self.around.environment.now());
            // Another thread may receive the datagrams that this one waits for.
            if left.is_zero() || !self.wait(left.min(LOOK)) {
                return;
            }
        }
    }

    /// A set for a wait outside all domains, beside the sets of the adapter.
    fn own_set(&self) -> io::Result<Set> {
        match self.drivers() {
            Some(drivers) => drivers.control.set().another(),
            None => Set::in_environment(&self.around.environment),
        }
    }

    /// Waits up to `limit` until the socket has a datagram; then handles it. Returns false if no time can pass.
    fn wait(&self, limit: Duration) -> bool {
        let mut passes = true;
        if let Environment::Sim(world) = &self.around.environment {
            passes = world.step_until(world.now().checked_add(limit));
        } else if let Ok(set) = self.own_set() {
            let source = self.driving.silent_source();
            let _ = set.add_stream(&CarriedWatch(&source), 0, Edges::READ);
            let _ = set.wait(Some(limit), |_| {});
        }
        self.drive();
        passes
    }

    /// Closes all connections, and the socket as soon as no stream on it has a user any more.
    pub(super) fn close(&self) {
        self.with(|state, outside| state.close_all(outside));
        self.driving.close(self.drivers());
    }
}

impl Carrier for SharedSocket {
    fn id(&self) -> CarrierId<'_> {
        self.socket.id()
    }

    fn drive(&self) {
        self.with(|state, outside| self.visit(state, outside));
    }

    fn is_due(&self) -> bool {
        self.driving.is_due(|| self.around.environment.now())
    }

    fn held(&self, held: bool) {
        self.driving.held(self.drivers(), held);
    }
}

/// The control domain drives the socket when it is asked for ready sources. Nothing is left to do here.
impl Source for SharedSocket {
    fn ready(&self, _: Edges) -> Turn {
        Turn::default()
    }
}

impl Timed for SharedSocket {
    fn expired(&self, key: TimerKey, _: Instant) {
        self.driving.timer_expired(key);
        self.with(|state, outside| {
            let due = self.socket.next_deadline(outside.now);
            if state.unread || due.is_some_and(|due| due <= outside.now) {
                self.visit(state, outside);
            } else {
                self.time_passed(state, outside);
            }
        });
    }

    fn is_upkeep(&self) -> bool {
        true
    }
}

/// A probe of a shared socket, as a source of the control domain.
struct PortProbe {
    probe: AddressProbe,
    shared: Weak<SharedSocket>,
    remote: SocketAddr,
}

impl PortProbe {
    fn answer(&self) -> Option<Errno> {
        let error = self.probe.error()?;
        Some(Errno::from_io_error(&error).unwrap_or(Errno::CONNREFUSED))
    }
}

impl Source for PortProbe {
    fn ready(&self, _: Edges) -> Turn {
        if let Some(errno) = self.answer()
            && let Some(shared) = self.shared.upgrade()
        {
            shared.with(|state, outside| state.refused(outside, self.remote, errno));
        }
        Turn::default()
    }
}

/// A probe with its place in the control domain.
struct WatchedProbe {
    probe: Arc<PortProbe>,
    token: u64,
    control: Arc<Domain>,
}

impl PortProbing for WatchedProbe {
    fn answer(&self) -> Option<Errno> {
        self.probe.answer()
    }
}

impl Drop for WatchedProbe {
    fn drop(&mut self) {
        self.control.remove(&self.probe.probe, self.token);
    }
}
