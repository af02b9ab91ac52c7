//! The half-open connections of a listener: peers that have a stream, over any transport, and have not sent their whole Request.
//!
//! Any peer can connect and stay silent, so the number of these is limited (RFC 5042 §6.4.1), for all peers together and for each address.
//! The newcomer is always let in, because it may be the honest one, and an older one gives way: the oldest of the same address if that has
//! its share, otherwise the oldest of the address that has the most. So an address with few is not disturbed by others with many.

use crate::peer_network::PeerNetwork;
use crate::peer_table::PeerTable;

/// The limits of half-open connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HalfOpenLimits {
    /// The limit of all peers together.
    pub total: usize,
    /// The limit of one peer: an IPv4 address, or an IPv6 network of 64 bits.
    pub per_peer: usize,
}

/// The greatest limit of all peers together, unless the application names one.
const TOTAL: usize = 1024;

impl HalfOpenLimits {
    /// The limits that the application names, if it does, in a process that may open this many descriptors.
    pub fn for_process(total: Option<u32>, per_peer: Option<u32>, descriptors: usize) -> Self {
        let by_default = (descriptors / 4).min(TOTAL);
        let total = total.map_or(by_default, |named| named as usize).max(1);
        let per_peer = per_peer.map_or(total / 2, |named| named as usize);
        Self {
            total,
            per_peer: per_peer.clamp(1, total),
        }
    }
}

/// The half-open connections of one listener, by their keys, which grow with each arrival.
pub(super) type HalfOpen<T> = PeerTable<T>;

/// Takes out the connection that gives way to a newcomer of this peer, if one has to (SEC-031).
pub(super) fn make_room<T>(
    half_open: &mut HalfOpen<T>,
    peer: PeerNetwork,
    limits: HalfOpenLimits,
) -> Option<T> {
    if half_open.count_of(peer) >= limits.per_peer && !crate::planted!(ShareOfSilentForgotten) {
        let oldest = half_open.first_of(peer)?;
        return half_open.remove(oldest);
    }
    if half_open.len() >= limits.total {
        return give_way(half_open);
    }
    None
}

/// Takes out the oldest connection of the peer that has the most; if there are several such peers, the one with the oldest connection.
pub(super) fn give_way<T>(half_open: &mut HalfOpen<T>) -> Option<T> {
    let most = half_open.most()?;
    let oldest = half_open.first_of(most)?;
    half_open.remove(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_open_connections_leave_descriptors_for_others() {
        let limits = |total, per_peer, descriptors| {
            let limits = HalfOpenLimits::for_process(total, per_peer, descriptors);
            (limits.total, limits.per_peer)
        };
        assert_eq!(limits(None, None, 1 << 20), (1024, 512));
        assert_eq!(limits(None, None, 1024), (256, 128));
        assert_eq!(limits(None, None, 3), (1, 1));
        assert_eq!(limits(Some(5000), None, 1024), (5000, 2500));
        assert_eq!(limits(Some(5000), Some(9000), 1024), (5000, 5000));
        assert_eq!(limits(Some(0), Some(0), 1024), (1, 1));
    }

    fn v4(last: u8) -> PeerNetwork {
        PeerNetwork::from_address([192, 0, 2, last].into())
    }

    /// Lets `arrivals` in, numbered from 0. Returns those that had to give way.
    fn gave_way(
        limits: HalfOpenLimits,
        arrivals: impl IntoIterator<Item = PeerNetwork>,
    ) -> Vec<u64> {
        let mut half_open = HalfOpen::default();
        let mut gone = Vec::new();
        for (key, peer) in (0..).zip(arrivals) {
            gone.extend(make_room(&mut half_open, peer, limits));
            half_open.insert(key, peer, key);
            assert!(half_open.len() <= limits.total);
            let most = half_open.most().map(|most| half_open.count_of(most));
            assert!(most <= Some(limits.per_peer));
        }
        gone
    }

    #[test]
    fn sec_031_an_address_has_its_share_and_no_more() {
        let limits = HalfOpenLimits {
            total: 100,
            per_peer: 3,
        };
        assert_eq!(gave_way(limits, [1, 2, 1, 1, 2].map(v4)), []);
        assert_eq!(gave_way(limits, [1, 2, 1, 1, 1, 1, 2, 2].map(v4)), [0, 2]);
    }

    #[cfg(planted_bugs)]
    #[test]
    fn planted_bugs_are_found() {
        let test = sec_031_an_address_has_its_share_and_no_more;
        assert!(crate::planted::is_found_by(
            crate::planted::Bug::ShareOfSilentForgotten,
            test
        ));
    }

    #[test]
    fn sec_031_in_a_full_table_the_oldest_of_who_has_the_most_gives_way() {
        let limits = HalfOpenLimits {
            total: 4,
            per_peer: 4,
        };
        // 0 is the oldest of all, but its peer has no more than the newcomer's.
        assert_eq!(gave_way(limits, [1, 2, 2, 2, 3, 4].map(v4)), [1, 2]);
        // If all have the same number, the oldest gives way.
        assert_eq!(gave_way(limits, [1, 2, 3, 4, 5, 6].map(v4)), [0, 1]);
        // A peer with one connection outlives any number of others with more.
        let flood = (0..1000).map(|at| v4(2 + u8::try_from(at % 2).unwrap()));
        let gone = gave_way(limits, [v4(1)].into_iter().chain(flood));
        assert_eq!(gone.len(), 997);
        assert!(!gone.contains(&0));
    }

    #[test]
    fn sec_031_a_network_of_64_bits_is_one_peer() {
        let limits = HalfOpenLimits {
            total: 100,
            per_peer: 2,
        };
        let hosts = ["2001:db8::1", "2001:db8::ffff:1:2:3", "2001:db8:0:1::1"];
        let hosts = hosts.map(|host| PeerNetwork::from_address(host.parse().unwrap()));
        let arrivals = [hosts[0], hosts[1], hosts[2], hosts[1]];
        assert_eq!(gave_way(limits, arrivals), [0]);
    }

    #[test]
    fn who_has_left_counts_no_more() {
        let limits = HalfOpenLimits {
            total: 2,
            per_peer: 2,
        };
        let mut half_open = HalfOpen::default();
        half_open.insert(0, v4(1), ());
        half_open.insert(1, v4(1), ());
        assert_eq!(half_open.remove(0), Some(()));
        assert_eq!(half_open.remove(0), None);
        assert_eq!(make_room(&mut half_open, v4(1), limits), None);
        assert_eq!(half_open.take(), [()]);
        assert!(half_open.is_empty() && give_way(&mut half_open).is_none());
    }
}
