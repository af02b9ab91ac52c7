//! An opened adapter, ND2's `IND2Adapter`.

use std::sync::Arc;

use netdirect::{AdapterInfo, Call, MemoryWindow, QueuePairOptions, Result, Status};
use netdirect_provider::ProviderAdapter;
use netdirect_provider::adapter::{self, AdapterLine, QueuePairQueues};

use crate::connect::connector::Connector;
use crate::connect::listener::Listener;
use crate::core::Core;
use crate::cq::Cq;
use crate::file::File;
use crate::mr::RegisteredBuffer;
use crate::mw::Window;
use crate::qp::{ClientQp, Qp};
use crate::srq::Srq;
use crate::status::{fail, shortage};

/// The client's reference to an opened adapter.
pub(crate) type AdapterHandle = adapter::AdapterHandle<OpenedDevice>;

/// An opened device, as long as its client has it.
#[derive(Debug)]
pub(crate) struct OpenedDevice(pub(crate) Arc<Core>);

impl AdapterLine for OpenedDevice {
    type Adapter = Core;
    type File = File;
    type CompletionQueue = Cq;
    type SharedReceiveQueue = Srq;
    type Registration = RegisteredBuffer;
    type QueuePair = ClientQp;
    type Connector = Connector;
    type Listener = Listener;

    fn adapter(&self) -> &Arc<Core> {
        &self.0
    }

    fn shared_receive_limits(&self) -> AdapterInfo {
        let mut info = self.0.info();
        info.max_receive_sge = self.0.limits.shared_receive_sges;
        info
    }

    fn overlapped_file(&self) -> Result<File> {
        let file = File::new(Arc::clone(&self.0));
        file.map_err(shortage("cannot create an overlapped file"))
    }

    fn memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        let Some(kind) = self.0.limits.windows else {
            return fail(
                Status::NOT_SUPPORTED,
                "the device, or its driver, has no memory windows",
            );
        };
        Ok(Arc::new(Window::new(Arc::clone(&self.0), kind)?))
    }

    fn queue_pair(
        &self,
        queues: &QueuePairQueues<Self>,
        options: QueuePairOptions,
    ) -> Result<ClientQp> {
        let qp = Qp::new(
            Arc::clone(&self.0),
            Arc::clone(&queues.receive),
            Arc::clone(&queues.initiator),
            queues.shared.clone(),
            options,
        )?;
        Ok(ClientQp(qp))
    }

    fn plan_fault(&self, call: Call, nth: u32, status: Status) -> Result<()> {
        self.0.device.plan(call, nth, status)
    }

    fn remove_device(&self) -> Result<()> {
        self.0.device.present()?;
        self.0.remove_device();
        Ok(())
    }

    fn break_completion_queue(&self, queue: &Cq, status: Status) {
        queue.break_down(status);
    }

    fn break_shared_receive_queue(&self, queue: &Srq, status: Status) {
        queue.break_down(status);
    }
}
