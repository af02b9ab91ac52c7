//! Faults that can be injected into a provider.

use std::net::IpAddr;
use std::sync::Arc;

use crate::{CompletionQueue, SharedReceiveQueue, Status};

/// A fault that a provider is asked to produce, so that a test sees how an application handles it. Injected by
/// [`AdapterExtensions::inject`](crate::AdapterExtensions::inject) and
/// [`ProviderExtensions::inject`](crate::ProviderExtensions::inject).
///
/// ```
/// # use netdirect::{Adapter, Call, Fault, Result, Status};
/// # fn demo(adapter: &dyn Adapter) -> Result<()> {
/// if let Some(extensions) = adapter.extensions() {
///     // The second queue pair that is created from now on fails because resources are short.
///     extensions.inject(Fault::Call { call: Call::CreateQueuePair, nth: 2, status: Status::INSUFFICIENT_RESOURCES })?;
///     extensions.inject(Fault::RemoveDevice)?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The device of this adapter is removed for good (GEN-015). When `inject` returns:
    ///
    /// - Every method that needs the device fails with [`DEVICE_REMOVED`](Status::DEVICE_REMOVED). Methods that clean up still
    ///   work: Deregister, Flush, CancelOverlappedRequests, GetOverlappedResult, and GetResults, which returns the results
    ///   that are queued.
    /// - Every overlapped request in flight has ended with [`DEVICE_REMOVED`](Status::DEVICE_REMOVED) (OVL-010).
    /// - Every connection has ended. Outstanding requests of queue pairs complete with [`CANCELED`](Status::CANCELED).
    /// - The adapter no longer reads or writes registered memory.
    ///
    /// Other open adapters are not affected, even if they were opened with the same number.
    RemoveDevice,
    /// One call fails, as if a resource were missing. The object of the call is unchanged, so the next call can succeed.
    Call {
        /// The kind of call.
        call: Call,
        /// Which call fails, counted from 1 from now on. Calls that fail because of their arguments are not counted.
        nth: u32,
        /// The status of the failure: [`NO_MEMORY`](Status::NO_MEMORY),
        /// [`INSUFFICIENT_RESOURCES`](Status::INSUFFICIENT_RESOURCES), or any other error.
        status: Status,
    },
    /// A completion queue breaks down, with all its queue pairs (CQ-021, CQ-022). When `inject` returns, all its Notify
    /// requests have ended with `status`, and no further results arrive.
    BreakCompletionQueue {
        /// The queue, one of this adapter's.
        queue: Arc<dyn CompletionQueue>,
        /// [`BUFFER_OVERFLOW`](Status::BUFFER_OVERFLOW), as if the queue had overflowed, or
        /// [`INTERNAL_ERROR`](Status::INTERNAL_ERROR).
        status: Status,
    },
    /// A shared receive queue breaks down, with all its queue pairs (SRQ-019, AMB-051). When `inject` returns, all its Notify
    /// requests have ended with `status`, its queue pairs have ended, and their requests have completed with
    /// [`CANCELED`](Status::CANCELED). A later Notify ends with `status` too.
    BreakSharedReceiveQueue {
        /// The queue, one of this adapter's.
        queue: Arc<dyn SharedReceiveQueue>,
        /// [`INTERNAL_ERROR`](Status::INTERNAL_ERROR), or any other error.
        status: Status,
    },
    /// From now on the host with this address cannot be reached by connections that are set up: a Connect to the host ends with
    /// [`HOST_UNREACHABLE`](Status::HOST_UNREACHABLE) (CONN-022). Connections that exist are not affected. Only a provider with its own
    /// network, such as a simulated one, can do this; the fault then concerns all adapters of that network.
    UnreachableHost {
        /// The host's address, which need not belong to an adapter.
        address: IpAddr,
    },
}

/// The kinds of calls that [`Fault::Call`] can make fail: calls that need memory or another limited resource. The kinds have
/// the names of ND2's methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// Any call of the kinds below. A test can run a program again and again, with the first call failing, then the second,
    /// and so on.
    Any,
    /// [`Provider::resolve_address`](crate::Provider::resolve_address).
    ResolveAddress,
    /// [`Provider::open_adapter`](crate::Provider::open_adapter).
    OpenAdapter,
    /// [`Adapter::create_overlapped_file`](crate::Adapter::create_overlapped_file).
    CreateOverlappedFile,
    /// [`Adapter::create_completion_queue`](crate::Adapter::create_completion_queue).
    CreateCompletionQueue,
    /// [`Adapter::create_memory_region`](crate::Adapter::create_memory_region).
    CreateMemoryRegion,
    /// [`Adapter::create_memory_window`](crate::Adapter::create_memory_window).
    CreateMemoryWindow,
    /// [`Adapter::create_shared_receive_queue`](crate::Adapter::create_shared_receive_queue).
    CreateSharedReceiveQueue,
    /// [`Adapter::create_queue_pair`](crate::Adapter::create_queue_pair).
    CreateQueuePair,
    /// [`Adapter::create_queue_pair_with_srq`](crate::Adapter::create_queue_pair_with_srq).
    CreateQueuePairWithSrq,
    /// [`Adapter::create_connector`](crate::Adapter::create_connector).
    CreateConnector,
    /// [`Adapter::create_listener`](crate::Adapter::create_listener).
    CreateListener,
    /// [`CompletionQueue::resize`](crate::CompletionQueue::resize).
    ResizeCompletionQueue,
    /// [`CompletionQueue::notify`](crate::CompletionQueue::notify).
    NotifyCompletionQueue,
    /// [`SharedReceiveQueue::modify`](crate::SharedReceiveQueue::modify).
    ModifySharedReceiveQueue,
    /// [`SharedReceiveQueue::notify`](crate::SharedReceiveQueue::notify).
    NotifySharedReceiveQueue,
    /// [`MemoryRegion::register`](crate::MemoryRegion::register).
    Register,
    /// [`Listener::bind`](crate::Listener::bind).
    BindListener,
    /// [`Listener::listen`](crate::Listener::listen).
    Listen,
    /// [`Connector::bind`](crate::Connector::bind).
    BindConnector,
}

impl Call {
    /// All kinds but [`Any`](Self::Any).
    pub const ALL: [Self; 19] = [
        Self::ResolveAddress,
        Self::OpenAdapter,
        Self::CreateOverlappedFile,
        Self::CreateCompletionQueue,
        Self::CreateMemoryRegion,
        Self::CreateMemoryWindow,
        Self::CreateSharedReceiveQueue,
        Self::CreateQueuePair,
        Self::CreateQueuePairWithSrq,
        Self::CreateConnector,
        Self::CreateListener,
        Self::ResizeCompletionQueue,
        Self::NotifyCompletionQueue,
        Self::ModifySharedReceiveQueue,
        Self::NotifySharedReceiveQueue,
        Self::Register,
        Self::BindListener,
        Self::Listen,
        Self::BindConnector,
    ];

    /// Returns true if a call of the kind `other` is of this kind. `other` is not [`Any`](Self::Any).
    pub fn covers(self, other: Self) -> bool {
        self == Self::Any || self == other
    }
}
