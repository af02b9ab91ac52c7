//! The log and the counters of the cases that the default profile permits and other adapters refuse (AMB-071).
//!
//! Each adapter counts each case, and logs a case the first time. The strict profile counts nothing, because these cases fail
//! there.

use std::net::IpAddr;

use iwarp_io::lenient_cases::LenientCases;
use iwarp_io::log::targets;
use iwarp_io::memory::STag;
use netdirect::Counters;
use tracing::Span;

pub(crate) use iwarp_io::lenient_cases::LenientCase;

/// The log message: the case, the behaviour of other adapters, and the remedy.
const fn explanation(case: LenientCase) -> &'static str {
    match case {
        LenientCase::SurplusSges => {
            "a request has more SGEs than its queue pair was created for; other adapters may refuse the request with \
                 ND_DATA_OVERRUN: create the queue pair with the number of SGEs that the program uses"
        }
        LenientCase::ReceiveWait => {
            "a Send of the peer found no Receive and waits for a Receive; other adapters end the connection at once: \
                 post Receives before the peer sends"
        }
        LenientCase::PassiveFirst => {
            "the passive side sends before it has received anything; some adapters refuse the Send with \
                 ND_CONNECTION_INVALID: have the active side send first"
        }
        LenientCase::NoReadyMessage => {
            "a peer did not agree on the peer-to-peer mode that Connect asked for; some adapters refuse such a connection"
        }
        LenientCase::ReadSink => {
            "a Read puts its data into memory registered with ALLOW_LOCAL_WRITE only; iWARP adapters end the Read with \
                 ND_ACCESS_VIOLATION: register the memory with RDMA_READ_SINK as well"
        }
    }
}

/// The number of times that each case happened in one adapter.
#[derive(Debug)]
pub(crate) struct Leniency {
    cases: LenientCases,
    /// The adapter's first address, for the log.
    adapter: Option<IpAddr>,
}

impl Leniency {
    pub(crate) fn new(adapter: Option<IpAddr>) -> Self {
        Self {
            cases: LenientCases::default(),
            adapter,
        }
    }

    /// Counts a case, and logs the first one as an event of the connection with this span.
    pub(crate) fn count(&self, case: LenientCase, span: &Span) {
        if self.cases.count(case) {
            self.tell(case, None, span);
        }
    }

    /// Logs a case that has happened for the first time, with the token of the memory.
    #[cold]
    pub(crate) fn tell(&self, case: LenientCase, token: Option<STag>, span: &Span) {
        let adapter = self.adapter.map(tracing::field::display);
        let token = token.map(tracing::field::display);
        let explanation = explanation(case);
        tracing::warn!(
            target: targets::LENIENCY,
            parent: span,
            adapter,
            token,
            counter = case.name(),
            "{explanation}"
        );
    }

    /// Adds the counters. `read_sinks` is the count that the memory table keeps.
    pub(crate) fn add_to(&self, counters: &mut Counters, read_sinks: u64) {
        counters.extend(self.cases.counters(read_sinks));
    }
}
