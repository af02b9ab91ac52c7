//! Endpoints of an owner that is not a queue pair of NetworkDirect: it keeps completions in a list, and both its endpoints may draw
//! Receives from one pool.

mod passing;
mod unreliable;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use iwarp::{Confirmations, CopiedPayload, Markers, Ready};
use rdma_buffer::{Buffer, page_offsets_matter};

use super::lingering::Lingering;
use super::*;
use crate::buffers::Buffers;
use crate::capture::FlowRole;
use crate::memory::{Pd, Registration, Rights, Table};
use crate::progress::waiters::Waiters;
use crate::simulation::{Conditions, World};
use crate::transport::local_ports::bind;
use crate::transport::pipe::Pipes;
use crate::transport::purpose::Purpose;
use crate::transport::{Paired, Transport, Wire};

const PD: Pd = Pd(7);
/// Only to end a hang.
const LONG: Duration = Duration::from_secs(60);
const END_WITHIN: Duration = Duration::from_secs(10);

const SIZES: QueueSizes = QueueSizes {
    initiator_depth: 16,
    receive_depth: 16,
    initiator_sges: 1,
    receive_sges: 1,
    read_sges: 1,
    inline: 64,
    max_transfer: 1 << 20,
};

fn config(role: Role) -> StreamConfig {
    StreamConfig {
        role,
        crc: true,
        markers: Markers::NONE,
        limits: ReadLimits { ird: 4, ord: 4 },
        ready: Some(Ready::Write),
        recognition: iwarp::Recognition::Never,
        receive_wait: Duration::MAX,
        copied: CopiedPayload::None,
        copied_below: COPIED_BELOW,
        confirmations: Confirmations::Off,
        early: EARLY,
    }
}

/// Receives that any endpoint of a test may draw.
type Pool = Arc<Mutex<VecDeque<(u64, Sge)>>>;

#[derive(Clone, Copy)]
struct Draw<'a>(&'a Pool);

impl super::ReceivesAhead for Draw<'_> {}

impl ReceiveSource for Draw<'_> {
    fn draw(self, slot: ReceiveSlot<'_>) {
        if let Some((context, sge)) = self.0.lock().unwrap().pop_front() {
            slot.fill(context, &[sge]).unwrap();
        }
    }
}

/// The calls that an owner has received.
#[derive(Default)]
struct OwnerCalls {
    completions: Vec<Completion>,
    signals: Signals,
    /// The number of completions when the end was reported.
    before_the_end: Option<usize>,
    stalls: usize,
    speaks_first: usize,
}

/// See the [module](self).
struct Plain {
    domain: Arc<Domain>,
    pool: Pool,
    calls: Mutex<OwnerCalls>,
    /// Called for each completion of a Receive, with no lock held.
    answer: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    /// Called when the peer has closed its direction, with no lock held.
    closed: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    polite: bool,
}

#[derive(Default)]
struct PlainState {
    kept: Vec<Completion>,
    placed: Vec<Completion>,
    /// Of initiator requests, and of Receives.
    taken: [u64; 2],
}

impl Plain {
    fn calls(&self) -> std::sync::MutexGuard<'_, OwnerCalls> {
        self.calls.lock().unwrap()
    }
}

impl Owner for Plain {
    type State = PlainState;
    type Notices = (Vec<Completion>, Signals);
    type Receives<'a> = Draw<'a>;

