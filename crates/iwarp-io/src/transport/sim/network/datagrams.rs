//! Datagrams, as UDP has them: each arrives whole or not at all. Their addresses are apart from those of streams.
//!
//! Datagrams from one socket to one address arrive in the order in which they were sent. A datagram to an address that no
//! socket has is answered as by ICMP: after the latency the sender's socket is told the address.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;

use super::common::{Common, Datagram, DatagramSocketId, NetworkEvent, Notice, has_route};
use crate::progress::readiness::Edges;

/// A socket for datagrams.
#[derive(Debug)]
struct DatagramState {
    /// The address that the program has bound.
    local: SocketAddr,
    /// When the link has carried the last sent octets.
    busy_until: Duration,
    /// When the last datagram to an address arrives. Later ones do not arrive earlier.
    last_arrivals: BTreeMap<SocketAddr, Duration>,
    received: VecDeque<Datagram>,
    /// Where nobody received what was sent there, each address once.
    refused: VecDeque<SocketAddr>,
}

/// All sockets for datagrams of a network.
#[derive(Debug, Default)]
pub(super) struct DatagramSockets {
    sockets: BTreeMap<DatagramSocketId, DatagramState>,
    /// Who has bound an address.
    bound: BTreeMap<SocketAddr, DatagramSocketId>,
}

/// The datagrams of a [`Network`](super::Network).
#[derive(Debug)]
pub struct Datagrams<'a> {
    common: &'a mut Common,
    state: &'a mut DatagramSockets,
}

impl<'a> Datagrams<'a> {
    pub(super) fn new(common: &'a mut Common, state: &'a mut DatagramSockets) -> Self {
        Self { common, state }
    }

    // ---- sockets ----

    /// Makes a socket with a local address; port 0 picks one.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, where another socket for datagrams has the address or no port is left.
    pub fn bind(&mut self, address: SocketAddr) -> io::Result<DatagramSocketId> {
        let local = match address.port() {
            0 => self.pick_port(address.ip())?,
            _ if self.state.bound.contains_key(&address) => return Err(Errno::ADDRINUSE.into()),
            _ => address,
        };
        let id = DatagramSocketId(self.common.next_serial());
        let socket = DatagramState {
            local,
            busy_until: Duration::ZERO,
            last_arrivals: BTreeMap::new(),
            received: VecDeque::new(),
            refused: VecDeque::new(),
        };
        self.state.bound.insert(local, id);
        self.state.sockets.insert(id, socket);
        Ok(id)
    }

    fn pick_port(&mut self, ip: IpAddr) -> io::Result<SocketAddr> {
        let bound = &self.state.bound;
        let free = |candidate| !bound.contains_key(&candidate);
        self.common.pick_port(ip, free)
    }

    /// Closes a socket, with what it has not taken. Its addresses can be bound again.
    pub fn close(&mut self, socket: DatagramSocketId) {
        self.state.sockets.remove(&socket);
        self.state.bound.retain(|_, holder| *holder != socket);
    }

    /// The address that a socket is bound to.
    pub fn local(&self, socket: DatagramSocketId) -> SocketAddr {
        self.socket(socket).local
    }

    /// What a socket is ready for: to be read. It takes datagrams at any time.
    pub fn readiness(&self, socket: DatagramSocketId) -> Edges {
        let state = self.state.sockets.get(&socket);
        let mut ready = Edges::empty();
        let is_ready =
            |state: &DatagramState| !state.received.is_empty() || !state.refused.is_empty();
        ready.set(Edges::READ, state.is_some_and(is_ready));
        ready
    }

    fn socket(&self, socket: DatagramSocketId) -> &DatagramState {
        &self.state.sockets[&socket]
    }

    fn socket_mut(&mut self, socket: DatagramSocketId) -> &mut DatagramState {
        self.state
            .sockets
            .get_mut(&socket)
            .expect("a socket lives until its program closes it")
    }

    // ---- sending and receiving ----

    /// Sends a datagram, with the two ECN bits of its IP header.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH`, where no route leads to the address, as for streams; `EHOSTUNREACH`, where the conditions say that the host
    /// cannot be reached.
    pub fn send(
        &mut self,
        socket: DatagramSocketId,
        to: SocketAddr,
        ecn: u8,
        octets: &[u8],
    ) -> io::Result<()> {
        let from = self.socket(socket).local;
        if !has_route(from, to) {
            return Err(Errno::NETUNREACH.into());
        }
        if self.common.conditions.unreachable.contains(&to.ip()) {
            return Err(Errno::HOSTUNREACH.into());
        }
        let carried = self.common.carried(octets.len());
        let now = self.common.now;
        let state = self.socket_mut(socket);
        state.busy_until = state.busy_until.max(now) + carried;
        let datagram = Datagram {
            from,
            ecn: ecn & 0b11,
            octets: octets.to_vec(),
        };
        let at = self.arrival(socket, to);
        let event = NetworkEvent::Datagram { to, datagram };
        self.common.schedule(at, event);
        Ok(())
    }

    /// When a datagram that leaves now arrives.
    fn arrival(&mut self, socket: DatagramSocketId, to: SocketAddr) -> Duration {
        let latency = self.common.latency();
        let state = self.socket_mut(socket);
        let arrival = state.busy_until + latency;
        let last = state.last_arrivals.entry(to).or_default();
        *last = arrival.max(*last);
        *last
    }

    /// Takes the next received datagram.
    pub fn take(&mut self, socket: DatagramSocketId) -> Option<Datagram> {
        self.socket_mut(socket).received.pop_front()
    }

    /// Takes an address where nobody received what the socket had sent. Such an address is told once, however many
    /// datagrams were sent there meanwhile.
    pub fn take_refused(&mut self, socket: DatagramSocketId) -> Option<SocketAddr> {
        self.socket_mut(socket).refused.pop_front()
    }

    // ---- what the network does by itself ----

    /// A datagram has reached its destination.
    pub(super) fn arrived(&mut self, to: SocketAddr, datagram: Datagram) {
        let Some(id) = self.state.bound.get(&to).copied() else {
            let at = self.common.now + self.common.latency();
            let sender = datagram.from;
            return self
                .common
                .schedule(at, NetworkEvent::Refused { sender, remote: to });
        };
        self.socket_mut(id).received.push_back(datagram);
        self.common.notices.push_back(Notice::Received(id));
    }

    /// A sender learns that nobody receives at a remote address.
    pub(super) fn refused(&mut self, sender: SocketAddr, remote: SocketAddr) {
        let Some(id) = self.state.bound.get(&sender).copied() else {
            return;
        };
        let refused = &mut self.socket_mut(id).refused;
        if !refused.contains(&remote) {
            refused.push_back(remote);
        }
        self.common.notices.push_back(Notice::Received(id));
    }
}

impl DatagramSockets {
    /// One line for each socket.
    pub(super) fn describe(&self) -> impl Iterator<Item = String> {
        self.sockets.values().map(|state| {
            let (local, count) = (state.local, state.received.len());
            format!("{local}, datagrams: {count} received and not taken")
        })
    }
}

#[cfg(test)]
mod tests;
