//! The account of octets that one UDP socket has received and cannot deliver.

use std::collections::{BTreeSet, HashMap};

use super::config::FIRST_WINDOW;
use crate::peer_network::PeerNetwork;

/// The most memory for octets that were received over UDP and cannot be delivered: those behind a gap in their stream, and all of
/// connections that are not set up yet.
///
/// quinn-proto does not say how much memory it holds. What is counted is the least that it may hold by its own rules, see the page on QUIC
/// of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndeliveredLimits {
    socket: u64,
    address: u64,
}

impl Default for UndeliveredLimits {
    /// 64 MiB for each socket, and an eighth of that for each address.
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl UndeliveredLimits {
    /// The limits in octets of one UDP socket, and of one IPv4 address or IPv6 network of 64 bits. `None`: the default. Minimum: 64 KiB,
    /// which a connection may always have in flight.
    pub fn new(socket: Option<u64>, address: Option<u64>) -> Self {
        let least = u64::from(FIRST_WINDOW);
        let socket = socket.unwrap_or(64 * 1024 * 1024).max(least);
        let address = address.unwrap_or(socket / 8);
        let address = if crate::planted!(ShareOfGapsForgotten) {
            socket
        } else {
            address
        };
        Self {
            socket,
            address: address.clamp(least, socket),
        }
    }

    /// The most octets that one connection may have in flight, so that a lost packet does not exceed the limit of an address: the memory
    /// for octets behind a gap is greater than their number, by a seventh in packets of 1,200 octets.
    pub(super) fn in_flight(&self) -> u64 {
        (self.address - self.address / 4).max(u64::from(FIRST_WINDOW))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Account {
    limits: UndeliveredLimits,
    all: u64,
    by_peer: HashMap<PeerNetwork, u64>,
    /// The peers that have exceeded their share since they were last looked at.
    over: BTreeSet<PeerNetwork>,
}

impl Account {
    pub(super) fn new(limits: UndeliveredLimits) -> Self {
        Self {
            limits,
            all: 0,
            by_peer: HashMap::new(),
            over: BTreeSet::new(),
        }
    }

    pub(super) fn limits(&self) -> &UndeliveredLimits {
        &self.limits
    }

    /// A connection of this peer held `before` octets, and holds `after`.
    pub(super) fn change(&mut self, peer: PeerNetwork, before: u64, after: u64) {
        if before == after {
            return;
        }
        self.all = self.all - before + after;
        let held = self.by_peer.entry(peer).or_default();
        *held = *held - before + after;
        if *held == 0 {
            self.by_peer.remove(&peer);
        } else if *held > self.limits.address {
            self.over.insert(peer);
        }
    }

    /// The octets that this peer may hold more than it does.
    pub(super) fn room(&self, peer: PeerNetwork) -> u64 {
        let held = self.by_peer.get(&peer).copied().unwrap_or(0);
        let one = self.limits.address.saturating_sub(held);
        one.min(self.limits.socket.saturating_sub(self.all))
    }

    /// A peer of which a connection has to be closed.
    pub(super) fn exceeded_by(&mut self) -> Option<PeerNetwork> {
        while let Some(peer) = self.over.first() {
            if self
                .by_peer
                .get(peer)
                .is_some_and(|held| *held > self.limits.address)
            {
                return Some(*peer);
            }
            self.over.pop_first();
        }
        if self.all <= self.limits.socket {
            return None;
        }
        let most = self
            .by_peer
            .iter()
            .max_by_key(|(peer, held)| (**held, **peer));
        most.map(|(peer, _)| *peer)
    }

    /// The octets of all peers.
    #[cfg(test)]
    pub(super) fn all(&self) -> u64 {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> PeerNetwork {
        PeerNetwork::from_address([192, 0, 2, last].into())
    }

    #[test]
    fn an_address_has_its_share_and_the_socket_its_limit() {
        let mut account = Account::new(UndeliveredLimits::new(Some(1_000_000), Some(400_000)));
        account.change(peer(1), 0, 400_000);
        assert_eq!((account.exceeded_by(), account.room(peer(1))), (None, 0));
        assert_eq!(account.room(peer(2)), 400_000);
        account.change(peer(1), 100_000, 100_001);
        assert_eq!(account.exceeded_by(), Some(peer(1)));
        account.change(peer(1), 1, 0);
        assert_eq!(account.exceeded_by(), None);
        account.change(peer(2), 0, 350_000);
        assert_eq!(account.room(peer(3)), 250_000);
        account.change(peer(3), 0, 250_001);
        assert_eq!(account.exceeded_by(), Some(peer(1)), "it has most");
        for (last, all) in [(1, 400_000), (2, 350_000), (3, 250_001)] {
            account.change(peer(last), all, 0);
        }
        assert_eq!(account.exceeded_by(), None);
        assert!(account.by_peer.is_empty() && account.all() == 0);
    }

    #[test]
    fn limits_are_possible_ones() {
        let limits = |socket, address| {
            let limits = UndeliveredLimits::new(socket, address);
            (limits.socket, limits.address)
        };
        assert_eq!(limits(None, None), (64 << 20, 8 << 20));
        assert_eq!(limits(Some(0), None), (64 << 10, 64 << 10));
        assert_eq!(limits(None, Some(1 << 20)), (64 << 20, 1 << 20));
        assert_eq!(limits(Some(1 << 20), Some(2 << 20)), (1 << 20, 1 << 20));
    }
}
