//! The phases of a connection, and why one fails.

use super::fault::Fault;
use super::work::WqeStatus;
use crate::rdmap::Terminate;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not started.
    Idle,
    /// Full operation.
    Running,
    /// Failed by either side, or flushed by the client.
    Failed,
    /// The peer closed in order and this side has nothing left to send (MPA-091).
    Closed,
    /// Disconnected by this side.
    Disconnected,
}

/// Why a stream failed, for the event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause {
    Fault(Fault),
    Terminated(Terminate),
}

impl Cause {
    /// Returns true if the peer has failed the stream: by what it has sent, or by its own error.
    pub(super) fn is_by_peer(self) -> bool {
        match self {
            Self::Terminated(_) => true,
            Self::Fault(fault) => fault != Fault::Local,
        }
    }
}

/// A request of this side that fails as soon as everything before it is finished.
#[derive(Clone, Copy, Debug)]
pub(super) enum FailingRequest {
    /// The request could not be started. All earlier requests complete first.
    Unstarted(WqeStatus),
    /// The request's memory was revoked in the middle of the message. FPDUs made before are sent first.
    Cut(WqeStatus),
}
