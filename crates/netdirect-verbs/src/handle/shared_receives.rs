//! Shared receive queues.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{LocalSge, ProtectionDomain, entries, made, outcome};
use crate::sys::bindings as c;

/// A shared receive queue of the device.
#[derive(Debug)]
pub(crate) struct SharedReceivesHandle {
    pd: Arc<ProtectionDomain>,
    raw: NonNull<c::ibv_srq>,
}

// SAFETY: libibverbs allows any thread to use a shared receive queue.
unsafe impl Send for SharedReceivesHandle {}
// SAFETY: as above.
unsafe impl Sync for SharedReceivesHandle {}

impl SharedReceivesHandle {
    /// Makes a queue for `depth` Receives. `key` names it in asynchronous events.
    pub(crate) fn new(
        pd: &Arc<ProtectionDomain>,
        depth: u32,
        sges: u32,
        key: u64,
    ) -> io::Result<Arc<Self>> {
        let mut attributes = c::ibv_srq_init_attr {
            srq_context: ptr::without_provenance_mut::<c_void>(usize::try_from(key).unwrap_or(0)),
            attr: c::ibv_srq_attr {
                max_wr: depth,
                max_sge: sges,
                srq_limit: 0,
            },
        };
        let create = pd.context().libraries().verbs.ibv_create_srq;
        // SAFETY: the protection domain exists, and the structure may be written. The key is a number.
        let raw = unsafe { create(pd.raw(), &raw mut attributes) };
        Ok(Arc::new(Self {
            raw: made(raw)?,
            pd: Arc::clone(pd),
        }))
    }

    pub(super) fn raw(&self) -> *mut c::ibv_srq {
        self.raw.as_ptr()
    }

    pub(crate) fn post(&self, id: u64, sges: &[LocalSge]) -> io::Result<()> {
        let post = self.pd.context().operations().post_srq_recv;
        let post = post.ok_or(io::ErrorKind::Unsupported)?;
        let mut request = c::ibv_recv_wr {
            wr_id: id,
            next: ptr::null_mut(),
            sg_list: entries(sges),
            num_sge: i32::try_from(sges.len()).unwrap_or(i32::MAX),
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue exists. The driver copies the entries, which it does not change.
        outcome(unsafe { post(self.raw.as_ptr(), &raw mut request, &raw mut bad) })
    }

    /// Makes room for `depth` Receives.
    pub(crate) fn resize(&self, depth: u32) -> io::Result<()> {
        self.modify(
            c::ibv_srq_attr {
                max_wr: depth,
                ..c::ibv_srq_attr::default()
            },
            c::IBV_SRQ_MAX_WR,
        )
    }

    /// Makes the device report once when fewer Receives than `limit` are left.
    pub(crate) fn arm(&self, limit: u32) -> io::Result<()> {
        self.modify(
            c::ibv_srq_attr {
                srq_limit: limit,
                ..c::ibv_srq_attr::default()
            },
            c::IBV_SRQ_LIMIT,
        )
    }

    fn modify(&self, mut attributes: c::ibv_srq_attr, mask: u32) -> io::Result<()> {
        let modify = self.pd.context().libraries().verbs.ibv_modify_srq;
        // SAFETY: the queue exists, and the structure may be written.
        outcome(unsafe { modify(self.raw.as_ptr(), &raw mut attributes, mask.cast_signed()) })
    }
}

impl Drop for SharedReceivesHandle {
    fn drop(&mut self) {
        let destroy = self.pd.context().libraries().verbs.ibv_destroy_srq;
        // SAFETY: all queue pairs hold their shared receive queue, so none is left.
        let _ = unsafe { destroy(self.raw.as_ptr()) };
    }
}
