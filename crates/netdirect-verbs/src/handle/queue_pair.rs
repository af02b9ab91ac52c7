//! Queue pairs and their requests.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{
    Access, CompletionChannelQueue, LocalSge, MemoryWindowHandle, ProtectionDomain, Registration,
    SharedReceivesHandle, WindowKind, entries, made, outcome,
};
use crate::sys::bindings as c;

/// The sizes of a queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueuePairSizes {
    pub(crate) send_depth: u32,
    pub(crate) receive_depth: u32,
    pub(crate) send_sges: u32,
    pub(crate) receive_sges: u32,
    pub(crate) inline: u32,
    /// The peer may make Atomics.
    pub(crate) serves_atomics: bool,
}

/// A queue pair of the device.
#[derive(Debug)]
pub(crate) struct QueuePairHandle {
    pd: Arc<ProtectionDomain>,
    raw: NonNull<c::ibv_qp>,
    serves_atomics: bool,
    _queues: [Arc<CompletionChannelQueue>; 2],
    shared: Option<Arc<SharedReceivesHandle>>,
}

// SAFETY: libibverbs allows any thread to use a queue pair.
unsafe impl Send for QueuePairHandle {}
// SAFETY: as above.
unsafe impl Sync for QueuePairHandle {}

/// An address in the peer's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteMemory {
    pub(crate) address: u64,
    pub(crate) key: u32,
}

/// A request that could not be posted.
#[derive(Debug)]
pub(crate) struct PostFailure {
    pub(crate) error: io::Error,
    /// The driver has the request nevertheless, but could not pass it to the device.
    pub(crate) is_queued: bool,
}

impl PostFailure {
    /// Makes the failure of a call that has returned `error`, and has named the request `bad` as the one that it refuses.
    fn at_request<T>(bad: *const T) -> impl FnOnce(io::Error) -> Self {
        move |error| Self {
            error,
            is_queued: bad.is_null(),
        }
    }

    fn refused(error: impl Into<io::Error>) -> Self {
        Self {
            error: error.into(),
            is_queued: false,
        }
    }
}

/// A Bind of a window, or, to no octets, the end of a binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowBind<'a> {
    pub(crate) id: u64,
    pub(crate) window: &'a MemoryWindowHandle,
    pub(crate) region: &'a Registration,
    pub(crate) range: WindowRange,
    pub(crate) signaled: bool,
    pub(crate) fence: bool,
}

impl WindowBind<'_> {
    fn info(&self) -> c::ibv_mw_bind_info {
        c::ibv_mw_bind_info {
            mr: self.region.raw(),
            addr: self.range.address,
            length: self.range.length,
            mw_access_flags: self.range.access.bits().cast_unsigned(),
        }
    }

    /// Converts the Bind into a request of the send queue.
    fn request<'a>(&self, operation: Operation<'a>) -> SendRequest<'a> {
        SendRequest {
            id: self.id,
            operation,
            sges: &[],
            signaled: self.signaled,
            fence: self.fence,
            solicited: false,
        }
    }
}

/// The memory that a window is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowRange {
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) access: Access,
}

/// The operation of a request of the send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<'a> {
    Send,
    /// With four octets that the peer finds in its result.
    SendImmediate([u8; 4]),
    Write(RemoteMemory),
    Read(RemoteMemory),
    FetchAdd {
        target: RemoteMemory,
        add: u64,
    },
    CompareSwap {
        target: RemoteMemory,
        compare: u64,
        swap: u64,
    },
    /// Binds a window of type 2, which gets this key.
    Bind(&'a WindowBind<'a>, u32),
    /// Invalidates the window of type 2 that has this key.
    Invalidate(u32),
}

/// A request of the send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRequest<'a> {
    pub(crate) id: u64,
    pub(crate) operation: Operation<'a>,
    pub(crate) sges: &'a [LocalSge],
    pub(crate) signaled: bool,
    pub(crate) fence: bool,
    pub(crate) solicited: bool,
}

impl QueuePairHandle {
    pub(crate) fn new(
        pd: &Arc<ProtectionDomain>,
        send: &Arc<CompletionChannelQueue>,
        receive: &Arc<CompletionChannelQueue>,
        shared: Option<&Arc<SharedReceivesHandle>>,
        sizes: QueuePairSizes,
    ) -> io::Result<Arc<Self>> {
        let mut attributes = c::ibv_qp_init_attr {
            send_cq: send.raw(),
            recv_cq: receive.raw(),
            srq: shared.map_or(ptr::null_mut(), |shared| shared.raw()),
            cap: c::ibv_qp_cap {
                max_send_wr: sizes.send_depth,
                max_recv_wr: sizes.receive_depth,
                max_send_sge: sizes.send_sges,
                max_recv_sge: sizes.receive_sges,
                max_inline_data: sizes.inline,
            },
            qp_type: c::IBV_QPT_RC,
            sq_sig_all: 0,
            ..c::ibv_qp_init_attr::default()
        };
        let create = pd.context().libraries().verbs.ibv_create_qp;
        // SAFETY: all objects that the structure names exist, and are held below. The structure may be written.
        let raw = unsafe { create(pd.raw(), &raw mut attributes) };
        Ok(Arc::new(Self {
            raw: made(raw)?,
            pd: Arc::clone(pd),
            serves_atomics: sizes.serves_atomics,
            _queues: [Arc::clone(send), Arc::clone(receive)],
            shared: shared.cloned(),
        }))
    }

