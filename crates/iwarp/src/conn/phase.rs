//! Where in its life a connection is, and what it ends of.

use super::fault::Fault;
use super::work::WqeStatus;
use crate::rdmap::Terminate;

/// Where in its life a connection is.
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

/// What a stream failed of, for the event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause {
    Fault(Fault),
    Terminated(Terminate),
}

/// A request of ours that will fail, once what stands before it is finished.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failing {
    /// It could not be started: all earlier requests come to their own end first.
    Unstarted(WqeStatus),
    /// Its memory went away in the middle of the message: what was made before it goes out first.
    Cut(WqeStatus),
}
