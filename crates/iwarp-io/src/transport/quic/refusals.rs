//! Counters of refused datagrams, connections and streams of peers over QUIC.

use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A datagram that belongs to no connection and begins none, or has a packet that only a server may send.
    Datagram,
    /// A first packet that was answered by the demand to prove the address.
    Unproved,
    /// A connection: there was no room, there was no listener, or the handshake has failed.
    Connection,
    /// A stream.
    Stream,
    /// A connection with octets that could not be delivered, when they were too many.
    Undelivered,
}

impl Refusal {
    const ALL: [Self; 5] = [
        Self::Datagram,
        Self::Unproved,
        Self::Connection,
        Self::Stream,
        Self::Undelivered,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Datagram => "udp.strange_datagrams",
            Self::Unproved => "udp.retries",
            Self::Connection => "udp.refused_connections",
            Self::Stream => "udp.refused_streams",
            Self::Undelivered => "udp.closed_for_undelivered_octets",
        }
    }
}

/// The number of refusals of each kind by one adapter.
#[derive(Debug, Default)]
pub(super) struct Refusals([AtomicU64; Refusal::ALL.len()]);

impl Refusals {
    pub(super) fn count(&self, refusal: Refusal) {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Names and counts.
    pub(super) fn all(&self) -> [(&'static str, u64); Refusal::ALL.len()] {
        Refusal::ALL.map(|refusal| {
            let count = &self.0[refusal as usize];
            (refusal.name(), count.load(Ordering::Relaxed))
        })
    }
}
