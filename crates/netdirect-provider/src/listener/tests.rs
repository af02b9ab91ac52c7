//! Listeners over a line without a network.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use netdirect::{Connector, Listener as _, OverlappedObject, QueuePair, ReadLimits, Started};

use super::*;
use crate::testing::{TestAdapter, file};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// A peer's request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestRequest(u64);

impl Keyed for TestRequest {
    fn key(&self) -> u64 {
        self.0
    }
}

/// A connector that only waits.
#[derive(Default)]
pub(crate) struct Waiter(Mutex<WaiterState>);

#[derive(Default)]
enum WaiterState {
    #[default]
    Idle,
    Waiting(Weak<dyn AwaitedListener<Waiter>>),
    Offered(TestRequest),
    Released,
}

impl WaitingConnector for Waiter {
    type Adapter = TestAdapter;
    type PeerRequest = TestRequest;

    fn of_client(connector: &Arc<dyn Connector>, _: &Arc<TestAdapter>) -> Result<Arc<Self>> {
        let any: Arc<dyn std::any::Any + Send + Sync> = connector.clone();
        let handle = any.downcast::<Handle>();
        handle
            .map(|handle| Arc::clone(&handle.0))
            .map_err(|_| Error::new(Status::INVALID_PARAMETER_1, "another adapter's"))
    }

    fn wait_for_request(&self, listener: Weak<dyn AwaitedListener<Self>>) -> Result<()> {
        let mut state = self.0.lock();
        if !matches!(*state, WaiterState::Idle) {
            return fail(Status::CONNECTION_ACTIVE, "in use");
        }
        *state = WaiterState::Waiting(listener);
        Ok(())
    }

    fn request_cancelled(&self) {
        let mut state = self.0.lock();
        if matches!(*state, WaiterState::Waiting(_)) {
            *state = WaiterState::Idle;
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(*self.0.lock(), WaiterState::Waiting(_))
    }

    fn offer(&self, request: TestRequest) -> Option<TestRequest> {
        let mut state = self.0.lock();
        if !matches!(*state, WaiterState::Waiting(_)) {
            return Some(request);
        }
        *state = WaiterState::Offered(request);
        None
    }

    fn take_back(&self, _: &Weak<dyn AwaitedListener<Self>>) -> Result<Option<TestRequest>> {
        match std::mem::take(&mut *self.0.lock()) {
            WaiterState::Offered(request) => Ok(Some(request)),
            _ => fail(Status::CONNECTION_INVALID, "no request"),
        }
    }
}

impl Waiter {
    fn offered(&self) -> Option<u64> {
        match &*self.0.lock() {
            WaiterState::Offered(request) => Some(request.0),
            _ => None,
        }
    }

    /// The client releases the connector.
    fn release(&self) {
        let state = std::mem::replace(&mut *self.0.lock(), WaiterState::Released);
        if let WaiterState::Waiting(listener) = state {
            listener.upgrade().unwrap().connector_released(self);
        }
    }
}

/// The client's reference to a [`Waiter`].
#[derive(Debug)]
struct Handle(Arc<Waiter>);

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiter")
    }
}

impl OverlappedObject for Handle {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        unreachable!()
    }
}

/// A line without a network.
pub(crate) struct TestListener {
    rules: ListenerRules<Self>,
    refused: Mutex<Vec<u64>>,
    /// The keys of requests whose peers have disconnected.
    gone: Mutex<HashSet<u64>>,
    bound: AtomicU32,
    listen_fails: AtomicBool,
}

impl ListenerLine for TestListener {
    type Adapter = TestAdapter;
    type Connector = Waiter;
    type Backlog = Queue<TestRequest>;
    type Bound = ();

    fn new(rules: ListenerRules<Self>) -> Self {
        Self {
            rules,
            refused: Mutex::default(),
            gone: Mutex::default(),
            bound: AtomicU32::default(),
            listen_fails: AtomicBool::default(),
        }
    }

    fn rules(&self) -> &ListenerRules<Self> {
        &self.rules
    }

