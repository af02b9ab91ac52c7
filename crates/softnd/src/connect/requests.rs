//! The work of a connector once its lock is released.

use std::sync::Arc;

use netdirect_provider::requests::Action;

use crate::qp::{DeferredWork, FlushGuard};

/// Work that is done when the value is dropped. The guard of flushed requests comes last, so that they are seen after NotifyDisconnect has
/// ended (CONN-106).
#[derive(Debug)]
pub(crate) enum Delivery {
    DeferredWork(#[expect(dead_code, reason = "delivered when it is dropped")] DeferredWork),
    Guard(#[expect(dead_code, reason = "shows requests when it is dropped")] Arc<FlushGuard>),
}

impl Action for Delivery {
    fn run(self) {}
}

impl From<DeferredWork> for Delivery {
    fn from(deferred: DeferredWork) -> Self {
        Self::DeferredWork(deferred)
    }
}

impl From<Arc<FlushGuard>> for Delivery {
    fn from(guard: Arc<FlushGuard>) -> Self {
        Self::Guard(guard)
    }
}
