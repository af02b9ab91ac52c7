//! The owner of an endpoint, and the calls by which the endpoint notifies it.

use std::net::SocketAddr;
use std::sync::Arc;

use iwarp::{Completion, Connection, OwnQueue, ReceiveSource};
use tracing::Span;

use super::connection_end::ConnectionEnd;
use crate::progress::domain::Domain;

bitflags::bitflags! {
    /// Events of a connection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Signals: u8 {
        /// The peer's first FPDU has arrived.
        const READY = 1;
        /// The peer has closed its direction in good order.
        const PEER_CLOSED = 2;
        /// One of the two ends found an error, and the connection ends.
        const FAILED = 4;
        /// The peer reported the error, by a Terminate.
        const TERMINATED = 8;
        /// The stream was reset, by either end.
        const RESET = 16;
        /// The stream is gone, and all results have been placed.
        const GONE = 32;
        /// The end of the connection brings back all requests flushed, Receives too. Follows each end but an end by this side, and but the
        /// peer's end where Receives [stay](super::EndpointOptions::keeps_receives).
        const FLUSHED = 64;
        /// The signals after which a connection carries no more messages.
        const ENDS = Self::PEER_CLOSED.bits() | Self::FAILED.bits() | Self::RESET.bits() | Self::GONE.bits();
    }
}

/// One of the two queues of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkQueue {
    /// Sends, Writes, Reads and all other requests of this side but Receives.
    Initiator,
    /// Receives.
    Receive,
}

/// A source of Receives that can prepare for the octets that a connection handles.
pub trait ReceivesAhead: ReceiveSource {
    /// The connection handles `input` next. The source may take Receives out of a shared queue for it. Returns true if it has.
    #[inline(always)]
    fn draw_ahead(self, _connection: &Connection, _input: &[u8]) -> bool {
        false
    }

    /// From now on the connection waits if it finds no Receive, or does not. It does from the start.
    fn set_waits(self, _waits: bool) {}

    /// The connection has handled the input. Receives that it has not used go back. Called only after
    /// [`draw_ahead`](Self::draw_ahead) has taken some.
    fn give_back(self) {}
}

impl ReceivesAhead for OwnQueue {}

/// What an interface decides about the connections of its endpoints. By default it permits everything.
pub trait Rules {
    /// The number by which the client knows the queue pair, for the log. `None`: the number of the connection in its adapter.
    fn number(&self) -> Option<u32> {
        None
    }

    /// A Send of the peer waits, because it has found no Receive. `span` is that of the connection. Called with the endpoint locked.
    fn stalled(&self, _span: &Span) {}

    /// Returns true if the client of a Responder may send before the peer has sent anything but a ready-to-receive message. Called with the
    /// endpoint locked, for the client's first request on a connection, and for later ones until one is allowed. `span` is that of the
    /// connection.
    fn may_speak_first(&self, _span: &Span) -> bool {
        true
    }

    /// A completion queue or the shared receive queue has broken down, and the connection ends next. Called with no lock held.
    fn queue_broke(&self) {}
}

