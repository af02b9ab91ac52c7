//! `IND2Overlapped`.

use std::any::Any;
use std::fmt::Debug;

use crate::{Overlapped, Result, Status};

/// `IND2Overlapped`: what all objects with overlapped requests have in common: completion queues, memory regions, shared
/// receive queues, connectors and listeners.
pub trait OverlappedObject: Any + Debug + Send + Sync {
    /// `CancelOverlappedRequests`: ends every request in flight of this object with
    /// [`CANCELED`](Status::CANCELED), in the order in which they were made (TST-032). Packets are in the completion port when
    /// it returns (AMB-023). With nothing in flight it does nothing and succeeds (OVL-004).
    ///
    /// On a connector that is connecting or accepting this gives up the attempt.
    ///
    /// The requests end at once, also where a thread of the provider is blocked in a system's call on their behalf, which
    /// cannot be called back: the thread, and what it holds of the object, then ends later, unseen.
    ///
    /// # Errors
    ///
    /// [`UNSUCCESSFUL`](Status::UNSUCCESSFUL): not every request could be cancelled.
    fn cancel_overlapped_requests(&self) -> Result<()>;

    /// `GetOverlappedResult`: the final status of a request, or [`PENDING`](Status::PENDING) while it is in flight and `wait`
    /// is false. The object may be any one, not only that on which the request was made (OVL-023); with `wait` no event is
    /// needed (AMB-068).
    ///
    /// Final statuses are those of the method that made the request, and
    /// [`CANCELED`](Status::CANCELED) and [`DEVICE_REMOVED`](Status::DEVICE_REMOVED) for any.
    fn get_overlapped_result(&self, overlapped: &Overlapped, wait: bool) -> Status {
        if wait {
            overlapped.wait()
        } else {
            overlapped.poll()
        }
    }
}