    fn bind(&self, _: &[IpAddr], port: u16) -> Result<((), u16)> {
        self.bound.fetch_add(1, Ordering::SeqCst);
        Ok(((), if port == 0 { 7 } else { port }))
    }

    fn longest_backlog(&self) -> usize {
        3
    }

    fn listen(&self, _: &mut Option<()>, _: SocketAddr) -> Result<()> {
        match self.listen_fails.load(Ordering::SeqCst) {
            true => fail(Status::SHARING_VIOLATION, "in use"),
            false => Ok(()),
        }
    }

    fn stop(&self) {}

    fn unbind(&self, (): ()) {
        self.bound.fetch_sub(1, Ordering::SeqCst);
    }

    fn has_gone(&self, request: &TestRequest) -> bool {
        self.gone.lock().contains(&request.0)
    }

    fn take(&self, request: TestRequest) -> Option<TestRequest> {
        (!self.gone.lock().contains(&request.0)).then_some(request)
    }

    fn watch(&self, request: TestRequest) -> Option<TestRequest> {
        self.take(request)
    }

    fn refuse(&self, request: TestRequest) {
        // Takes the lock that no call of a line may be made under.
        assert!(self.rules.state.try_lock().is_some());
        self.refused.lock().push(request.0);
    }
}

/// A listener with its client.
struct Stage {
    line: Arc<TestListener>,
    handle: Option<ListenerHandle<TestListener>>,
}

impl Stage {
    fn new() -> Self {
        let handle = ListenerHandle::<TestListener>::create(TestAdapter::at(HERE), file()).unwrap();
        let line = Arc::clone(handle.line());
        let handle = Some(handle);
        Self { line, handle }
    }

    fn listening(backlog: u32) -> Self {
        let stage = Self::new();
        stage.handle().bind((HERE, 5).into()).unwrap();
        stage.handle().listen(backlog).unwrap();
        stage
    }

    fn handle(&self) -> &ListenerHandle<TestListener> {
        self.handle.as_ref().unwrap()
    }

    fn arrive(&self, peer: u64) {
        self.line.rules.arrived(&self.line, TestRequest(peer));
    }

    /// A client waits for a request.
    fn wait(&self) -> (Arc<Waiter>, Overlapped) {
        let (waiter, overlapped) = (Arc::<Waiter>::default(), Overlapped::new());
        let started = self.wait_with(&waiter, &overlapped);
        assert_eq!(started.unwrap(), Started::Pending);
        (waiter, overlapped)
    }

    fn wait_with(&self, waiter: &Arc<Waiter>, overlapped: &Overlapped) -> Result<Started> {
        let connector: Arc<dyn Connector> = Arc::new(Handle(Arc::clone(waiter)));
        self.handle().get_connection_request(&connector, overlapped)
    }

    fn withdraw(&self, waiter: &Arc<Waiter>) -> Result<()> {
        let connector: Arc<dyn Connector> = Arc::new(Handle(Arc::clone(waiter)));
        self.handle().withdraw(&connector)
    }

    fn refused(&self) -> Vec<u64> {
        std::mem::take(&mut *self.line.refused.lock())
    }
}

fn status<T>(result: Result<T>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::SUCCESS)
}

#[test]
fn lstn_011_lstn_017_lstn_018_lstn_021_bind_and_listen_once() {
    let stage = Stage::new();
    let handle = stage.handle();
    let unbound = status(handle.get_local_address());
    assert_eq!(unbound, Status::INVALID_DEVICE_STATE);
    assert_eq!(status(handle.listen(0)), Status::INVALID_DEVICE_STATE);
    let foreign = handle.bind((Ipv4Addr::LOCALHOST, 0).into());
    assert_eq!(status(foreign), Status::INVALID_ADDRESS);
    handle.bind((HERE, 0).into()).unwrap();
    assert_eq!(handle.get_local_address(), Ok((HERE, 7).into()));
    let again = status(handle.bind((HERE, 0).into()));
    assert_eq!(again, Status::ADDRESS_ALREADY_ASSOCIATED);
    let early = stage.wait_with(&Arc::default(), &Overlapped::new());
    assert_eq!(status(early), Status::INVALID_DEVICE_STATE); // LSTN-030
    stage.line.listen_fails.store(true, Ordering::SeqCst);
    assert_eq!(status(handle.listen(0)), Status::SHARING_VIOLATION);
    stage.line.listen_fails.store(false, Ordering::SeqCst);
    handle.listen(0).unwrap();
    assert_eq!(status(handle.listen(0)), Status::INVALID_DEVICE_STATE);
}