    fn receives(&self) -> Draw<'_> {
        Draw(&self.pool)
    }

    fn domain(&self, _: WorkQueue) -> &Arc<Domain> {
        &self.domain
    }

    fn wake(&self, _: WorkQueue) {}

    fn completed(&self, state: &mut PlainState, completion: Completion) {
        state.kept.push(completion);
    }

    fn taken(&self, state: &mut PlainState, queue: WorkQueue) -> u64 {
        std::mem::take(&mut state.taken[usize::from(queue == WorkQueue::Receive)])
    }

    fn place(&self, state: &mut PlainState) {
        state.placed.append(&mut state.kept);
    }

    fn has_notices(state: &PlainState) -> bool {
        !state.placed.is_empty()
    }

    fn take_notices(&self, state: &mut PlainState, signals: Signals) -> Self::Notices {
        assert!(state.kept.is_empty(), "completions were not placed");
        for completion in &state.placed {
            let is_receive = completion.kind == RequestKind::Receive;
            state.taken[usize::from(is_receive)] += 1;
        }
        (std::mem::take(&mut state.placed), signals)
    }

    fn deliver(&self, (completions, signals): Self::Notices) {
        for completion in completions {
            self.calls().completions.push(completion);
            let received =
                completion.status == WqeStatus::Success && completion.kind == RequestKind::Receive;
            let answer = self.answer.lock().unwrap().clone();
            if let Some(answer) = answer.filter(|_| received) {
                answer();
            }
        }
        let closed = self.closed.lock().unwrap().clone();
        if let Some(closed) = closed.filter(|_| signals.contains(Signals::PEER_CLOSED)) {
            closed();
        }
        let mut calls = self.calls();
        calls.signals |= signals;
        if signals.intersects(Signals::PEER_CLOSED | Signals::FAILED | Signals::RESET) {
            let count = calls.completions.len();
            calls.before_the_end.get_or_insert(count);
        }
    }
}

impl Rules for Plain {
    fn stalled(&self, _: &tracing::Span) {
        self.calls().stalls += 1;
    }

    fn may_speak_first(&self, _: &tracing::Span) -> bool {
        self.calls().speaks_first += 1;
        !self.polite
    }
}

/// One end: an endpoint with a page of memory.
struct End {
    endpoint: Arc<Endpoint<Plain>>,
    buffer: Buffer,
    region: Registration,
}

