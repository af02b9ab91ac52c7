//! Adapters, ND2's `IND2Adapter`: the state that all objects of one opened adapter share, and the checks of the calls that make objects.
//!
//! A provider implements [`ProviderAdapter`] for the shared state, and [`AdapterLine`] for its part of a client's handle. Clients get an
//! [`AdapterHandle`].

mod handle;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::net::IpAddr;

use netdirect::{AdapterInfo, Affinity, Call, Capabilities, Error, Result, Status};

use crate::removal::{DeviceObject, RemovalOrder};

pub use handle::{AdapterHandle, AdapterLine, QueuePairQueues};

/// The state that all objects of one opened adapter share.
pub trait ProviderAdapter: Debug + Send + Sync + 'static {
    /// The client's handle keeps the entry of its object.
    type Entry: Debug + Send + Sync;

    /// Adds an object to the list of those that end when the device is removed.
    ///
    /// # Errors
    ///
    /// [`DEVICE_REMOVED`](Status::DEVICE_REMOVED).
    fn list(&self, order: RemovalOrder, object: DeviceObject) -> Result<Self::Entry>;

    /// Returns the identity and the limits of the adapter.
    fn info(&self) -> AdapterInfo;

    /// Returns the capabilities of the adapter: see [`Capabilities`].
    fn capabilities(&self) -> Capabilities;

    /// Fails if the device was removed (GEN-015).
    ///
    /// # Errors
    ///
    /// [`DEVICE_REMOVED`](Status::DEVICE_REMOVED).
    fn present(&self) -> Result<()>;

    /// Fails if the device was removed, or if a fault is due at this call.
    ///
    /// # Errors
    ///
    /// [`DEVICE_REMOVED`](Status::DEVICE_REMOVED), or the status of the fault.
    fn admit(&self, call: Call) -> Result<()>;

    /// Returns the adapter's addresses.
    fn addresses(&self) -> &[IpAddr];

    /// Returns true if connections of the adapter may use this local address.
    fn serves(&self, ip: IpAddr) -> bool;

    /// Returns the adapter's address for connections to this peer.
    fn local_address_for(&self, peer: IpAddr) -> Option<IpAddr>;

    /// Returns the processors on which completion queues and shared receive queues end their requests of Notify, if they are known.
    fn notify_affinity(&self) -> Option<Affinity> {
        None
    }
}

/// GetNotifyAffinity of both kinds of queues.
pub(crate) fn notify_affinity(adapter: &impl ProviderAdapter) -> Result<Affinity> {
    adapter.present()?; // CQ-007, SRQ-006
    adapter.notify_affinity().ok_or_else(|| {
        Error::new(
            Status::NOT_SUPPORTED,
            "it is not known on which of the first 64 processors notifications are made",
        ) // CQ-008, SRQ-007
    })
}
