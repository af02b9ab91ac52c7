//! The order at the end of a connection: NotifyDisconnect has ended before a flushed request can be seen (CONN-106).
//!
//! Results are placed with the queue pair locked, and the connector is told when that lock is released. So the results
//! that the end brings about wait in the engine:
//!
//! 1. The engine reports the end. What happened before it is placed, the rest stays in the engine.
//! 2. With no lock held, the connector is told. It completes its requests of NotifyDisconnect.
//! 3. The last [`FlushGuard`] is dropped, and the rest is placed.
//!
//! The connector owns a guard for as long as it may have such requests, and so does every thread that has taken some of them
//! out of the connector and has not completed them yet. It does not matter which thread is the last one.

use std::sync::{Arc, Weak};

use super::{Qp, State};

/// Whether the results that the end of the connection brings about may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// At once: no connector wants to be told first, or it was told.
    Free,
    /// The connection has not ended, and the connector wants to be told first.
    Guarded,
    /// The connection has ended and the connector is being told: no result is placed.
    Held,
}

/// While one of these exists, the results that the end of the connection brings about cannot be seen. Not to be dropped
/// with the connector locked.
#[derive(Debug)]
pub(crate) struct FlushGuard(Weak<Qp>);

impl Drop for FlushGuard {
    fn drop(&mut self) {
        if let Some(qp) = self.0.upgrade() {
            qp.let_flush_go();
        }
    }
}

impl Qp {
    /// Called once, before the stream starts.
    pub(crate) fn guard_flush(&self) -> Arc<FlushGuard> {
        self.lock().flush = Flush::Guarded;
        Arc::new(FlushGuard(self.this.clone()))
    }

    fn let_flush_go(&self) {
        let mut state = self.lock();
        state.flush = Flush::Free;
        State::settle(&mut state, self);
    }
}

impl State {
    /// The connection has ended: what the engine has from here on waits until the connector was told.
    pub(super) fn hold_flush(&mut self) {
        if self.flush == Flush::Guarded {
            self.flush = Flush::Held;
        }
    }
}
