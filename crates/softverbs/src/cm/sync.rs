//! Synchronous identifiers: those with a channel for themselves. A call that an event answers waits for the event, and the identifier keeps
//! the contents of the event until the next such call.

use std::sync::Arc;

use super::channel::Attachment;
use super::event::{CmEventKind, LastEvent};
use super::space::PortSpace;
use super::state::{CmEvent, CmId};
use crate::error::{Errno, Result, fail};
use crate::process::Process;

/// Acknowledges an event, and keeps its contents.
pub(super) fn keep(event: CmEvent) -> LastEvent {
    let last = LastEvent {
        kind: event.kind(),
        status: event.status(),
        parameters: event.parameters().clone(),
        cause: event.cause().cloned(),
    };
    event.acknowledge();
    last
}

/// The failure that an event reports, which is the call's failure.
pub(super) fn check(last: &LastEvent) -> Result<()> {
    if last.status == 0 {
        return Ok(());
    }
    let errno = match last.kind {
        CmEventKind::Rejected => Errno::CONNREFUSED,
        _ => Errno::from_raw_os_error(last.status.wrapping_abs()),
    };
    match &last.cause {
        Some(cause) => fail(errno, cause.to_string()),
        None => fail(errno, format!("{:?}: {errno}", last.kind)),
    }
}

impl CmId {
    /// Makes an identifier whose calls wait for their events (`rdma_create_id` without a channel).
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create); those of the system, when it has no descriptors left.
    pub fn create_synchronous(process: &Arc<Process>, space: PortSpace) -> Result<Arc<Self>> {
        Self::attached(Attachment::own(process)?, space)
    }

    /// The contents of the event for which the last call of a synchronous identifier waited, or the request that the identifier was made
    /// for; `None` before such an event, and for other identifiers.
    pub fn last_event(&self) -> Option<LastEvent> {
        self.last_event.lock().clone()
    }

    /// Waits for the event that answers a call, if the identifier is synchronous. Called with no lock held.
    pub(super) fn wait_for_answer(&self) -> Result<()> {
        if !self.is_synchronous() {
            return Ok(());
        }
        self.forget_last_event();
        let last = keep(self.channel().get_event()?);
        let result = check(&last);
        *self.last_event.lock() = Some(last);
        result
    }
}
