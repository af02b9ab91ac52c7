//! A client's reference to an opened adapter, ND2's `IND2Adapter`: the checks of its calls, and the objects that are passed to them.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{
    Adapter, AdapterExtensions, AdapterInfo, Affinity, Call, Capabilities, CompletionQueue,
    Connector, Counters, Fault, Listener, MemoryRegion, MemoryWindow, OverlappedFile, QueuePair,
    QueuePairOptions, Result, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};

use super::ProviderAdapter;
use crate::checks::own::{self, Owned};
use crate::checks::sizes;
use crate::completion_queue::{CompletionQueueHandle, CompletionQueueLine};
use crate::connector::{ConnectorHandle, ConnectorLine};
use crate::error::cannot_inject;
use crate::listener::{ListenerHandle, ListenerLine};
use crate::memory_region::{Region, RegistrationLine};
use crate::queue_pair::{QueuePairHandle, QueuePairLine};
use crate::shared_receive_queue::{SharedReceiveQueueHandle, SharedReceiveQueueLine};

/// The queues of a new queue pair.
#[derive(Debug)]
pub struct QueuePairQueues<L: AdapterLine> {
    /// The queue in which Receives end.
    pub receive: Arc<L::CompletionQueue>,
    /// The queue in which initiator requests end.
    pub initiator: Arc<L::CompletionQueue>,
    /// The shared receive queue, if the queue pair takes its Receives from one.
    pub shared: Option<Arc<L::SharedReceiveQueue>>,
}

impl<L: AdapterLine> QueuePairQueues<L> {
    /// Fails if a queue has broken down.
    fn check(&self) -> Result<()> {
        for (queue, status) in [
            (&self.receive, Status::INVALID_PARAMETER_2),
            (&self.initiator, Status::INVALID_PARAMETER_3),
        ] {
            sizes::working_completion_queue(queue.is_broken(), status)?; // ADPT-051, ADPT-052
        }
        let mut shared = self.shared.iter();
        let is_broken = shared.any(|queue| queue.rules().is_broken());
        sizes::working_shared_receive_queue(is_broken, Status::INVALID_PARAMETER_4)
    }
}

/// A provider's adapter: the line below the rules. All arguments are checked, and the adapter has admitted the call.
pub trait AdapterLine: Debug + Send + Sync + Sized + 'static {
    /// The state that all objects of one opened adapter share.
    type Adapter: ProviderAdapter;
    /// The provider's overlapped files.
    type File: OverlappedFile + Owned<Adapter = Self::Adapter>;
    /// The provider's completion queues.
    type CompletionQueue: CompletionQueueLine<Adapter = Self::Adapter, File = Self::File>;
    /// The provider's shared receive queues.
    type SharedReceiveQueue: SharedReceiveQueueLine<Adapter = Self::Adapter>;
    /// A buffer that the provider has registered.
    type Registration: RegistrationLine<Adapter = Self::Adapter>;
    /// The provider's part of a queue pair's handle.
    type QueuePair: QueuePairLine<Adapter = Self::Adapter, Registration = Self::Registration>;
    /// The provider's connectors.
    type Connector: ConnectorLine<Adapter = Self::Adapter>;
    /// The provider's listeners.
    type Listener: ListenerLine<Adapter = Self::Adapter>;

    /// Returns the state that all objects of the adapter share.
    fn adapter(&self) -> &Arc<Self::Adapter>;

    /// Returns the limits of the adapter as they are for shared receive queues.
    fn shared_receive_limits(&self) -> AdapterInfo {
        self.adapter().info()
    }

    /// Makes an overlapped file.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_overlapped_file`].
    fn overlapped_file(&self) -> Result<Self::File>;

    /// Makes a memory window.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_memory_window`].
    fn memory_window(&self) -> Result<Arc<dyn MemoryWindow>>;

    /// Makes a queue pair, which ends when one of its queues breaks down from now on.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_queue_pair`].
    fn queue_pair(
        &self,
        queues: &QueuePairQueues<Self>,
        options: QueuePairOptions,
    ) -> Result<Self::QueuePair>;

    /// Returns the adapter's counters.
    fn counters(&self) -> Counters {
        Counters::new()
    }

    // ---- faults ----

    /// Makes the `nth` call of a kind from now on fail with this status.
    ///
    /// # Errors
    ///
    /// See [`sizes::failing_call`].
    fn plan_fault(&self, call: Call, nth: u32, status: Status) -> Result<()>;

    /// Removes the device from under the adapter (GEN-015).
    ///
    /// # Errors
    ///
    /// [`DEVICE_REMOVED`](Status::DEVICE_REMOVED): the device was removed before.
    fn remove_device(&self) -> Result<()>;

    /// Breaks down a completion queue of the adapter.
    fn break_completion_queue(&self, queue: &Self::CompletionQueue, status: Status);

    /// Breaks down a shared receive queue of the adapter.
    fn break_shared_receive_queue(&self, queue: &Self::SharedReceiveQueue, status: Status);

    /// Makes any other fault happen.
    ///
    /// # Errors
    ///
    /// [`NOT_SUPPORTED`](Status::NOT_SUPPORTED): the adapter cannot have this fault.
    fn inject(&self, fault: &Fault) -> Result<()> {
        Err(cannot_inject(fault))
    }
}

