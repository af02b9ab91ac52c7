//! `IND2MemoryRegion` and `IND2MemoryWindow`.

use std::any::Any;
use std::fmt::Debug;

use crate::{
    Buffer, LocalToken, MrFlags, Overlapped, OverlappedObject, RemoteToken, Result, Started,
};

/// `IND2MemoryRegion`: a buffer that is registered with the adapter, with certain rights.
///
/// A region holds at most one buffer at a time. One buffer may be registered in several regions (MR-003). All queue pairs of
/// the adapter can use a region (MR-022).
pub trait MemoryRegion: OverlappedObject {
    /// `Register`: registers a buffer. The adapter may read and write the buffer until [`deregister`](Self::deregister) has
    /// ended. The buffer may have any alignment and any size from one octet (MR-012).
    ///
    /// The provider keeps a clone of the buffer until the device no longer uses the memory, even if the caller drops its own
    /// clone and the region.
    ///
    /// # Errors
    ///
    /// Returned by the call, or as the final status:
    ///
    /// - [`INVALID_BUFFER_SIZE`](crate::Status::INVALID_BUFFER_SIZE): the buffer is empty (AMB-012).
    /// - [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): the buffer is larger than the adapter's
    ///   `max_registration_size`.
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `flags` (AMB-055).
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the region holds a buffer already (AMB-013).
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): memory that is not valid. A [`Buffer`] is always valid; only
    ///   COM clients can pass invalid memory.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn register(&self, buffer: &Buffer, flags: MrFlags, overlapped: &Overlapped)
    -> Result<Started>;

    /// `Deregister`: ends the registration. When the request has ended, the adapter no longer reads or writes the buffer,
    /// even if requests that name it are queued or under way (MR-034). The region can then hold another buffer (MR-029).
    ///
    /// # Errors
    ///
    /// - [`DEVICE_BUSY`](crate::Status::DEVICE_BUSY), returned by the call: windows are bound to the region, or Binds to it are
    ///   queued (MR-026).
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the region holds no buffer (AMB-013).
    fn deregister(&self, overlapped: &Overlapped) -> Result<Started>;

    /// `GetLocalToken`: the token for an [`Sge`](crate::Sge). Valid from the end of Register to Deregister (MR-033).
    fn get_local_token(&self) -> LocalToken;

    /// `GetRemoteToken`: the token for the peer's Reads and Writes. Valid from the end of Register to Deregister (MR-033).
    fn get_remote_token(&self) -> RemoteToken;
}

/// `IND2MemoryWindow`: gives the peer of one queue pair access to part of a region.
/// [`QueuePair::bind`](crate::QueuePair::bind) grants the access, [`QueuePair::invalidate`](crate::QueuePair::invalidate)
/// ends it.
///
/// The flags of the Bind alone determine the peer's rights (MW-006). From the call of Bind until the window is unbound, the
/// region cannot be deregistered (MW-011). Releasing the window unbinds it (MW-014). If a window or a region is released while
/// Binds and Invalidates of it are queued, they succeed and have no effect.
pub trait MemoryWindow: Any + Debug + Send + Sync {
    /// `GetRemoteToken`: the token for the peer's Reads and Writes. Each Bind makes a new token, which is known as soon as
    /// Bind has returned (MW-008).
    fn get_remote_token(&self) -> RemoteToken;
}
