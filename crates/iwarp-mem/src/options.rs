//! How a table behaves.

use std::{fmt, sync::Arc};

use iwarp::STag;
use rdma_buffer::Backend;

use crate::stag::MAX_SLOTS;

/// How a [`Table`](crate::Table) behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableOptions {
    /// Refuse a Read sink that has nothing but [`Rights::LOCAL_WRITE`](crate::Rights::LOCAL_WRITE), as iWARP adapters do (AMB-015, the strict
    /// profile of AMB-071). Otherwise it is allowed and counted.
    pub strict_sinks: bool,
    /// How large pieces are copied.
    pub backend: Backend,
    /// Makes all STags follow from this number, so that a run can be repeated. They can be guessed then: not for
    /// tables that a network reaches.
    pub seed: Option<u64>,
    /// Regions and windows there can be at most; values above 2^24 mean that.
    pub capacity: u32,
    /// Who is told when a Read sink is allowed for the first time that [`TableOptions::strict_sinks`] would refuse.
    pub on_lenient_sink: Option<OnLenientSink>,
}

/// A function to be called with the STag of a Read sink, see [`TableOptions::on_lenient_sink`]. It may be called with locks
/// held: it must not use the table.
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
