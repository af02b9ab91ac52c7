//! What the removal of the device does to a queue pair (GEN-015).

use iwarp::{PostError, StreamEnd};
use netdirect::{Error, Status};

use super::{Phase, Qp};
use crate::device::Removable;
use crate::status::post_error;
use iwarp_io::progress::Edges;

impl Removable for Qp {
    fn waits(&self) -> Option<String> {
        let state = self.try_lock()?;
        let stalled = state.connection.is_stalled();
        stalled.then(|| "a Send of the peer waits for a Receive of a queue pair".to_owned())
    }

    /// The stream is reset, and all outstanding requests complete with ND_CANCELED. Called after the connector was told.
    fn device_removed(&self) {
        let mut state = self.lock();
        state.phase = Phase::Removed;
        state.cut(self, StreamEnd::Reset, 0);
        state.connection.flush(); // also where there never was a stream
        state.work(Edges::empty());
    }
}

/// The answer to an initiator request for which there is no connection.
#[cold]
pub(super) fn refused(phase: Phase) -> Error {
    match phase {
        Phase::Removed => removed(),
        _ => post_error(PostError::NotConnected),
    }
}

/// The answer to what needs the device.
#[cold]
pub(super) fn removed() -> Error {
    Error::new(Status::DEVICE_REMOVED, "the device was removed")
}