    /// The number by which results and the peer's connection manager name the queue pair.
    pub(crate) fn number(&self) -> u32 {
        let pair = self.raw.as_ptr();
        // SAFETY: the queue pair exists as long as `self`.
        let number = unsafe { &raw const (*pair).qp_num };
        // SAFETY: as above. No reference is made, because libibverbs writes other fields from other threads, and this one never.
        unsafe { number.read() }
    }

    /// Returns true if it takes Receives from a shared queue.
    pub(super) fn shares_receives(&self) -> bool {
        self.shared.is_some()
    }

    /// Lets Receives be posted, and sets the rights of the peer.
    pub(crate) fn init(&self, is_iwarp: bool) -> io::Result<()> {
        let mut attributes = c::ibv_qp_attr {
            qp_state: c::IBV_QPS_INIT,
            port_num: 1,
            qp_access_flags: self.access(),
            ..c::ibv_qp_attr::default()
        };
        let mut mask = c::IBV_QP_STATE | c::IBV_QP_ACCESS_FLAGS;
        if !is_iwarp {
            mask |= c::IBV_QP_PORT | c::IBV_QP_PKEY_INDEX;
        }
        self.modify(&mut attributes, mask)
    }

    /// The rights of the peer, as far as memory allows them.
    pub(super) fn access(&self) -> u32 {
        let access = Access {
            remote_read: true,
            remote_write: true,
            atomic: self.serves_atomics,
            ..Access::default()
        };
        access.bits().cast_unsigned()
    }

    /// Ends everything: outstanding requests are flushed, and so is the connection.
    pub(crate) fn fail(&self) -> io::Result<()> {
        let mut attributes = c::ibv_qp_attr {
            qp_state: c::IBV_QPS_ERR,
            ..c::ibv_qp_attr::default()
        };
        self.modify(&mut attributes, c::IBV_QP_STATE)
    }

    pub(super) fn modify(
        &self,
        attributes: &mut c::ibv_qp_attr,
        mask: c::ibv_qp_attr_mask,
    ) -> io::Result<()> {
        let modify = self.pd.context().libraries().verbs.ibv_modify_qp;
        // SAFETY: the queue pair exists, and the structure may be written.
        outcome(unsafe { modify(self.raw.as_ptr(), attributes, mask.cast_signed()) })
    }

    /// Posts a request. The driver copies the entries. The memory that they name is checked by the device, or belongs to a
    /// registration.
    pub(crate) fn post(&self, request: &SendRequest<'_>) -> Result<(), PostFailure> {
        self.post_with(request, 0)
    }

    /// Posts a request whose data the call copies.
    pub(crate) fn post_inline(
        &self,
        request: &SendRequest<'_>,
        data: &[u8],
    ) -> Result<(), PostFailure> {
        let length = u32::try_from(data.len());
        let sge = LocalSge {
            addr: data.as_ptr() as u64,
            length: length.map_err(|_| PostFailure::refused(io::ErrorKind::InvalidInput))?,
            lkey: 0,
        };
        let request = SendRequest {
            sges: &[sge],
            ..*request
        };
        self.post_with(&request, c::IBV_SEND_INLINE)
    }

