//! The option of an adapter by which its connections within the machine are over shared memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use iwarp_mem::ring::RingSize;

use crate::log::{span_between, targets};

use super::budget::Budget;
use super::counts::{Counts, TcpReason};
use super::first_octets::FirstOctets;
use super::meeting::{self, Meeting};
use super::pairing::Pairing;

/// The memory of an adapter's rings, if the user does not say.
const MEMORY: u64 = 256 << 20;

/// How long a connector waits for a listener's token, if the user does not say.
const WAIT: Duration = Duration::from_millis(200);

/// How long a listener keeps an offer whose connection has not come.
const OFFERS_LIVE: Duration = Duration::from_secs(10);

/// The option, with what it has done. Clones count together.
#[derive(Clone, Debug)]
pub struct SameHost {
    /// The octets of each of the two rings of a connection.
    size: RingSize,
    /// How long a connector waits for the listener before it goes on over TCP.
    wait: Duration,
    offers_live: Duration,
    counts: Arc<Counts>,
    budget: Arc<Budget>,
}

impl Default for SameHost {
    fn default() -> Self {
        Self {
            size: RingSize::default(),
            wait: WAIT,
            offers_live: OFFERS_LIVE,
            counts: Arc::default(),
            budget: Budget::new(MEMORY),
        }
    }
}

impl SameHost {
    /// The option with its defaults. `None` on a system that does not have it.
    pub fn if_possible() -> Option<Self> {
        Some(Self::default())
    }

    /// Sets the memory that the rings of all connections may take, in octets. What was taken before does not count.
    pub fn limit_memory(&mut self, octets: u64) {
        self.budget = Budget::new(octets);
    }

    /// Sets how long a connector waits for the listener before it goes on over TCP.
    pub fn wait_for(&mut self, limit: Duration) {
        self.wait = limit;
    }

    /// Sets how long a listener keeps an offer whose connection has not come.
    #[cfg(test)]
    pub fn keep_offers_for(&mut self, limit: Duration) {
        self.offers_live = limit;
    }

    /// The names and values of its counters.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counts.all()
    }

    /// Offers the listener at `to` memory for a connection from `from`.
    pub(in crate::transport) fn offer(&self, from: SocketAddr, to: SocketAddr) -> Option<Pairing> {
        let offered = meeting::offer(from, to, self.size, &self.budget);
        let offered = self.unless_refused(offered, (from, to))?;
        Some(Pairing::of_connector(
            offered,
            (from, to),
            self.wait,
            &self.counts,
        ))
    }

    /// Takes offers for a listener. `None`: it listens at TCP alone.
    pub(in crate::transport) fn meet(&self, at: SocketAddr) -> Option<Meeting> {
        let met = Meeting::open(at, self.offers_live);
        if let Err(error) = &met {
            limited!(warn, target: targets::CONNECT, %at, %error, "a listener takes no offers of shared memory");
            self.counts.refused(TcpReason::System);
        }
        met.ok()
    }

    /// Takes the offer for a connection that was accepted, and sends its first token. `addresses` are the local one and the peer's.
    pub(in crate::transport) fn take(
        &self,
        meeting: &Meeting,
        tcp: &impl FirstOctets,
        addresses: (SocketAddr, SocketAddr),
    ) -> Option<Pairing> {
        let taken = meeting.take(addresses, &self.counts, &self.budget);
        let taken = self.unless_refused(taken, addresses)?;
        // The send buffer of a new connection has room. The next read reports a broken connection.
        let sent = tcp.send(&taken.first.0).ok()?;
        (sent == taken.first.0.len()).then(|| Pairing::of_listener(taken, addresses, &self.counts))
    }

    fn unless_refused<T>(
        &self,
        made: Result<T, TcpReason>,
        (local, peer): (SocketAddr, SocketAddr),
    ) -> Option<T> {
        made.inspect_err(|refusal| {
            self.counts.refused(*refusal);
            let reason = refusal.words();
            tracing::debug!(target: targets::CONNECT, parent: &span_between(local, peer), %peer, reason, "a connection is over TCP");
        })
        .ok()
    }
}
