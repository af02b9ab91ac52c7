//! The options of a table.

use std::{fmt, sync::Arc};

use iwarp::STag;
use rdma_buffer::Backend;

use crate::slots::MAX_SLOTS;

/// The options of a [`Table`](crate::Table).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableOptions {
    /// Refuse a Read sink that has only [`Rights::LOCAL_WRITE`](crate::Rights::LOCAL_WRITE), as iWARP adapters do (AMB-015,
    /// the strict profile of AMB-071). Otherwise such a sink is allowed and counted.
    pub strict_sinks: bool,
    /// How large pieces are copied.
    pub backend: Backend,
    /// Derives all STags from this number, so that a run can be repeated. Not for tables that a network reaches, because
    /// the STags can then be guessed.
    pub seed: Option<u64>,
    /// The most regions and windows that the table can have. Values above 2^24 mean 2^24.
    pub capacity: u32,
    /// Called the first time that a Read sink is allowed which [`TableOptions::strict_sinks`] would refuse.
    pub on_lenient_sink: Option<OnLenientSink>,
}

/// A function to be called with the STag of a Read sink, see [`TableOptions::on_lenient_sink`]. The caller may hold locks,
/// so the function must not use the table.
#[derive(Clone)]
pub struct OnLenientSink(pub(crate) Arc<dyn Fn(STag) + Send + Sync>);

impl fmt::Debug for OnLenientSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnLenientSink")
    }
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            strict_sinks: false,
            backend: Backend::default(),
            seed: None,
            capacity: MAX_SLOTS,
            on_lenient_sink: None,
        }
    }
}

impl TableOptions {
    /// Sets [`TableOptions::strict_sinks`].
    #[must_use]
    pub fn strict_sinks(self, strict_sinks: bool) -> Self {
        Self {
            strict_sinks,
            ..self
        }
    }

    /// Sets [`TableOptions::backend`].
    #[must_use]
    pub fn backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Sets [`TableOptions::seed`].
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Sets [`TableOptions::capacity`].
    #[must_use]
    pub fn capacity(self, capacity: u32) -> Self {
        Self { capacity, ..self }
    }

    /// Sets [`TableOptions::on_lenient_sink`].
    #[must_use]
    pub fn on_lenient_sink(self, tell: impl Fn(STag) + Send + Sync + 'static) -> Self {
        Self {
            on_lenient_sink: Some(OnLenientSink(Arc::new(tell))),
            ..self
        }
    }
}