fn wqe(context: u64, operation: Operation<Payload<'_>>) -> InitiatorWqe<'_> {
    InitiatorWqe {
        context,
        operation,
        silent: false,
        fence: false,
    }
}

const fn send_of(data: Payload<'_>) -> Operation<Payload<'_>> {
    Operation::Send {
        data,
        solicited: false,
        invalidate: None,
    }
}

impl End {
    fn sge(&self, at: u64, length: u32) -> Sge {
        Sge {
            token: self.region.stag(),
            address: self.region.base() + at,
            length,
        }
    }

    fn receive(&self, context: u64, at: u64) {
        let sge = self.sge(at, 8);
        self.endpoint.post_receive(context, &[sge]).unwrap();
    }

    fn post(&self, context: u64, operation: Operation<Payload<'_>>) -> Result<(), Refused> {
        self.endpoint.post(wqe(context, operation))
    }

    fn send(&self, context: u64, octets: &[u8; 8]) -> Result<(), Refused> {
        self.post(context, send_of(Payload::Inline(&[octets])))
    }

    /// The results of requests: contexts, and true for success.
    fn ends(&self) -> Vec<(u64, bool)> {
        let calls = self.endpoint.owner().calls();
        let ends = calls.completions.iter();
        ends.map(|end| (end.context, end.status == WqeStatus::Success))
            .collect()
    }

    fn has_ended(&self, context: u64) -> bool {
        self.ends().iter().any(|(ended, _)| *ended == context)
    }

    fn signals(&self) -> Signals {
        self.endpoint.owner().calls().signals
    }
}

/// An adapter, in a simulated network or over pipes.
struct Net {
    world: Option<World>,
    driver: Arc<Driver>,
    domain: Arc<Domain>,
    table: Arc<Table>,
    pool: Pool,
    next: std::cell::Cell<u32>,
    _waiters: Waiters,
}

impl Net {
    fn over(transport: Transport) -> Self {
        let world = transport.environment().world().cloned();
        let table = Arc::new(Table::new());
        let driver = Driver::start(transport, Buffers::new(Arc::clone(&table)), None).unwrap();
        let waiters = driver.waiters().unwrap();
        Self {
            world,
            domain: driver.domain(&waiters).unwrap(),
            driver: Arc::new(driver),
            table,
            pool: Pool::default(),
            next: 1.into(),
            _waiters: waiters,
        }
    }

    fn simulated() -> Self {
        Self::over(Transport::Sim(World::new(1, Conditions::default())))
    }

    fn each() -> [Self; 2] {
        [
            Self::simulated(),
            Self::over(Transport::Pipe(Pipes::default())),
        ]
    }

    fn world(&self) -> &World {
        self.world.as_ref().expect("a simulation")
    }

    /// Waits while only the background thread drives connections.
    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + LONG;
        while !is_so() {
            match &self.world {
                Some(world) => assert!(world.step(), "nothing will ever happen: {what}"),
                None => std::thread::yield_now(),
            }
            assert!(Instant::now() < end, "in vain: {what}");
        }
    }

    fn end_with(&self, polite: bool) -> End {
        self.end_that(polite, false)
    }

    fn end_that(&self, polite: bool, early_posts: bool) -> End {
        let buffer = Buffer::new(4096);
        let all = Rights::LOCAL_WRITE | Rights::REMOTE_READ | Rights::REMOTE_WRITE;
        let region = self.table.register(&buffer, all, PD).unwrap();
        let stream = StreamId(self.next.get());
        self.next.set(stream.0 + 1);
        let options = EndpointOptions {
            sizes: SIZES,
            scope: Scope { pd: PD, stream },
            receive_pd: PD,
            end_within: Some(END_WITHIN),
            early_posts,
            keeps_receives: false,
        };
        let owner = Plain {
            domain: Arc::clone(&self.domain),
            pool: Arc::clone(&self.pool),
            calls: Mutex::default(),
            answer: Mutex::default(),
            closed: Mutex::default(),
            polite,
        };
        let driver = Arc::clone(&self.driver);
        End {
            endpoint: Endpoint::new(driver, options, |_| owner, PlainState::default()).unwrap(),
            buffer,
            region,
        }
    }

    fn end(&self) -> End {
        self.end_with(false)
    }

    fn streams(&self) -> (Stream, Stream) {
        let transport = &self.driver.transport;
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let bound = bind(transport, local, Purpose::Listening).unwrap();
        let at = bound.local().unwrap();
        let listener = bound.listen().unwrap();
        let from = bind(transport, local, Purpose::Connecting).unwrap();
        let dialer = from.connect(at).unwrap();
        self.until("connected", || dialer.is_connected(Edges::WRITE).unwrap());
        self.until("accepted", || listener.is_somebody_there());
        let passive = listener.accept().unwrap();
        let active = dialer.into_wire().unwrap();
        let [active, passive] = self.paired([active, passive]);
        (
            Stream::new(active, FlowRole::Active, None),
            Stream::new(passive, FlowRole::Passive, None),
        )
    }

    /// The wires, once it is known whether they are over shared memory.
    fn paired(&self, wires: [Wire; 2]) -> [Wire; 2] {
        let wires = std::cell::Cell::new(Some(wires));
        self.until("paired", || {
            let ends = wires.take().unwrap().map(|wire| wire.pair(Instant::now()));
            let is_decided =
                |end: &(Wire, io::Result<Paired>)| matches!(end.1, Ok(Paired::Decided));
            let all_are = ends.iter().all(is_decided);
            wires.set(Some(ends.map(|(wire, _)| wire)));
            all_are
        });
        wires.take().unwrap()
    }

    /// Connects two ends, the first one as the Initiator.
    fn connect(&self, active: &End, passive: &End, start: Start) {
        let (from, to) = self.streams();
        let (started, deferred) = passive.endpoint.start(to, config(Role::Responder), start);
        started.unwrap();
        drop(deferred);
        let start = Start::Open;
        let (started, deferred) = active.endpoint.start(from, config(Role::Initiator), start);
        started.unwrap();
        drop(deferred);
    }

    fn pair(&self) -> (End, End) {
        let (active, passive) = (self.end(), self.end());
        self.connect(&active, &passive, Start::Awaited);
        self.until("ready", || passive.signals().contains(Signals::READY));
        drop(passive.endpoint.drive_from(Drivers::Queues));
        (active, passive)
    }
}

#[test]
fn sends_reads_and_the_end_reach_the_owners() {
    for net in Net::each() {
        let (active, passive) = (net.end(), net.end());
        passive.receive(1, 0);
        net.connect(&active, &passive, Start::Awaited);
        active.send(2, b"hello...").unwrap();
        net.until("sent", || active.has_ended(2) && passive.has_ended(1));
        net.until("ready", || passive.signals().contains(Signals::READY));
        drop(passive.endpoint.drive_from(Drivers::Queues));

        let mut received = [0; 8];
        passive.buffer.read(0, &mut received);
        assert_eq!(&received, b"hello...");
        let from = passive.sge(0, 8);
        let read = Operation::Read {
            sink: Payload::Sges(&[active.sge(100, 8)]),
            remote: RemoteAddress {
                stag: from.token,
                to: from.address,
            },
        };
        active.post(3, read).unwrap();
        net.until("read", || active.has_ended(3));
        active.buffer.read(100, &mut received);
        assert_eq!(&received, b"hello...");

        passive.receive(4, 0);
        active.receive(5, 0);
        let (gone, deferred) = active.endpoint.disconnect();
        assert!(!gone);
        drop(deferred);
        net.until("the end is told", || {
            passive.signals().contains(Signals::PEER_CLOSED)
        });
        drop(passive.endpoint.disconnect());
        for (end, last) in [(&active, 5), (&passive, 4)] {
            net.until("flushed", || end.has_ended(last));
            net.until("gone", || end.signals().contains(Signals::GONE));
            assert!(end.endpoint.is_gone());
            assert!(!end.signals().contains(Signals::FAILED));
        }
        assert_eq!(active.ends(), [(2, true), (3, true), (5, false)]);
        assert_eq!(passive.ends(), [(1, true), (4, false)]);
    }
}

/// A simulated network cannot read registered memory. Over sockets this test says something with `SOFTND_PAGE_OFFSETS=matter`.
#[test]
fn a_stream_says_which_payload_is_copied() {
    for net in Net::each() {
        let (active, passive) = net.streams();
        let expected = match net.world {
            Some(_) => CopiedPayload::All,
            None if page_offsets_matter() => CopiedPayload::AtSlowPlaces,
            None => CopiedPayload::None,
        };
        for stream in [active, passive] {
            assert_eq!(stream.copied_payload(), expected);
        }
    }
}

#[test]
fn whose_peer_has_gone_is_told_once_and_gets_all_requests_back() {
    let net = Net::simulated();
    let (active, passive) = net.pair();
    active.receive(1, 0);
    drop(passive.endpoint.abort(ConnectionEnd::Disconnected));
    assert!(passive.signals().contains(Signals::RESET | Signals::GONE));
    let gone = || active.signals().contains(Signals::RESET | Signals::GONE);
    net.until("gone", gone);
    // Requests posted now come back.
    active.send(2, b"too late").unwrap();
    active.receive(3, 0);
    assert_eq!(active.ends(), [(1, false), (2, false), (3, false)]);
    // The endpoint cannot be started again.
    let (stream, peer) = net.streams();
    let config = config(Role::Initiator);
    let (started, deferred) = active.endpoint.start(stream, config, Start::Open);
    drop(deferred);
    assert_eq!(started.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let is_reset =
        || matches!(peer.read(&mut [0]), Err(error) if error.kind() != io::ErrorKind::WouldBlock);
    net.until("the stream is reset", is_reset);
}

/// Only the post drives an endpoint that has no stream any more.
#[test]
fn a_receive_that_is_posted_after_the_peers_end_comes_back_at_once() {
    for net in Net::each() {
        let (active, passive) = net.pair();
        drop(active.endpoint.disconnect());
        let gone = || {
            passive
                .signals()
                .contains(Signals::PEER_CLOSED | Signals::GONE)
        };
        net.until("gone", gone);
        passive.receive(1, 0);
        assert_eq!(passive.ends(), [(1, false)]);
    }
}

/// A peer that connects anew when both directions are closed is not reported before the end of its first connection.
#[test]
fn the_owner_knows_that_the_peer_has_closed_before_this_side_closes() {
    for net in Net::each() {
        let (active, passive) = net.pair();
        let (active, passive) = (Arc::new(active), Arc::new(passive));
        let was_open = Arc::new(Mutex::new(None));
        let (looking, said) = (Arc::downgrade(&passive), Arc::clone(&was_open));
        let closed = move || {
            let passive = looking.upgrade().unwrap();
            *said.lock().unwrap() = Some(!passive.endpoint.is_gone());
        };
        *passive.endpoint.owner().closed.lock().unwrap() = Some(Arc::new(closed));
        drop(active.endpoint.disconnect());
        let gone = |end: &End| end.signals().contains(Signals::GONE);
        net.until("gone", || gone(&active) && gone(&passive));
        assert_eq!(*was_open.lock().unwrap(), Some(true));
        passive.endpoint.owner().closed.lock().unwrap().take();
    }
}

#[test]
fn owners_are_told_with_no_lock_held() {
    for net in Net::each() {
        let (active, passive) = net.pair();
        let passive = Arc::new(passive);
        for at in 0..4 {
            passive.receive(at, 8 * at);
            active.receive(at, 8 * at);
        }
        // Answers within the call that reports the message.
        let answering = Arc::downgrade(&passive);
        let answer = move || answering.upgrade().unwrap().send(10, b"answered").unwrap();
        *passive.endpoint.owner().answer.lock().unwrap() = Some(Arc::new(answer));
        for at in 0..4 {
            active.send(20 + at, b"question").unwrap();
        }
        net.until("answered", || active.has_ended(3));
        assert!(active.ends().iter().all(|(_, succeeded)| *succeeded));
        passive.endpoint.owner().answer.lock().unwrap().take();
    }
}

#[test]
fn what_arrives_while_the_endpoint_is_locked_is_taken_up_by_whoever_unlocks_it() {
    let net = Net::simulated();
    let (active, passive) = net.pair();
    passive.receive(1, 0);
    active.send(2, b"knocking").unwrap();
    passive.endpoint.with(|_, _| {
        net.world().pass(Duration::from_secs(1)); // the background thread looks, and sleeps again
        assert!(passive.ends().is_empty());
        assert_eq!(passive.endpoint.is_stalled(), None);
    });
    assert_eq!(passive.ends(), [(1, true)]);
    assert_eq!(passive.endpoint.is_stalled(), Some(false));
}

#[test]
fn a_post_waits_for_whoever_has_locked_the_endpoint() {
    let net = Net::over(Transport::Pipe(Pipes::default()));
    let (active, passive) = net.pair();
    passive.receive(1, 0);
    let about = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        active.endpoint.with(|_, _| {
            scope.spawn(|| {
                about.wait();
                active.send(2, b"patience").unwrap();
            });
            about.wait();
            assert!(active.ends().is_empty());
        });
    });
    net.until("sent", || active.has_ended(2) && passive.has_ended(1));
}

