//! Memory windows of type 1.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{ProtectionDomain, made};
use crate::sys::bindings as c;

/// A memory window.
#[derive(Debug)]
pub(crate) struct MemoryWindowHandle {
    pd: Arc<ProtectionDomain>,
    raw: NonNull<c::ibv_mw>,
}

// SAFETY: libibverbs allows any thread to use a window.
unsafe impl Send for MemoryWindowHandle {}
// SAFETY: as above.
unsafe impl Sync for MemoryWindowHandle {}

impl MemoryWindowHandle {
    /// A window of type 1, which Bind binds. `Unsupported` if the driver has none.
    pub(crate) fn new(pd: &Arc<ProtectionDomain>) -> io::Result<Self> {
        let allocate = pd.context().operations().alloc_mw;
        let allocate = allocate.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the protection domain exists.
        let raw = unsafe { allocate(pd.raw(), c::IBV_MW_TYPE_1) };
        Ok(Self {
            raw: made(raw)?,
            pd: Arc::clone(pd),
        })
    }

    /// The key, which each Bind changes.
    pub(crate) fn key(&self) -> u32 {
        // SAFETY: the window exists as long as `self`. Bind writes the key; the caller holds the lock under which it binds.
        let window = unsafe { self.raw.as_ref() };
        window.rkey
    }

    pub(super) fn raw(&self) -> *mut c::ibv_mw {
        self.raw.as_ptr()
    }
}

impl Drop for MemoryWindowHandle {
    fn drop(&mut self) {
        if let Some(free) = self.pd.context().operations().dealloc_mw {
            // SAFETY: the window is freed once.
            let _ = unsafe { free(self.raw.as_ptr()) };
        }
    }
}
