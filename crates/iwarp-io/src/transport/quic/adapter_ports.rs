//! The UDP sockets of one adapter.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::config::Settings;
use super::port::{Port, PortOwner, Surroundings};
use super::port_drivers::PortDrivers;
use super::refusals::Refusals;
use super::security::Security;
use crate::environment::Environment;
use crate::faults::Faults;
use crate::progress::background::Background;
use crate::progress::domain::Domain;

/// How long a transport that ends waits for what was sent to arrive.
const LAST_OCTETS: Duration = Duration::from_secs(2);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

/// See the [module](self).
pub(super) struct AdapterPorts {
    around: Surroundings,
    /// The sockets from which the adapter connects, one for each of its addresses.
    connecting: Mutex<BTreeMap<IpAddr, Arc<Port>>>,
    /// The sockets at which it listens, and those on which connections of former listeners are left.
    listening: Mutex<BTreeMap<SocketAddr, Arc<Port>>>,
}

impl std::fmt::Debug for AdapterPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdapterPorts").finish_non_exhaustive()
    }
}

impl PortOwner for AdapterPorts {
    /// Closes a socket at which the adapter has listened. One from which it connects is used again.
    fn unused(&self, port: &Port) {
        let mut ports = self.listening.lock();
        let local = port.local();
        let known = ports.get(&local);
        if known.is_some_and(|known| std::ptr::eq(&**known, port)) && port.is_unused() {
            let port = ports.remove(&local);
            drop(ports);
            port.inspect(|port| port.close());
        }
    }
}

impl AdapterPorts {
    /// No sockets.
    ///
    /// # Errors
    ///
    /// Those of `security`, as [`io::ErrorKind::InvalidInput`].
    pub(super) fn new(environment: Environment, security: &Security) -> io::Result<Arc<Self>> {
        let settings = Settings::new(security)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Arc::new_cyclic(|this: &Weak<Self>| {
            let owner: Weak<dyn PortOwner> = this.clone();
            Self {
                around: Surroundings {
                    environment,
                    drivers: Arc::new(OnceLock::new()),
                    settings,
                    security: security.clone(),
                    refusals: Arc::default(),
                    faults: Arc::new(OnceLock::new()),
                    owner,
                },
                connecting: Mutex::default(),
                listening: Mutex::default(),
            }
        }))
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.around.environment
    }

    pub(super) fn refusals(&self) -> &Refusals {
        &self.around.refusals
    }

    /// The fault plan that the sockets follow.
    pub(super) fn follow(&self, faults: &Arc<Faults>) {
        // An adapter has one plan.
        let _ = self.around.faults.set(Arc::clone(faults));
    }

    /// Who drives the sockets when nobody drives their streams.
    pub(super) fn driven_by(&self, control: &Arc<Domain>, background: &Arc<Background>) {
        // An adapter has one driver.
        let _ = self.around.drivers.set(PortDrivers {
            control: Arc::clone(control),
            background: Arc::clone(background),
        });
    }

    /// The socket from which the adapter connects.
    pub(super) fn port_to_connect(&self, local: IpAddr) -> io::Result<Arc<Port>> {
        let mut ports = self.connecting.lock();
        if let Some(port) = ports.get(&local) {
            return Ok(Arc::clone(port));
        }
        let address = SocketAddr::new(local, 0);
        // Nobody listens there: so its endpoint says to peers that connect to it.
        let port = Port::open(self.around.clone(), address)?;
        ports.insert(local, Arc::clone(&port));
        Ok(port)
    }

    /// The socket at which the adapter listens. Connections of a former listener may be left on it.
    pub(super) fn port_to_listen(&self, address: SocketAddr) -> io::Result<Arc<Port>> {
        let mut ports = self.listening.lock();
        if let Some(port) = ports.get(&address) {
            return Ok(Arc::clone(port));
        }
        let port = Port::open(self.around.clone(), address)?;
        ports.insert(address, Arc::clone(&port));
        Ok(port)
    }

    /// Closes all connections when what was sent has arrived, or could not arrive for a time.
    pub(super) fn end(&self) {
        let connecting = std::mem::take(&mut *self.connecting.lock());
        let listening = std::mem::take(&mut *self.listening.lock());
        let ports: Vec<_> = connecting
            .into_values()
            .chain(listening.into_values())
            .collect();
        let end = self.environment().now() + LAST_OCTETS;
        for port in &ports {
            while !port.is_settled() {
                let left = end.saturating_duration_since(self.environment().now());
                if left.is_zero() {
                    break;
                }
                // Another thread may take in what this one waits for.
                port.wait(left.min(LOOK));
            }
        }
        for port in ports {
            port.close();
        }
    }
}