#[test]
fn flushed_requests_are_seen_after_the_owner_has_let_go_of_its_guard() {
    let net = Net::simulated();
    let (active, passive) = (net.end(), net.end());
    active.receive(1, 0);
    let guard = active.endpoint.guard_flush();
    net.connect(&active, &passive, Start::Awaited);
    net.until("ready", || passive.signals().contains(Signals::READY));
    active.send(2, b"no place").unwrap();
    drop(passive.endpoint.abort(ConnectionEnd::Disconnected));
    net.until("told", || active.signals().contains(Signals::RESET));
    assert!(!active.has_ended(1) && !active.signals().contains(Signals::GONE));
    let again = Arc::clone(&guard);
    drop(guard);
    assert!(!active.has_ended(1), "there is another one");
    drop(again);
    assert!(active.has_ended(1) && active.signals().contains(Signals::GONE));
    let calls = active.endpoint.owner().calls();
    assert!(calls.before_the_end.unwrap() < calls.completions.len());
}

#[test]
fn after_an_end_that_lets_the_client_post_on_every_request_comes_back() {
    for net in Net::each() {
        let (active, passive) = net.pair();
        active.receive(1, 0);
        let (gone, deferred) = active.endpoint.end();
        assert!(!gone);
        drop(deferred);
        active.send(2, b"too late").unwrap();
        active.receive(3, 0);
        let mut ends = active.ends();
        ends.sort_unstable();
        assert_eq!(ends, [(1, false), (2, false), (3, false)]);
        net.until("the end is told", || {
            passive.signals().contains(Signals::PEER_CLOSED)
        });
        net.until("gone", || active.signals().contains(Signals::GONE));
        active.send(4, b"at last.").unwrap();
        assert!(active.has_ended(4));
        assert!(active.endpoint.end().0, "it was gone before");
    }
}

