//! Memory regions, ND2's `IND2MemoryRegion`: at most one registered buffer at a time, and its tokens.
//!
//! A provider implements [`RegistrationLine`] for a buffer that is registered. Clients get a [`Region`].

#[cfg(test)]
pub(crate) mod tests;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use netdirect::{
    Buffer, Call, LocalToken, MemoryRegion, MrFlags, Overlapped, OverlappedFile, OverlappedObject,
    RemoteToken, Result, Started, Status,
};
use parking_lot::Mutex;

use crate::adapter::ProviderAdapter;
use crate::checks::own::Owned;
use crate::checks::sizes;
use crate::error::fail;

/// A buffer that a provider has registered. Dropping the registration gives the buffer back as well.
pub trait RegistrationLine: Debug + Send + Sync + Sized + 'static {
    /// The state that all objects of one opened adapter share.
    type Adapter: ProviderAdapter;

    /// Registers a buffer, whose size and flags are allowed.
    ///
    /// # Errors
    ///
    /// The adapter is short of something (MR-008).
    fn register(adapter: &Arc<Self::Adapter>, buffer: &Buffer, flags: MrFlags) -> Result<Self>;

    /// Gives the buffer back. Called under the region's lock.
    ///
    /// # Errors
    ///
    /// The registration itself: windows are bound to it, or their Binds are queued.
    fn deregister(self) -> Result<(), Self>;

    /// Returns the token for requests on this side.
    fn local_token(&self) -> LocalToken;

    /// Returns the token for requests of peers.
    fn remote_token(&self) -> RemoteToken;
}

/// A memory region, which has at most one registered buffer at a time (MR-001).
#[derive(Debug)]
pub struct Region<R: RegistrationLine> {
    adapter: Arc<R::Adapter>,
    file: Arc<dyn OverlappedFile>,
    registration: Mutex<Option<R>>,
    local: AtomicU32,
    remote: AtomicU32,
}

impl<R: RegistrationLine> Region<R> {
    /// Makes a region without a buffer. Its requests end at `file`.
    pub fn new(adapter: Arc<R::Adapter>, file: Arc<dyn OverlappedFile>) -> Self {
        Self {
            adapter,
            file,
            registration: Mutex::new(None),
            local: AtomicU32::new(0),
            remote: AtomicU32::new(0),
        }
    }

    /// Calls `act` with the registration, under the region's lock. `None` if no buffer is registered.
    pub fn with<T>(&self, act: impl FnOnce(&R) -> T) -> Option<T> {
        self.registration.lock().as_ref().map(act)
    }
}

impl<R: RegistrationLine> Owned for Region<R> {
    type Adapter = R::Adapter;

    fn adapter(&self) -> &Arc<R::Adapter> {
        &self.adapter
    }
}

impl<R: RegistrationLine> OverlappedObject for Region<R> {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        Ok(()) // every request ends before its call returns
    }
}

// The lock is released before a request ends, because that wakes tasks which may call this object.
impl<R: RegistrationLine> MemoryRegion for Region<R> {
    fn register(
        &self,
        buffer: &Buffer,
        flags: MrFlags,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.adapter.present()?; // MR-010
        sizes::registration(buffer, flags, self.adapter.info().max_registration_size)?;
        let mut slot = self.registration.lock();
        if slot.is_some() {
            return fail(
                Status::INVALID_DEVICE_STATE,
                "the region is registered already; deregister it first",
            ); // MR-002
        }
        let request = overlapped.begin(&self.file)?;
        let admitted = self.adapter.admit(Call::Register);
        match admitted.and_then(|()| R::register(&self.adapter, buffer, flags)) {
            Ok(registration) => {
                let (local, remote) = (registration.local_token(), registration.remote_token());
                self.local.store(local.0, Ordering::Release);
                self.remote.store(remote.0, Ordering::Release);
                *slot = Some(registration);
                drop(slot);
                request.complete(Status::SUCCESS);
                Ok(Started::Pending) // clients of a completion port wait for a packet (TST-003)
            }
            Err(error) => {
                drop(slot);
                request.abandon(error.status());
                Err(error)
            }
        }
    }

    fn deregister(&self, overlapped: &Overlapped) -> Result<Started> {
        let mut slot = self.registration.lock();
        if slot.is_none() {
            return fail(Status::INVALID_DEVICE_STATE, "the region is not registered"); // MR-027
        }
        let request = overlapped.begin(&self.file)?;
        *slot = slot.take().and_then(|taken| taken.deregister().err());
        let is_busy = slot.is_some();
        drop(slot);
        if is_busy {
            request.abandon(Status::DEVICE_BUSY);
            return fail(
                Status::DEVICE_BUSY,
                "the region has bound windows, or queued Binds of windows; invalidate or release these windows first",
            ); // MR-026
        }
        request.complete(Status::SUCCESS);
        Ok(Started::Pending)
    }

    #[inline]
    fn get_local_token(&self) -> LocalToken {
        LocalToken(self.local.load(Ordering::Acquire))
    }

    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken(self.remote.load(Ordering::Acquire))
    }
}
