//! The backlog of a listener: whole Requests that no client has asked for yet.

use std::collections::HashMap;
use std::sync::Arc;

use iwarp_io::peer_network::PeerNetwork;
use iwarp_io::peer_table::PeerTable;
use iwarp_io::setup::Incoming;
use netdirect_provider::listener::Backlog;

/// Requests in the order in which the listener passes them on. Any peer may have all places. In a full backlog the youngest Request of the
/// peer that has the most gives way to a Request of a peer with fewer (IW-055).
#[derive(Debug)]
pub(crate) struct RequestBacklog {
    requests: PeerTable<Arc<Incoming>>,
    /// The place of each Request, by the key that its acceptor has given it.
    places: HashMap<u64, u64>,
    /// The next free place in front of all others, and behind them.
    front: u64,
    back: u64,
}

impl Default for RequestBacklog {
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

impl RequestBacklog {
    fn put(&mut self, place: u64, incoming: Arc<Incoming>) {
        self.places.insert(incoming.key(), place);
        self.requests
            .insert(place, PeerNetwork::of(incoming.peer().ip()), incoming);
    }
}

impl Backlog for RequestBacklog {
    type PeerRequest = Arc<Incoming>;

    fn len(&self) -> usize {
        self.requests.len()
    }

    fn push_back(&mut self, incoming: Arc<Incoming>) {
        self.put(self.back, incoming);
        self.back += 1;
    }

    fn push_front(&mut self, incoming: Arc<Incoming>) {
        self.put(self.front, incoming);
        self.front -= 1;
    }

    fn pop_front(&mut self) -> Option<Arc<Incoming>> {
        let first = self.requests.pop_first()?;
        self.places.remove(&first.key());
        Some(first)
    }

    fn remove(&mut self, key: u64) -> Option<Arc<Incoming>> {
        let place = self.places.remove(&key)?;
        self.requests.remove(place)
    }

    fn give_way_to(&mut self, newcomer: &Arc<Incoming>) -> Option<Arc<Incoming>> {
        let (_, youngest) = self
            .requests
            .give_way_to(PeerNetwork::of(newcomer.peer().ip()))?;
        self.places.remove(&youngest.key());
        Some(youngest)
    }

    fn take(&mut self) -> Vec<Arc<Incoming>> {
        self.places.clear();
        self.requests.take()
    }
}