    fn post_with(&self, request: &SendRequest<'_>, flags: u32) -> Result<(), PostFailure> {
        let post = self.pd.context().operations().post_send;
        let post = post.ok_or_else(|| PostFailure::refused(io::ErrorKind::Unsupported))?;
        let mut flags = flags;
        for (is_set, flag) in [
            (request.signaled, c::IBV_SEND_SIGNALED),
            (request.fence, c::IBV_SEND_FENCE),
            (request.solicited, c::IBV_SEND_SOLICITED),
        ] {
            if is_set {
                flags |= flag;
            }
        }
        let mut work = c::ibv_send_wr {
            wr_id: request.id,
            sg_list: entries(request.sges),
            num_sge: i32::try_from(request.sges.len()).unwrap_or(i32::MAX),
            send_flags: flags,
            ..c::ibv_send_wr::default()
        };
        let rdma = |target: RemoteMemory| c::ibv_send_wr__bindgen_ty_2 {
            rdma: c::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
                remote_addr: target.address,
                rkey: target.key,
            },
        };
        let atomic = |target: RemoteMemory, compare_add, swap| c::ibv_send_wr__bindgen_ty_2 {
            atomic: c::ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
                remote_addr: target.address,
                compare_add,
                swap,
                rkey: target.key,
            },
        };
        match request.operation {
            Operation::Send => work.opcode = c::IBV_WR_SEND,
            Operation::SendImmediate(octets) => {
                work.opcode = c::IBV_WR_SEND_WITH_IMM;
                work.__bindgen_anon_1 = c::ibv_send_wr__bindgen_ty_1 {
                    imm_data: u32::from_ne_bytes(octets),
                };
            }
            Operation::Write(target) => {
                work.opcode = c::IBV_WR_RDMA_WRITE;
                work.wr = rdma(target);
            }
            Operation::Read(target) => {
                work.opcode = c::IBV_WR_RDMA_READ;
                work.wr = rdma(target);
            }
            Operation::FetchAdd { target, add } => {
                work.opcode = c::IBV_WR_ATOMIC_FETCH_AND_ADD;
                work.wr = atomic(target, add, 0);
            }
            Operation::CompareSwap {
                target,
                compare,
                swap,
            } => {
                work.opcode = c::IBV_WR_ATOMIC_CMP_AND_SWP;
                work.wr = atomic(target, compare, swap);
            }
            Operation::Bind(bind, key) => {
                work.opcode = c::IBV_WR_BIND_MW;
                work.__bindgen_anon_2 = c::ibv_send_wr__bindgen_ty_4 {
                    bind_mw: c::ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
                        mw: bind.window.raw(),
                        rkey: key,
                        bind_info: bind.info(),
                    },
                };
            }
            Operation::Invalidate(key) => {
                work.opcode = c::IBV_WR_LOCAL_INV;
                work.__bindgen_anon_1 = c::ibv_send_wr__bindgen_ty_1 {
                    invalidate_rkey: key,
                };
            }
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair exists. The driver copies the request, its entries, and inline data, and changes none of them.
        let posted = outcome(unsafe { post(self.raw.as_ptr(), &raw mut work, &raw mut bad) });
        posted.map_err(PostFailure::at_request(bad))
    }

    pub(crate) fn post_receive(&self, id: u64, sges: &[LocalSge]) -> Result<(), PostFailure> {
        let post = self.pd.context().operations().post_recv;
        let post = post.ok_or_else(|| PostFailure::refused(io::ErrorKind::Unsupported))?;
        let mut work = c::ibv_recv_wr {
            wr_id: id,
            next: ptr::null_mut(),
            sg_list: entries(sges),
            num_sge: i32::try_from(sges.len()).unwrap_or(i32::MAX),
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair exists. The driver copies the entries, which it does not change.
        let posted = outcome(unsafe { post(self.raw.as_ptr(), &raw mut work, &raw mut bad) });
        posted.map_err(PostFailure::at_request(bad))
    }

    /// Binds a window. Its new key is known when the call returns. The caller holds the lock under which the window is bound.
    pub(crate) fn bind(&self, bind: &WindowBind<'_>) -> Result<(), PostFailure> {
        match bind.window.kind() {
            WindowKind::Type1 => self.bind_by_call(bind),
            WindowKind::Type2 => {
                let key = bind.window.next_key();
                let posted = self.post(&bind.request(Operation::Bind(bind, key)));
                if posted
                    .as_ref()
                    .map_or_else(|failure| failure.is_queued, |()| true)
                {
                    bind.window.set_key(key);
                }
                posted
            }
        }
    }

    /// Ends the binding of a window, which has had this key since it was bound. The caller holds the lock under which the window is
    /// bound.
    pub(crate) fn unbind(&self, bind: &WindowBind<'_>, key: u32) -> Result<(), PostFailure> {
        match bind.window.kind() {
            WindowKind::Type1 => self.bind_by_call(bind),
            WindowKind::Type2 => self.post(&bind.request(Operation::Invalidate(key))),
        }
    }

    /// Binds a window of type 1.
    fn bind_by_call(&self, bind: &WindowBind<'_>) -> Result<(), PostFailure> {
        let call = self.pd.context().operations().bind_mw;
        let call = call.ok_or_else(|| PostFailure::refused(io::ErrorKind::Unsupported))?;
        let mut flags = 0;
        if bind.signaled {
            flags |= c::IBV_SEND_SIGNALED;
        }
        if bind.fence {
            flags |= c::IBV_SEND_FENCE;
        }
        let mut work = c::ibv_mw_bind {
            wr_id: bind.id,
            send_flags: flags,
            bind_info: bind.info(),
        };
        // SAFETY: queue pair, window and region exist; the driver copies the structure.
        let bound = outcome(unsafe { call(self.raw.as_ptr(), bind.window.raw(), &raw mut work) });
        bound.map_err(PostFailure::refused)
    }
}

impl Drop for QueuePairHandle {
    fn drop(&mut self) {
        let destroy = self.pd.context().libraries().verbs.ibv_destroy_qp;
        // SAFETY: the queue pair is destroyed once, before the queues that it uses.
        let _ = unsafe { destroy(self.raw.as_ptr()) };
    }
}
