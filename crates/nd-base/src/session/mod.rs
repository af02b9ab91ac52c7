//! The few blocking steps of which every command consists: find an adapter, make a connection's objects, connect, wait for
//! completions, disconnect.
//!
//! Nothing here waits longer than the command's time limit, except for a first connection.

mod addresses;
mod deadline;
mod endpoint;
mod region;
mod request;
mod setup;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{
    Adapter, AdapterInfo, Affinity, Buffer, CompletionQueue, Connector, Listener, MrFlags,
    Overlapped, OverlappedFile, QueuePairOptions, SharedReceiveQueue, SharedReceiveQueueOptions,
    Status,
};

pub use self::addresses::{loopback, resolve};
use self::deadline::settle;
pub use self::deadline::{Deadline, silence};
pub use self::endpoint::Endpoint;
use self::endpoint::Queues;
pub use self::region::Region;
use self::region::memory_of;
pub use self::request::{Request, next_request, next_request_while};
pub use self::setup::Setup;
use crate::errors::{Failure, Result};
use crate::memory;
use crate::provider::Refusals;
use crate::units;

/// An open adapter with the overlapped file that all its objects share.
#[derive(Debug)]
pub struct Session {
    adapter: Arc<dyn Adapter>,
    info: AdapterInfo,
    file: Arc<dyn OverlappedFile>,
    limit: Duration,
    refusals: Arc<Refusals>,
}

/// The number of requests that may be outstanding on a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Depths {
    /// Receives.
    pub receives: u32,
    /// Requests of the initiator: Sends, Writes, Reads and Binds.
    pub initiator: u32,
    /// SGEs of one request of the initiator.
    pub initiator_sges: u32,
}

impl Session {
    /// `limit` is how long a peer may stay silent.
    pub fn new(adapter: Arc<dyn Adapter>, limit: Duration) -> Result<Self> {
        let info = adapter
            .query()
            .map_err(|error| Failure::nd("query the adapter", &error))?;
        let file = adapter
            .create_overlapped_file()
            .map_err(|error| Failure::nd("open the adapter's file", &error))?;
        Ok(Self {
            adapter,
            info,
            file,
            limit,
            refusals: Arc::default(),
        })
    }

    /// The adapter.
    pub fn adapter(&self) -> &Arc<dyn Adapter> {
        &self.adapter
    }

    /// The adapter's address, without a port, of the family of `destination`.
    pub fn address_towards(&self, destination: SocketAddr) -> Result<SocketAddr> {
        let addresses = self
            .adapter
            .query_address_list()
            .map_err(|error| Failure::nd("list the adapter's addresses", &error))?;
        let mut addresses = addresses.into_iter();
        match addresses.find(|address| address.is_ipv4() == destination.is_ipv4()) {
            Some(local) => Ok(SocketAddr::new(local.ip(), 0)),
            None => Err(Failure::new(
                format!(
                    "the adapter has no address to reach {} from",
                    destination.ip()
                ),
                "name an adapter whose address belongs to the same family",
            )),
        }
    }

    /// An address of the adapter, without a port: of the loopback interface if it has one.
    pub fn an_address(&self) -> Result<SocketAddr> {
        let loopback = loopback();
        let addresses = self.adapter.query_address_list();
        let addresses =
            addresses.map_err(|error| Failure::nd("list the adapter's addresses", &error))?;
        let has_loopback = addresses
            .iter()
            .any(|address| address.ip() == loopback.ip());
        match addresses.first() {
            Some(first) if !has_loopback => Ok(SocketAddr::new(first.ip(), 0)),
            _ => Ok(loopback),
        }
    }

    /// The limits of the adapter.
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// A new buffer of `len` octets, zeroed, in a region with these rights.
    pub fn register(&self, len: usize, flags: MrFlags) -> Result<Region> {
        let buffer = memory_of(len)?;
        memory::check_spare(len)?;
        self.register_buffer(buffer, flags)
    }