#[test]
fn lstn_032_requests_wait_in_their_order_and_each_ends_one_wait() {
    let stage = Stage::listening(0);
    stage.arrive(1);
    stage.arrive(2);
    let (first, first_ended) = stage.wait();
    let (second, _) = stage.wait();
    let (third, third_ended) = stage.wait();
    assert_eq!((first.offered(), second.offered()), (Some(1), Some(2)));
    assert_eq!(first_ended.status(), Status::SUCCESS);
    assert!(third_ended.is_pending());
    stage.arrive(3);
    assert_eq!(third.offered(), Some(3));
    assert_eq!(third_ended.status(), Status::SUCCESS);
    assert_eq!(stage.refused(), []);
}

#[test]
fn lstn_015_lstn_016_requests_beyond_the_backlog_are_refused() {
    for (backlog, most) in [(1, 1), (2, 2), (0, 3), (9, 3)] {
        let stage = Stage::listening(backlog);
        (1..=4).for_each(|peer| stage.arrive(peer));
        let refused: Vec<u64> = (most + 1..=4).collect();
        assert_eq!(stage.refused(), refused, "a backlog of {backlog}");
    }
}

#[test]
fn peers_that_go_leave_the_backlog() {
    let stage = Stage::listening(0);
    (1..=3).for_each(|peer| stage.arrive(peer));
    assert_eq!(stage.line.rules.peer_gone(1), Some(TestRequest(1)));
    assert_eq!(stage.line.rules.peer_gone(1), None);
    // Noticed when a connector begins to wait.
    stage.line.gone.lock().insert(2);
    assert_eq!(stage.wait().0.offered(), Some(3));
    // Noticed when the request arrives.
    stage.line.gone.lock().insert(4);
    stage.arrive(4);
    assert!(stage.wait().1.is_pending());
    assert_eq!(stage.refused(), []);
}

#[test]
fn lstn_025_cancel_release_and_removal_end_all_waits_in_their_order() {
    let cancel: fn(&mut Stage) = |stage| stage.handle().cancel_overlapped_requests().unwrap();
    let release: fn(&mut Stage) = |stage| stage.handle = None;
    let remove: fn(&mut Stage) = |stage| {
        stage
            .line
            .rules
            .adapter
            .is_removed
            .store(true, Ordering::SeqCst);
        stage.line.rules.device_removed(&stage.line);
    };
    for (end, wanted) in [
        (cancel, Status::CANCELED),
        (release, Status::CANCELED),
        (remove, Status::DEVICE_REMOVED),
    ] {
        let mut stage = Stage::listening(0);
        let (waiter, overlapped) = stage.wait();
        end(&mut stage);
        assert_eq!(overlapped.status(), wanted);
        assert!(matches!(*waiter.0.lock(), WaiterState::Idle));
    }
}

#[test]
fn lstn_033_a_closed_listener_refuses_who_waits_and_who_comes() {
    let mut stage = Stage::listening(0);
    stage.arrive(1);
    stage.handle = None;
    stage.arrive(2);
    assert_eq!(stage.refused(), [1, 2]);
    assert_eq!(stage.line.bound.load(Ordering::SeqCst), 0);
}

#[test]
fn a_listener_of_a_removed_device_has_no_address_and_takes_no_call() {
    let stage = Stage::listening(0);
    stage
        .line
        .rules
        .adapter
        .is_removed
        .store(true, Ordering::SeqCst);
    stage.line.rules.device_removed(&stage.line);
    let handle = stage.handle();
    let address = status(handle.get_local_address());
    assert_eq!(address, Status::INVALID_DEVICE_STATE);
    for call in [
        status(handle.bind((HERE, 1).into())),
        status(handle.listen(0)),
        status(stage.wait_with(&Arc::default(), &Overlapped::new())),
    ] {
        assert_eq!(call, Status::DEVICE_REMOVED);
    }
}

