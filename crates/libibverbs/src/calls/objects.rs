//! The objects behind the structures that C programs hold.

use std::ffi::c_uint;
use std::fs::File;
use std::sync::{Arc, Condvar, Mutex};

use softverbs::{
    AddressHandle, CompletionChannel, CompletionQueue, Errno, MemoryRegion, ProtectionDomain,
    QueuePair, SendOperation, Sge, SharedReceiveQueue, WorkCompletion,
};

use crate::abi::attributes::ibv_qp_cap;
use crate::abi::context::verbs_context;
use crate::abi::device::PaddedDevice;
use crate::abi::objects::{
    ibv_ah, ibv_comp_channel, ibv_cq_ex, ibv_mr, ibv_pd, ibv_qp_ex, ibv_srq, ibv_td,
};
use crate::border::{Facade, ParentsDescriptor};

/// A device: its place in the list.
pub(crate) struct Device {
    pub(crate) index: usize,
}

impl Facade for Device {
    type C = PaddedDevice;
    const OUTLIVES_FORKS: bool = true;
}

/// An opened device.
pub(crate) struct Context(
    pub(crate) Arc<softverbs::Context>,
    #[expect(dead_code, reason = "dropped with the object")] pub(crate) ParentsDescriptor,
    #[expect(dead_code, reason = "dropped with the object")] pub(crate) File,
);

impl Facade for Context {
    type C = verbs_context;
    const SEEN_AT: usize = std::mem::offset_of!(verbs_context, context);
}

/// A protection domain, or a parent domain, which is another handle for one.
pub(crate) struct Pd {
    pub(crate) pd: Arc<ProtectionDomain>,
    pub(crate) is_parent_domain: bool,
}

impl Facade for Pd {
    type C = ibv_pd;
}

/// A thread domain, which only promises that one thread at a time uses its objects.
pub(crate) struct Td;

impl Facade for Td {
    type C = ibv_td;
}

pub(crate) struct Mr(pub(crate) Arc<MemoryRegion>);

impl Facade for Mr {
    type C = ibv_mr;
}

pub(crate) struct Channel(
    pub(crate) Arc<CompletionChannel>,
    #[expect(dead_code, reason = "dropped with the object")] pub(crate) ParentsDescriptor,
);

impl Facade for Channel {
    type C = ibv_comp_channel;
}

/// A completion queue. The structure is always the extended one, whose first part is the plain one.
pub(crate) struct Cq {
    pub(crate) cq: Arc<CompletionQueue>,
    /// The completion that `ibv_start_poll` and `ibv_next_poll` have taken.
    pub(crate) current: Mutex<WorkCompletion>,
}

impl Facade for Cq {
    type C = ibv_cq_ex;
}

pub(crate) struct Ah(pub(crate) Arc<AddressHandle>);

impl Facade for Ah {
    type C = ibv_ah;
}

pub(crate) struct Srq(pub(crate) Arc<SharedReceiveQueue>);

impl Facade for Srq {
    type C = ibv_srq;
}

/// A queue pair. The structure is always the extended one, whose first part is the plain one.
pub(crate) struct Qp {
    pub(crate) qp: Arc<QueuePair>,
    pub(crate) caps: ibv_qp_cap,
    pub(crate) signal_all: bool,
    /// Requests name where their datagrams go.
    pub(crate) sends_datagrams: bool,
    /// The program has asked for `ibv_wr_…`.
    pub(crate) has_builders: bool,
    pub(crate) built: Mutex<Built>,
    pub(crate) is_free: Condvar,
}

impl Facade for Qp {
    type C = ibv_qp_ex;
}

/// Requests that `ibv_wr_…` has put together.
#[derive(Default)]
pub(crate) struct Built {
    /// A thread is between `ibv_wr_start` and the end.
    pub(crate) is_taken: bool,
    pub(crate) requests: Vec<BuiltRequest>,
    /// The first error, which `ibv_wr_complete` reports.
    pub(crate) failed: Option<Errno>,
}

impl Built {
    /// Keeps the first error.
    pub(crate) fn fail(&mut self, errno: Errno) {
        self.failed.get_or_insert(errno);
    }
}

/// A request that `ibv_wr_…` puts together.
#[derive(Clone, Debug)]
pub(crate) struct BuiltRequest {
    pub(crate) wr_id: u64,
    pub(crate) flags: c_uint,
    pub(crate) operation: SendOperation,
    pub(crate) sges: Vec<Sge>,
    pub(crate) inline: Option<Vec<u8>>,
    /// Where a datagram goes: the address, the number of the queue pair, and the Q_Key.
    pub(crate) to: Option<(Arc<AddressHandle>, u32, u32)>,
}
