//! The log and the counters of the cases that the default profile permits and other adapters refuse (AMB-071).
//!
//! Each adapter counts each case, and logs a case the first time. The strict profile counts nothing, because these cases fail
//! there.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// The first memory that was the sink of a Read without the right to be one, with [`NOTED`], until the log has it.
    read_sink: AtomicU64,
}

/// The bit above those of an STag.
const NOTED: u64 = 1 << 32;

impl Leniency {
    pub(crate) fn new(adapter: Option<IpAddr>) -> Self {
        Self {
            cases: LenientCases::default(),
            adapter,
            read_sink: AtomicU64::new(0),
        }
    }

    /// Counts a case, and logs the first one as an event of the connection with this span.
    pub(crate) fn count(&self, case: LenientCase, span: &Span) {
        if self.cases.count(case) {
            self.tell(case, None, span);
        }
    }

    /// As [`count`](Self::count), where the span costs something.
    pub(crate) fn count_in(&self, case: LenientCase, span: impl FnOnce() -> Span) {
        if self.cases.count(case) {
            self.tell(case, None, &span());
        }
    }

    /// The memory table has met the first sink of this kind, while a Read was posted. The table knows no connection.
    pub(crate) fn note_read_sink(&self, token: STag) {
        let noted = NOTED | u64::from(token.0);
        self.read_sink.store(noted, Ordering::Relaxed);
    }

    /// Logs what was noted while a Read was posted, as an event of the connection with this span.
    #[inline]
    pub(crate) fn tell_read_sink(&self, span: impl FnOnce() -> Span) {
        if self.read_sink.load(Ordering::Relaxed) != 0 {
            self.tell_noted_sink(&span());
        }
    }

    #[cold]
    fn tell_noted_sink(&self, span: &Span) {
        let noted = self.read_sink.swap(0, Ordering::Relaxed);
        if let Ok(token) = u32::try_from(noted ^ NOTED) {
            self.tell(LenientCase::ReadSink, Some(STag(token)), span);
        }
    }

    /// Logs a case that has happened for the first time, with the token of the memory.
    #[cold]
    fn tell(&self, case: LenientCase, token: Option<STag>, span: &Span) {
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
