//! A connection of a socket with itself, for an owner whose peer is the owner itself. It needs no start-up: both ends are one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use iwarp::Role;

use super::mpa_startup::StartupOwner;
use crate::driver::Driver;
use crate::faults::{FaultOwner, Faults};
use crate::progress::Edges;
use crate::progress::domain::Source;
use crate::transport::purpose::Purpose;
use crate::transport::stream::Stream;
use crate::transport::{Dialer, Transport, local_ports};

/// The edges by which the attempt is reported.
const DIAL_EDGES: Edges = Edges::READ.union(Edges::WRITE);

/// The attempt of a socket to connect to its own address. Dropping it gives the attempt up. Linux allows such connections.
#[derive(Debug)]
pub struct OwnConnection {
    driver: Arc<Driver>,
    /// With its place in the domain; taken once.
    dialer: Option<(Dialer, u64)>,
}

impl OwnConnection {
    /// Begins to connect at this address.
    ///
    /// # Errors
    ///
    /// Those of the transport and of the system.
    pub fn start(
        transport: &Transport,
        ip: IpAddr,
        driver: &Arc<Driver>,
        owner: Weak<dyn StartupOwner>,
    ) -> io::Result<Self> {
        let bound = local_ports::bind(transport, SocketAddr::new(ip, 0), Purpose::Connecting);
        let bound = bound
            .map_err(|why| io::Error::new(io::ErrorKind::AddrNotAvailable, why.to_string()))?;
        let local = bound.local()?;
        let dialer = bound.connect(local)?;
        let source: Weak<dyn Source> = owner;
        let token = driver.control.add(&dialer, source, DIAL_EDGES)?;
        Ok(Self {
            driver: Arc::clone(driver),
            dialer: Some((dialer, token)),
        })
    }

    /// The attempt may have ended. Returns the stream once, when the socket is connected.
    ///
    /// # Errors
    ///
    /// The reason why it does not connect.
    pub fn ready(
        &mut self,
        edges: Edges,
        faults: Option<&Arc<Faults>>,
        fault_owner: Arc<dyn FaultOwner>,
    ) -> io::Result<Option<Stream>> {
        let Some((dialer, _)) = &self.dialer else {
            return Ok(None);
        };
        if !dialer.is_connected(edges)? {
            self.driver.control.arm(dialer, DIAL_EDGES);
            return Ok(None);
        }
        let Some(dialer) = self.take() else {
            return Ok(None);
        };
        let wire = dialer.into_wire()?;
        let stream = self
            .driver
            .stream(wire, Role::Initiator, faults, fault_owner, None);
        Ok(Some(stream))
    }

    /// Takes the attempt out of the domain.
    fn take(&mut self) -> Option<Dialer> {
        let (dialer, token) = self.dialer.take()?;
        self.driver.control.remove(&dialer, token);
        Some(dialer)
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        if let Some(dialer) = self.take() {
            dialer.reset();
        }
    }
}
