//! Ports for datagrams without the feature `udp`: none is opened.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use super::owner::DatagramOwner;
use super::socket_drivers::SocketDrivers;
use crate::environment::Environment;
use crate::error_number::Errno;
use crate::faults::Faults;
use crate::progress::domain::Domain;
use crate::transport::both_ports::ReservedUdp;

/// A port that cannot exist.
#[derive(Debug)]
pub struct NoDatagramPort<O: DatagramOwner>(Infallible, PhantomData<O>);

/// A watch that cannot exist.
#[derive(Debug)]
pub struct NoWatchedPort<O: DatagramOwner>(Infallible, PhantomData<O>);

impl<O: DatagramOwner> NoDatagramPort<O> {
    /// Fails.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`.
    pub fn open(
        _: &Environment,
        _: SocketDrivers,
        _: &ReservedUdp,
        _: SocketAddr,
        _: Option<&Arc<Faults>>,
        _: Weak<O>,
    ) -> io::Result<Arc<Self>> {
        Err(Errno::OPNOTSUPP.into())
    }

    /// Fails, unless there is no address.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, with the first address.
    pub fn open_at_each<'a>(
        _: &Environment,
        _: &SocketDrivers,
        _: &ReservedUdp,
        (addresses, port): (impl IntoIterator<Item = &'a IpAddr>, u16),
        _: Option<&Arc<Faults>>,
        _: &Weak<O>,
    ) -> Result<Vec<Arc<Self>>, (SocketAddr, io::Error)> {
        let fail = |ip: &IpAddr| Err((SocketAddr::new(*ip, port), Errno::OPNOTSUPP.into()));
        addresses.into_iter().map(fail).collect()
    }

    /// The address.
    pub fn local(&self) -> SocketAddr {
        match self.0 {}
    }

    /// Sends a datagram.
    ///
    /// # Errors
    ///
    /// There is no port to call this on.
    pub fn send(&self, _: SocketAddr, _: &[u8]) -> io::Result<()> {
        match self.0 {}
    }

    /// Makes the threads that drive a domain receive the datagrams of the port.
    ///
    /// # Errors
    ///
    /// There is no port to call this on.
    pub fn watch(self: &Arc<Self>, _: &Arc<Domain>) -> io::Result<NoWatchedPort<O>> {
        match self.0 {}
    }

    /// Closes the port.
    pub fn close(&self) {
        match self.0 {}
    }
}
