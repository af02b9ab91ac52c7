//! The backlog of a listener: whole Requests of peers that no client has taken yet, with a share for each peer.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::peer_network::PeerNetwork;
use crate::peer_table::PeerTable;

/// Requests in the order in which a listener passes them on, each with a key that no other one has.
///
/// Any peer may have all places. In a full backlog the youngest Request of the peer that has the most gives way to a Request of a peer with
/// fewer (IW-055). The backlog has no limit: its user asks for the Request that gives way. All operations take time that grows with the
/// logarithm of the number of Requests.
///
/// ```
/// # use std::net::IpAddr;
/// # use iwarp_io::peer_backlog::PeerBacklog;
/// let [flood, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
/// let mut backlog = PeerBacklog::default();
/// for key in 0..3 {
///     backlog.push_back(key, flood, "flood");
/// }
/// // All places are taken.
/// assert_eq!(backlog.give_way_to(flood), None);
/// assert_eq!(backlog.give_way_to(other), Some((2, "flood")));
/// backlog.push_back(3, other, "other");
/// ```
#[derive(Debug)]
pub struct PeerBacklog<T> {
    /// By places: those in front come first.
    requests: PeerTable<(u64, T)>,
    /// The place of each key.
    places: HashMap<u64, u64>,
    /// The next free place in front of all others, and behind them.
    front: u64,
    back: u64,
}

impl<T> Default for PeerBacklog<T> {
    fn default() -> Self {
        const MIDDLE: u64 = 1 << 63;
        Self {
            requests: PeerTable::default(),
            places: HashMap::new(),
            front: MIDDLE - 1,
            back: MIDDLE,
        }
    }
}

impl<T> PeerBacklog<T> {
    /// The number of Requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns true if there is no Request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn put(&mut self, place: u64, key: u64, peer: IpAddr, request: T) {
        self.places.insert(key, place);
        let peer = PeerNetwork::from_address(peer);
        self.requests.insert(place, peer, (key, request));
    }

    /// Adds a Request behind all others.
    pub fn push_back(&mut self, key: u64, peer: IpAddr, request: T) {
        self.put(self.back, key, peer, request);
        self.back += 1;
    }

    /// Adds a Request in front of all others.
    pub fn push_front(&mut self, key: u64, peer: IpAddr, request: T) {
        self.put(self.front, key, peer, request);
        self.front -= 1;
    }

    /// Takes out the Request in front.
    pub fn pop_front(&mut self) -> Option<T> {
        let (key, first) = self.requests.pop_first()?;
        self.places.remove(&key);
        Some(first)
    }

    /// Takes out the Request with this key.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let place = self.places.remove(&key)?;
        self.requests.remove(place).map(|(_, request)| request)
    }

    /// Takes out the Request, with its key, that gives way to a newcomer of this peer when all places are taken: the youngest of the peer
    /// that has the most. Returns `None` if no peer has more than this one: then the newcomer is refused.
    pub fn give_way_to(&mut self, peer: IpAddr) -> Option<(u64, T)> {
        let (_, (key, youngest)) = self.requests.give_way_to(PeerNetwork::from_address(peer))?;
        self.places.remove(&key);
        Some((key, youngest))
    }

    /// Takes out the youngest Request, with its key, of the peer that has the most.
    pub fn give_way(&mut self) -> Option<(u64, T)> {
        let (_, (key, youngest)) = self.requests.give_way()?;
        self.places.remove(&key);
        Some((key, youngest))
    }

    /// Takes out all Requests, in order.
    pub fn take(&mut self) -> Vec<T> {
        self.places.clear();
        let all = self.requests.take().into_iter();
        all.map(|(_, request)| request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEERS: [IpAddr; 3] = [
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)),
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3)),
    ];

    #[test]
    fn requests_come_in_order_and_those_that_came_back_first() {
        let mut backlog = PeerBacklog::default();
        for key in 0..4 {
            backlog.push_back(key, PEERS[0], key);
        }
        assert_eq!(backlog.pop_front(), Some(0));
        backlog.push_front(0, PEERS[0], 0);
        assert_eq!(backlog.remove(2), Some(2));
        assert_eq!(backlog.remove(2), None);
        assert_eq!(backlog.len(), 3);
        assert_eq!(backlog.take(), [0, 1, 3]);
        assert!(backlog.is_empty() && backlog.pop_front().is_none());
    }

    #[test]
    fn iw_055_the_youngest_of_the_peer_with_the_most_gives_way() {
        let mut backlog = PeerBacklog::default();
        for (key, peer) in (0..).zip([0, 1, 0, 0, 1]) {
            backlog.push_back(key, PEERS[peer], key);
        }
        assert_eq!(backlog.give_way_to(PEERS[0]), None);
        assert_eq!(backlog.give_way_to(PEERS[2]), Some((3, 3)));
        // Two peers have two each now.
        assert_eq!(backlog.give_way_to(PEERS[0]), None);
        assert_eq!(backlog.give_way(), Some((2, 2)));
        assert_eq!(backlog.give_way(), Some((4, 4)));
        assert_eq!(backlog.take(), [0, 1]);
        assert_eq!(backlog.give_way(), None);
    }

    #[cfg(planted_bugs)]
    #[test]
    fn planted_bugs_are_found() {
        let test = iw_055_the_youngest_of_the_peer_with_the_most_gives_way;
        assert!(crate::planted::is_found_by(
            crate::planted::Bug::NoneGivesWay,
            test
        ));
    }
}