#[test]
fn an_endpoint_that_never_was_connected_can_be_ended_too() {
    let net = Net::simulated();
    let end = net.end();
    end.receive(1, 0);
    assert!(end.endpoint.end().0);
    end.send(2, b"nobody..").unwrap();
    end.receive(3, 0);
    let mut ends = end.ends();
    ends.sort_unstable();
    assert_eq!(ends, [(1, false), (2, false), (3, false)]);
    assert!(end.endpoint.renew(StreamId(9)));
    let refused = Err(Refused::Request(PostError::NotConnected));
    assert_eq!(end.send(4, b"not yet."), refused);
}

#[test]
fn what_is_posted_early_leaves_when_it_may() {
    for net in Net::each() {
        let (active, passive) = (net.end_that(false, true), net.end_that(false, true));
        for (end, other) in [(&active, 1), (&passive, 2)] {
            end.receive(0, 0);
            end.receive(1, 8);
            end.send(10 + other, b"early...").unwrap();
        }
        let (from, to) = net.streams();
        let start = Start::Awaited;
        let (started, deferred) = passive.endpoint.start(to, config(Role::Responder), start);
        started.unwrap();
        drop(deferred);
        // The request waits for the peer's first FPDU.
        passive.send(22, b"starting").unwrap();
        let start = Start::Open;
        let (started, deferred) = active.endpoint.start(from, config(Role::Initiator), start);
        started.unwrap();
        drop(deferred);
        net.until("received", || active.has_ended(1) && passive.has_ended(0));
        assert_eq!(active.buffer.slice(0..16).to_vec(), b"early...starting");
        assert_eq!(passive.buffer.slice(0..8).to_vec(), b"early...");
    }

    let net = Net::simulated();
    let abort = |end: &Endpoint<Plain>| end.abort(ConnectionEnd::Disconnected);
    for end in [abort, |end: &Endpoint<Plain>| end.end().1] {
        let unconnected = net.end_that(false, true);
        unconnected.send(1, b"nobody..").unwrap();
        drop(end(&unconnected.endpoint));
        unconnected.send(2, b"nobody..").unwrap();
        assert_eq!(unconnected.ends(), [(1, false), (2, false)]);
    }
}

