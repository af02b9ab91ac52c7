//! Many connections: what idle ones cost (`--test scale`), and how fast they come and go (`--test setup`).
//!
//! With a baseline, set-ups take turns with the same work on bare sockets ([`bare`]), or on a second adapter over TCP.
//!
//! All connections of a row report to one completion queue at each side and are made by one thread, one after the other. For `scale` each
//! side has a second adapter, with a completion queue and its own background thread, and one connection. This connection takes turns with
//! one of the many, and is not affected by the others.

mod bare;
mod client;
pub(super) mod report;
mod server;
mod traffic;
mod vitals;

use std::sync::Arc;
use std::time::Duration;

use nd_base::errors::{Failure, Result};
use nd_base::session::{Depths, Endpoint, Session, Setup};
use netdirect::{
    CompletionQueue, CompletionResult, Connector, ReadLimits, RemoteAddress, Sge,
    SharedReceiveQueue, Status,
};

pub(super) use client::run;
pub(super) use server::serve;

use super::control::not_understood;
use super::lane::{Memory, posted};
use super::link::{Choices, setup};
use super::messages::Key;
use super::spec::{Receives, Rings, SPARE, Spec, Test};

/// The queue depths of each connection. The promises hold for these depths.
const DEPTHS: Depths = Depths {
    receives: SPARE,
    initiator: SPARE,
    initiator_sges: 1,
};

/// The read limits of the connections, on which there are no Reads.
const LIMITS: ReadLimits = ReadLimits {
    inbound: 1,
    outbound: 1,
};

/// Octets of the private data of a connection request.
const REQUEST_DATA: usize = size_of::<Key>() + RemoteAddress::LEN;

/// The rings for messages.
const RINGS: Rings = Rings {
    source: true,
    sink: true,
};

/// The longest idle time: half of the time that the sides wait for a line of each other.
const LONGEST_IDLE: Duration = Duration::from_secs(30);

/// Connections that share a completion queue, and perhaps their Receives.
struct Crowd {
    session: Session,
    cq: Arc<dyn CompletionQueue>,
    srq: Option<Arc<dyn SharedReceiveQueue>>,
    members: Vec<Endpoint>,
}

impl Crowd {
    /// All shared Receives are posted, into `sink`, if there is one.
    fn new(
        session: Session,
        connections: u32,
        from: Receives,
        sink: Option<[Sge; 1]>,
    ) -> Result<Self> {
        // Room for everything that could ever be outstanding, as far as the adapter has such queues.
        let results = (DEPTHS.receives + DEPTHS.initiator).saturating_mul(connections.max(1));
        let most = session.info().max_completion_queue_depth;
        let cq = session.completion_queue(results.min(most))?;
        let srq = match from {
            Receives::Own => None,
            Receives::Shared => {
                let receives = DEPTHS.receives.saturating_mul(connections.max(1));
                let depth = receives.min(session.info().max_shared_receive_queue_depth);
                let srq = session.shared_receive_queue(depth)?;
                if let Some(sink) = sink {
                    (0..depth).try_for_each(|_| posted(srq.receive(0, &sink)))?;
                }
                Some(srq)
            }
        };
        Ok(Self {
            session,
            cq,
            srq,
            members: Vec::new(),
        })
    }

    /// The objects of one more connection.
    fn endpoint(&self, connector: Arc<dyn Connector>) -> Result<Endpoint> {
        let (cq, srq) = (Arc::clone(&self.cq), self.srq.clone());
        self.session.endpoint_on(cq, srq, DEPTHS, connector)
    }

    /// Gives a queue pair all the Receives that it has room for, unless it takes shared ones.
    fn fill(&self, endpoint: &Endpoint, sink: [Sge; 1]) -> Result<()> {
        if self.srq.is_some() {
            return Ok(());
        }
        (0..DEPTHS.receives).try_for_each(|_| posted(endpoint.receive(0, &sink)))
    }

    /// The connection on which messages go back and forth: neither the first nor the last. Both sides choose the same.
    fn take_middle(&mut self) -> Result<Endpoint> {
        if self.members.is_empty() {
            return Err(not_understood());
        }
        Ok(self.members.swap_remove(self.members.len() / 2))
    }
}

impl Drop for Crowd {
    /// One after the other, so that the ends of all of them find room in the queue.
    fn drop(&mut self) {
        let mut results = [CompletionResult::default(); 256];
        while self.members.pop().is_some() {
            while self.cq.get_results(&mut results) > 0 {}
        }
    }
}

fn succeed(doing: impl std::fmt::Display, status: Status) -> Result<()> {
    if status == Status::SUCCESS {
        Ok(())
    } else {
        Err(Failure::status(doing, status))
    }
}

/// An adapter with its queue, and the memory that messages are sent from and received into. All Receives name the same
/// octets, because memory for data does not count as a cost of a connection.
struct Site {
    crowd: Crowd,
    memory: Memory,
}

impl Site {
    /// Opens the adapter for connections of this row by `open`.
    fn new(
        spec: &Spec,
        setup: &Setup,
        from: Receives,
        connections: u32,
        open: impl Fn(&Setup) -> Result<Session>,
    ) -> Result<Self> {
        let session = open(setup)?;
        spec.check_limits(session.info(), from)?;
        let memory = Memory::new(&session, spec, RINGS)?;
        let sink = memory.sink()?.slot(0);
        let sink = (spec.test == Test::Scale).then_some(sink);
        let crowd = Crowd::new(session, connections, from, sink)?;
        Ok(Self { crowd, memory })
    }
}

/// The adapter of the many connections, and the adapter of the single one.
struct Sites {
    many: Site,
    alone: Option<Site>,
}

impl Sites {
    /// Opens the adapters that the row needs, by one call of `open` for each.
    fn new(
        spec: &Spec,
        choices: Choices<'_>,
        from: Receives,
        open: impl Fn(&Setup) -> Result<Session>,
    ) -> Result<Self> {
        vitals::allow_files(spec.connections)?;
        let setup = setup(spec, choices)?;
        let site = |connections| Site::new(spec, &setup, from, connections, &open);
        Ok(Self {
            many: site(spec.connections)?,
            alone: (spec.test == Test::Scale).then(|| site(1)).transpose()?,
        })
    }
}
