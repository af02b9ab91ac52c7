//! Counts of the cases that an adapter permits and other adapters refuse (AMB-071). An adapter that refuses them counts none.

use std::sync::atomic::{AtomicU64, Ordering};

/// A case that is permitted and that other adapters refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LenientCase {
    /// A request has more SGEs than its queue pair was created for (AMB-009).
    SurplusSges,
    /// A Send of the peer waits for a Receive (AMB-008).
    ReceiveWait,
    /// The passive side sends before it has received anything (AMB-040). Counted once for each connection.
    PassiveFirst,
    /// A peer's Reply does not agree on the peer-to-peer mode that the Request asked for (RFC 6581 §9.2).
    NoReadyMessage,
    /// The sink of a Read is registered with the right of local writes only (AMB-015). The memory table counts these Reads.
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
    pub const fn name(self) -> &'static str {
        match self {
            Self::SurplusSges => "lenient.surplus_sges",
            Self::ReceiveWait => "lenient.receive_wait",
            Self::PassiveFirst => "lenient.passive_first",
            Self::NoReadyMessage => "lenient.no_ready_message",
            Self::ReadSink => "lenient.read_sink",
        }
    }
}

/// The number of times that each case happened.
#[derive(Debug, Default)]
pub struct LenientCases([AtomicU64; LenientCase::ALL.len()]);

impl LenientCases {
    /// Counts a case. Returns true for the first one.
    pub fn count(&self, case: LenientCase) -> bool {
        self.0[case as usize].fetch_add(1, Ordering::Relaxed) == 0
    }

    /// The names and values of the counters. `read_sinks` is the count that the memory table keeps.
    pub fn counters(&self, read_sinks: u64) -> impl Iterator<Item = (&'static str, u64)> {
        LenientCase::ALL.into_iter().map(move |case| {
            let count = match case {
                LenientCase::ReadSink => read_sinks,
                _ => self.0[case as usize].load(Ordering::Relaxed),
            };
            (case.name(), count)
        })
    }
}