#[test]
fn a_list_is_posted_up_to_the_request_that_is_refused() {
    for net in Net::each() {
        let (active, passive) = net.pair();
        for context in 0..4 {
            passive.receive(context, 8 * context);
        }
        let mut list = active.endpoint.posts();
        for (context, octets) in [(0, b"the firs"), (1, b"t in a l"), (2, b"ist.....")] {
            let data = Payload::Inline(&[octets]);
            list.post(wqe(context, send_of(data))).unwrap();
        }
        let long = [0; 4096];
        let refused = list.post(wqe(3, send_of(Payload::Inline(&[&long]))));
        assert!(matches!(refused, Err(Refused::Request(_))));
        drop(list);
        drop(active.endpoint.posts());
        net.until("received", || passive.has_ended(2));
        assert_eq!(
            passive.buffer.slice(0..24).to_vec(),
            b"the first in a list....."
        );
        assert!(!passive.has_ended(3));
    }
}

#[test]
fn an_endpoint_that_is_shut_refuses_everything() {
    let net = Net::simulated();
    let (active, passive) = net.pair();
    let unconnected = net.end();
    for end in [&active, &unconnected] {
        end.receive(1, 0);
        drop(end.endpoint.shut(ConnectionEnd::Removed));
        assert_eq!(end.ends(), [(1, false)]);
        assert_eq!(end.send(2, b"refused."), Err(Refused::Shut));
        let sge = end.sge(0, 8);
        assert_eq!(end.endpoint.post_receive(3, &[sge]), Err(Refused::Shut));
        assert!(end.endpoint.is_gone());
    }
    net.until("gone", || passive.signals().contains(Signals::GONE));
}

#[test]
fn a_polite_owner_does_not_speak_first() {
    let net = Net::simulated();
    let (active, passive) = (net.end(), net.end_with(true));
    active.receive(1, 0);
    passive.receive(1, 0);
    net.connect(&active, &passive, Start::Awaited);
    net.until("ready", || passive.signals().contains(Signals::READY));
    assert_eq!(passive.send(2, b"refused."), Err(Refused::SpeaksFirst));
    active.send(2, b"welcome.").unwrap();
    net.until("sent", || passive.has_ended(1));
    passive.send(3, b"thanks..").unwrap();
    passive.send(4, b"twice...").unwrap();
    net.until("answered", || active.has_ended(1));
    assert_eq!(passive.endpoint.owner().calls().speaks_first, 1);
}