/// The owner turns completions into its own form of results, and notifies its client of events.
///
/// An endpoint is generic over its owner, so that these calls are dispatched statically.
///
/// # Examples
///
/// The smallest owner keeps the contexts of ended requests in a list. One of its endpoints sends a message to another one, in a
/// simulated network:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use iwarp::{Confirmations, CopiedPayload, Markers};
/// use iwarp_io::capture::FlowRole;
/// use iwarp_io::driver::Driver;
/// use iwarp_io::buffers::Buffers;
/// use iwarp_io::endpoint::{
///     COPIED_BELOW, Completion, EARLY, Endpoint, EndpointOptions, InitiatorWqe, Operation, Owner, OwnQueue, Payload, QueueSizes,
///     ReadLimits, Role, Rules, Scope, Sge, Signals, Start, StreamConfig, StreamId, WorkQueue,
/// };
/// use iwarp_io::memory::{Pd, Rights, Table};
/// use iwarp_io::progress::domain::Domain;
/// use iwarp_io::transport::Transport;
/// use iwarp_io::transport::local_ports::bind;
/// use iwarp_io::transport::purpose::Purpose;
/// use iwarp_io::simulation::{Conditions, World};
/// use iwarp_io::transport::stream::Stream;
///
/// struct Keeper {
///     domain: Arc<Domain>,
///     ended: Mutex<Vec<u64>>,
/// }
///
/// impl Rules for Keeper {}
///
/// impl Owner for Keeper {
///     type State = Vec<u64>;
///     type Notices = Vec<u64>;
///     type Receives<'a> = OwnQueue;
///
///     fn receives(&self) -> OwnQueue {
///         OwnQueue
///     }
///     fn domain(&self, _: WorkQueue) -> &Arc<Domain> {
///         &self.domain
///     }
///     // No thread waits here: the background thread drives both ends.
///     fn wake(&self, _: WorkQueue) {}
///     fn completed(&self, state: &mut Vec<u64>, completion: Completion) {
///         state.push(completion.context);
///     }
///     // It posts a single request, so no queue is ever full.
///     fn taken(&self, _: &mut Vec<u64>, _: WorkQueue) -> u64 {
///         0
///     }
///     // `deliver` shows them.
///     fn place(&self, _: &mut Vec<u64>) {}
///     fn has_notices(state: &Vec<u64>) -> bool {
///         !state.is_empty()
///     }
///     fn take_notices(&self, state: &mut Vec<u64>, _: Signals) -> Vec<u64> {
///         std::mem::take(state)
///     }
///     fn deliver(&self, contexts: Vec<u64>) {
///         self.ended.lock().unwrap().extend(contexts);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let world = World::new(1, Conditions::default());
/// let table = Arc::new(Table::new());
/// let buffers = Buffers::new(Arc::clone(&table));
/// let driver = Arc::new(Driver::start(Transport::Sim(world.clone()), buffers, None)?);
/// let waiters = driver.waiters()?;
/// let domain = driver.domain(&waiters)?;
///
/// let endpoint = |number| {
///     let options = EndpointOptions {
///         sizes: QueueSizes {
///             initiator_depth: 4,
///             receive_depth: 4,
///             initiator_sges: 1,
///             receive_sges: 1,
///             read_sges: 1,
///             inline: 64,
///             max_transfer: 1 << 20,
///         },
///         scope: Scope { pd: Pd(1), stream: StreamId(number) },
///         receive_pd: Pd(1),
///         end_within: Some(Duration::from_secs(10)),
///         early_posts: false,
///         keeps_receives: false,
///     };
///     let keeper = Keeper { domain: Arc::clone(&domain), ended: Mutex::default() };
///     Endpoint::new(Arc::clone(&driver), options, |_| keeper, Vec::new())
/// };
/// let (active, passive) = (endpoint(1)?, endpoint(2)?);
///
/// // A Receive, before the peer can send.
/// let buffer = rdma_buffer::Buffer::new(4096);
/// let region = table.register(&buffer, Rights::LOCAL_WRITE, Pd(1))?;
/// let sge = Sge { token: region.stag(), address: region.base(), length: 5 };
/// passive.post_receive(7, &[sge]).unwrap();
///
/// // Two streams. Where peers may be strangers, `setup` makes them, with the frames of MPA.
/// let local = "127.0.0.1:0".parse()?;
/// let bound = bind(&driver.transport, local, Purpose::Listening)?;
/// let address = bound.local()?;
/// let listener = bound.listen()?;
/// let dialer = bind(&driver.transport, local, Purpose::Connecting)?.connect(address)?;
/// while !listener.is_somebody_there() {
///     assert!(world.step(), "nothing will ever happen");
/// }
/// let (from, to) = (dialer.into_wire()?, listener.accept()?);
///
/// let config = |role| StreamConfig {
///     role,
///     crc: true,
///     markers: Markers::NONE,
///     limits: ReadLimits { ird: 1, ord: 1 },
///     ready: None,
///     recognition: iwarp::Recognition::Never,
///     receive_wait: Duration::from_secs(1),
///     copied: CopiedPayload::None,
///     copied_below: COPIED_BELOW,
///     confirmations: Confirmations::Off,
///     early: EARLY,
/// };
/// let start = |end: &Endpoint<Keeper>, wire, flow, role| {
///     let (started, deferred) = end.start(Stream::new(wire, flow, None), config(role), Start::Open);
///     // Dropped without a lock, they deliver.
///     drop(deferred);
///     started
/// };
/// start(&passive, to, FlowRole::Passive, Role::Responder)?;
/// start(&active, from, FlowRole::Active, Role::Initiator)?;
///
/// let data = Payload::Inline(&[b"hello"]);
/// let operation = Operation::Send { data, solicited: false, invalidate: None };
/// active.post(InitiatorWqe { context: 8, operation, silent: false, fence: false }).unwrap();
/// while passive.owner().ended.lock().unwrap().is_empty() {
///     assert!(world.step(), "nothing will ever happen");
/// }
/// assert_eq!(*passive.owner().ended.lock().unwrap(), [7]);
/// let mut received = [0; 5];
/// buffer.read(0, &mut received);
/// assert_eq!(&received, b"hello");
/// # Ok(())
/// # }
/// ```
pub trait Owner: Rules + Send + Sync + Sized + 'static {
    /// The owner's data under the endpoint's lock.
    type State: Send;

    /// The work of the owner after the endpoint has been unlocked.
    type Notices;

    /// The source of Receives that were not posted to the endpoint itself.
    type Receives<'a>: ReceivesAhead
    where
        Self: 'a;

    /// The source of Receives; [`OwnQueue`](iwarp::OwnQueue) if all are posted to the endpoint itself. Called with the endpoint
    /// locked, before each read of the stream.
    fn receives(&self) -> Self::Receives<'_>;

    /// The domain driven by threads that poll or wait for results of this queue.
    fn domain(&self, queue: WorkQueue) -> &Arc<Domain>;

    /// Wakes a thread that waits and drives the domain of a queue, because the domain has unfinished work.
    fn wake(&self, queue: WorkQueue);

    /// A stream starts, so results will come. Called with the endpoint locked.
    fn started(&self, _state: &mut Self::State) {}

    /// The connection with this peer has ended, for this reason. Called with the endpoint locked, once for a connection, and before the
    /// results that the end brings about.
    fn connection_ended(&self, _state: &mut Self::State, _end: &ConnectionEnd, _peer: SocketAddr) {}

    /// A request has ended. Called with the endpoint locked, in the order in which the client has to see results. The owner may
    /// collect results until [`place`](Self::place).
    fn completed(&self, state: &mut Self::State, completion: Completion);

    /// Returns the number of completions of this queue that the client has taken since the last call. Their slots are free again. Called with
    /// the endpoint locked, when a request finds its queue full.
    ///
    /// A completion is taken when the client has it, not when it is [placed](Self::place). One that gets lost is never taken. So the
    /// client's completion queue is never overrun if it is as deep as all queues of requests whose completions it gets.
    fn taken(&self, state: &mut Self::State, queue: WorkQueue) -> u64;

    /// No further completions come for now. The owner places the results that it has collected where the client finds them. Called with the
    /// endpoint locked, and before the endpoint answers messages of the peer: an answer proves that the results of earlier messages were
    /// placed.
    fn place(&self, state: &mut Self::State);

    /// Returns true if the owner has work to do after the endpoint has been unlocked.
    fn has_notices(state: &Self::State) -> bool;

    /// Takes out the work that the owner has to do after the endpoint has been unlocked. Called with the endpoint locked, if
    /// [`has_notices`](Self::has_notices) or if there are `signals`.
    fn take_notices(&self, state: &mut Self::State, signals: Signals) -> Self::Notices;

    /// Does the work that was taken out. Called when the endpoint has been unlocked.
    fn deliver(&self, notices: Self::Notices);

    /// The connection has ended or failed, and uses no further Receives of a shared queue. Called with the endpoint locked, once or
    /// more often.
    fn draws_no_more(&self, _state: &mut Self::State) {}

    /// An initiator request was posted early, and waits for the stream. Called with the endpoint locked.
    fn waits_for_stream(&self, _state: &mut Self::State) {}

    /// The peer has ended the connection, whose Receives stay posted. No message waits for a shared Receive any more. Called with the
    /// endpoint locked, once or more often.
    fn waits_no_more(&self, _state: &mut Self::State) {}

    /// A fault plan demands that the queues break down, with the status of this name. Called with the endpoint locked. A queue that breaks
    /// down ends this connection too, which takes the lock, so the owner lets the queues break down later.
    fn break_queues(&self, _status: &str) {}
}