/// A client's reference to an opened adapter.
#[derive(Debug)]
pub struct AdapterHandle<L: AdapterLine>(L);

impl<L: AdapterLine> AdapterHandle<L> {
    /// Makes the reference of a client.
    pub fn new(line: L) -> Self {
        Self(line)
    }

    /// Returns the provider's adapter.
    #[must_use]
    pub fn line(&self) -> &L {
        &self.0
    }

    fn admit(&self, call: Call) -> Result<()> {
        self.0.adapter().admit(call)
    }

    fn file(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<L::File>> {
        own::file(file, self.0.adapter())
    }

    fn completion_queue(
        &self,
        queue: &Arc<dyn CompletionQueue>,
        status: Status,
    ) -> Result<Arc<L::CompletionQueue>> {
        type Handle<L> = CompletionQueueHandle<<L as AdapterLine>::CompletionQueue>;
        let queue = own::completion_queue::<Handle<L>>(queue, self.0.adapter(), status)?;
        Ok(Arc::clone(queue.line()))
    }

    fn shared_receive_queue(
        &self,
        queue: &Arc<dyn SharedReceiveQueue>,
        status: Status,
    ) -> Result<Arc<L::SharedReceiveQueue>> {
        type Handle<L> = SharedReceiveQueueHandle<<L as AdapterLine>::SharedReceiveQueue>;
        let queue = own::shared_receive_queue::<Handle<L>>(queue, self.0.adapter(), status)?;
        Ok(Arc::clone(queue.line()))
    }

    /// The queues are checked before, so that the provider takes none that has broken down, and again when they know the queue
    /// pair, because a later breakdown ends it.
    fn queue_pair(
        &self,
        queues: &QueuePairQueues<L>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        queues.check()?;
        let qp = self.0.queue_pair(queues, options)?;
        queues.check()?;
        Ok(Arc::new(QueuePairHandle::new(qp)))
    }

    /// Fails if no queue can break down with this status now.
    fn check_breakdown(&self, status: Status) -> Result<()> {
        self.0.adapter().present()?;
        sizes::breakdown(status)
    }
}

impl<L: AdapterLine> Adapter for AdapterHandle<L> {
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>> {
        self.admit(Call::CreateOverlappedFile)?;
        Ok(Arc::new(self.0.overlapped_file()?))
    }

    fn query(&self) -> Result<AdapterInfo> {
        self.0.adapter().present()?; // GEN-015
        Ok(self.0.adapter().info())
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        self.0.adapter().present()?; // GEN-015
        let own = self.0.adapter().addresses().iter();
        Ok(own.map(|ip| SocketAddr::new(*ip, 0)).collect())
    }

    fn create_completion_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<dyn CompletionQueue>> {
        let file = self.file(file)?;
        let most = self.0.adapter().info().max_completion_queue_depth;
        sizes::completion_queue(depth, most)?;
        self.admit(Call::CreateCompletionQueue)?;
        let adapter = Arc::clone(self.0.adapter());
        let queue =
            CompletionQueueHandle::<L::CompletionQueue>::create(adapter, file, depth, affinity);
        Ok(Arc::new(queue?))
    }

