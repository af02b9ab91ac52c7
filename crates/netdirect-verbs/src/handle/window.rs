//! Memory windows of both types.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{ProtectionDomain, made};
use crate::sys::bindings as c;

/// The type of windows of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowKind {
    /// A window of the protection domain. A separate call binds it, and makes its key. A bind to no octets unbinds it.
    Type1,
    /// A window of the queue pair that it is bound on. A work request binds it, with a key whose lowest octet is the client's
    /// choice, and another one invalidates it. The peer can invalidate it as well.
    Type2,
}

impl WindowKind {
    fn raw(self) -> c::ibv_mw_type {
        match self {
            Self::Type1 => c::IBV_MW_TYPE_1,
            Self::Type2 => c::IBV_MW_TYPE_2,
        }
    }
}

/// A memory window.
#[derive(Debug)]
pub(crate) struct MemoryWindowHandle {
    pd: Arc<ProtectionDomain>,
    raw: NonNull<c::ibv_mw>,
    kind: WindowKind,
}

// SAFETY: libibverbs allows any thread to use a window.
unsafe impl Send for MemoryWindowHandle {}
// SAFETY: as above.
unsafe impl Sync for MemoryWindowHandle {}

impl MemoryWindowHandle {
    /// A window that is not bound. `Unsupported` if the driver has none.
    pub(crate) fn new(pd: &Arc<ProtectionDomain>, kind: WindowKind) -> io::Result<Self> {
        let allocate = pd.context().operations().alloc_mw;
        let allocate = allocate.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the protection domain exists.
        let raw = unsafe { allocate(pd.raw(), kind.raw()) };
        Ok(Self {
            raw: made(raw)?,
            pd: Arc::clone(pd),
            kind,
        })
    }

    pub(crate) fn kind(&self) -> WindowKind {
        self.kind
    }

    /// The key, which each Bind changes. The caller holds the lock under which the window is bound.
    pub(crate) fn key(&self) -> u32 {
        // SAFETY: the window exists as long as `self`, and the caller's lock keeps others from writing the key.
        unsafe { (*self.raw.as_ptr()).rkey }
    }

    /// The key for the next Bind of a window of type 2: its lowest octet is another one.
    pub(super) fn next_key(&self) -> u32 {
        let key = self.key();
        key & !0xFF | key.wrapping_add(1) & 0xFF
    }

    /// Notes the key of a Bind that was posted: drivers expect it there at the next Bind. The caller holds the lock under which
    /// the window is bound.
    pub(super) fn set_key(&self, key: u32) {
        // SAFETY: the window exists as long as `self`, and the caller's lock keeps others from the key.
        unsafe { (*self.raw.as_ptr()).rkey = key };
    }

    pub(super) fn raw(&self) -> *mut c::ibv_mw {
        self.raw.as_ptr()
    }
}

impl Drop for MemoryWindowHandle {
    fn drop(&mut self) {
        if let Some(free) = self.pd.context().operations().dealloc_mw {
            // SAFETY: the window is freed once.
            let freed = super::outcome(unsafe { free(self.raw.as_ptr()) });
            if let Err(error) = freed {
                tracing::error!(target: crate::log::TARGET, %error, "the device does not free a memory window");
            }
        }
    }
}
