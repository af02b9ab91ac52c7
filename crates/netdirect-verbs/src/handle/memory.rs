//! Registered memory.

use std::ffi::c_int;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use netdirect::Buffer;

use super::{ProtectionDomain, made, outcome};
use crate::sys::bindings as c;

/// The accesses that a registration allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) local_write: bool,
    pub(crate) remote_read: bool,
    pub(crate) remote_write: bool,
    pub(crate) bind: bool,
    pub(crate) atomic: bool,
}

impl Access {
    pub(super) fn bits(self) -> c_int {
        let all = [
            (self.local_write, c::IBV_ACCESS_LOCAL_WRITE),
            (self.remote_read, c::IBV_ACCESS_REMOTE_READ),
            (self.remote_write, c::IBV_ACCESS_REMOTE_WRITE),
            (self.bind, c::IBV_ACCESS_MW_BIND),
            (self.atomic, c::IBV_ACCESS_REMOTE_ATOMIC),
        ];
        let set = all.into_iter().filter(|(is_set, _)| *is_set);
        set.fold(0, |bits, (_, bit)| bits | bit.cast_signed())
    }
}

/// A buffer that is registered with the device. The buffer lives until the device no longer uses it.
#[derive(Debug)]
pub(crate) struct Registration {
    pd: Arc<ProtectionDomain>,
    raw: NonNull<c::ibv_mr>,
    buffer: ManuallyDrop<Buffer>,
}

// SAFETY: libibverbs allows any thread to use a region.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    pub(crate) fn new(
        pd: &Arc<ProtectionDomain>,
        buffer: &Buffer,
        access: Access,
    ) -> io::Result<Self> {
        let register = pd.context().libraries().verbs.ibv_reg_mr;
        // SAFETY: the memory is that of a `Buffer`, which a device may read and write, and which is held below.
        let raw = unsafe {
            register(
                pd.raw(),
                buffer.as_ptr().cast(),
                buffer.len(),
                access.bits(),
            )
        };
        Ok(Self {
            raw: made(raw)?,
            pd: Arc::clone(pd),
            buffer: ManuallyDrop::new(buffer.clone()),
        })
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    pub(super) fn raw(&self) -> *mut c::ibv_mr {
        self.raw.as_ptr()
    }

    pub(crate) fn local_key(&self) -> u32 {
        let region = self.raw.as_ptr();
        // SAFETY: the region exists as long as `self`.
        let key = unsafe { &raw const (*region).lkey };
        // SAFETY: as above. The region belongs to libibverbs, so no reference to all of it is made.
        unsafe { key.read() }
    }

    pub(crate) fn remote_key(&self) -> u32 {
        let region = self.raw.as_ptr();
        // SAFETY: the region exists as long as `self`.
        let key = unsafe { &raw const (*region).rkey };
        // SAFETY: as above. The region belongs to libibverbs, so no reference to all of it is made.
        unsafe { key.read() }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let deregister = self.pd.context().libraries().verbs.ibv_dereg_mr;
        // SAFETY: the region is deregistered once.
        match outcome(unsafe { deregister(self.raw.as_ptr()) }) {
            // SAFETY: the device no longer uses the buffer, and it is not used after this.
            Ok(()) => unsafe { ManuallyDrop::drop(&mut self.buffer) },
            // The device may still write the buffer, which is therefore never freed.
            Err(error) => tracing::error!(
                target: crate::log::TARGET,
                %error,
                "the device does not let go of {} octets of memory, which stay in use until the program ends",
                self.buffer.len()
            ),
        }
    }
}
