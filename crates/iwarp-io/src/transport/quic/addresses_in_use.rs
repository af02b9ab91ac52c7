//! The addresses of NetworkDirect over QUIC that are in use in this process. Many of them share one UDP socket, so the system does not keep
//! them unique.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::environment::Environment;
use crate::simulation::World;

/// A network: the system's (0), or a simulated one by its number.
type Network = usize;

#[derive(Default)]
struct Names {
    bound: HashSet<(Network, SocketAddr)>,
    connected: HashSet<(Network, SocketAddr, SocketAddr)>,
}

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

fn network(environment: &Environment) -> Network {
    environment.world().map_or(0, World::number)
}

/// An address that cannot be used again in this process until this is dropped.
#[derive(Debug)]
pub(super) struct AddressInUse(Network, SocketAddr);

impl AddressInUse {
    /// # Errors
    ///
    /// `EADDRINUSE`.
    pub(super) fn new(environment: &Environment, address: SocketAddr) -> io::Result<Self> {
        let network = network(environment);
        if NAMES.lock().bound.insert((network, address)) {
            Ok(Self(network, address))
        } else {
            Err(Errno::ADDRINUSE.into())
        }
    }

    /// The address.
    pub(super) fn address(&self) -> SocketAddr {
        self.1
    }
}

impl Drop for AddressInUse {
    fn drop(&mut self) {
        NAMES.lock().bound.remove(&(self.0, self.1));
    }
}

/// Two addresses that have a connection until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionInUse(Network, SocketAddr, SocketAddr);

impl ConnectionInUse {
    /// # Errors
    ///
    /// `EADDRNOTAVAIL`, if the two addresses have a connection already.
    pub(super) fn new(
        environment: &Environment,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Self> {
        let network = network(environment);
        if NAMES.lock().connected.insert((network, local, remote)) {
            Ok(Self(network, local, remote))
        } else {
            Err(Errno::ADDRNOTAVAIL.into())
        }
    }
}

impl Drop for ConnectionInUse {
    fn drop(&mut self) {
        NAMES.lock().connected.remove(&(self.0, self.1, self.2));
    }
}

/// Returns true if no route leads from one address to the other.
pub(super) fn is_apart(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() != other.is_ipv4() || one.is_loopback() != other.is_loopback()
}
