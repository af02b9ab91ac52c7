//! The objects of one adapter.

use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, MemoryWindow, MrFlags, OverlappedFile, QueuePair,
    QueuePairOptions, Result, SharedReceiveQueue, SharedReceiveQueueOptions,
};

use crate::connect::Connect;
use crate::endpoint::{Endpoint, EndpointOptions, RequestQueue};
use crate::listener::{AsyncListener, ListenerOptions};
use crate::memory::RegisteredBuffer;

/// An open adapter together with an overlapped file, the parent of the objects that are made here. A clone is the same adapter
/// with the same file.
#[derive(Clone, Debug)]
pub struct AsyncAdapter {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
}

impl AsyncAdapter {
    /// Makes an overlapped file for the adapter.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_overlapped_file`].
    pub fn new(adapter: &Arc<dyn Adapter>) -> Result<Self> {
        Ok(Self {
            adapter: adapter.clone(),
            file: adapter.create_overlapped_file()?,
        })
    }

    /// The adapter, `IND2Adapter`.
    pub fn adapter(&self) -> &Arc<dyn Adapter> {
        &self.adapter
    }

    /// The overlapped file, for objects of ND2 that an application makes itself.
    pub fn file(&self) -> &Arc<dyn OverlappedFile> {
        &self.file
    }

    /// `CreateCompletionQueue` and `CreateQueuePair`: a queue pair whose requests are futures. [`EndpointOptions`] say whether it shares
    /// its completion queue or its Receives with others; with [`QueuePairOptions`] alone it shares neither.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::query`], [`Adapter::create_completion_queue`], [`Adapter::create_queue_pair`] and
    /// [`Adapter::create_queue_pair_with_srq`].
    pub fn endpoint(&self, options: impl Into<EndpointOptions>) -> Result<Endpoint> {
        Endpoint::new(&self.adapter, &self.file, options.into())
    }

    /// `CreateCompletionQueue` for the results of many endpoints, of which `depth` may be outstanding together. See
    /// [`EndpointOptions::requests`].
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_completion_queue`].
    pub fn request_queue(&self, depth: u32) -> Result<RequestQueue> {
        let cq = self.completion_queue(depth)?;
        Ok(RequestQueue::new(cq, &self.file, depth))
    }

    /// `CreateMemoryWindow`: a window, by which [`Endpoint::bind`] opens a part of registered memory to one peer.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_memory_window`].
    pub fn memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        self.adapter.create_memory_window()
    }

    /// `CreateCompletionQueue` for `depth` results. [`CompletionStream::new`](crate::CompletionStream::new) turns the queue into a
    /// stream.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_completion_queue`].
    pub fn completion_queue(&self, depth: u32) -> Result<Arc<dyn CompletionQueue>> {
        let affinity = Affinity::default();
        self.adapter
            .create_completion_queue(&self.file, depth, affinity)
    }

    /// `CreateQueuePair` with one completion queue for all results.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_queue_pair`].
    pub fn queue_pair(
        &self,
        cq: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        self.adapter.create_queue_pair(cq, cq, options)
    }

    /// `CreateSharedReceiveQueue`: Receives for several queue pairs.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_shared_receive_queue`].
    pub fn shared_receive_queue(
        &self,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        self.adapter
            .create_shared_receive_queue(&self.file, options)
    }

    /// `CreateQueuePairWithSrq` with one completion queue for all results.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_queue_pair_with_srq`].
    pub fn queue_pair_with_srq(
        &self,
        cq: &Arc<dyn CompletionQueue>,
        srq: &Arc<dyn SharedReceiveQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        self.adapter
            .create_queue_pair_with_srq(cq, cq, srq, options)
    }

    /// `CreateMemoryRegion` and `Register`: registers a buffer. The registration keeps a clone of the buffer.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_memory_region`] and [`MemoryRegion::register`](netdirect::MemoryRegion::register), including
    /// final statuses.
    pub async fn register(&self, buffer: &Buffer, flags: MrFlags) -> Result<RegisteredBuffer> {
        RegisteredBuffer::new(&self.adapter, &self.file, buffer, flags).await
    }

    /// `CreateConnector`, `Connect` and `CompleteConnect`: makes a connection from the active side. The methods of [`Connect`]
    /// set what goes beyond the address.
    pub fn connect(&self, qp: &Arc<dyn QueuePair>, destination: SocketAddr) -> Connect {
        Connect::new(&self.adapter, &self.file, qp, destination)
    }

    /// `CreateListener`, `Bind` and `Listen`: a listener at a local address. Port 0 has the provider choose a port, which
    /// [`AsyncListener::local_address`] returns. The unspecified address means all addresses of this adapter.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_listener`], [`Listener::bind`](netdirect::Listener::bind) and
    /// [`Listener::listen`](netdirect::Listener::listen).
    pub fn listen(&self, address: SocketAddr, options: ListenerOptions) -> Result<AsyncListener> {
        AsyncListener::new(&self.adapter, &self.file, address, options)
    }
}
