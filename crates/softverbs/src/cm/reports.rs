//! Events that no connection causes: those of the program, and the end of a look-up of names.

use super::event::{CmEventKind, ConnParameters, status_of};
use super::state::CmId;
use crate::error::{Errno, Result, fail};

impl CmId {
    /// Leaves an event of the program in the channel, of the kind [`CmEventKind::User`], with a status and a number
    /// (`rdma_write_cm_event`).
    ///
    /// # Errors
    ///
    /// EINVAL for a synchronous identifier: its next call that waits would take the event for its answer.
    pub fn write_event(&self, status: i32, argument: u64) -> Result<()> {
        if self.is_synchronous() {
            return fail(
                Errno::INVAL,
                "the identifier has no channel in which the program could find the event",
            );
        }
        let _state = self.lock();
        let none = ConnParameters::default();
        self.tell_with(CmEventKind::User, status, none, argument, None);
        Ok(())
    }

    /// Reports the end of a look-up of names: [`CmEventKind::AddrInfoResolved`], or [`CmEventKind::AddrInfoError`] with the error.
    ///
    /// # Errors
    ///
    /// The error, for a synchronous identifier.
    pub fn report_addresses(&self, failed: Option<Errno>) -> Result<()> {
        let (kind, status) = match failed {
            None => (CmEventKind::AddrInfoResolved, 0),
            Some(errno) => (CmEventKind::AddrInfoError, status_of(errno)),
        };
        {
            let _state = self.lock();
            self.tell(kind, status, ConnParameters::default());
        }
        self.wait_for_answer()
    }
}
