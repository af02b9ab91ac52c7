//! A socket for datagrams in a simulated network, held by its program.

use std::io;
use std::net::SocketAddr;

use crate::simulation::network::{DatagramSocketId, Datagrams};
use crate::simulation::world::{SimSource, World};

/// A socket for datagrams in a simulated network. Dropping the socket closes it.
#[derive(Debug)]
pub struct DatagramSocket {
    world: World,
    id: DatagramSocketId,
    local: SocketAddr,
}

/// The result of [`DatagramSocket::recv_from`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of octets copied. If the buffer was shorter than the datagram, the rest is lost.
    pub len: usize,
    /// The sender's address.
    pub from: SocketAddr,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
}

impl DatagramSocket {
    /// A socket with a local address; port 0 picks one. Streams may have the same address.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, if another socket for datagrams has the address or no port is left; an error if the calling thread is not the world's
    /// own.
    pub fn bind(world: &World, address: SocketAddr) -> io::Result<Self> {
        world.check_thread()?;
        let (id, local) = world.network(|network| {
            let mut datagrams = network.datagrams();
            let id = datagrams.bind(address)?;
            Ok::<_, io::Error>((id, datagrams.local(id)))
        })?;
        Ok(Self {
            world: world.clone(),
            id,
            local,
        })
    }

    /// The address that the socket is bound to, which [`rebind`](Self::rebind) does not change.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The socket's number in its network.
    pub fn number(&self) -> DatagramSocketId {
        self.id
    }

    /// The socket as a source of a set. It is readable when [`recv_from`](Self::recv_from) or
    /// [`take_refused`](Self::take_refused) has something.
    pub fn source(&self) -> SimSource {
        SimSource::Datagrams(self.id)
    }

    /// The world of the socket.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Sends a datagram with these ECN bits. Without [`full_socket`](crate::simulation::Conditions::full_socket) the network
    /// accepts datagrams at any time.
    ///
    /// # Errors
    ///
    /// Those of [`Datagrams::send`], and an error if the calling thread is not the world's own.
    pub fn send_to(&self, to: SocketAddr, ecn: u8, octets: &[u8]) -> io::Result<()> {
        self.with(|mut datagrams| datagrams.send(self.id, to, ecn, octets))
    }

    /// Takes the next received datagram.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if none was received; an error if the calling thread is not the world's own.
    pub fn recv_from(&self, into: &mut [u8]) -> io::Result<Received> {
        let datagram = self.with(|mut datagrams| {
            let next = datagrams.take(self.id);
            next.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        })?;
        let len = into.len().min(datagram.octets.len());
        into[..len].copy_from_slice(&datagram.octets[..len]);
        Ok(Received {
            len,
            from: datagram.from,
            ecn: datagram.ecn,
        })
    }

    /// Takes an address that no socket had when a datagram of this socket arrived there. Each address is reported once,
    /// until it is taken. A thread that is not the world's own gets none.
    pub fn take_refused(&self) -> Option<SocketAddr> {
        let taken = self.with(|mut datagrams| Ok(datagrams.take_refused(self.id)));
        taken.ok().flatten()
    }

    /// Lets others see the socket at another port from now on, as a NAT does, and returns that address. See
    /// [`Datagrams::rebind`].
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, if no port is left; an error if the calling thread is not the world's own.
    pub fn rebind(&self) -> io::Result<SocketAddr> {
        self.with(|mut datagrams| datagrams.rebind(self.id))
    }

    fn with<T>(&self, act: impl FnOnce(Datagrams<'_>) -> io::Result<T>) -> io::Result<T> {
        self.world.check_thread()?;
        self.world.network(|network| act(network.datagrams()))
    }
}

impl Drop for DatagramSocket {
    fn drop(&mut self) {
        self.world
            .network(|network| network.datagrams().close(self.id));
        self.world.vanish(self.source());
    }
}

#[cfg(test)]
mod tests;
