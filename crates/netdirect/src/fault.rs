//! Faults that can be injected into a provider.

use std::sync::Arc;

use crate::{CompletionQueue, Status};

/// A mishap that a provider is asked for, to see how an application takes it:
/// [`AdapterExtensions::inject`](crate::AdapterExtensions::inject) and
/// [`ProviderExtensions::inject`](crate::ProviderExtensions::inject).
///
/// ```
/// # use netdirect::{Adapter, Call, Fault, Result, Status};
/// # fn demo(adapter: &dyn Adapter) -> Result<()> {
/// if let Some(extensions) = adapter.extensions() {
///     // The second queue pair from now on finds no room.
///     extensions.inject(Fault::Call { call: Call::CreateQueuePair, nth: 2, status: Status::INSUFFICIENT_RESOURCES })?;
///     extensions.inject(Fault::RemoveDevice)?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The device under this adapter is removed, for good, when `inject` returns (GEN-015):
    ///
    /// - Every method that needs the device fails with [`DEVICE_REMOVED`](Status::DEVICE_REMOVED). What cleans up goes on
    ///   working: Deregister, Flush, CancelOverlappedRequests, GetOverlappedResult, and GetResults, which still returns what
    ///   is queued.
    /// - Every pending overlapped request has ended with [`DEVICE_REMOVED`](Status::DEVICE_REMOVED) (OVL-010).
    /// - Every connection is over; outstanding requests of queue pairs complete with [`CANCELED`](Status::CANCELED).
    /// - Registered memory is not touched any more.
    ///
    /// Other adapters are not affected, nor are others that were opened with the same number.
    RemoveDevice,
    /// One call fails, as if it had not got what it needs. The object that it was made on stays as it was, so that the next
    /// call can succeed.
    Call {
        /// The kind of call.
        call: Call,
        /// Which one from now on, counted from 1. A call that is refused for its arguments is not counted.
        nth: u32,
        /// What it fails with: [`NO_MEMORY`](Status::NO_MEMORY), [`INSUFFICIENT_RESOURCES`](Status::INSUFFICIENT_RESOURCES), or
        /// any other error.
        status: Status,
    },
    /// A completion queue breaks down when `inject` returns, and with it all its queue pairs (CQ-021, CQ-022): all its pending
    /// Notify requests have ended with `status`, and no further results come.
    BreakCompletionQueue {
        /// The queue, one of this adapter's.
        queue: Arc<dyn CompletionQueue>,
        /// [`BUFFER_OVERFLOW`](Status::BUFFER_OVERFLOW) as if it had overflowed,
        /// [`INTERNAL_ERROR`](Status::INTERNAL_ERROR) otherwise.
        status: Status,
    },
}

/// The kinds of calls that [`Fault::Call`] can make fail: those that take memory or something else there is a limited number
/// of. They are named after ND2's methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// Any of the others. A program that is run again and again, with the first call failing, then the second and so on,
    /// shows what it does without each of them.
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
    /// All kinds that are one call.
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

    /// Whether a call of the kind `other`, which is one call, is of this kind.
    pub fn covers(self, other: Self) -> bool {
        self == Self::Any || self == other
    }
}