#[test]
fn what_comes_in_stays_in_the_transport_until_the_client_agrees() {
    let net = Net::simulated();
    let (active, passive) = (net.end(), net.end());
    passive.receive(1, 0);
    net.connect(&active, &passive, Start::Held);
    active.send(2, b"too soon").unwrap();
    net.world().pass(Duration::from_secs(1));
    assert!(passive.signals().is_empty() && passive.ends().is_empty());
    let refused = Err(Refused::Request(PostError::NotConnected));
    assert_eq!(passive.send(3, b"refused."), refused);
    drop(passive.endpoint.open());
    net.until("sent", || passive.has_ended(1));
}

/// Messages that have arrived, and each of which waits for its Receive, are taken in order without being moved.
#[test]
fn a_row_of_messages_that_wait_for_receives_is_taken_in_order() {
    for net in Net::each() {
        let (active, passive) = net.pair();
        let mut sent = 0;
        for context in 0..400_u64 {
            // More messages arrive while others wait.
            while sent < 400 && sent < 3 * (context + 40) {
                if active.send(sent, &sent.to_be_bytes()).is_err() {
                    break;
                }
                sent += 1;
            }
            passive.receive(context, 8);
            net.until("received", || passive.has_ended(context));
            let octets = passive.buffer.slice(8..16).to_vec();
            assert_eq!(octets, context.to_be_bytes());
        }
        assert_eq!(sent, 400);
        // The end waits behind the last message.
        active.send(400, b"the end.").unwrap();
        net.until("sent", || active.has_ended(400));
        drop(active.endpoint.disconnect().1);
        passive.receive(400, 8);
        net.until("received", || passive.has_ended(400));
        assert_eq!(passive.buffer.slice(8..16).to_vec(), b"the end.");
        net.until("ended", || passive.signals().contains(Signals::PEER_CLOSED));
    }
}

#[test]
fn a_peer_that_does_not_end_its_direction_is_reset_in_time() {
    let net = Net::simulated();
    let (active, passive) = (net.end(), net.end());
    net.connect(&active, &passive, Start::Held);
    drop(active.endpoint.disconnect());
    net.world().pass(END_WITHIN / 2);
    assert!(!active.endpoint.is_gone());
    net.world().pass(END_WITHIN);
    assert!(active.signals().contains(Signals::RESET | Signals::GONE));
}

/// More FPDUs arrive at once than one visit handles: no further event comes that could wake a thread for the others.
#[test]
fn what_a_visit_leaves_is_handled_in_the_next_ones() {
    const COUNT: u64 = 3000;
    for net in Net::each() {
        let end = net.end();
        let (active, passive) = net.streams();
        let (started, deferred) =
            (end.endpoint).start(passive, config(Role::Responder), Start::Awaited);
        started.unwrap();
        drop(deferred);
        let empty_write = b"\0\x0e\xc1\x40\0\0\0\x01\0\0\0\0\0\0\0\0\xeb\xd3\x4c\x5f";
        let frames = empty_write.repeat(usize::try_from(COUNT).unwrap());
        active.send_frame(&frames).unwrap();
        let writes = || end.endpoint.lock().connection.counters().received.writes;
        net.until("all are handled", || writes() == COUNT);
    }
}

#[test]
fn an_endpoint_that_never_was_connected_gives_its_receives_back() {
    let net = Net::simulated();
    let end = net.end();
    end.receive(1, 0);
    let (gone, deferred) = end.endpoint.disconnect();
    assert!(gone);
    drop(deferred);
    assert_eq!(end.ends(), [(1, false)]);
    assert!(end.signals().is_empty());
}

