//! An opened adapter, ND2's `IND2Adapter`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use iwarp_io::transport::Transport;
use netdirect::{
    Adapter, AdapterExtensions, AdapterId, AdapterInfo, Affinity, Call, Capabilities,
    CompletionQueue, Connector, Counters, Error, Fault, Listener, MemoryRegion, MemoryWindow,
    OverlappedFile, QueuePair, QueuePairOptions, Result, SharedReceiveQueue,
    SharedReceiveQueueOptions, Status,
};
use netdirect_provider::ProviderAdapter;
use netdirect_provider::checks::{own, sizes};
use netdirect_provider::completion_queue::CompletionQueueLine;
use netdirect_provider::shared_receive_queue::SharedReceiveQueueLine;

use crate::connect::{connector, listener};
use crate::core::{BreakableQueue, Core, NetworkHold};
use crate::file::File;
use crate::options::Options;
use crate::srq::{self, Srq};
use crate::status::shortage;
use crate::{cq, mr, mw, qp};

/// The client's reference to an opened adapter.
#[derive(Debug)]
pub(crate) struct AdapterHandle(pub(crate) Arc<Core>, NetworkHold);

impl AdapterHandle {
    pub(crate) fn open(
        id: AdapterId,
        addresses: Vec<IpAddr>,
        options: Options,
        transport: Transport,
        hold: NetworkHold,
    ) -> Result<Arc<dyn Adapter>> {
        let core = Core::new(id, addresses, options, transport)
            .map_err(shortage("cannot open the adapter"))?;
        Ok(Arc::new(Self(core, hold)))
    }

    fn file(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<File>> {
        own::file(file, &self.0)
    }

    fn queue(&self, queue: &Arc<dyn CompletionQueue>, status: Status) -> Result<Arc<cq::Cq>> {
        let queue = own::completion_queue::<cq::CqHandle>(queue, &self.0, status)?;
        Ok(Arc::clone(queue.line()))
    }

    fn shared_queue(
        &self,
        queue: &Arc<dyn SharedReceiveQueue>,
        status: Status,
    ) -> Result<Arc<Srq>> {
        let queue = own::shared_receive_queue::<srq::SrqHandle>(queue, &self.0, status)?;
        Ok(Arc::clone(queue.line()))
    }

    /// Breaks down a queue of this adapter, because the client injected this fault.
    fn break_down(&self, queue: &dyn BreakableQueue, status: Status) -> Result<()> {
        self.0.device.present()?;
        sizes::breakdown(status)?;
        self.0.device.count_fault();
        queue.break_down(status);
        Ok(())
    }

    /// Makes a host of a simulated network unreachable, because the client injected this fault.
    fn cut_off(&self, address: IpAddr) -> Result<()> {
        self.0.device.present()?;
        let Transport::Sim(world) = &self.0.driver.transport else {
            return cannot_happen(&Fault::UnreachableHost { address });
        };
        world.network(|network| network.conditions_mut().unreachable.insert(address));
        self.0.device.count_fault();
        Ok(())
    }

    fn new_queue_pair(
        &self,
        receive_cq: Arc<cq::Cq>,
        initiator_cq: Arc<cq::Cq>,
        srq: Option<Arc<Srq>>,
        options: &QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let qp = qp::QpHandle::new(
            Arc::clone(&self.0),
            Arc::clone(&receive_cq),
            Arc::clone(&initiator_cq),
            srq.clone(),
            options,
            self.1.clone(),
        )?;
        // The queues are checked after the queue pair was attached to them, because a later breakdown ends the queue pair.
        for (cq, status) in [
            (receive_cq, Status::INVALID_PARAMETER_2),
            (initiator_cq, Status::INVALID_PARAMETER_3),
        ] {
            sizes::working_completion_queue(cq.is_broken(), status)?; // ADPT-051, ADPT-052
        }
        if let Some(srq) = srq {
            sizes::working_shared_receive_queue(
                srq.rules().is_broken(),
                Status::INVALID_PARAMETER_4,
            )?;
        }
        Ok(Arc::new(qp))
    }
}

impl Adapter for AdapterHandle {
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>> {
        self.0.device.admit(Call::CreateOverlappedFile)?;
        let file = File::new(Arc::clone(&self.0), self.1.clone())
            .map_err(shortage("cannot create an overlapped file"))?;
        Ok(Arc::new(file))
    }

    fn query(&self) -> Result<AdapterInfo> {
        self.0.device.present()?; // GEN-015
        Ok(self.0.info())
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        self.0.device.present()?; // GEN-015
        Ok(self
            .0
            .addresses
            .iter()
            .map(|ip| SocketAddr::new(*ip, 0))
            .collect())
    }

    fn create_completion_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<dyn CompletionQueue>> {
        let file = self.file(file)?;
        sizes::completion_queue(depth, self.0.options.limits.completion_queue_depth)?;
        self.0.device.admit(Call::CreateCompletionQueue)?;
        let cq = cq::CqHandle::create(Arc::clone(&self.0), file, depth, affinity)?;
        Ok(Arc::new(cq))
    }

