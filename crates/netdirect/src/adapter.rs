//! `IND2Adapter`.

use std::any::Any;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::{
    AdapterExtensions, AdapterInfo, Affinity, Capabilities, CompletionQueue, Connector, Listener,
    MemoryRegion, MemoryWindow, OverlappedFile, QueuePair, QueuePairOptions, Result,
    SharedReceiveQueue, SharedReceiveQueueOptions,
};

/// `IND2Adapter`: one opened adapter, maker of all other objects.
///
/// Objects keep the adapter as long as they live, in whatever order they are released (GEN-020). Each `create` method that
/// takes an overlapped file wants one of this adapter and fails with
/// [`INVALID_HANDLE`](crate::Status::INVALID_HANDLE) otherwise (ADPT-086). An object of another adapter, or of another
/// provider, is an invalid parameter of its position in ND2's argument list (GEN-022): those numbers are given with each
/// method, and count as ND2 does, interface identifier first.
pub trait Adapter: Any + Debug + Send + Sync {
    /// `CreateOverlappedFile`: a parent for overlapped objects.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](crate::Status::NO_MEMORY), [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>>;

    /// `Query`: identity and limits.
    ///
    /// # Errors
    ///
    /// None is documented besides the buffer size protocol, which has no counterpart here.
    fn query(&self) -> Result<AdapterInfo>;

    /// `QueryAddressList`: the local addresses of this adapter; ports are 0.
    ///
    /// # Errors
    ///
    /// None is documented besides the buffer size protocol, which has no counterpart here.
    fn query_address_list(&self) -> Result<Vec<SocketAddr>>;

    /// `CreateCompletionQueue`: a queue for `depth` results, from 1 to
    /// [`max_completion_queue_depth`](AdapterInfo::max_completion_queue_depth) (AMB-019). An affinity that cannot be had is
    /// ignored (ADPT-026).
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `depth` is 0 or above the limit.
    /// - [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_completion_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<dyn CompletionQueue>>;

    /// `CreateMemoryRegion`: a region without a buffer.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_memory_region(&self, file: &Arc<dyn OverlappedFile>)
    -> Result<Arc<dyn MemoryRegion>>;

    /// `CreateMemoryWindow`: a window that is not bound. Windows have no overlapped requests, so no file is asked for.
    ///
    /// # Errors
    ///
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter has no windows, and says so by its
    ///   [`capabilities`](trait.Adapter.html#method.capabilities). ND2 knows no such adapter; drivers exist that are one.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED), [`NO_MEMORY`](crate::Status::NO_MEMORY) (AMB-057).
    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>>;

    /// `CreateSharedReceiveQueue`: a pool of Receives for several queue pairs.
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `queue_depth` is above
    ///   [`max_shared_receive_queue_depth`](AdapterInfo::max_shared_receive_queue_depth).
    /// - [`INVALID_PARAMETER_4`](crate::Status::INVALID_PARAMETER_4): `max_request_sge` is above
    ///   [`max_receive_sge`](AdapterInfo::max_receive_sge).
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter has none, and says so by a depth limit of 0 (SRQ-001).
    /// - [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<dyn SharedReceiveQueue>>;

    /// `CreateQueuePair`: results of Receives go to `receive_cq`, all others to `initiator_cq`, which may be the same one
    /// (ADPT-061). Depths need not fit into the completion queues (ADPT-064). A provider may grant more than was asked for
    /// (ADPT-060), but where 0 was asked for: a queue of depth 0 refuses every request, one made for 0 entries every request
    /// that has an entry (AMB-036).
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): `receive_cq`;
    ///   [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `initiator_cq`.
    /// - Above the adapter's limits: [`INVALID_PARAMETER_5`](crate::Status::INVALID_PARAMETER_5): `receive_queue_depth`;
    ///   [`INVALID_PARAMETER_6`](crate::Status::INVALID_PARAMETER_6): `initiator_queue_depth`;
    ///   [`INVALID_PARAMETER_7`](crate::Status::INVALID_PARAMETER_7): `max_receive_request_sge`;
    ///   [`INVALID_PARAMETER_8`](crate::Status::INVALID_PARAMETER_8): `max_initiator_request_sge`;
    ///   [`INVALID_PARAMETER_9`](crate::Status::INVALID_PARAMETER_9): `inline_data_size`.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED), [`NO_MEMORY`](crate::Status::NO_MEMORY) (AMB-057).
    fn create_queue_pair(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>>;

    /// `CreateQueuePairWithSrq`: as [`create_queue_pair`](Self::create_queue_pair), with Receives from a shared queue; the
    /// receive sizes in `options` are ignored. A Send that meets an empty pool does not break the connection (ADPT-076).
    ///
    /// # Errors
    ///
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter has no shared receive queues.
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): `receive_cq`;
    ///   [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `initiator_cq`;
    ///   [`INVALID_PARAMETER_4`](crate::Status::INVALID_PARAMETER_4): `srq`.
    /// - Above the adapter's limits: [`INVALID_PARAMETER_6`](crate::Status::INVALID_PARAMETER_6):
    ///   `initiator_queue_depth`; [`INVALID_PARAMETER_7`](crate::Status::INVALID_PARAMETER_7):
    ///   `max_initiator_request_sge`; [`INVALID_PARAMETER_8`](crate::Status::INVALID_PARAMETER_8): `inline_data_size`.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED), [`NO_MEMORY`](crate::Status::NO_MEMORY) (AMB-057).
    fn create_queue_pair_with_srq(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        srq: &Arc<dyn SharedReceiveQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>>;

    /// `CreateConnector`: an idle connector, for either side of one connection.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>>;

    /// `CreateListener`: an idle listener.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>>;

    /// `QueryInterface` for what ND2 does not have: what the adapter can do, counters, faults on request. `None` where the
    /// provider has nothing to say.
    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        None
    }
}

impl dyn Adapter {
    /// What the adapter can do: what its extensions say, or what ND2 takes for granted.
    pub fn capabilities(&self) -> Capabilities {
        let extensions = self.extensions();
        extensions.map_or(Capabilities::ND2, |extensions| extensions.capabilities())
    }
}
