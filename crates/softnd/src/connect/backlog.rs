//! The backlog of a listener, as the rules of NetworkDirect's listeners call it.

use std::sync::Arc;

use iwarp_io::peer_backlog::PeerBacklog;
use iwarp_io::setup::Incoming;
use netdirect_provider::listener::Backlog;

/// Whole Requests that no client has asked for yet, by the keys of their acceptor.
#[derive(Debug, Default)]
pub(crate) struct RequestBacklog(PeerBacklog<Arc<Incoming>>);

impl Backlog for RequestBacklog {
    type PeerRequest = Arc<Incoming>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn push_back(&mut self, incoming: Arc<Incoming>) {
        self.0
            .push_back(incoming.key(), incoming.peer().ip(), incoming);
    }

    fn push_front(&mut self, incoming: Arc<Incoming>) {
        self.0
            .push_front(incoming.key(), incoming.peer().ip(), incoming);
    }

    fn pop_front(&mut self) -> Option<Arc<Incoming>> {
        self.0.pop_front()
    }

    fn remove(&mut self, key: u64) -> Option<Arc<Incoming>> {
        self.0.remove(key)
    }

    fn give_way_to(&mut self, newcomer: &Arc<Incoming>) -> Option<Arc<Incoming>> {
        let (_, youngest) = self.0.give_way_to(newcomer.peer().ip())?;
        Some(youngest)
    }

    fn take(&mut self) -> Vec<Arc<Incoming>> {
        self.0.take()
    }
}
