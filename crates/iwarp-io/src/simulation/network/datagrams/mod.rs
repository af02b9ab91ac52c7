//! Datagrams, as UDP has them: each arrives whole or not at all. Their addresses are independent of those of streams.
//!
//! Datagrams from one socket to one address arrive in the order in which they were sent, unless [`Conditions::reordering`] makes some late.
//! A datagram to an address that no socket has is answered as by ICMP: after the latency the address is reported to the sender's socket. Of
//! all disturbances only a [cut](Datagrams::cut) and a [rebind](Datagrams::rebind) lose this answer.
//!
//! [`Conditions::reordering`]: crate::simulation::conditions::Conditions::reordering

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;

use super::common::{Common, Datagram, DatagramSocketId, NetworkEvent, Notice, has_route};
use crate::edges::Edges;

/// A socket for datagrams.
#[derive(Debug)]
struct DatagramState {
    /// The address that the program has bound.
    local: SocketAddr,
    /// The network has picked the port.
    picked: bool,
    /// The address that others see: the local one, until it is changed.
    outside: SocketAddr,
    /// The time when the link has carried the last sent octets.
    busy_until: Duration,
    /// The time when the last datagram to each address arrives. Later ones do not arrive earlier, unless this one is late.
    last_arrivals: BTreeMap<SocketAddr, Duration>,
    received: VecDeque<Datagram>,
    /// The number of octets in the received datagrams.
    held: usize,
    /// Addresses to which datagrams were sent and at which there was no socket, each once.
    refused: VecDeque<SocketAddr>,
}

/// All sockets for datagrams of a network.
#[derive(Debug, Default)]
pub(super) struct DatagramSockets {
    sockets: BTreeMap<DatagramSocketId, DatagramState>,
    /// The socket that holds an address. A socket holds the address that it has bound, and all addresses at which others have seen it.
    bound: BTreeMap<SocketAddr, DatagramSocketId>,
    /// Hosts that cannot reach each other, the lower address first, and the end of each cut.
    cuts: BTreeMap<[IpAddr; 2], Duration>,
}

/// The datagrams of a [`Network`](super::Network).
#[derive(Debug)]
pub struct Datagrams<'a> {
    common: &'a mut Common,
    state: &'a mut DatagramSockets,
}

/// The bit of the first octet by which QUIC marks the long headers of a handshake (RFC 9000 §17.2).
const LONG_HEADER: u8 = 0x80;

/// The most octets of a long header that an endpoint of this crate sends, with the sample for its protection: two connection IDs of at
/// most 20 octets, no token (RFC 9000 §17.2, RFC 9001 §5.4.2).
const MOST_HEADER: usize = 1 + 4 + 1 + 20 + 1 + 20 + 1 + 2 + 4 + 16;

impl<'a> Datagrams<'a> {
    pub(super) fn new(common: &'a mut Common, state: &'a mut DatagramSockets) -> Self {
        Self { common, state }
    }

    // ---- sockets ----

