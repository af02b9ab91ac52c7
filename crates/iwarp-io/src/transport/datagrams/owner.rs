//! The owner of a port for datagrams.

use std::net::SocketAddr;

/// The owner of a port, which gets its datagrams.
pub trait DatagramOwner: Send + Sync + 'static {
    /// What has to be done when the port has handled a batch of datagrams: dropped with no lock held.
    type Deferred: Send;

    /// A datagram from this address has arrived at `local`. Called for one datagram at a time, in the order of their arrival.
    fn received(
        &self,
        local: SocketAddr,
        from: SocketAddr,
        octets: &[u8],
    ) -> Option<Self::Deferred>;

    /// A socket that was full may have room again. Called with no lock held.
    fn has_room(&self);
}
