//! Which identifier connects a queue pair.

use std::sync::{Arc, Weak};

use super::carrier::initialize;
use super::state::{CmId, IdState};
use crate::error::{Errno, Result, fail};
use crate::qp::{ConnectionOwner, QpState, QueuePair};

impl CmId {
    /// Prepares a queue pair for a connection of this identifier. A program that moves its queue pair itself has attached it before.
    pub(super) fn take_over(&self, qp: &Arc<QueuePair>) -> Result<()> {
        match qp.state() {
            QpState::Reset => initialize(qp)?,
            QpState::Init | QpState::Rtr | QpState::Rts => {}
            state => {
                return fail(
                    Errno::INVAL,
                    format!(
                        "the queue pair is in {state:?}: move it to RESET before it is connected"
                    ),
                );
            }
        }
        let owner: Weak<dyn ConnectionOwner> = self.this.clone();
        qp.connected()?.claim(owner)
    }

    /// Lets other identifiers connect the queue pair of an attempt that has failed.
    pub(super) fn let_go(&self, state: &IdState) {
        if let Some(qp) = &state.qp {
            let owner: Weak<dyn ConnectionOwner> = self.this.clone();
            if let Ok(connected) = qp.connected() {
                connected.disclaim(&owner);
            }
        }
    }
}
