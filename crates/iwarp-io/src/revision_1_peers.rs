//! Peers that speak MPA revision 1 only.

use std::collections::HashSet;
use std::net::IpAddr;

use crate::sync::Mutex;

/// The addresses of peers that speak MPA revision 1 only. A peer that has closed a stream on a Request of revision 2, and has then agreed on
/// revision 1, is asked for revision 1 at once from then on.
#[derive(Debug, Default)]
pub(crate) struct Revision1Peers(Mutex<HashSet<IpAddr>>);

impl Revision1Peers {
    /// The most addresses that are remembered.
    const MOST: usize = 1024;

    /// Returns true if this peer is known to speak revision 1 only.
    pub(crate) fn has(&self, peer: IpAddr) -> bool {
        self.0.lock().contains(&peer)
    }

    /// Remembers a peer, unless too many are remembered.
    pub(crate) fn remember(&self, peer: IpAddr) {
        let mut peers = self.0.lock();
        if peers.len() < Self::MOST {
            peers.insert(peer);
        }
    }
}
