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

/// `IND2Adapter`: an open adapter, which creates all other objects.
///
/// Each object keeps its adapter alive, so objects can be released in any order (GEN-020). The overlapped file that is passed
/// to a `create` method has to belong to this adapter; otherwise the method fails with
/// [`INVALID_HANDLE`](crate::Status::INVALID_HANDLE) (ADPT-086). Any other object of another adapter or provider is an
/// invalid parameter (GEN-022). The number in the status `INVALID_PARAMETER_<n>` is the position of the argument in ND2's
/// method, which counts the interface identifier as its first argument.
pub trait Adapter: Any + Debug + Send + Sync {
    /// `CreateOverlappedFile`: creates an overlapped file, the parent of objects with overlapped requests.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](crate::Status::NO_MEMORY), [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>>;

    /// `Query`: the identity and the limits of the adapter.
    ///
    /// # Errors
    ///
    /// ND2 documents only errors about the size of the caller's buffer, which cannot occur here.
    fn query(&self) -> Result<AdapterInfo>;

    /// `QueryAddressList`: the local addresses of this adapter, with port 0.
    ///
    /// # Errors
    ///
    /// ND2 documents only errors about the size of the caller's buffer, which cannot occur here.
    fn query_address_list(&self) -> Result<Vec<SocketAddr>>;

    /// `CreateCompletionQueue`: creates a completion queue for `depth` results, from 1 to
    /// [`max_completion_queue_depth`](AdapterInfo::max_completion_queue_depth) (AMB-019). An affinity that the provider cannot
    /// honour is ignored (ADPT-026).
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

    /// `CreateMemoryRegion`: creates a memory region without a buffer.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_memory_region(&self, file: &Arc<dyn OverlappedFile>)
    -> Result<Arc<dyn MemoryRegion>>;

    /// `CreateMemoryWindow`: creates a memory window that is not bound. Windows have no overlapped requests, so the method
    /// takes no overlapped file.
    ///
    /// # Errors
    ///
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter has no windows; its
    ///   [`capabilities`](trait.Adapter.html#method.capabilities) say this too. ND2 expects windows of every adapter, but some
    ///   drivers have none.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED), [`NO_MEMORY`](crate::Status::NO_MEMORY) (AMB-057).
    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>>;

    /// `CreateSharedReceiveQueue`: creates a pool of Receives for several queue pairs.
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `queue_depth` is above
    ///   [`max_shared_receive_queue_depth`](AdapterInfo::max_shared_receive_queue_depth).
    /// - [`INVALID_PARAMETER_4`](crate::Status::INVALID_PARAMETER_4): `max_request_sge` is above
    ///   [`max_receive_sge`](AdapterInfo::max_receive_sge).
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter has no shared receive queues; its limit for their depth
    ///   is then 0 (SRQ-001).
    /// - [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<dyn SharedReceiveQueue>>;

    /// `CreateQueuePair`: creates a queue pair. Results of Receives go to `receive_cq`, and all other results to
    /// `initiator_cq`. Both may be the same queue (ADPT-061). The completion queues may be smaller than the queue pair's
    /// depths (ADPT-064). The provider may round sizes up (ADPT-060), except a size of 0: a queue of depth 0 refuses every
    /// request, and a queue for 0 entries refuses every request that has an entry (AMB-036).
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

    /// `CreateQueuePairWithSrq`: as [`create_queue_pair`](Self::create_queue_pair), but Receives come from a shared receive
    /// queue. The receive sizes in `options` are ignored. A Send of the peer that finds the shared queue empty does not end
    /// the connection (ADPT-076).
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

    /// `CreateConnector`: creates an idle connector, for either side of one connection.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>>;

    /// `CreateListener`: creates an idle listener.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](crate::Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>>;

    /// Features that ND2 does not have: capabilities, counters, and faults for tests. `None` if the adapter has no such
    /// features. ND2 programs would use `QueryInterface`.
    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        None
    }
}

impl dyn Adapter {
    /// The adapter's capabilities: those that its extensions report, or those that ND2 expects of every adapter.
    pub fn capabilities(&self) -> Capabilities {
        let extensions = self.extensions();
        extensions.map_or(Capabilities::ND2, |extensions| extensions.capabilities())
    }
}
