//! Which way connections took, and why.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a connection of an adapter with the option is on TCP alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) enum TcpReason {
    /// No listener of this machine that has the option takes offers for the address.
    NoName,
    /// The other end belongs to another user.
    OtherUser,
    /// The system refuses the memory, the socket or another call.
    System,
    /// The adapter's memory for rings is taken.
    Memory,
    /// The local address is not known before the connection is made.
    NoAddress,
    /// The listener has not answered in time, or has answered something else.
    NoAnswer,
    /// A peer's offer is none that this version knows, or its memory is not as it has to be.
    BadOffer,
    /// The peer has made no offer for the connection.
    NoOffer,
}

impl TcpReason {
    const ALL: [Self; 8] = [
        Self::NoName,
        Self::OtherUser,
        Self::System,
        Self::Memory,
        Self::NoAddress,
        Self::NoAnswer,
        Self::BadOffer,
        Self::NoOffer,
    ];

    /// The name of the counter.
    const fn counter(self) -> &'static str {
        match self {
            Self::NoName => "same_host.refused.no_name",
            Self::OtherUser => "same_host.refused.other_user",
            Self::System => "same_host.refused.system",
            Self::Memory => "same_host.refused.memory",
            Self::NoAddress => "same_host.refused.no_address",
            Self::NoAnswer => "same_host.refused.no_answer",
            Self::BadOffer => "same_host.refused.bad_offer",
            Self::NoOffer => "same_host.refused.no_offer",
        }
    }

    /// The reason in words, for the log.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::NoName => "no listener of this machine that has the option is at the address",
            Self::OtherUser => "the other end belongs to another user",
            Self::System => "the system refuses a call",
            Self::Memory => "the memory that the adapter may take for this is taken",
            Self::NoAddress => "the local address is not known before the connection is made",
            Self::NoAnswer => "the listener has not answered in time",
            Self::BadOffer => "the offer, or its memory, is not as it has to be",
            Self::NoOffer => "the peer has made no offer",
        }
    }
}

/// Connections of one adapter.
#[derive(Debug, Default)]
pub(in crate::transport) struct Counts {
    connections: AtomicU64,
    refused: [AtomicU64; TcpReason::ALL.len()],
}

impl Counts {
    /// A connection is over shared memory.
    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection is not, or an offer was dropped.
    pub(super) fn refused(&self, refusal: TcpReason) {
        self.refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The names and values of the counters.
    pub(in crate::transport) fn all(&self) -> Vec<(&'static str, u64)> {
        let refused = TcpReason::ALL.into_iter().zip(&self.refused);
        let refused = refused.map(|(refusal, count)| (refusal.counter(), count));
        let connections = std::iter::once(("same_host.connections", &self.connections));
        connections
            .chain(refused)
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
            .collect()
    }
}
