//! Memory regions, ND2's `IND2MemoryRegion`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use netdirect::{
    Buffer, Call, LocalToken, MemoryRegion, MrFlags, Overlapped, OverlappedFile, OverlappedObject,
    RemoteToken, Result, Started, Status,
};
use netdirect_provider::checks::sizes;
use netdirect_provider::owned;
use parking_lot::Mutex;

use crate::core::{Core, RegisteredRange};
use crate::file::File;
use crate::handle::{Access, Registration};
use crate::status::{fail, shortage};

#[derive(Debug)]
pub(crate) struct Region {
    core: Arc<Core>,
    file: Arc<File>,
    registration: Mutex<Option<Registered>>,
    local: AtomicU32,
    remote: AtomicU32,
}

/// A buffer that is registered.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) registration: Arc<Registration>,
    pub(crate) can_be_written: bool,
    /// How many windows are bound to it, or have Binds or Invalidates queued.
    pub(crate) windows: Arc<AtomicUsize>,
}

impl Region {
    pub(crate) fn new(core: Arc<Core>, file: Arc<File>) -> Self {
        Self {
            core,
            file,
            registration: Mutex::new(None),
            local: AtomicU32::new(0),
            remote: AtomicU32::new(0),
        }
    }

    /// Calls `act` with the registered buffer, if there is one.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&Registered) -> T) -> Option<T> {
        self.registration.lock().as_ref().map(act)
    }

    fn file(&self) -> Arc<dyn OverlappedFile> {
        self.file.clone()
    }

    fn check(&self, buffer: &Buffer, flags: MrFlags) -> Result<Access> {
        sizes::registration(buffer, flags, self.core.limits.registration_size)?;
        let is_sink = flags.contains(MrFlags::RDMA_READ_SINK);
        let remote_write = flags.contains(MrFlags::ALLOW_REMOTE_WRITE)
            || is_sink && self.core.needs.sink_is_remote_write;
        Ok(Access {
            local_write: flags.contains(MrFlags::ALLOW_LOCAL_WRITE) || is_sink,
            remote_read: flags.contains(MrFlags::ALLOW_REMOTE_READ),
            remote_write,
            bind: self.core.limits.windows.is_some(),
            atomic: self.core.limits.device.has_atomics
                && flags.contains(MrFlags::ALLOW_REMOTE_READ | MrFlags::ALLOW_REMOTE_WRITE),
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.registration.get_mut().is_some() {
            self.core.remove_region(*self.local.get_mut());
        }
    }
}

owned!(Region of Core: |region| &region.core);

impl OverlappedObject for Region {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        Ok(()) // every request ends before its call returns
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
        let access = self.check(buffer, flags)?;
        let mut slot = self.registration.lock();
        if slot.is_some() {
            return fail(
                Status::INVALID_DEVICE_STATE,
                "the region is registered already; deregister it first",
            ); // MR-002
        }
        let request = overlapped.begin(&self.file())?;
        if let Err(error) = self.core.device.admit(Call::Register) {
            drop(slot); // unlocked first, because the end of a request wakes tasks that may call this object
            request.abandon(error.status());
            return Err(error);
        }
        match Registration::new(&self.core.pd, buffer, access) {
            Ok(registration) => {
                self.local
                    .store(registration.local_key(), Ordering::Release);
                self.remote
                    .store(registration.remote_key(), Ordering::Release);
                let range = RegisteredRange {
                    address: buffer.address(),
                    length: buffer.len() as u64,
                };
                self.core.add_region(registration.local_key(), range);
                *slot = Some(Registered {
                    registration: Arc::new(registration),
                    can_be_written: access.local_write,
                    windows: Arc::default(),
                });
            }
            Err(error) => {
                drop(slot); // unlocked first, because the end of a request wakes tasks that may call this object
                let error = shortage("cannot register the buffer")(error); // MR-008
                request.abandon(error.status());
                return Err(error);
            }
        }
        drop(slot);
        request.complete(Status::SUCCESS);
        Ok(Started::Pending) // clients of a completion port wait for a packet (TST-003)
    }

    fn deregister(&self, overlapped: &Overlapped) -> Result<Started> {
        let mut slot = self.registration.lock();
        let Some(registered) = slot.as_ref() else {
            return fail(Status::INVALID_DEVICE_STATE, "the region is not registered"); // MR-027
        };
        if registered.windows.load(Ordering::SeqCst) > 0 {
            return fail(
                Status::DEVICE_BUSY,
                "the region has bound windows, or queued Binds of windows; invalidate or release these windows first",
            ); // MR-026
        }
        let request = overlapped.begin(&self.file())?;
        let registration = slot.take();
        self.core.remove_region(self.local.load(Ordering::Acquire));
        drop(slot);
        drop(registration); // the device lets go of the buffer
        request.complete(Status::SUCCESS);
        Ok(Started::Pending)
    }

    fn get_local_token(&self) -> LocalToken {
        LocalToken(self.local.load(Ordering::Acquire))
    }

    fn get_remote_token(&self) -> RemoteToken {
        // In network byte order, so that programs can pass the token to a peer of any byte order (MR-032).
        RemoteToken::from_host(self.remote.load(Ordering::Acquire))
    }
}
