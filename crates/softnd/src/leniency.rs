//! What a client gets away with in the default profile, counted: it would fail on narrower adapters (AMB-071).
//!
//! Each act is counted per adapter, and logged the first time. Nothing is counted in the strict profile, where it fails.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use iwarp_io::memory::STag;
use netdirect::Counters;

/// A lenient act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LenientCase {
    /// A request has more SGEs than its queue pair was made for (AMB-009).
    SurplusSges,
    /// A Send of the peer waits for a Receive (AMB-008).
    ReceiveWait,
    /// The passive side sends before it has received anything (AMB-040). Counted once a connection.
    PassiveFirst,
    /// A peer does not take part in the peer-to-peer start that was offered (RFC 6581 §9.2).
    NoReadyMessage,
    /// A Read puts its data into memory that is registered for local writing alone (AMB-015). The table of memory counts
    /// it, and has the first one told here.
    ReadSink,
}

impl LenientCase {
    const ALL: [Self; 5] = [
        Self::SurplusSges,
        Self::ReceiveWait,
        Self::PassiveFirst,
        Self::NoReadyMessage,
        Self::ReadSink,
    ];

    /// The name of its counter.
    const fn name(self) -> &'static str {
        match self {
            Self::SurplusSges => "lenient.surplus_sges",
            Self::ReceiveWait => "lenient.receive_wait",
            Self::PassiveFirst => "lenient.passive_first",
            Self::NoReadyMessage => "lenient.no_ready_message",
            Self::ReadSink => "lenient.read_sink",
        }
    }

    /// For the log: what happened, what an adapter does, and what to do about it.
    const fn explanation(self) -> &'static str {
        match self {
            Self::SurplusSges => {
                "a request has more SGEs than its queue pair was made for; adapters may refuse it with ND_DATA_OVERRUN: \
                 make the queue pair for as many as are used"
            }
            Self::ReceiveWait => {
                "a Send of the peer found no Receive and waits for one; adapters end the connection at once: \
                 post Receives before the peer sends"
            }
            Self::PassiveFirst => {
                "the passive side sends before it has received anything; some adapters refuse that with \
                 ND_CONNECTION_INVALID: have the active side send first"
            }
            Self::NoReadyMessage => {
                "a peer answered an offer of peer-to-peer mode without it; some adapters refuse such a connection"
            }
            Self::ReadSink => {
                "a Read puts its data into memory registered with ALLOW_LOCAL_WRITE alone; iWARP adapters end it with \
                 ND_ACCESS_VIOLATION: register the memory with RDMA_READ_SINK as well"
            }
        }
    }
}

/// How often each act happened in one adapter.
#[derive(Debug)]
pub(crate) struct Leniency {
    counts: [AtomicU64; LenientCase::ALL.len()],
    /// The adapter's first address, for the log.
    adapter: Option<IpAddr>,
}

impl Leniency {
    pub(crate) fn new(adapter: Option<IpAddr>) -> Self {
        Self {
            counts: Default::default(),
            adapter,
        }
    }

    /// An act has happened.
    pub(crate) fn count(&self, act: LenientCase) {
        if self.counts[act as usize].fetch_add(1, Ordering::Relaxed) == 0 {
            self.tell(act, None);
        }
    }

    /// An act has happened for the first time, with the memory of this token.
    #[cold]
    pub(crate) fn tell(&self, act: LenientCase, token: Option<STag>) {
        let adapter = self.adapter.map(tracing::field::display);
        let token = token.map(tracing::field::display);
        tracing::warn!(
            adapter,
            token,
            counter = act.name(),
            "{}",
            act.explanation()
        );
    }

    /// The counters; `read_sinks` is the one that the table of memory keeps.
    pub(crate) fn add_to(&self, counters: &mut Counters, read_sinks: u64) {
        let counts = LenientCase::ALL.map(|act| {
            let count = &self.counts[act as usize];
            (act.name(), count.load(Ordering::Relaxed))
        });
        counters.extend(counts);
        counters.extend([(LenientCase::ReadSink.name(), read_sinks)]);
    }
}
