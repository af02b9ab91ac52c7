//! Places that peers share, and the choice of the entry that gives way when all are taken.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::peer_network::PeerNetwork;

/// Places that peers share: connections, each with the peer that it came from, in the order of their keys.
///
/// The table has no limit. Its user asks for the entry that gives way when all places are taken. All operations take time that grows with
/// the logarithm of the number of entries.
///
/// ```
/// # use iwarp_io::{peer_network::PeerNetwork, peer_table::PeerTable};
/// let [flood, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|address| PeerNetwork::from_address(address.into()));
/// let mut places = PeerTable::default();
/// for key in 0..4 {
///     places.insert(key, flood, "flood");
/// }
/// // All places are taken.
/// assert_eq!(places.give_way_to(flood), None);
/// assert_eq!(places.give_way_to(other), Some((3, "flood")));
/// places.insert(4, other, "other");
/// ```
#[derive(Debug)]
pub struct PeerTable<T> {
    entries: BTreeMap<u64, (PeerNetwork, T)>,
    /// The keys of each peer.
    peers: HashMap<PeerNetwork, BTreeSet<u64>>,
    /// The number of entries of each peer, and the least of its keys.
    counts: BTreeSet<(usize, Reverse<u64>, PeerNetwork)>,
}

impl<T> Default for PeerTable<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            peers: HashMap::new(),
            counts: BTreeSet::new(),
        }
    }
}

impl<T> PeerTable<T> {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry. Returns the entry that had this key.
    pub fn insert(&mut self, key: u64, peer: PeerNetwork, entry: T) -> Option<T> {
        let before = self.remove(key);
        self.entries.insert(key, (peer, entry));
        self.change_keys(peer, |keys| {
            keys.insert(key);
        });
        before
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let (peer, entry) = self.entries.remove(&key)?;
        self.change_keys(peer, |keys| {
            keys.remove(&key);
        });
        Some(entry)
    }

    fn change_keys(&mut self, peer: PeerNetwork, change: impl FnOnce(&mut BTreeSet<u64>)) {
        let count = |keys: &BTreeSet<u64>| Some((keys.len(), Reverse(*keys.first()?), peer));
        let keys = self.peers.entry(peer).or_default();
        if let Some(before) = count(keys) {
            self.counts.remove(&before);
        }
        change(keys);
        match count(keys) {
            Some(now) => drop(self.counts.insert(now)),
            None => drop(self.peers.remove(&peer)),
        }
    }

