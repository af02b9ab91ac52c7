//! `IND2Overlapped`.

use std::any::Any;
use std::fmt::Debug;

use crate::{Overlapped, Result, Status};

/// `IND2Overlapped`: the methods of all objects that have overlapped requests: completion queues, memory regions, shared
/// receive queues, connectors and listeners.
pub trait OverlappedObject: Any + Debug + Send + Sync {
    /// `CancelOverlappedRequests`: ends every request of this object that is in flight with [`CANCELED`](Status::CANCELED), in
    /// the order in which the requests were made (TST-032). When the method returns, their packets are in the completion port
    /// (AMB-023). If no request is in flight, the method succeeds and does nothing (OVL-004).
    ///
    /// On a connector that is connecting or accepting, the method abandons the attempt.
    ///
    /// The requests end at once, even if a thread of the provider is blocked in a system call for one of them and cannot be
    /// interrupted. This thread ends later, and releases then what it holds of the object.
    ///
    /// # Errors
    ///
    /// [`UNSUCCESSFUL`](Status::UNSUCCESSFUL): some requests could not be cancelled.
    fn cancel_overlapped_requests(&self) -> Result<()>;

    /// `GetOverlappedResult`: the final status of a request, or [`PENDING`](Status::PENDING) if the request is in flight and
    /// `wait` is false. The method may be called on any object, not only on the object of the request (OVL-023). Waiting
    /// needs no event (AMB-068).
    ///
    /// Each overlapped method lists its final statuses. Any request can also end with [`CANCELED`](Status::CANCELED) or
    /// [`DEVICE_REMOVED`](Status::DEVICE_REMOVED).
    fn get_overlapped_result(&self, overlapped: &Overlapped, wait: bool) -> Status {
        if wait {
            overlapped.wait()
        } else {
            overlapped.poll()
        }
    }
}