    fn create_memory_region(
        &self,
        file: &Arc<dyn OverlappedFile>,
    ) -> Result<Arc<dyn MemoryRegion>> {
        let file = self.file(file)?;
        self.admit(Call::CreateMemoryRegion)?;
        let adapter = Arc::clone(self.0.adapter());
        Ok(Arc::new(Region::<L::Registration>::new(adapter, file)))
    }

    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        self.admit(Call::CreateMemoryWindow)?;
        self.0.memory_window()
    }

    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions, // the affinity is ignored (ADPT-048)
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        let file = self.file(file)?;
        self.0.adapter().present()?; // ADPT-046
        sizes::shared_receive_queue(&self.0.shared_receive_limits(), &options)?;
        self.admit(Call::CreateSharedReceiveQueue)?; // ADPT-042, ADPT-043
        let adapter = Arc::clone(self.0.adapter());
        let queue =
            SharedReceiveQueueHandle::<L::SharedReceiveQueue>::create(adapter, file, options);
        Ok(Arc::new(queue?))
    }

    fn create_queue_pair(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let queues = QueuePairQueues {
            receive: self.completion_queue(receive_cq, Status::INVALID_PARAMETER_2)?,
            initiator: self.completion_queue(initiator_cq, Status::INVALID_PARAMETER_3)?,
            shared: None,
        };
        self.0.adapter().info().check_queue_pair(&options)?;
        self.admit(Call::CreateQueuePair)?;
        self.queue_pair(&queues, options)
    }

    fn create_queue_pair_with_srq(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        srq: &Arc<dyn SharedReceiveQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let info = self.0.adapter().info();
        if let Err(error) = sizes::has_shared_receive_queues(&info) {
            self.0.adapter().present()?; // ADPT-074
            return Err(error);
        }
        let shared = |status| self.shared_receive_queue(srq, status);
        let queues = QueuePairQueues {
            receive: self.completion_queue(receive_cq, Status::INVALID_PARAMETER_2)?, // ADPT-067
            initiator: self.completion_queue(initiator_cq, Status::INVALID_PARAMETER_3)?, // ADPT-068
            shared: Some(shared(Status::INVALID_PARAMETER_4)?), // ADPT-069
        };
        info.check_queue_pair_with_srq(&options)?;
        self.admit(Call::CreateQueuePairWithSrq)?; // ADPT-073
        self.queue_pair(&queues, options)
    }

    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>> {
        let file = self.file(file)?;
        self.admit(Call::CreateConnector)?;
        let adapter = Arc::clone(self.0.adapter());
        Ok(Arc::new(ConnectorHandle::<L::Connector>::create(
            adapter, file,
        )?))
    }

    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>> {
        let file = self.file(file)?;
        self.admit(Call::CreateListener)?;
        let adapter = Arc::clone(self.0.adapter());
        Ok(Arc::new(ListenerHandle::<L::Listener>::create(
            adapter, file,
        )?))
    }

    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        Some(self)
    }
}

impl<L: AdapterLine> AdapterExtensions for AdapterHandle<L> {
    fn capabilities(&self) -> Capabilities {
        self.0.adapter().capabilities()
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Call { call, nth, status }
                if !matches!(call, Call::ResolveAddress | Call::OpenAdapter) =>
            {
                self.0.plan_fault(call, nth, status)
            }
            Fault::RemoveDevice => self.0.remove_device(),
            Fault::BreakCompletionQueue { queue, status } => {
                let queue = self.completion_queue(&queue, Status::INVALID_PARAMETER_1)?;
                self.check_breakdown(status)?;
                self.0.break_completion_queue(&queue, status);
                Ok(())
            }
            Fault::BreakSharedReceiveQueue { queue, status } => {
                let queue = self.shared_receive_queue(&queue, Status::INVALID_PARAMETER_1)?;
                self.check_breakdown(status)?;
                self.0.break_shared_receive_queue(&queue, status);
                Ok(())
            }
            other => self.0.inject(&other),
        }
    }
}
