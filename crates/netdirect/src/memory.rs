//! `IND2MemoryRegion` and `IND2MemoryWindow`.

use std::any::Any;
use std::fmt::Debug;

use crate::{
    Buffer, LocalToken, MrFlags, Overlapped, OverlappedObject, RemoteToken, Result, Started,
};

/// `IND2MemoryRegion`: a buffer that the adapter may use, registered with certain rights.
///
/// A region holds at most one buffer at a time; one buffer may be in several regions (MR-003). All queue pairs of the
/// adapter can use it (MR-022).
pub trait MemoryRegion: OverlappedObject {
    /// `Register`: hands a buffer to the adapter, which shares it until [`deregister`](Self::deregister) has ended. Any size
    /// from one octet and any alignment will do (MR-012).
    ///
    /// The provider keeps a clone of the buffer until the device has let go of it, whatever the caller does with its own and
    /// with the region.
    ///
    /// # Errors
    ///
    /// At once or as final status:
    ///
    /// - [`INVALID_BUFFER_SIZE`](crate::Status::INVALID_BUFFER_SIZE): a buffer of no length (AMB-012).
    /// - [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): larger than the adapter's `max_registration_size`.
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `flags` (AMB-055).
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the region holds a buffer already (AMB-013).
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): memory that cannot be used. A [`Buffer`] is always valid; COM
    ///   clients can pass others.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn register(&self, buffer: &Buffer, flags: MrFlags, overlapped: &Overlapped)
    -> Result<Started>;

    /// `Deregister`: takes the buffer back. When it has ended, the adapter neither reads nor writes an octet of the buffer any
    /// more, whatever is still queued or under way (MR-034). The region can then be used again (MR-029).
    ///
    /// # Errors
    ///
    /// - [`DEVICE_BUSY`](crate::Status::DEVICE_BUSY): windows are bound to the region, or Binds to it are queued; returned by
    ///   the call (MR-026).
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the region holds no buffer (AMB-013).
    fn deregister(&self, overlapped: &Overlapped) -> Result<Started>;

    /// `GetLocalToken`: for [`Sge`](crate::Sge)s. Valid from the end of Register to Deregister (MR-033).
    fn get_local_token(&self) -> LocalToken;

    /// `GetRemoteToken`: for the peer's Reads and Writes. Valid from the end of Register to Deregister (MR-033).
    fn get_remote_token(&self) -> RemoteToken;
}

/// `IND2MemoryWindow`: access to part of a region for the peer of one queue pair, given by
/// [`QueuePair::bind`](crate::QueuePair::bind) and taken back by [`QueuePair::invalidate`](crate::QueuePair::invalidate).
///
/// Rights come from the Bind alone (MW-006). A window keeps its region from being deregistered from the call of Bind on until
/// it is unbound (MW-011); releasing the window unbinds it (MW-014). Binds and Invalidates that are still queued when their
/// window or region is released succeed without effect.
pub trait MemoryWindow: Any + Debug + Send + Sync {
    /// `GetRemoteToken`: for the peer's Reads and Writes, as soon as Bind has returned (MW-008). Each Bind makes a new one.
    fn get_remote_token(&self) -> RemoteToken;
}