    /// Makes a socket with a local address; port 0 picks one.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, if another socket for datagrams has the address or no port is left.
    pub fn bind(&mut self, address: SocketAddr) -> io::Result<DatagramSocketId> {
        let local = match address.port() {
            0 => self.pick_port(address.ip())?,
            _ if self.state.bound.contains_key(&address) => return Err(Errno::ADDRINUSE.into()),
            _ => address,
        };
        let id = DatagramSocketId(self.common.next_serial());
        let socket = DatagramState {
            local,
            picked: address.port() == 0,
            outside: local,
            busy_until: Duration::ZERO,
            last_arrivals: BTreeMap::new(),
            received: VecDeque::new(),
            held: 0,
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

    /// Closes a socket, with the datagrams that it has not taken. Its addresses can be bound again.
    pub fn close(&mut self, socket: DatagramSocketId) {
        self.state.sockets.remove(&socket);
        self.state.bound.retain(|_, holder| *holder != socket);
    }

    /// The address that a socket is bound to. A [`rebind`](Self::rebind) does not change it.
    pub fn local(&self, socket: DatagramSocketId) -> SocketAddr {
        self.socket(socket).local
    }

    /// The edges for which a socket is ready: only reading. It accepts datagrams at any time.
    pub fn readiness(&self, socket: DatagramSocketId) -> Edges {
        match self.state.sockets.get(&socket) {
            Some(state) if !state.received.is_empty() || !state.refused.is_empty() => Edges::READ,
            _ => Edges::empty(),
        }
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
    /// `ENETUNREACH`, if no route leads to the address, as for streams; `EHOSTUNREACH`, if the conditions make the host unreachable;
    /// `EMSGSIZE`, if the datagram is larger than the conditions allow; `EWOULDBLOCK` by [chance](crate::simulation::Conditions::full_socket).
    pub fn send(
        &mut self,
        socket: DatagramSocketId,
        to: SocketAddr,
        ecn: u8,
        octets: &[u8],
    ) -> io::Result<()> {
        let from = self.socket(socket).outside;
        if !has_route(from, to) {
            return Err(Errno::NETUNREACH.into());
        }
        if self.common.conditions.unreachable.contains(&to.ip()) {
            return Err(Errno::HOSTUNREACH.into());
        }
        if octets.len() > self.common.conditions.largest_datagram {
            self.common.disturbances.oversizes += 1;
            return Err(Errno::MSGSIZE.into());
        }
        if self.common.happens(self.common.conditions.full_socket) {
            return Err(Errno::AGAIN.into());
        }
        let carried = self.common.carried(octets.len());
        let now = self.common.now;
        let state = self.socket_mut(socket);
        state.busy_until = state.busy_until.max(now) + carried;
        if self.is_cut(from, to) {
            self.common.disturbances.cuts += 1;
            return Ok(());
        }
        if self.common.happens(self.common.conditions.loss) {
            self.common.disturbances.losses += 1;
            return Ok(());
        }
        let datagram = Datagram {
            from,
            ecn: ecn & 0b11,
            octets: octets.to_vec(),
        };
        if self.common.happens(self.common.conditions.duplication) {
            self.common.disturbances.duplications += 1;
            self.carry(socket, to, datagram.clone());
        }
        self.carry(socket, to, datagram);
        Ok(())
    }

    /// Puts a datagram on its way.
    fn carry(&mut self, socket: DatagramSocketId, to: SocketAddr, mut datagram: Datagram) {
        if !datagram.octets.is_empty() && self.common.happens(self.common.conditions.corruption) {
            self.common.disturbances.corruptions += 1;
            self.corrupt(&mut datagram.octets);
        }
        let at = self.arrival(socket, to);
        let event = NetworkEvent::Datagram { to, datagram };
        self.common.schedule(at, event);
    }

    /// Flips one to eight bits. During a QUIC handshake the bits are behind the header. An endpoint's answer to a packet with a changed
    /// connection ID or header protection depends on the ciphertext, and the keys do not follow from the seed.
    fn corrupt(&mut self, octets: &mut [u8]) {
        let count = self.common.draw(1..=8);
        let is_long = octets[0] & LONG_HEADER != 0;
        let kept = if is_long {
            MOST_HEADER.min(octets.len() - 1)
        } else {
            0
        };
        // A bit that is drawn twice is flipped once, so that the datagram has changed.
        let bits: BTreeSet<_> = (0..count)
            .map(|_| kept * 8 + self.common.draw_index((octets.len() - kept) * 8))
            .collect();
        for bit in bits {
            octets[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// The time at which a datagram that is sent now arrives.
    fn arrival(&mut self, socket: DatagramSocketId, to: SocketAddr) -> Duration {
        let latency = self.common.latency();
        let mut late = Duration::ZERO;
        let is_late = self.common.happens(self.common.conditions.reordering);
        if is_late {
            self.common.disturbances.reorderings += 1;
            let times = self.common.conditions.reordering_time.clone();
            late = self.common.draw_time(times);
        }
        let state = self.socket_mut(socket);
        let last = state.last_arrivals.entry(to).or_default();
        let arrival = (state.busy_until + latency).max(*last);
        if !is_late {
            *last = arrival; // later datagrams wait for this one
        }
        arrival + late
    }

    /// Takes the next received datagram.
    pub fn take(&mut self, socket: DatagramSocketId) -> Option<Datagram> {
        let state = self.socket_mut(socket);
        let datagram = state.received.pop_front()?;
        state.held -= datagram.octets.len();
        Some(datagram)
    }

    /// Takes an address to which the socket has sent and at which there was no socket. Such an address is reported once, however many
    /// datagrams were sent there meanwhile.
    pub fn take_refused(&mut self, socket: DatagramSocketId) -> Option<SocketAddr> {
        self.socket_mut(socket).refused.pop_front()
    }

    // ---- disturbances by call ----

    /// Changes the port of the address at which others see a socket, as a NAT does when it has forgotten the socket: datagrams sent from
    /// now on come from the new address, which this returns. Datagrams to the old address are lost, also those on their way. The socket's
    /// program does not notice.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, if no port is left.
    pub fn rebind(&mut self, socket: DatagramSocketId) -> io::Result<SocketAddr> {
        let outside = self.pick_port(self.socket(socket).outside.ip())?;
        self.common.disturbances.rebinds += 1;
        self.state.bound.insert(outside, socket);
        self.socket_mut(socket).outside = outside;
        Ok(outside)
    }

    /// [Rebinds](Self::rebind) all sockets of a host whose ports the network has picked, as a NAT in front of the host does after a
    /// restart; it forwards other ports to the host. Returns the number of these sockets.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, if no port is left.
    pub fn rebind_host(&mut self, host: IpAddr) -> io::Result<usize> {
        let sockets = self.state.sockets.iter();
        let behind = sockets.filter(|(_, state)| state.picked && state.local.ip() == host);
        let behind: Vec<_> = behind.map(|(id, _)| *id).collect();
        for &socket in &behind {
            self.rebind(socket)?;
        }
        Ok(behind.len())
    }

    /// Cuts two hosts off from each other for this long from now on: datagrams from one to the other that are sent or arrive in that
    /// time are lost, and so are answers that no socket has an address. Another call for the same hosts replaces this one. A time
    /// of zero ends the cut.
    pub fn cut(&mut self, one: IpAddr, other: IpAddr, time: Duration) {
        let until = self.common.now.saturating_add(time);
        self.state.cuts.insert(hosts(one, other), until);
    }

    fn is_cut(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let until = self.state.cuts.get(&hosts(from.ip(), to.ip()));
        until.is_some_and(|until| *until > self.common.now)
    }

    // ---- events that the network causes itself ----

    /// A datagram has reached its destination.
    pub(super) fn arrived(&mut self, to: SocketAddr, datagram: Datagram) {
        if self.is_cut(datagram.from, to) {
            self.common.disturbances.cuts += 1;
            return;
        }
        let Some(id) = self.state.bound.get(&to).copied() else {
            let at = self.common.now + self.common.latency();
            let sender = datagram.from;
            return self
                .common
                .schedule(at, NetworkEvent::Refused { sender, remote: to });
        };
        let limit = self.common.conditions.datagram_buffer;
        let state = self.socket_mut(id);
        if state.outside != to {
            self.common.disturbances.strays += 1;
            return;
        }
        let held = state.held + datagram.octets.len();
        if limit > 0 && held > limit {
            self.common.disturbances.overflows += 1;
            return;
        }
        state.held = held;
        state.received.push_back(datagram);
        self.common.notices.push_back(Notice::Received(id));
    }

    /// A sender learns that there is no socket at a remote address.
    pub(super) fn refused(&mut self, sender: SocketAddr, remote: SocketAddr) {
        if self.is_cut(remote, sender) {
            return;
        }
        let Some(id) = self.state.bound.get(&sender).copied() else {
            return;
        };
        let state = self.socket_mut(id);
        if state.outside != sender {
            return; // a NAT has forgotten the host at that address
        }
        if !state.refused.contains(&remote) {
            state.refused.push_back(remote);
        }
        self.common.notices.push_back(Notice::Received(id));
    }
}

/// Two hosts, the lower address first.
fn hosts(one: IpAddr, other: IpAddr) -> [IpAddr; 2] {
    [one.min(other), one.max(other)]
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
