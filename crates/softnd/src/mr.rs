//! Memory regions, ND2's `IND2MemoryRegion`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use iwarp_io::memory::{RegisterError, Registration, Rights};
use netdirect::{
    Buffer, Call, Error, LocalToken, MemoryRegion, MrFlags, Overlapped, OverlappedFile,
    OverlappedObject, RemoteToken, Result, Started, Status,
};
use netdirect_provider::checks::sizes;
use netdirect_provider::owned;
use parking_lot::Mutex;

use crate::core::{Core, PD};
use crate::file::File;
use crate::status::fail;

/// A memory region, which has at most one registered buffer at a time (MR-001).
#[derive(Debug)]
pub(crate) struct Region {
    core: Arc<Core>,
    file: Arc<File>,
    registration: Mutex<Option<Registration>>,
    stag: AtomicU32,
}

impl Region {
    pub(crate) fn new(core: Arc<Core>, file: Arc<File>) -> Self {
        Self {
            core,
            file,
            registration: Mutex::new(None),
            stag: AtomicU32::new(0),
        }
    }

    /// Calls `act` with the registration. `None` if no buffer is registered.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&Registration) -> T) -> Option<T> {
        self.registration.lock().as_ref().map(act)
    }

    fn file(&self) -> Arc<dyn OverlappedFile> {
        self.file.clone()
    }

    fn check(&self, buffer: &Buffer, flags: MrFlags) -> Result<Rights> {
        sizes::registration(buffer, flags, self.core.options.limits.registration_size)?;
        let mut rights = Rights::empty();
        rights.set(
            Rights::LOCAL_WRITE,
            flags.contains(MrFlags::ALLOW_LOCAL_WRITE),
        );
        rights.set(
            Rights::REMOTE_READ,
            flags.contains(MrFlags::ALLOW_REMOTE_READ),
        );
        rights.set(
            Rights::REMOTE_WRITE,
            flags.contains(MrFlags::ALLOW_REMOTE_WRITE),
        );
        rights.set(Rights::READ_SINK, flags.contains(MrFlags::RDMA_READ_SINK));
        Ok(rights)
    }
}

owned!(Region of Core: |region| &region.core);

impl OverlappedObject for Region {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        Ok(()) // every request completes before its call returns
    }
}

impl MemoryRegion for Region {
    fn register(
        &self,
        buffer: &Buffer,
        flags: MrFlags,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.core.device.present()?; // MR-010
        let rights = self.check(buffer, flags)?;
        let mut registration = self.registration.lock();
        if registration.is_some() {
            return fail(
                Status::INVALID_DEVICE_STATE,
                "the region is registered already; deregister it first",
            ); // MR-002
        }
        let request = overlapped.begin(&self.file())?;
        if let Err(error) = self.core.device.admit(Call::Register) {
            drop(registration); // unlocked first, because the end of a request wakes tasks that may call this object
            request.abandon(error.status());
            return Err(error);
        }
        match self.core.table.register(buffer, rights, PD) {
            Ok(new) => {
                self.stag.store(new.stag().0, Ordering::Release);
                *registration = Some(new);
            }
            Err(error) => {
                drop(registration);
                request.abandon(Status::INSUFFICIENT_RESOURCES);
                let advice = match error {
                    RegisterError::Full => "; deregister regions that are not in use",
                    _ => "",
                };
                let what = format!("{error}{advice}");
                return Err(Error::new(Status::INSUFFICIENT_RESOURCES, what)); // MR-008
            }
        }
        drop(registration);
        request.complete(Status::SUCCESS);
        Ok(Started::Pending) // clients of a completion port wait for a packet (TST-003)
    }

    fn deregister(&self, overlapped: &Overlapped) -> Result<Started> {
        let mut slot = self.registration.lock();
        let Some(registration) = slot.take() else {
            return fail(Status::INVALID_DEVICE_STATE, "the region is not registered"); // MR-027
        };
        let request = match overlapped.begin(&self.file()) {
            Ok(request) => request,
            Err(error) => {
                *slot = Some(registration);
                return Err(error);
            }
        };
        if let Err((registration, _busy)) = registration.deregister() {
            *slot = Some(registration);
            drop(slot);
            request.abandon(Status::DEVICE_BUSY);
            return Err(Error::new(
                Status::DEVICE_BUSY,
                "the region has bound windows, or queued Binds of windows; invalidate or release these windows first",
            )); // MR-026
        }
        drop(slot);
        request.complete(Status::SUCCESS);
        Ok(Started::Pending)
    }

    #[inline]
    fn get_local_token(&self) -> LocalToken {
        LocalToken(self.stag.load(Ordering::Acquire))
    }

    fn get_remote_token(&self) -> RemoteToken {
        // In network byte order, so that programs can pass the token to a peer of any byte order (MR-032).
        RemoteToken(self.stag.load(Ordering::Acquire).to_be())
    }
}
