//! Connectors over a line without a network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use netdirect::{
    CompletionSink, Connector as _, Error, Overlapped, OverlappedObject as _, QueuePair,
    ReadLimits, Result, Status,
};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::machine::{Event, State};
use super::*;
use crate::listener::{AwaitedListener, WaitingConnector};
use crate::requests::Work;
use crate::testing::{TestAdapter, UnusedQueuePair, file};

const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5);
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 7);

/// The line's state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Link {
    #[default]
    None,
    Dialing,
    Answered,
    Offered,
    Accepting,
    Open,
    /// Only the queue pair has the connection.
    LetGo,
}

#[derive(Default)]
pub(crate) struct LineState {
    link: Link,
    /// Flushed requests are held back.
    guarded: bool,
}

/// A line without a network.
pub(crate) struct TestConnector {
    rules: ConnectorRules<Self>,
    /// How many queue pairs are claimed.
    claims: AtomicUsize,
    /// The results of CompleteConnect and Reject.
    completion_fails: AtomicBool,
    peer_is_gone: AtomicBool,
    /// Private data that was sent.
    sent: Mutex<Vec<Vec<u8>>>,
}

type Locked = ConnectorState<TestConnector>;

impl TestConnector {
    /// Something ends, which has to be there.
    fn end(&self, state: &mut Locked, links: &[Link]) {
        let link = std::mem::take(&mut state.line.link);
        assert!(links.contains(&link), "{link:?}, not one of {links:?}");
        if state.qp.take().is_some() {
            self.claims.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl ConnectorLine for TestConnector {
    type Adapter = TestAdapter;
    type QueuePair = ();
    type Claim = ();
    type Bound = SocketAddr;
    type PeerRequest = u64;
    type State = LineState;
    type Action = Work;

    fn new(rules: ConnectorRules<Self>) -> Self {
        Self {
            rules,
            claims: AtomicUsize::default(),
            completion_fails: AtomicBool::default(),
            peer_is_gone: AtomicBool::default(),
            sent: Mutex::default(),
        }
    }

    fn rules(&self) -> &ConnectorRules<Self> {
        &self.rules
    }

    fn asked_limits(&self, inbound: u32, outbound: u32) -> ReadLimits {
        ReadLimits { inbound, outbound }
    }

    fn caller_data(&self, _: IpAddr) -> u32 {
        8
    }

    fn callee_data(&self, _: Option<IpAddr>) -> u32 {
        4
    }

    fn queue_pair(&self, _: &Arc<dyn QueuePair>) -> Result<Arc<()>> {
        Ok(Arc::new(()))
    }

    fn claim(&self, _: &Arc<()>) -> Result<()> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn unclaim(&self, (): &()) {
        self.claims.fetch_sub(1, Ordering::SeqCst);
    }

    fn bind(&self, address: SocketAddr) -> Result<Binding<SocketAddr>> {
        let port = if address.port() == 0 {
            9
        } else {
            address.port()
        };
        let local = SocketAddr::new(address.ip(), port);
        Ok(Binding {
            bound: local,
            local,
        })
    }

    fn connect(&self, state: &mut Locked, attempt: Attempt<'_, ()>) {
        assert_eq!(state.state(), State::Connecting);
        assert!(state.bound.take().is_some() && state.qp.is_some());
        self.sent.lock().push(attempt.private_data.to_vec());
        state.peer = Some(attempt.destination);
        state.line.link = Link::Dialing;
    }

    fn complete_connect(&self, state: &mut Locked) -> Result<(), Error> {
        if self.completion_fails.load(Ordering::SeqCst) {
            self.end(state, &[Link::Answered]);
            return Err(Status::IO_TIMEOUT.into());
        }
        state.line.link = Link::Open;
        state.line.guarded = true;
        Ok(())
    }

    fn offer(&self, state: &mut Locked, _: u64) -> bool {
        state.local = Some(HERE);
        state.peer = Some(PEER);
        state.limits = Some(ReadLimits::default());
        state.private_data = Some(Vec::new());
        state.line.link = Link::Offered;
        true
    }

    fn take_back(&self, state: &mut Locked) -> Option<u64> {
        self.end(state, &[Link::Offered]);
        Some(1)
    }

    fn accept(&self, state: &mut Locked, acceptance: Acceptance<'_, (), ()>) {
        assert_eq!(state.state(), State::Accepting);
        self.sent.lock().push(acceptance.private_data.to_vec());
        state.qp = Some(acceptance.qp);
        state.line.link = Link::Accepting;
        state.line.guarded = true;
    }

    fn refuse_request(&self, state: &mut Locked, private_data: &[u8]) -> Result<()> {
        self.end(state, &[Link::Offered]);
        self.sent.lock().push(private_data.to_vec());
        match self.peer_is_gone.load(Ordering::SeqCst) {
            true => Err(Error::new(Status::CONNECTION_ABORTED, "gone")),
            false => Ok(()),
        }
    }

    fn drop_request(&self, state: &mut Locked) {
        self.end(state, &[Link::Offered]);
    }

    fn give_up(&self, state: &mut Locked, from: State) {
        assert!(matches!(from, State::Connecting | State::Accepting));
        self.end(state, &[Link::Dialing, Link::Accepting]);
    }

    fn reject_answer(&self, state: &mut Locked) {
        self.end(state, &[Link::Answered]);
    }

    fn disconnect(&self, state: &mut Locked) -> bool {
        assert_eq!(state.line.link, Link::Open);
        state.ended
    }

    fn finish_disconnect(&self, state: &mut Locked) {
        self.end(state, &[Link::Open]);
        state.end_disconnect();
    }

    fn end_flushed(&self, state: &mut Locked) {
        assert_eq!(state.line.link, Link::Open);
    }

    fn end_released(&self, state: &mut Locked) {
        self.end(state, &[Link::Open]);
    }

    fn leave_disconnect(&self, state: &mut Locked) {
        self.end(state, &[Link::Open]);
        state.line.link = Link::LetGo;
    }

    fn forget_all(&self, state: &mut Locked, _: State) {
        state.line.link = Link::None;
        if state.qp.take().is_some() {
            self.claims.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn notifications_end(&self, state: &mut Locked) {
        state.line.guarded = false;
    }
}

/// A listener whose connector is unlocked when it is called.
struct Listener {
    line: Weak<TestConnector>,
    was_called: AtomicBool,
}

impl AwaitedListener<TestConnector> for Listener {
    fn connector_released(&self, connector: &TestConnector) {
        assert!(connector.rules.try_read(|_| ()).is_some());
        assert!(std::ptr::eq(connector, self.line.as_ptr()));
        self.was_called.store(true, Ordering::SeqCst);
    }
}

/// Checks, when a request ends, that the connector is unlocked.
struct Unlocked(Weak<TestConnector>);

impl CompletionSink for Unlocked {
    fn completed(&self, _: Status) {
        if let Some(line) = self.0.upgrade() {
            assert!(
                line.rules.try_read(|_| ()).is_some(),
                "ended under the lock"
            );
        }
    }
}

/// A connector with its client.
struct Stage {
    line: Arc<TestConnector>,
    handle: ConnectorHandle<TestConnector>,
    listener: Arc<Listener>,
    qp: Arc<dyn QueuePair>,
    changes: Vec<Overlapped>,
    notifications: Vec<Overlapped>,
}

impl Stage {
    fn new() -> Self {
        let handle =
            ConnectorHandle::<TestConnector>::create(TestAdapter::at(HERE.ip()), file()).unwrap();
        let line = Arc::clone(handle.line());
        Self {
            handle,
            listener: Arc::new(Listener {
                line: Arc::downgrade(&line),
                was_called: AtomicBool::new(false),
            }),
            line,
            qp: Arc::new(UnusedQueuePair),
            changes: Vec::new(),
            notifications: Vec::new(),
        }
    }

    fn overlapped(&self) -> Overlapped {
        Overlapped::with_sink(Arc::new(Unlocked(Arc::downgrade(&self.line))))
    }

    fn state(&self) -> State {
        self.line.rules.lock(&self.line).state()
    }

    fn listener(&self) -> Weak<dyn AwaitedListener<TestConnector>> {
        let listener: Weak<Listener> = Arc::downgrade(&self.listener);
        listener
    }

    /// The line reports an event, after it has ended or made the link accordingly.
    fn tell(&self, event: Event, error: Status) {
        let line = &*self.line;
        let mut state = line.rules.lock(line);
        match (event, state.state()) {
            (Event::PeerAccepts, State::Connecting) => state.line.link = Link::Answered,
            (Event::AttemptFails, State::Connecting) | (Event::AcceptFails, State::Accepting) => {
                line.end(&mut state, &[Link::Dialing, Link::Accepting]);
            }
            (Event::PeerCompletes, State::Accepting) => state.line.link = Link::Open,
            _ => {}
        }
        match event {
            Event::AttemptFails | Event::AcceptFails => {
                ConnectorRules::fails(line, &mut state, event, error);
            }
            _ => ConnectorRules::happens(line, &mut state, event),
        }
    }

    /// Causes an event in the way it usually happens. A call that is refused does nothing.
    fn cause(&mut self, event: Event) -> Result<()> {
        let overlapped = self.overlapped();
        let handle = &self.handle;
        let started = match event {
            Event::Bind | Event::BindAgain => return handle.bind(HERE),
            Event::GetConnectionRequest => return self.line.wait_for_request(self.listener()),
            Event::Connect => handle.connect(&self.qp, PEER, 1, 1, b"caller", &overlapped),
            Event::CompleteConnect => handle.complete_connect(&overlapped),
            Event::Accept => handle.accept(&self.qp, 1, 1, b"call", &overlapped),
            Event::Reject => return handle.reject(b"no"),
            Event::NotifyDisconnect => {
                let started = handle.notify_disconnect(&overlapped);
                self.notifications
                    .extend(started.is_ok().then_some(overlapped));
                return started.map(drop);
            }
            Event::Disconnect => handle.disconnect(&overlapped),
            Event::Cancel => return handle.cancel_overlapped_requests(),
            Event::WaitEnds => {
                self.line.request_cancelled();
                return Ok(());
            }
            Event::Offer => {
                let left = WaitingConnector::offer(&*self.line, 1);
                assert!(left.is_none_or(|request| request == 1));
                return Ok(());
            }
            Event::TakeBack => {
                return WaitingConnector::take_back(&*self.line, &self.listener()).map(drop);
            }
            Event::DeviceRemoved => {
                self.line
                    .rules
                    .adapter
                    .is_removed
                    .store(true, Ordering::SeqCst);
                self.tell(event, Status::SUCCESS);
                return Ok(());
            }
            other => {
                self.tell(other, Status::CONNECTION_REFUSED);
                return Ok(());
            }
        };
        self.changes.extend(started.is_ok().then_some(overlapped));
        started.map(drop)
    }

    fn pending(requests: &[Overlapped]) -> usize {
        requests
            .iter()
            .filter(|request| request.is_pending())
            .count()
    }

    /// Checks the invariants that hold after every event.
    fn check(&self) {
        let state = self.state();
        let link = self.line.rules.lock(&self.line).line.link;
        let links: &[Link] = match state {
            State::Idle | State::Waiting | State::Gone | State::Dead => &[Link::None],
            State::Disconnected => &[Link::None, Link::LetGo],
            State::Offered => &[Link::Offered],
            State::Connecting => &[Link::Dialing],
            State::Answered => &[Link::Answered],
            State::Accepting => &[Link::Accepting],
            State::Connected | State::Disconnecting => &[Link::Open],
        };
        assert!(links.contains(&link), "{link:?} in {state:?}");
        let has_qp = matches!(
            state,
            State::Connecting
                | State::Answered
                | State::Accepting
                | State::Connected
                | State::Disconnecting
        );
        assert_eq!(self.line.claims.load(Ordering::SeqCst), usize::from(has_qp));
        let changes = matches!(
            state,
            State::Connecting | State::Accepting | State::Disconnecting
        );
        assert_eq!(
            Self::pending(&self.changes),
            usize::from(changes),
            "{state:?}"
        );
        if !matches!(state, State::Connected | State::Disconnecting) {
            assert_eq!(Self::pending(&self.notifications), 0, "{state:?}");
        }
        let peer = self.handle.get_peer_address();
        assert!(peer.is_err() || !state.is_over());
    }
}

fn causes() -> impl Strategy<Value = Event> {
    // Events that keep a connection alive are more frequent than those that end it.
    let rare = [
        Event::Cancel,
        Event::QueuePairReleased,
        Event::DeviceRemoved,
    ];
    let not_caused = [Event::Release, Event::Completed, Event::CompletionFails];
    let often: Vec<Event> = Event::ALL
        .into_iter()
        .filter(|event| !rare.contains(event) && !not_caused.contains(event))
        .collect();
    prop_oneof![20 => proptest::sample::select(often), 1 => proptest::sample::select(rare.to_vec())]
}

/// Sequences of events that lead to the states that random events seldom reach.
fn beginnings() -> impl Strategy<Value = Vec<Event>> {
    use Event::*;
    let beginnings: [&[Event]; 8] = [
        &[],
        &[GetConnectionRequest],
        &[GetConnectionRequest, Offer],
        &[Connect, PeerAccepts],
        &[GetConnectionRequest, Offer, Accept],
        &CONNECTED,
        &[GetConnectionRequest, Offer, Accept, PeerCompletes],
        &[Connect, PeerAccepts, CompleteConnect, Disconnect],
    ];
    proptest::sample::select(beginnings.map(<[Event]>::to_vec).to_vec())
}

proptest! {
    #[test]
    fn events_in_any_order_lose_no_request_and_leave_nothing_behind(
        beginning in beginnings(),
        events in proptest::collection::vec(causes(), 0..30),
        completion_fails: bool,
        peer_is_gone: bool,
    ) {
        let mut stage = Stage::new();
        stage.line.completion_fails.store(completion_fails, Ordering::SeqCst);
        stage.line.peer_is_gone.store(peer_is_gone, Ordering::SeqCst);
        for event in beginning.into_iter().chain(events) {
            let before = stage.state();
            let had_ended = stage.line.rules.lock(&stage.line).ended;
            let caused = stage.cause(event);
            // What happens is what the table says, and what follows in the same call. Calls fail once the device is gone.
            let is_removed = stage.line.rules.adapter.is_removed.load(Ordering::SeqCst);
            match (event, machine::step(before, event)) {
                (Event::BindAgain, _) => {}
                (_, Err(refusal)) if !is_removed => {
                    prop_assert_eq!(caused.map_err(|error| error.status()), Err(refusal.status));
                    prop_assert_eq!(stage.state(), refusal.next);
                }
                (Event::CompleteConnect, Ok(_)) if !is_removed => {
                    let next = if completion_fails { State::Dead } else { State::Connected };
                    prop_assert_eq!(stage.state(), next);
                }
                (Event::Disconnect, Ok(_)) if !is_removed && had_ended => {
                    prop_assert_eq!(stage.state(), State::Disconnected);
                }
                (_, Ok(step)) if !is_removed || event == Event::DeviceRemoved => {
                    prop_assert_eq!(stage.state(), step.next);
                }
                _ => prop_assert_eq!(stage.state(), State::Dead),
            }
            stage.check();
        }
        let waits = stage.state() == State::Waiting;
        let Stage { line, handle, listener, changes, notifications, .. } = stage;
        drop(handle);
        prop_assert_eq!(listener.was_called.load(Ordering::SeqCst), waits);
        prop_assert_eq!(Stage::pending(&changes) + Stage::pending(&notifications), 0);
        let mut state = line.rules.lock(&line);
        // A connection that the client has not ended belongs to the queue pair, whose release ends it.
        if state.state() != State::Connected {
            prop_assert!(matches!(state.line.link, Link::None | Link::LetGo));
        }
        ConnectorRules::happens(&*line, &mut state, Event::QueuePairReleased);
        drop(state);
        prop_assert_eq!(line.claims.load(Ordering::SeqCst), 0);
    }
}

fn stage(events: &[Event]) -> Stage {
    let mut stage = Stage::new();
    for event in events {
        stage.cause(*event).unwrap();
        stage.check();
    }
    stage
}

const CONNECTED: [Event; 3] = [Event::Connect, Event::PeerAccepts, Event::CompleteConnect];

#[test]
fn ovl_001_cancel_ends_all_requests_in_their_order() {
    let mut stage = stage(&CONNECTED);
    for event in [
        Event::NotifyDisconnect,
        Event::Disconnect,
        Event::NotifyDisconnect,
        Event::Cancel,
    ] {
        stage.cause(event).unwrap();
    }
    let statuses = stage.notifications.iter().chain(stage.changes.last());
    for request in statuses {
        assert_eq!(request.status(), Status::CANCELED);
    }
    assert_eq!(stage.state(), State::Disconnected);
}

#[test]
fn conn_102_conn_107_notifications_end_with_the_connection_and_later_ones_at_once() {
    let mut stage = stage(&CONNECTED);
    stage.cause(Event::NotifyDisconnect).unwrap();
    stage.cause(Event::PeerLeaves).unwrap();
    stage.cause(Event::NotifyDisconnect).unwrap();
    for request in &stage.notifications {
        assert_eq!(request.status(), Status::SUCCESS);
    }
    // TST-043: Disconnect still has to be called.
    stage.cause(Event::Disconnect).unwrap();
    assert_eq!(stage.state(), State::Disconnected);
}

#[test]
fn amb_034_a_failed_attempt_may_be_repeated_from_another_address() {
    let mut stage = stage(&[Event::Bind, Event::Connect]);
    let again = stage.handle.bind(HERE).unwrap_err();
    assert_eq!(again.status(), Status::ADDRESS_ALREADY_ASSOCIATED);
    stage.cause(Event::AttemptFails).unwrap();
    assert_eq!(stage.changes[0].status(), Status::CONNECTION_REFUSED);
    stage.handle.bind((HERE.ip(), 6).into()).unwrap();
    let local = stage.handle.get_local_address();
    assert_eq!(local, Ok((HERE.ip(), 6).into()));
    let again = stage.handle.bind(HERE).unwrap_err();
    assert_eq!(again.status(), Status::ADDRESS_ALREADY_ASSOCIATED);
}

#[test]
fn amb_005_a_mistake_leaves_the_connector_as_it_was() {
    let mut stage = stage(&[]);
    let connect = |to, data: &[u8], overlapped: &Overlapped| {
        let started = stage.handle.connect(&stage.qp, to, 1, 1, data, overlapped);
        started.unwrap_err().status()
    };
    let flying = Overlapped::new();
    let pending = flying.begin(&file()).unwrap();
    let long = connect(PEER, &[0; 9], &Overlapped::new());
    assert_eq!(long, Status::INVALID_BUFFER_SIZE);
    let nowhere = connect((PEER.ip(), 0).into(), &[], &Overlapped::new());
    assert_eq!(nowhere, Status::INVALID_ADDRESS);
    assert_eq!(connect(PEER, &[], &flying), Status::INVALID_PARAMETER_MIX);
    let other: SocketAddr = (std::net::Ipv6Addr::LOCALHOST, 1).into();
    let family = connect(other, &[], &Overlapped::new());
    assert_eq!(family, Status::NETWORK_UNREACHABLE);
    pending.complete(Status::SUCCESS);
    stage.check();
    assert!(stage.handle.get_local_address().is_err());
    stage.cause(Event::Connect).unwrap();
    assert_eq!(*stage.line.sent.lock(), [b"caller".to_vec()]);
}

#[test]
fn conn_071_reject_tells_of_a_peer_that_was_gone() {
    let offered = [Event::GetConnectionRequest, Event::Offer];
    let mut here = stage(&offered);
    here.cause(Event::Reject).unwrap();
    assert_eq!(*here.line.sent.lock(), [b"no".to_vec()]);
    let mut gone = stage(&offered);
    gone.line.peer_is_gone.store(true, Ordering::SeqCst);
    let refused = gone.cause(Event::Reject).unwrap_err();
    assert_eq!(refused.status(), Status::CONNECTION_ABORTED);
    assert_eq!(gone.state(), State::Dead);
}

#[test]
fn a_connector_that_gives_its_peer_back_has_the_address_that_it_was_bound_to() {
    let other: SocketAddr = (HERE.ip(), 6).into();
    let stage = stage(&[]);
    stage.handle.bind(other).unwrap();
    stage.line.wait_for_request(stage.listener()).unwrap();
    assert_eq!(WaitingConnector::offer(&*stage.line, 1), None);
    assert_eq!(stage.handle.get_local_address(), Ok(HERE));
    let elsewhere: Weak<dyn AwaitedListener<TestConnector>> = Weak::<Listener>::new();
    let refused = WaitingConnector::take_back(&*stage.line, &elsewhere);
    assert_eq!(refused.unwrap_err().status(), Status::CONNECTION_INVALID);
    let back = WaitingConnector::take_back(&*stage.line, &stage.listener());
    assert_eq!(back, Ok(Some(1)));
    assert_eq!(stage.handle.get_local_address(), Ok(other));
    assert!(stage.handle.get_private_data().is_err());
}