    fn create_memory_region(
        &self,
        file: &Arc<dyn OverlappedFile>,
    ) -> Result<Arc<dyn MemoryRegion>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateMemoryRegion)?;
        Ok(Arc::new(mr::Region::new(Arc::clone(&self.0), file)))
    }

    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        self.0.device.admit(Call::CreateMemoryWindow)?;
        let window = mw::Window::new(Arc::clone(&self.0), self.1.clone())?;
        Ok(Arc::new(window))
    }

    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions, // the affinity is ignored (ADPT-048)
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        let file = self.file(file)?;
        self.0.device.present()?; // ADPT-046
        sizes::shared_receive_queue(&self.0.info(), &options)?;
        self.0.device.admit(Call::CreateSharedReceiveQueue)?; // ADPT-042, ADPT-043
        let srq = srq::SrqHandle::create(Arc::clone(&self.0), file, options)?;
        Ok(Arc::new(srq))
    }

    fn create_queue_pair(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let receive_cq = self.queue(receive_cq, Status::INVALID_PARAMETER_2)?;
        let initiator_cq = self.queue(initiator_cq, Status::INVALID_PARAMETER_3)?;
        self.0.info().check_queue_pair(&options)?;
        self.0.device.admit(Call::CreateQueuePair)?;
        self.new_queue_pair(receive_cq, initiator_cq, None, &options)
    }

    fn create_queue_pair_with_srq(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        srq: &Arc<dyn SharedReceiveQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let info = self.0.info();
        if let Err(error) = sizes::has_shared_receive_queues(&info) {
            self.0.device.present()?; // ADPT-074
            return Err(error);
        }
        let receive_cq = self.queue(receive_cq, Status::INVALID_PARAMETER_2)?; // ADPT-067
        let initiator_cq = self.queue(initiator_cq, Status::INVALID_PARAMETER_3)?; // ADPT-068
        let srq = self.shared_queue(srq, Status::INVALID_PARAMETER_4)?; // ADPT-069
        info.check_queue_pair_with_srq(&options)?;
        self.0.device.admit(Call::CreateQueuePairWithSrq)?; // ADPT-073
        self.new_queue_pair(receive_cq, initiator_cq, Some(srq), &options)
    }

    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateConnector)?;
        let connector = connector::ConnectorHandle::create(Arc::clone(&self.0), file)?;
        Ok(Arc::new(connector))
    }

    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateListener)?;
        let listener = listener::ListenerHandle::create(Arc::clone(&self.0), file)?;
        Ok(Arc::new(listener))
    }

    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        Some(self)
    }
}

impl AdapterExtensions for AdapterHandle {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ND2
            | Capabilities::FETCH_ADD
            | Capabilities::FETCH_ADD_MASK
            | Capabilities::COMPARE_SWAP
            | Capabilities::COMPARE_SWAP_MASK
            | Capabilities::IMMEDIATE_8
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::new();
        self.0.device.count(&mut counters);
        let read_sinks = self.0.table.lenient_sinks();
        self.0.leniency.add_to(&mut counters, read_sinks);
        counters.extend(self.0.driver.transport.counters());
        counters.extend(self.0.driver.protection_faults.counters());
        counters
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Call { call, nth, status } if is_an_adapters(call) => {
                self.0.device.plan(call, nth, status)
            }
            Fault::RemoveDevice => self.0.remove_device(false),
            Fault::BreakCompletionQueue { queue, status } => {
                let queue = self.queue(&queue, Status::INVALID_PARAMETER_1)?;
                self.break_down(&*queue, status)
            }
            Fault::BreakSharedReceiveQueue { queue, status } => {
                let queue = self.shared_queue(&queue, Status::INVALID_PARAMETER_1)?;
                self.break_down(&*queue, status)
            }
            Fault::UnreachableHost { address } => self.cut_off(address),
            other => cannot_happen(&other),
        }
    }
}

/// Whether the call takes a resource, and is a call of an adapter or of an adapter's objects.
fn is_an_adapters(call: Call) -> bool {
    matches!(
        call,
        Call::Any
            | Call::CreateOverlappedFile
            | Call::CreateCompletionQueue
            | Call::CreateMemoryRegion
            | Call::CreateMemoryWindow
            | Call::CreateSharedReceiveQueue
            | Call::CreateQueuePair
            | Call::CreateQueuePairWithSrq
            | Call::CreateConnector
            | Call::CreateListener
            | Call::ResizeCompletionQueue
            | Call::NotifyCompletionQueue
            | Call::ModifySharedReceiveQueue
            | Call::NotifySharedReceiveQueue
            | Call::Register
            | Call::BindListener
            | Call::Listen
            | Call::BindConnector
    )
}

/// The error for a fault that the object cannot inject.
pub(crate) fn cannot_happen(fault: &Fault) -> Result<()> {
    let what = format!("this object of softnd cannot inject the fault {fault:?}");
    Err(Error::new(Status::NOT_SUPPORTED, what))
}