    /// An entry.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        self.entries.get_mut(&key).map(|(_, entry)| entry)
    }

    /// All entries with their keys and peers, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u64, PeerNetwork, &T)> {
        let entries = self.entries.iter();
        entries.map(|(key, (peer, entry))| (*key, *peer, entry))
    }

    /// The entries of a peer with their keys, in the order of these.
    pub fn entries_of(&self, peer: PeerNetwork) -> impl Iterator<Item = (u64, &T)> {
        let keys = self.peers.get(&peer).into_iter().flatten();
        keys.filter_map(|key| Some((*key, &self.entries.get(key)?.1)))
    }

    /// The number of entries of a peer.
    #[must_use]
    pub fn count_of(&self, peer: PeerNetwork) -> usize {
        self.peers.get(&peer).map_or(0, BTreeSet::len)
    }

    /// The key of the first entry of a peer.
    #[must_use]
    pub fn first_of(&self, peer: PeerNetwork) -> Option<u64> {
        self.peers.get(&peer)?.first().copied()
    }

    /// The peer that has the most entries; if there are several such peers, the one with the first entry.
    #[must_use]
    pub fn most(&self) -> Option<PeerNetwork> {
        self.counts.last().map(|(_, _, peer)| *peer)
    }

    /// Takes out the entry that gives way to a newcomer of this peer when all places are taken: the last entry of the peer that has the
    /// most. Returns `None` if no peer has more than this one: then the newcomer is refused.
    ///
    /// So a peer may take all places, but a peer with few entries is not disturbed by others with many.
    pub fn give_way_to(&mut self, peer: PeerNetwork) -> Option<(u64, T)> {
        let most = self.most()?;
        if self.count_of(peer) >= self.count_of(most) || crate::planted!(NoneGivesWay) {
            return None;
        }
        self.give_way()
    }

    /// Takes out the last entry of the peer that has the most.
    pub fn give_way(&mut self) -> Option<(u64, T)> {
        let last = *self.peers.get(&self.most()?)?.last()?;
        Some((last, self.remove(last)?))
    }

    /// Takes out the first entry.
    pub fn pop_first(&mut self) -> Option<T> {
        let first = *self.entries.first_key_value()?.0;
        self.remove(first)
    }

    /// Takes all entries out, in the order of their keys.
    pub fn take(&mut self) -> Vec<T> {
        let entries = std::mem::take(self).entries;
        entries.into_values().map(|(_, entry)| entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> PeerNetwork {
        PeerNetwork::from_address([192, 0, 2, last].into())
    }

    fn table(hosts: impl IntoIterator<Item = u8>) -> PeerTable<u64> {
        let mut table = PeerTable::default();
        for (key, host) in (0..).zip(hosts) {
            assert_eq!(table.insert(key, v4(host), key), None);
        }
        table
    }

    /// Checks that the indexes agree with the entries.
    fn check(table: &PeerTable<u64>) {
        let mut counted: HashMap<PeerNetwork, BTreeSet<u64>> = HashMap::new();
        for (key, peer, _) in table.iter() {
            counted.entry(peer).or_default().insert(key);
        }
        assert_eq!(counted, table.peers);
        let counts = counted.iter();
        let counts =
            counts.map(|(peer, keys)| (keys.len(), Reverse(keys.first().copied().unwrap()), *peer));
        assert_eq!(counts.collect::<BTreeSet<_>>(), table.counts);
    }

    #[test]
    fn the_last_entry_of_who_has_the_most_gives_way_to_who_has_fewer() {
        let mut table = table([1, 2, 2, 2, 3]);
        assert_eq!(table.give_way_to(v4(2)), None);
        assert_eq!(table.give_way_to(v4(1)), Some((3, 3)));
        table.insert(5, v4(1), 5);
        // Both peers have two entries.
        assert_eq!(table.give_way_to(v4(1)), None);
        assert_eq!(table.give_way_to(v4(2)), None);
        // Of the two, the peer whose first entry is older gives way.
        assert_eq!(table.give_way_to(v4(9)), Some((5, 5)));
        check(&table);
        assert_eq!(PeerTable::<u64>::default().give_way_to(v4(1)), None);
    }

    #[test]
    fn a_peer_with_one_outlives_any_number_of_others_with_more() {
        const PLACES: usize = 8;
        let mut table = table([1]);
        for key in 1..1000 {
            let address = v4(2 + u8::try_from(key % 2).unwrap());
            if table.len() < PLACES || table.give_way_to(address).is_some() {
                table.insert(key, address, key);
            }
            assert!(table.len() <= PLACES);
            check(&table);
        }
        assert_eq!(table.first_of(v4(1)), Some(0));
        assert_eq!(table.pop_first(), Some(0));
    }

    #[test]
    fn a_network_of_64_bits_is_one_peer() {
        let hosts = ["2001:db8::1", "2001:db8::ffff:1:2:3", "2001:db8:0:1::1"];
        let [one, same, other] = hosts.map(|host| PeerNetwork::from_address(host.parse().unwrap()));
        let mut table = PeerTable::default();
        table.insert(0, one, ());
        table.insert(1, same, ());
        assert_eq!((table.count_of(same), table.count_of(other)), (2, 0));
        assert!(table.entries_of(one).map(|(key, ())| key).eq([0, 1]));
    }

    #[test]
    fn an_entry_takes_the_place_of_one_with_its_key() {
        let mut table = table([1, 1]);
        assert_eq!(table.insert(1, v4(2), 7), Some(1));
        check(&table);
        assert_eq!(table.most(), Some(v4(1)));
        *table.get_mut(1).unwrap() = 8;
        assert_eq!(table.take(), [0, 8]);
        check(&table);
        assert!(table.is_empty() && table.most().is_none());
    }
}
