//! The connections of a listener that are not established, with a share for each peer: requests that wait in the listener's channel, and
//! accepted identifiers that wait for the ready-to-receive message.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use iwarp_io::peer_backlog::PeerBacklog;
use iwarp_io::planted;
use parking_lot::Mutex;

/// The connections of a listener that are not established.
pub(super) struct Pending<I> {
    /// Identifiers whose requests wait in the channel.
    pub(super) requests: Arc<PendingList<I>>,
    /// Accepted identifiers that wait for the ready-to-receive message.
    pub(super) accepted: Arc<PendingList<I>>,
}

impl<I> Default for Pending<I> {
    fn default() -> Self {
        Self {
            requests: Arc::default(),
            accepted: Arc::default(),
        }
    }
}

/// Identifiers in the order of their arrival. No other lock is taken while the list is locked.
pub(super) struct PendingList<I>(Mutex<PeerBacklog<Weak<I>>>);

impl<I> Default for PendingList<I> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<I> PendingList<I> {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Adds an identifier until the place is dropped. `key` is the number of its request at the listener.
    pub(super) fn add(self: &Arc<Self>, key: u64, peer: IpAddr, id: Weak<I>) -> PendingPlace<I> {
        self.0.lock().push_back(key, peer, id);
        PendingPlace {
            list: Arc::clone(self),
            key,
        }
    }

    /// Takes out the identifier that gives way to a newcomer of this peer. `None` if the newcomer is refused.
    pub(super) fn give_way_to(&self, peer: IpAddr) -> Option<Weak<I>> {
        self.0.lock().give_way_to(peer).map(|(_, id)| id)
    }

    /// Takes out the youngest identifier of the peer that has the most.
    pub(super) fn give_way(&self) -> Option<Weak<I>> {
        self.0.lock().give_way().map(|(_, id)| id)
    }
}

/// The place of an identifier in a list.
pub(super) struct PendingPlace<I> {
    list: Arc<PendingList<I>>,
    key: u64,
}

impl<I> Drop for PendingPlace<I> {
    fn drop(&mut self) {
        if planted!(BacklogPlaceKept) {
            return;
        }
        let removed = self.list.0.lock().remove(self.key);
        drop(removed);
    }
}
