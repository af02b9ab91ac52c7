//! Counters of the cases that the default profile permits and other adapters refuse (AMB-071).
//!
//! Each adapter counts each case, and logs a case the first time. The strict profile counts nothing, because these cases fail
//! there.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use iwarp_io::memory::STag;
use netdirect::Counters;

/// A case that the default profile permits and other adapters refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LenientCase {
    /// A request has more SGEs than its queue pair was created for (AMB-009).
    SurplusSges,
    /// A Send of the peer waits for a Receive (AMB-008).
    ReceiveWait,
    /// The passive side sends before it has received anything (AMB-040). Counted once for each connection.
    PassiveFirst,
    /// A peer's Reply does not agree on the peer-to-peer mode that the Request asked for (RFC 6581 §9.2).
    NoReadyMessage,
    /// The sink of a Read is registered with `ALLOW_LOCAL_WRITE` only (AMB-015). The memory table counts these Reads, and reports
    /// the first one to [`Leniency::tell`].
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

    /// The name of this case's counter.
    const fn name(self) -> &'static str {
        match self {
            Self::SurplusSges => "lenient.surplus_sges",
            Self::ReceiveWait => "lenient.receive_wait",
            Self::PassiveFirst => "lenient.passive_first",
            Self::NoReadyMessage => "lenient.no_ready_message",
            Self::ReadSink => "lenient.read_sink",
        }
    }

    /// The log message: the case, the behaviour of other adapters, and the remedy.
    const fn explanation(self) -> &'static str {
        match self {
            Self::SurplusSges => {
                "a request has more SGEs than its queue pair was created for; other adapters may refuse the request with \
                 ND_DATA_OVERRUN: create the queue pair with the number of SGEs that the program uses"
            }
            Self::ReceiveWait => {
                "a Send of the peer found no Receive and waits for a Receive; other adapters end the connection at once: \
                 post Receives before the peer sends"
            }
            Self::PassiveFirst => {
                "the passive side sends before it has received anything; some adapters refuse the Send with \
                 ND_CONNECTION_INVALID: have the active side send first"
            }
            Self::NoReadyMessage => {
                "a peer did not agree on the peer-to-peer mode that Connect asked for; some adapters refuse such a connection"
            }
            Self::ReadSink => {
                "a Read puts its data into memory registered with ALLOW_LOCAL_WRITE only; iWARP adapters end the Read with \
                 ND_ACCESS_VIOLATION: register the memory with RDMA_READ_SINK as well"
            }
        }
    }
}

/// The number of times that each case happened in one adapter.
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

    /// Counts a case, and logs the first one.
    pub(crate) fn count(&self, case: LenientCase) {
        if self.counts[case as usize].fetch_add(1, Ordering::Relaxed) == 0 {
            self.tell(case, None);
        }
    }

    /// Logs a case that has happened for the first time, with the token of the memory.
    #[cold]
    pub(crate) fn tell(&self, case: LenientCase, token: Option<STag>) {
        let adapter = self.adapter.map(tracing::field::display);
        let token = token.map(tracing::field::display);
        tracing::warn!(
            adapter,
            token,
            counter = case.name(),
            "{}",
            case.explanation()
        );
    }

    /// Adds the counters. `read_sinks` is the count that the memory table keeps.
    pub(crate) fn add_to(&self, counters: &mut Counters, read_sinks: u64) {
        let counts = LenientCase::ALL.map(|case| {
            let count = &self.counts[case as usize];
            (case.name(), count.load(Ordering::Relaxed))
        });
        counters.extend(counts);
        counters.extend([(LenientCase::ReadSink.name(), read_sinks)]);
    }
}
