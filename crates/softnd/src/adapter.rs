//! An opened adapter, ND2's `IND2Adapter`.

use std::sync::Arc;

use iwarp_io::endpoint::queue_pair::PairCq;
use iwarp_io::log::targets;
use iwarp_io::transport::Transport;
use netdirect::{
    Adapter, AdapterId, Call, Counters, Fault, MemoryWindow, QueuePairOptions, Result, Status,
};
use netdirect_provider::adapter::{self, AdapterLine, QueuePairQueues};
use netdirect_provider::cannot_inject;
use netdirect_provider::shared_receive_queue::SharedReceiveQueueLine;

use crate::connect::connector::Connector;
use crate::connect::listener::Listener;
use crate::core::{Core, NetworkHold};
use crate::cq::{Cq, reason};
use crate::file::File;
use crate::local_addresses::LocalAddresses;
use crate::mr::RegisteredBuffer;
use crate::mw::Window;
use crate::options::Options;
use crate::qp::ClientQp;
use crate::srq::Srq;
use crate::status::shortage;

/// The client's reference to an opened adapter.
pub(crate) type AdapterHandle = adapter::AdapterHandle<OpenedAdapter>;

/// An opened adapter, as long as its client has it.
#[derive(Debug)]
pub(crate) struct OpenedAdapter {
    pub(crate) core: Arc<Core>,
    hold: NetworkHold,
}

/// Shows the counters to clients that have a log and do not ask for counters.
impl Drop for OpenedAdapter {
    fn drop(&mut self) {
        tracing::debug!(
            target: targets::ADAPTER,
            counters = in_one_line(&self.counters()),
            "the client has released the adapter"
        );
    }
}

/// The counters that are not 0, each with its name.
fn in_one_line(counters: &Counters) -> String {
    let counted = counters.iter().filter(|(_, value)| *value > 0);
    let words = counted.map(|(name, value)| format!("{name} {value}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Opens an adapter. `index` is the number of a network interface that may go while the adapter is open.
pub(crate) fn open(
    id: AdapterId,
    addresses: LocalAddresses,
    index: Option<u32>,
    options: Options,
    transport: Transport,
    hold: NetworkHold,
) -> Result<Arc<dyn Adapter>> {
    let core = Core::new(id, addresses, options, transport)
        .map_err(shortage("cannot open the adapter"))?;
    if let Some(index) = index {
        core.watch_interface(index);
    }
    Ok(Arc::new(AdapterHandle::new(OpenedAdapter { core, hold })))
}

impl AdapterLine for OpenedAdapter {
    type Adapter = Core;
    type File = File;
    type CompletionQueue = Cq;
    type SharedReceiveQueue = Srq;
    type Registration = RegisteredBuffer;
    type QueuePair = ClientQp;
    type Connector = Connector;
    type Listener = Listener;

    fn adapter(&self) -> &Arc<Core> {
        &self.core
    }

    fn overlapped_file(&self) -> Result<File> {
        let file = File::new(Arc::clone(&self.core), self.hold.clone());
        file.map_err(shortage("cannot create an overlapped file"))
    }

    fn memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        let window = Window::new(Arc::clone(&self.core), self.hold.clone())?;
        Ok(Arc::new(window))
    }

    fn queue_pair(
        &self,
        queues: &QueuePairQueues<Self>,
        options: QueuePairOptions,
    ) -> Result<ClientQp> {
        ClientQp::new(
            Arc::clone(&self.core),
            Arc::clone(&queues.receive),
            Arc::clone(&queues.initiator),
            queues.shared.clone(),
            &options,
            self.hold.clone(),
        )
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::new();
        self.core.device.count(&mut counters);
        let read_sinks = self.core.table.lenient_sinks();
        self.core.leniency.add_to(&mut counters, read_sinks);
        counters.extend(self.core.driver.transport.counters());
        counters.extend(self.core.driver.protection_faults.counters());
        counters
    }

    fn plan_fault(&self, call: Call, nth: u32, status: Status) -> Result<()> {
        self.core.device.plan(call, nth, status)
    }

    fn remove_device(&self) -> Result<()> {
        self.core.remove_device(false)
    }

    fn break_completion_queue(&self, queue: &Cq, status: Status) {
        self.core.device.count_fault();
        queue.break_down(reason(status));
    }

    fn break_shared_receive_queue(&self, queue: &Srq, status: Status) {
        self.core.device.count_fault();
        queue.rules().break_down(queue, status);
    }

    /// Makes a host of a simulated network unreachable.
    fn inject(&self, fault: &Fault) -> Result<()> {
        let Fault::UnreachableHost { address } = *fault else {
            return Err(cannot_inject(fault));
        };
        self.core.device.present()?;
        let Transport::Sim(world) = &self.core.driver.transport else {
            return Err(cannot_inject(fault));
        };
        let address = address.to_canonical();
        world.network(|network| network.conditions_mut().unreachable.insert(address));
        self.core.device.count_fault();
        Ok(())
    }
}