    /// The same at this offset in a page of [`Buffer::PAGE`] octets.
    pub fn register_at(&self, len: usize, offset: usize, flags: MrFlags) -> Result<Region> {
        let room = len.saturating_add(Buffer::PAGE);
        let buffer = memory_of(room)?;
        memory::check_spare(room)?;
        let skip = (Buffer::to_page_offset(buffer.as_ptr().addr()) + Buffer::PAGE + offset
            - Buffer::PAGE_OFFSET)
            % Buffer::PAGE;
        self.register_buffer(buffer.slice(skip..skip + len), flags)
    }

    /// Registers an existing buffer, or a part of one.
    pub fn register_buffer(&self, buffer: Buffer, flags: MrFlags) -> Result<Region> {
        let doing = || format!("register {} of memory", units::bytes(buffer.len() as u64));
        let region = self
            .adapter
            .create_memory_region(&self.file)
            .map_err(|error| Failure::nd("create a memory region", &error))?;
        let overlapped = Overlapped::new();
        let started = region.register(&buffer, flags, &overlapped);
        match settle(started, &overlapped, Deadline::after(self.limit), &doing())? {
            Status::SUCCESS => Ok(Region { region, buffer }),
            status => Err(Failure::status(doing(), status)),
        }
    }

    /// A new connector.
    pub fn connector(&self) -> Result<Arc<dyn Connector>> {
        self.adapter
            .create_connector(&self.file)
            .map_err(|error| Failure::nd("create a connector", &error))
    }

    /// A completion queue, a queue pair that reports to it, and a connector: all objects that one connection needs.
    pub fn endpoint(&self, depths: Depths, connector: Arc<dyn Connector>) -> Result<Endpoint> {
        let cq = self.completion_queue(depths.receives + depths.initiator)?;
        self.endpoint_on(cq, None, depths, connector)
    }

    /// A completion queue for this many results.
    pub fn completion_queue(&self, depth: u32) -> Result<Arc<dyn CompletionQueue>> {
        self.adapter
            .create_completion_queue(&self.file, depth, Affinity::default())
            .map_err(|error| Failure::nd("create a completion queue", &error))
    }

    /// A shared receive queue for this many Receives.
    pub fn shared_receive_queue(&self, depth: u32) -> Result<Arc<dyn SharedReceiveQueue>> {
        let options = SharedReceiveQueueOptions::default().queue_depth(depth);
        self.adapter
            .create_shared_receive_queue(&self.file, options)
            .map_err(|error| Failure::nd("create a shared receive queue", &error))
    }

    /// A queue pair that reports to a completion queue which others may use as well, and a connector. With a shared receive
    /// queue, the queue pair takes its Receives from there.
    pub fn endpoint_on(
        &self,
        cq: Arc<dyn CompletionQueue>,
        srq: Option<Arc<dyn SharedReceiveQueue>>,
        depths: Depths,
        connector: Arc<dyn Connector>,
    ) -> Result<Endpoint> {
        let options = QueuePairOptions::default()
            .receive_queue_depth(depths.receives)
            .initiator_queue_depth(depths.initiator)
            .max_initiator_request_sge(depths.initiator_sges);
        let qp = match &srq {
            None => self.adapter.create_queue_pair(&cq, &cq, options),
            Some(srq) => (self.adapter).create_queue_pair_with_srq(&cq, &cq, srq, options),
        };
        let qp = qp.map_err(|error| Failure::nd("create a queue pair", &error))?;
        let queues = Queues { qp, srq, cq };
        let refusals = Arc::clone(&self.refusals);
        Ok(Endpoint::new(connector, queues, self.limit, refusals))
    }

    /// A listener on `local`, and its address.
    pub fn listen(&self, local: SocketAddr) -> Result<(Arc<dyn Listener>, SocketAddr)> {
        let doing = format!("listen on {local}");
        let explain = |error: netdirect::Error| Failure::nd(&doing, &error);
        let listener = self.adapter.create_listener(&self.file).map_err(explain)?;
        listener.bind(local).map_err(|error| {
            let privileged = (1..1024).contains(&local.port());
            match (explain(error.clone()), error.status()) {
                (failure, Status::UNSUCCESSFUL) if privileged => {
                    failure.advise("use a port above 1023, or a user who may use this one")
                }
                (failure, _) => failure,
            }
        })?;
        self.refusals.print();
        listener.listen(0).map_err(explain)?;
        let address = listener.get_local_address().map_err(explain)?;
        Ok((listener, address))
    }
}
