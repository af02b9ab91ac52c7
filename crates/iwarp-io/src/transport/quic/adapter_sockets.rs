//! The UDP sockets of one adapter.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::config::Settings;
use super::options::QuicOptions;
use super::refusals::Refusals;
use super::security::Security;
use super::shared_socket::{SharedSocket, SharedSocketOwner, Surroundings};
use crate::environment::Environment;
use crate::faults::Faults;
use crate::progress::background::Background;
use crate::progress::domain::Domain;
use crate::transport::congestion_control::QuicAlgorithm;
use crate::transport::datagrams::SocketDrivers;
use crate::transport::port_range;

/// The time that a transport that ends waits for sent octets to arrive.
const LAST_OCTETS: Duration = Duration::from_secs(2);

/// The time that a transport that ends waits for room in a socket.
const FULL_SOCKET: Duration = Duration::from_millis(100);

/// The time for which a process that ends answers peers that have not read the end of their connection yet, because the packet with it was
/// lost.
const ANSWERS: Duration = Duration::from_millis(200);

/// The transports over the sockets of the system that have not been dropped.
static OPEN: Mutex<Vec<Weak<AdapterSockets>>> = Mutex::new(Vec::new());

/// See [`super::close_all`].
pub(super) fn close_all(limit: Duration) {
    let open: Vec<_> = OPEN.lock().iter().filter_map(Weak::upgrade).collect();
    let Some(first) = open.first() else {
        return;
    };
    let environment = first.environment().clone();
    let end = environment.now() + limit;
    let sockets: Vec<_> = open.iter().map(|sockets| sockets.end_by(end)).collect();
    let end = environment.now() + ANSWERS;
    for socket in sockets.iter().flatten() {
        socket.wait_until(end, SharedSocket::has_no_connections);
    }
}

/// See the [module](self).
pub(super) struct AdapterSockets {
    around: Surroundings,
    /// The ports of the sockets from which the adapter connects, if they are limited.
    ports: Option<RangeInclusive<u16>>,
    /// The sockets from which the adapter connects, one for each of its addresses.
    connecting: Mutex<BTreeMap<IpAddr, Arc<SharedSocket>>>,
    /// The sockets at which it listens, and those on which connections of former listeners are left.
    listening: Mutex<BTreeMap<SocketAddr, Arc<SharedSocket>>>,
    /// Held by the thread that closes the connections.
    ending: Mutex<()>,
}

impl std::fmt::Debug for AdapterSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdapterSockets").finish_non_exhaustive()
    }
}

impl SharedSocketOwner for AdapterSockets {
    /// Closes a socket at which the adapter has listened. A socket from which it connects is used again.
    fn unused(&self, socket: &SharedSocket) {
        let mut sockets = self.listening.lock();
        let local = socket.local();
        let known = sockets.get(&local);
        if known.is_some_and(|known| std::ptr::eq(&**known, socket)) && socket.is_unused() {
            let socket = sockets.remove(&local);
            drop(sockets);
            socket.inspect(|socket| socket.close());
        }
    }
}

impl AdapterSockets {
    /// Makes a transport without sockets.
    ///
    /// # Errors
    ///
    /// Those of `security` and a congestion control that QUIC does not have, as [`io::ErrorKind::InvalidInput`].
    pub(super) fn new(
        environment: Environment,
        security: &Security,
        options: QuicOptions,
    ) -> io::Result<Arc<Self>> {
        let QuicOptions {
            undelivered,
            ports,
            congestion,
        } = options;
        let algorithm = QuicAlgorithm::for_choice(&congestion)?;
        let settings = Settings::new(security, algorithm)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let is_simulated = environment.world().is_some();
        let sockets = Arc::new_cyclic(|this: &Weak<Self>| {
            let owner: Weak<dyn SharedSocketOwner> = this.clone();
            Self {
                around: Surroundings {
                    environment,
                    drivers: Arc::new(OnceLock::new()),
                    settings,
                    undelivered,
                    security: security.clone(),
                    refusals: Arc::default(),
                    faults: Arc::new(OnceLock::new()),
                    owner,
                },
                ports,
                connecting: Mutex::default(),
                listening: Mutex::default(),
                ending: Mutex::default(),
            }
        });
        if !is_simulated {
            let mut open = OPEN.lock();
            open.retain(|other| other.strong_count() > 0);
            open.push(Arc::downgrade(&sockets));
        }
        Ok(sockets)
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.around.environment
    }

    pub(super) fn refusals(&self) -> &Refusals {
        &self.around.refusals
    }

    /// Sets the fault plan that the sockets follow.
    pub(super) fn follow(&self, faults: &Arc<Faults>) {
        // An adapter has one plan.
        let _ = self.around.faults.set(Arc::clone(faults));
    }

    /// Sets the domain and the thread that drive the sockets while no thread drives their streams.
    pub(super) fn driven_by(&self, control: &Arc<Domain>, background: &Arc<Background>) {
        // An adapter has one driver.
        let _ = self.around.drivers.set(SocketDrivers {
            control: Arc::clone(control),
            background: Arc::clone(background),
        });
    }

    /// Returns the socket from which the adapter connects.
    pub(super) fn socket_to_connect(&self, local: IpAddr) -> io::Result<Arc<SharedSocket>> {
        let mut sockets = self.connecting.lock();
        if let Some(socket) = sockets.get(&local) {
            return Ok(Arc::clone(socket));
        }
        // No listener is there: the endpoint of the socket refuses peers that connect to it.
        let open = |port| SharedSocket::open(self.around.clone(), SocketAddr::new(local, port));
        let socket = match &self.ports {
            None => open(0)?,
            Some(ports) => port_range::first_free(self.environment(), ports, open)?,
        };
        sockets.insert(local, Arc::clone(&socket));
        Ok(socket)
    }

    /// Returns the socket at which the adapter listens. Connections of a former listener may be left on it.
    pub(super) fn socket_to_listen(&self, address: SocketAddr) -> io::Result<Arc<SharedSocket>> {
        let mut sockets = self.listening.lock();
        if let Some(socket) = sockets.get(&address) {
            return Ok(Arc::clone(socket));
        }
        let socket = SharedSocket::open(self.around.clone(), address)?;
        sockets.insert(address, Arc::clone(&socket));
        Ok(socket)
    }

    /// Closes all connections when the sent octets have arrived, or could not arrive for a time.
    pub(super) fn end(&self) {
        self.end_by(self.environment().now() + LAST_OCTETS);
    }

    /// Closes all connections when the sent octets have arrived, or at this time. Returns their sockets, which the adapter does not use
    /// again.
    fn end_by(&self, end: Instant) -> Vec<Arc<SharedSocket>> {
        let _one = self.ending.lock();
        let connecting = std::mem::take(&mut *self.connecting.lock());
        let listening = std::mem::take(&mut *self.listening.lock());
        let sockets: Vec<_> = connecting
            .into_values()
            .chain(listening.into_values())
            .collect();
        for socket in &sockets {
            socket.wait_until(end, SharedSocket::is_settled);
        }
        for socket in &sockets {
            socket.close();
        }
        let end = self.environment().now() + FULL_SOCKET;
        for socket in &sockets {
            socket.wait_until(end, SharedSocket::has_sent);
        }
        sockets
    }
}