#[test]
fn an_endpoint_of_which_nothing_is_left_can_be_used_again() {
    let net = Net::simulated();
    let (active, passive) = net.pair();
    for round in 0..3 {
        let first = u64::from(10 * round);
        for end in [&active, &passive] {
            assert!(!end.endpoint.renew(StreamId(9)), "it is connected");
            end.receive(first, 0);
        }
        active.send(first + 1, b"as usual").unwrap();
        net.until("sent", || passive.has_ended(first));
        drop(active.endpoint.disconnect());
        let is_closed = || passive.signals().contains(Signals::PEER_CLOSED);
        net.until("the end is told", is_closed);
        drop(passive.endpoint.disconnect());
        for (end, stream) in [(&active, 100), (&passive, 200)] {
            net.until("gone", || end.signals().contains(Signals::GONE));
            let guard = end.endpoint.guard_flush();
            assert!(!end.endpoint.renew(StreamId(9)), "it is guarded");
            drop(guard);
            assert!(end.endpoint.renew(StreamId(stream + round)));
            end.endpoint.owner().calls().signals = Signals::empty();
            let refused = Err(Refused::Request(PostError::NotConnected));
            assert_eq!(end.send(9, b"refused."), refused);
            end.receive(999, 0); // forgotten
            assert!(end.endpoint.renew(StreamId(stream + 50 + round)));
        }
        net.connect(&active, &passive, Start::Awaited);
        net.until("ready", || passive.signals().contains(Signals::READY));
    }
    assert!(!active.has_ended(999) && !passive.has_ended(999));
    drop(active.endpoint.shut(ConnectionEnd::Removed));
    assert!(!active.endpoint.renew(StreamId(9)), "it is shut");
}

/// A set need not report this room to a thread that sleeps on an outer set, see `StreamIo::await_room`.
#[test]
fn a_released_endpoint_is_kept_until_its_connection_is_gone() {
    let net = Net::simulated();
    let (active, passive) = net.pair();
    let lingering = Lingering::default();
    let stream = StreamId(1);
    let endpoint = Arc::downgrade(&active.endpoint);
    lingering.release(stream, &active.endpoint);
    drop(active);
    assert!(endpoint.upgrade().is_some(), "the peer has not ended");
    drop(passive.endpoint.disconnect().1);
    net.until("the connection ends", || lingering.list()[0].is_gone());
    lingering.gone(stream);
    assert!(endpoint.upgrade().is_none());
    // One without a connection is not kept, nor is one whose connection has ended.
    let fresh = net.end();
    lingering.release(stream, &fresh.endpoint);
    lingering.release(stream, &passive.endpoint);
    assert!(lingering.list().is_empty());
}

#[test]
fn a_released_endpoint_can_be_reset() {
    let net = Net::simulated();
    let (active, passive) = net.pair();
    let lingering = Lingering::default();
    lingering.release(StreamId(1), &active.endpoint);
    let [kept] = &lingering.list()[..] else {
        panic!("the peer has not ended");
    };
    assert!(!kept.is_gone());
    kept.shut(ConnectionEnd::Removed);
    assert!(kept.is_gone());
    net.until("the reset arrives", || {
        passive.signals().contains(Signals::GONE)
    });
    lingering.clear();
    assert!(lingering.list().is_empty());
}

#[test]
fn room_that_comes_before_the_stream_is_reported_for_room_is_used_at_once() {
    let pipes = Pipes::default();
    let net = Net::over(Transport::Pipe(pipes.clone()));
    let (active, passive) = net.pair();
    passive.receive(1, 0);
    pipes.refuse_next_send();
    active.send(2, b"at once.").unwrap();
    assert!(active.has_ended(2), "nobody else has to drive it");
    net.until("received", || passive.has_ended(1));
}

#[test]
fn endpoints_draw_receives_from_what_their_owners_share() {
    for net in Net::each() {
        let pairs = [net.pair(), net.pair()];
        let memory = net.end();
        let put = |context| {
            let sge = memory.sge(8 * context, 8);
            net.pool.lock().unwrap().push_back((context, sge));
        };
        put(1);
        put(2);
        for (active, _) in &pairs {
            active.send(9, b"whoever.").unwrap();
        }
        let drawn = || pairs.iter().map(|(_, passive)| passive.ends().len()).sum();
        net.until("received", || 2_usize == drawn());
        assert!(net.pool.lock().unwrap().is_empty());
        // If no Receive is left, the owner is notified, and drives the waiting connections when it has another Receive.
        let (active, passive) = &pairs[0];
        active.send(10, b"later...").unwrap();
        net.until("stalled", || passive.endpoint.owner().calls().stalls == 1);
        put(3);
        passive.endpoint.ready(Edges::KICK);
        net.until("received", || passive.has_ended(3));
        assert_eq!(memory.buffer.to_vec()[24..32], *b"later...");
    }
}
