//! What one connection has received and not delivered.

use std::collections::HashMap;
use std::sync::Arc;

use quinn_proto::StreamId;

use super::arrivals::Arrivals;
use super::config::FIRST_WINDOW;
use super::received_frames::{EncryptionLevel, ReceivedFrames};
use crate::peer_network::PeerNetwork;

/// See the [module](self).
pub(super) struct Undelivered {
    pub(super) frames: Arc<ReceivedFrames>,
    pub(super) peer: PeerNetwork,
    pub(super) crypto: [Arrivals; EncryptionLevel::COUNT],
    /// Streams of the peer that were not opened here yet.
    pub(super) early: HashMap<StreamId, Arrivals>,
    /// The streams of the peer that were opened here, now and before.
    pub(super) opened: u64,
    /// The memory that the account counts.
    pub(super) held: u64,
    /// The octets in order of streams in use.
    pub(super) waiting: u64,
    /// The octets of streams in use that were read.
    pub(super) read: u64,
    /// Those of which the peer knows.
    pub(super) announced: u64,
    /// Streams in use, and the most of them at a time.
    pub(super) in_use: (usize, usize),
    /// The octets that the peer may have in flight, besides `waiting`.
    pub(super) room: u64,
    /// The window that quinn-proto has: about the sum of `room` and `waiting`.
    pub(super) window: u64,
}

impl Undelivered {
    pub(super) fn new(frames: Arc<ReceivedFrames>, peer: PeerNetwork) -> Self {
        let window = u64::from(FIRST_WINDOW);
        Self {
            frames,
            peer,
            crypto: Default::default(),
            early: HashMap::new(),
            opened: 0,
            held: 0,
            waiting: 0,
            read: 0,
            announced: 0,
            in_use: (0, 0),
            room: window,
            window,
        }
    }

    /// A stream of the peer is opened here. Returns what has arrived of it.
    pub(super) fn open(&mut self, stream: StreamId) -> Arrivals {
        self.opened = stream.index() + 1;
        self.early.remove(&stream).unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.held
    }
}
