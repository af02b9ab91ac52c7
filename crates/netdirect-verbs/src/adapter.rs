//! An opened adapter, ND2's `IND2Adapter`.

use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{
    Adapter, AdapterExtensions, AdapterInfo, Affinity, Call, Capabilities, CompletionQueue,
    Connector, Error, Fault, Listener, MemoryRegion, MemoryWindow, OverlappedFile, QueuePair,
    QueuePairOptions, Result, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};
use netdirect_provider::ProviderAdapter;
use netdirect_provider::checks::{own, sizes};
use netdirect_provider::completion_queue::CompletionQueueLine;
use netdirect_provider::shared_receive_queue::SharedReceiveQueueLine;

use crate::connect::{connector, listener};
use crate::core::Core;
use crate::cq::{Cq, CqHandle};
use crate::file::File;
use crate::mr::Region;
use crate::mw::Window;
use crate::qp::{Qp, QpHandle};
use crate::srq::{Srq, SrqHandle};
use crate::status::{fail, shortage};

/// The client's reference to an opened adapter.
#[derive(Debug)]
pub(crate) struct AdapterHandle(pub(crate) Arc<Core>);

impl AdapterHandle {
    fn file(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<File>> {
        own::file(file, &self.0)
    }

    fn queue(&self, queue: &Arc<dyn CompletionQueue>, status: Status) -> Result<Arc<Cq>> {
        let queue = own::completion_queue::<CqHandle>(queue, &self.0, status)?;
        Ok(Arc::clone(queue.line()))
    }

    fn shared_queue(
        &self,
        queue: &Arc<dyn SharedReceiveQueue>,
        status: Status,
    ) -> Result<Arc<Srq>> {
        let queue = own::shared_receive_queue::<SrqHandle>(queue, &self.0, status)?;
        Ok(Arc::clone(queue.line()))
    }

    /// Fails if no queue can break down with this status now.
    fn check_break(&self, status: Status) -> Result<()> {
        self.0.device.present()?;
        sizes::breakdown(status)
    }

    fn new_queue_pair(
        &self,
        receive_cq: Arc<Cq>,
        initiator_cq: Arc<Cq>,
        srq: Option<Arc<Srq>>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        for (cq, status) in [
            (&receive_cq, Status::INVALID_PARAMETER_2),
            (&initiator_cq, Status::INVALID_PARAMETER_3),
        ] {
            sizes::working_completion_queue(cq.is_broken(), status)?; // ADPT-051, ADPT-052
        }
        if let Some(srq) = &srq {
            sizes::working_shared_receive_queue(
                srq.rules().is_broken(),
                Status::INVALID_PARAMETER_4,
            )?;
        }
        let core = Arc::clone(&self.0);
        let qp = Qp::new(core, receive_cq, initiator_cq, srq, options)?;
        Ok(Arc::new(QpHandle(qp)))
    }
}

impl Adapter for AdapterHandle {
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>> {
        self.0.device.admit(Call::CreateOverlappedFile)?;
        let file = File::new(Arc::clone(&self.0));
        Ok(Arc::new(
            file.map_err(shortage("cannot create an overlapped file"))?,
        ))
    }

    fn query(&self) -> Result<AdapterInfo> {
        self.0.device.present()?; // GEN-015
        Ok(self.0.info())
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        self.0.device.present()?; // GEN-015
        let own = self.0.addresses.iter();
        Ok(own.map(|ip| SocketAddr::new(*ip, 0)).collect())
    }

    fn create_completion_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<dyn CompletionQueue>> {
        let file = self.file(file)?;
        sizes::completion_queue(depth, self.0.limits.completion_queue_depth)?;
        self.0.device.admit(Call::CreateCompletionQueue)?;
        let core = Arc::clone(&self.0);
        Ok(Arc::new(CqHandle::create(core, file, depth, affinity)?))
    }

    fn create_memory_region(
        &self,
        file: &Arc<dyn OverlappedFile>,
    ) -> Result<Arc<dyn MemoryRegion>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateMemoryRegion)?;
        Ok(Arc::new(Region::new(Arc::clone(&self.0), file)))
    }

    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        self.0.device.admit(Call::CreateMemoryWindow)?;
        let Some(kind) = self.0.limits.windows else {
            return fail(
                Status::NOT_SUPPORTED,
                "the device, or its driver, has no memory windows",
            );
        };
        Ok(Arc::new(Window::new(Arc::clone(&self.0), kind)?))
    }

    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions, // the affinity is ignored (ADPT-048)
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        let file = self.file(file)?;
        self.0.device.present()?; // ADPT-046
        let mut info = self.0.info();
        info.max_receive_sge = self.0.limits.shared_receive_sges;
        sizes::shared_receive_queue(&info, &options)?;
        self.0.device.admit(Call::CreateSharedReceiveQueue)?; // ADPT-042, ADPT-043
        let core = Arc::clone(&self.0);
        Ok(Arc::new(SrqHandle::create(core, file, options)?))
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
        self.new_queue_pair(receive_cq, initiator_cq, None, options)
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
        self.new_queue_pair(receive_cq, initiator_cq, Some(srq), options)
    }

    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateConnector)?;
        Ok(Arc::new(connector::ConnectorHandle::create(
            Arc::clone(&self.0),
            file,
        )?))
    }

    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>> {
        let file = self.file(file)?;
        self.0.device.admit(Call::CreateListener)?;
        Ok(Arc::new(listener::ListenerHandle::create(
            Arc::clone(&self.0),
            file,
        )?))
    }

    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        Some(self)
    }
}

impl AdapterExtensions for AdapterHandle {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Call { call, nth, status }
                if !matches!(call, Call::ResolveAddress | Call::OpenAdapter) =>
            {
                self.0.device.plan(call, nth, status)
            }
            Fault::RemoveDevice => {
                self.0.device.present()?;
                self.0.remove_device();
                Ok(())
            }
            Fault::BreakCompletionQueue { queue, status } => {
                let queue = self.queue(&queue, Status::INVALID_PARAMETER_1)?;
                self.check_break(status)?;
                queue.break_down(status);
                Ok(())
            }
            Fault::BreakSharedReceiveQueue { queue, status } => {
                let queue = self.shared_queue(&queue, Status::INVALID_PARAMETER_1)?;
                self.check_break(status)?;
                queue.break_down(status);
                Ok(())
            }
            other => {
                let what = format!("a device cannot have this happen: {other:?}");
                Err(Error::new(Status::NOT_SUPPORTED, what))
            }
        }
    }
}