#[test]
fn lstn_025_a_connector_that_is_released_ends_its_wait_and_no_other() {
    let stage = Stage::listening(0);
    let (first, first_ended) = stage.wait();
    let (_second, second_ended) = stage.wait();
    first.release();
    assert_eq!(first_ended.status(), Status::CANCELED);
    assert!(second_ended.is_pending());
    stage.arrive(1);
    assert_eq!(second_ended.status(), Status::SUCCESS);
}

/// The connector was released, and has not notified the listener yet.
#[test]
fn lstn_032_a_request_passes_over_a_connector_that_is_being_released() {
    let stage = Stage::listening(0);
    let (first, first_ended) = stage.wait();
    let (second, second_ended) = stage.wait();
    *first.0.lock() = WaiterState::Released;
    stage.arrive(1);
    assert_eq!(first_ended.status(), Status::CANCELED);
    assert_eq!(second.offered(), Some(1));
    assert_eq!(second_ended.status(), Status::SUCCESS);
}

#[test]
fn a_withdrawn_connector_waits_no_more_or_gives_its_peer_back() {
    let stage = Stage::listening(0);
    let (waiter, overlapped) = stage.wait();
    stage.withdraw(&waiter).unwrap();
    assert_eq!(overlapped.status(), Status::CANCELED);
    let again = Overlapped::new();
    stage.arrive(1);
    stage.arrive(2);
    let started = stage.wait_with(&waiter, &again);
    assert_eq!(started, Ok(Started::Pending));
    assert_eq!(waiter.offered(), Some(1));
    stage.withdraw(&waiter).unwrap();
    // The peer is first in line again.
    assert_eq!(stage.wait().0.offered(), Some(1));
    let nothing = status(stage.withdraw(&waiter));
    assert_eq!(nothing, Status::CONNECTION_INVALID);
}

#[test]
fn lstn_031_a_call_that_fails_leaves_the_connector_as_it_was() {
    let stage = Stage::listening(0);
    let (waiter, _) = stage.wait();
    let used = stage.wait_with(&waiter, &Overlapped::new());
    assert_eq!(status(used), Status::CONNECTION_ACTIVE);
    // An Overlapped that is in flight.
    let (_, flying) = stage.wait();
    let other = Arc::<Waiter>::default();
    let mix = status(stage.wait_with(&other, &flying));
    assert_eq!(mix, Status::INVALID_PARAMETER_MIX);
    assert!(matches!(*other.0.lock(), WaiterState::Idle));
}

impl Connector for Handle {
    fn bind(&self, _: SocketAddr) -> Result<()> {
        unreachable!()
    }

    fn connect(
        &self,
        _: &Arc<dyn QueuePair>,
        _: SocketAddr,
        _: u32,
        _: u32,
        _: &[u8],
        _: &Overlapped,
    ) -> Result<Started> {
        unreachable!()
    }

    fn complete_connect(&self, _: &Overlapped) -> Result<Started> {
        unreachable!()
    }

    fn accept(
        &self,
        _: &Arc<dyn QueuePair>,
        _: u32,
        _: u32,
        _: &[u8],
        _: &Overlapped,
    ) -> Result<Started> {
        unreachable!()
    }

    fn reject(&self, _: &[u8]) -> Result<()> {
        unreachable!()
    }

    fn get_read_limits(&self) -> Result<ReadLimits> {
        unreachable!()
    }

    fn get_private_data(&self) -> Result<Vec<u8>> {
        unreachable!()
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        unreachable!()
    }

    fn get_peer_address(&self) -> Result<SocketAddr> {
        unreachable!()
    }

    fn notify_disconnect(&self, _: &Overlapped) -> Result<Started> {
        unreachable!()
    }

    fn disconnect(&self, _: &Overlapped) -> Result<Started> {
        unreachable!()
    }
}
