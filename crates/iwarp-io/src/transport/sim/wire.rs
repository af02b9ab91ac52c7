//! Addresses, listeners and streams of a simulated network.

use std::io;
use std::net::SocketAddr;

use iwarp::{PieceRef, TxBatch};
use iwarp_mem::Sent;

use crate::simulation::network::ListenerId;
use crate::simulation::world::{SimEnd, SimSource, World};

/// A reserved address.
#[derive(Debug)]
pub struct Bound {
    world: World,
    /// `None` once the address is used.
    address: Option<SocketAddr>,
    local: SocketAddr,
}

impl Bound {
    pub(in crate::transport) fn new(world: &World, address: SocketAddr) -> io::Result<Self> {
        world.check_thread()?;
        let local = world.network(|network| network.bind(address))?;
        Ok(Self {
            world: world.clone(),
            address: Some(local),
            local,
        })
    }

    pub(in crate::transport) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(in crate::transport) fn connect(mut self, remote: SocketAddr) -> io::Result<Dialer> {
        self.world.check_thread()?;
        let end = self
            .world
            .network(|network| network.connect(self.local, remote))?;
        self.address = None;
        Ok(Dialer(SimEnd::new(&self.world, end)))
    }

    pub(in crate::transport) fn listen(mut self) -> io::Result<Listener> {
        self.world.check_thread()?;
        self.address = None;
        let id = self
            .world
            .network(|network| network.listen(self.local, BACKLOG));
        Ok(Listener {
            world: self.world.clone(),
            id,
        })
    }
}

/// The most connections that the network holds for one listener until they are accepted.
const BACKLOG: usize = 4096;

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            self.world.network(|network| network.unbind(address));
        }
    }
}

/// An attempt to connect.
#[derive(Debug)]
pub struct Dialer(SimEnd);

impl Dialer {
    pub(in crate::transport) fn source(&self) -> SimSource {
        self.0.source()
    }

    pub(in crate::transport) fn is_connected(&self) -> io::Result<bool> {
        match self.0.with(|network, end| network.connected(end)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            other => other.map(|()| true),
        }
    }

    pub(in crate::transport) fn into_wire(self) -> Wire {
        Wire::new(self.0)
    }

    pub(in crate::transport) fn reset(self) {
        self.0.abort();
    }
}

/// A socket to which peers connect.
#[derive(Debug)]
pub struct Listener {
    world: World,
    id: ListenerId,
}

impl Listener {
    pub(in crate::transport) fn source(&self) -> SimSource {
        SimSource::Listener(self.id)
    }

    pub(in crate::transport) fn accept(&self) -> io::Result<Wire> {
        self.world.check_thread()?;
        let end = self.world.network(|network| network.accept(self.id));
        let end = end.ok_or(io::ErrorKind::WouldBlock)?;
        Ok(Wire::new(SimEnd::new(&self.world, end)))
    }

    pub(in crate::transport) fn is_somebody_there(&self) -> bool {
        self.world.network(|network| network.is_awaited(self.id))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.world
            .network(|network| network.close_listener(self.id));
        self.world.vanish(self.source());
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Wire {
    end: SimEnd,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Wire {
    fn new(end: SimEnd) -> Self {
        let (local, peer) = end
            .world()
            .network(|network| network.addresses(end.number()));
        Self { end, local, peer }
    }

    pub(in crate::transport) fn world(&self) -> &World {
        self.end.world()
    }

    pub(in crate::transport) fn source(&self) -> SimSource {
        self.end.source()
    }

    pub(in crate::transport) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.peer)
    }

    pub(in crate::transport) fn segment(&self) -> Option<u32> {
        let longest = self.end.world().network(|network| network.segment());
        u32::try_from(longest).ok()
    }

    pub(in crate::transport) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut at = 0;
        self.end.with(|network, end| {
            network.read(end, into.len(), |octets| {
                into[at..at + octets.len()].copy_from_slice(octets);
                at += octets.len();
            })
        })
    }

    pub(in crate::transport) fn peek(&self) -> io::Result<usize> {
        self.end.with(|network, end| network.readable(end))
    }

    pub(in crate::transport) fn check(&self) -> io::Result<()> {
        self.end.with(|network, end| network.check(end))
    }

    pub(in crate::transport) fn write(&self, octets: &[u8]) -> io::Result<usize> {
        self.end.with(|network, end| network.write(end, octets))
    }

    /// All pieces of the batch are octets, because the wire does not reach registered memory.
    pub(in crate::transport) fn send(&self, batch: &mut TxBatch) -> io::Result<(u64, Sent)> {
        let mut sent = 0;
        let full = self.end.with(|network, end| {
            for (piece, _) in batch.pieces() {
                let PieceRef::Bytes(octets) = piece else {
                    return Err(io::Error::other(
                        "payload has to be copied before it is sent",
                    ));
                };
                match network.write(end, octets) {
                    Ok(count) => {
                        sent += count as u64;
                        if count < octets.len() {
                            return Ok(true);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                    Err(error) => return Err(error),
                }
            }
            Ok(false)
        })?;
        batch.advance(sent);
        let outcome = match (full, sent) {
            (false, _) => Sent::All,
            (true, 0) => Sent::WouldBlock,
            (true, _) => Sent::Partly,
        };
        Ok((sent, outcome))
    }

    pub(in crate::transport) fn close_write(&self) -> io::Result<()> {
        self.end.with(|network, end| {
            network.close_write(end);
            Ok(())
        })
    }

    pub(in crate::transport) fn break_off(&self) {
        self.end.break_off();
    }

    pub(in crate::transport) fn reset(self) {
        self.end.abort();
    }
}
