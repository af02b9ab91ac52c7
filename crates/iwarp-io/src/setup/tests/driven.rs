//! Both machines over streams of adapters: in a simulated network, on its virtual clock, and over pipes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{acceptance, answering, asking, offer};
use crate::buffers::Buffers;
use crate::driver::Driver;
use crate::faults::{FaultOwner, Faults, Plan};
use crate::memory::Table;
use crate::progress::Edges;
use crate::progress::domain::{Source, Turn};
use crate::progress::timers::{Timed, TimerKey};
use crate::setup::mpa_startup::MpaStartup;
use crate::setup::*;
use crate::simulation::{Conditions, World};
use crate::transport::local_ports::bind;
use crate::transport::pipe::Pipes;
use crate::transport::purpose::Purpose;
use crate::transport::stream::Stream;
use crate::transport::{Dialer, Transport, Wire};

/// Only to end a hang.
const LONG: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const ROOM: HalfOpenLimits = HalfOpenLimits {
    total: 1000,
    per_peer: 1000,
};

/// No plan removes a device here.
#[derive(Debug)]
struct NoDevice;

impl FaultOwner for NoDevice {
    fn remove_device(&self) {
        panic!("there is no device");
    }
}

struct Net {
    world: Option<World>,
    driver: Arc<Driver>,
}

impl Net {
    fn over(transport: Transport) -> Self {
        let world = transport.environment().world().cloned();
        let buffers = Buffers::new(Arc::new(Table::new()));
        let driver = Arc::new(Driver::start(transport, buffers, None).unwrap());
        Self { world, driver }
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

    /// Waits, while the background thread drives everything.
    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + LONG;
        while !is_so() {
            match &self.world {
                Some(world) => assert!(world.step(), "nothing will ever happen: {what}"),
                None => std::thread::yield_now(),
            }
            assert!(Instant::now() < end, "in vain: {what}");
        }
    }

    fn time(&self) -> Duration {
        self.world.as_ref().expect("a simulation").time()
    }

    fn bind(&self, purpose: Purpose) -> crate::transport::Bound {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        bind(&self.driver.transport, local, purpose).unwrap()
    }

    fn dial(&self, to: SocketAddr) -> Dialer {
        self.bind(Purpose::Connecting).connect(to).unwrap()
    }

    /// A peer that the test drives.
    fn wire(&self, to: SocketAddr) -> Wire {
        let dialer = self.dial(to);
        self.until("connected", || dialer.is_connected(Edges::WRITE).unwrap());
        dialer.into_wire().unwrap()
    }

    /// Reads until `count` octets have arrived or the stream has ended. Returns the octets and the kind of end.
    fn read(&self, wire: &Wire, count: usize) -> (Vec<u8>, Option<StreamEnd>) {
        let mut octets = Vec::new();
        let mut ended = None;
        self.until("octets or an end", || {
            // Reads everything that has arrived: the next step of a simulation may be minutes away.
            while octets.len() < count && ended.is_none() {
                let mut buffer = [0; 64];
                let wanted = buffer.len().min(count - octets.len());
                match wire.read(&mut buffer[..wanted]) {
                    Ok(0) => ended = Some(StreamEnd::Fin),
                    Ok(count) => octets.extend_from_slice(&buffer[..count]),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
                    Err(_) => ended = Some(StreamEnd::Reset),
                }
            }
            true
        });
        (octets, ended)
    }

    fn listener(&self) -> (Arc<Listener>, SocketAddr) {
        self.listener_with(answering(), None, ROOM)
    }

    fn listener_with(
        &self,
        responder: ResponderConfig,
        faults: Option<Arc<Faults>>,
        limits: HalfOpenLimits,
    ) -> (Arc<Listener>, SocketAddr) {
        let config = AcceptorConfig {
            responder,
            faults,
            fault_owner: Arc::new(NoDevice),
        };
        let listener = Arc::new_cyclic(|this: &Weak<Listener>| Listener {
            acceptor: Acceptor::new(&self.driver, config, this.clone()),
            requested: Mutex::default(),
            ended: Mutex::default(),
        });
        let bound = self.bind(Purpose::Listening);
        let address = bound.local().unwrap();
        let acceptor = &listener.acceptor;
        acceptor.listen(vec![bound], Some(address), limits).unwrap();
        (listener, address)
    }
}

/// Keeps the calls of an acceptor.
struct Listener {
    acceptor: Arc<Acceptor>,
    requested: Mutex<Vec<Arc<Incoming>>>,
    ended: Mutex<Vec<u64>>,
}

impl AcceptorOwner for Listener {
    fn requested(&self, incoming: Arc<Incoming>) {
        self.requested.lock().push(incoming);
    }

    fn ended(&self, key: u64) {
        self.ended.lock().push(key);
    }
}

impl Listener {
    fn count(&self) -> usize {
        self.requested.lock().len()
    }

    fn first(&self) -> Arc<Incoming> {
        Arc::clone(&self.requested.lock()[0])
    }
}

/// The active side, with the events that it got.
struct Active {
    startup: Mutex<Option<MpaStartup<Initiator>>>,
    outcomes: Mutex<Vec<InitiatorOutcome>>,
}

impl Active {
    fn new(net: &Net, config: InitiatorConfig) -> Arc<Self> {
        let this = Arc::new(Self {
            startup: Mutex::default(),
            outcomes: Mutex::default(),
        });
        let owner = Arc::downgrade(&this);
        let startup = MpaStartup::new(Initiator::new(config), &net.driver, owner);
        *this.startup.lock() = Some(startup);
        this
    }

    /// Sends the Request over a new connection, under a fault plan.
    fn connect(self: &Arc<Self>, net: &Net, to: SocketAddr, faults: Option<&Arc<Faults>>) {
        let dialer = net.dial(to);
        let this = Arc::downgrade(self);
        let token = net
            .driver
            .control
            .add(&dialer, this, Edges::READ | Edges::WRITE);
        net.until("connected", || dialer.is_connected(Edges::WRITE).unwrap());
        let wire = dialer.into_wire().unwrap();
        let stream = net
            .driver
            .stream(wire, Role::Initiator, faults, Arc::new(NoDevice), None);
        let mut startup = self.startup.lock();
        let startup = startup.as_mut().unwrap();
        startup.send_request(stream, token.unwrap()).unwrap();
    }

    fn with<T>(&self, act: impl FnOnce(&mut MpaStartup<Initiator>) -> T) -> T {
        act(self.startup.lock().as_mut().unwrap())
    }

    fn outcome(&self, net: &Net) -> InitiatorOutcome {
        net.until("an outcome", || !self.outcomes.lock().is_empty());
        self.outcomes.lock().remove(0)
    }
}

impl Source for Active {
    fn ready(&self, _: Edges) -> Turn {
        let outcome = self
            .startup
            .lock()
            .as_mut()
            .and_then(MpaStartup::<Initiator>::ready);
        self.outcomes.lock().extend(outcome);
        Turn::default()
    }
}

impl Timed for Active {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut startup = self.startup.lock();
        let outcome = startup.as_mut().and_then(|startup| startup.expired(key));
        self.outcomes.lock().extend(outcome);
    }
}

/// The passive side of a request that a client has taken.
struct Passive {
    startup: Mutex<Option<MpaStartup<Responder>>>,
    /// The stream of the connection, once it is accepted.
    stream: Mutex<Option<Stream>>,
    outcomes: Mutex<Vec<ResponderOutcome>>,
}

impl Passive {
    fn take(net: &Net, listener: &Listener) -> Arc<Self> {
        net.until("a request", || listener.count() > 0);
        let request = listener.requested.lock().remove(0).take().unwrap();
        let this = Arc::new(Self {
            startup: Mutex::default(),
            stream: Mutex::default(),
            outcomes: Mutex::default(),
        });
        let owner = Arc::downgrade(&this);
        *this.startup.lock() = Some(request.watch(&net.driver, owner).unwrap());
        this
    }

    fn accept(&self) -> Agreed {
        let mut startup = self.startup.lock();
        let accepted = startup.as_mut().unwrap().accept(acceptance());
        let (stream, agreed, sent) = accepted.unwrap();
        sent.unwrap();
        *self.stream.lock() = Some(stream);
        agreed
    }
}

impl Source for Passive {
    fn ready(&self, _: Edges) -> Turn {
        let outcome = self
            .startup
            .lock()
            .as_mut()
            .and_then(MpaStartup::<Responder>::ready);
        self.outcomes.lock().extend(outcome);
        Turn::default()
    }
}

impl Timed for Passive {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut startup = self.startup.lock();
        let outcome = startup.as_mut().and_then(|startup| startup.expired(key));
        self.outcomes.lock().extend(outcome);
    }
}

fn request() -> Vec<u8> {
    let mut octets = Vec::new();
    offer(2).request().encode(&mut octets);
    octets
}

#[test]
fn a_connection_is_made_over_each_transport() {
    for net in Net::each() {
        let (listener, address) = net.listener();
        let active = Active::new(&net, asking(offer(2)));
        active.connect(&net, address, None);
        let passive = Passive::take(&net, &listener);
        let agreed = passive.accept();
        let InitiatorOutcome::Agreed(agreement) = active.outcome(&net) else {
            panic!("no agreement");
        };
        assert_eq!(agreement.agreed.ready, agreed.ready);
        assert_eq!(agreement.private_data, b"callee");
        let stream = active.with(MpaStartup::complete);
        assert!(stream.is_some());
        assert!(active.with(MpaStartup::complete).is_none());
    }
}

#[test]
fn mpa_019_a_rejection_arrives_over_each_transport() {
    for net in Net::each() {
        let (listener, address) = net.listener();
        let active = Active::new(&net, asking(offer(2)));
        active.connect(&net, address, None);
        let passive = Passive::take(&net, &listener);
        passive.startup.lock().take().unwrap().reject(b"full");
        let private_data = b"full".to_vec();
        let rejected = InitiatorOutcome::Failed(InitiatorFailure::Rejected { private_data });
        assert_eq!(active.outcome(&net), rejected);
    }
}

/// MPA-002, MPA-023: after ten seconds, whatever octets arrive.
#[test]
fn mpa_023_a_peer_without_a_request_is_reset_when_its_time_is_over() {
    for begun in [&b""[..], b"MPA ID Req"] {
        let net = Net::simulated();
        let (listener, address) = net.listener();
        let wire = net.wire(address);
        let start = net.time();
        if !begun.is_empty() {
            wire.write(begun).unwrap();
        }
        assert_eq!(net.read(&wire, 1), (vec![], Some(StreamEnd::Reset)));
        let took = net.time() - start;
        // Counted from the moment at which the connection was accepted, which this side saw a little later or earlier.
        assert!(took.abs_diff(10 * SECOND) < SECOND / 100, "{took:?}");
        assert_eq!(listener.count(), 0);
    }
}

#[test]
fn mpa_024_the_deadlines_of_the_active_side_pass_on_the_virtual_clock() {
    let net = Net::simulated();
    let (listener, address) = net.listener();
    let silent = Active::new(&net, asking(offer(2)));
    silent.connect(&net, address, None);
    let start = net.time();
    let late = InitiatorOutcome::Failed(InitiatorFailure::TimedOut);
    assert_eq!(silent.outcome(&net), late);
    assert_eq!((net.time() - start).as_secs(), 120);
    // The peer of the application that took too long sees a reset.
    net.until("the end", || !listener.ended.lock().is_empty());
    listener.requested.lock().clear();

    let answered = Active::new(&net, asking(offer(2)));
    answered.connect(&net, address, None);
    Passive::take(&net, &listener).accept();
    assert!(matches!(
        answered.outcome(&net),
        InitiatorOutcome::Agreed(_)
    ));
    let start = net.time();
    assert_eq!(answered.outcome(&net), InitiatorOutcome::SendReady);
    assert_eq!((net.time() - start).as_secs(), 10);
    assert!(answered.with(MpaStartup::take_stream).is_some());
    assert!(answered.with(MpaStartup::complete).is_none());
}

#[test]
fn a_peer_that_does_not_complete_is_waited_for_no_longer_than_it_has_time() {
    let net = Net::simulated();
    let (listener, address) = net.listener();
    let wire = net.wire(address);
    wire.write(&request()).unwrap();
    let passive = Passive::take(&net, &listener);
    passive.accept();
    let start = net.time();
    net.until("an outcome", || !passive.outcomes.lock().is_empty());
    let late = ResponderOutcome::Failed(ResponderFailure::TimedOut);
    assert_eq!(*passive.outcomes.lock(), [late]);
    assert_eq!((net.time() - start).as_secs(), 60);
}

/// MPA2-010: over a second connection.
#[test]
fn mpa2_010_a_peer_that_closes_is_asked_once_more() {
    for net in Net::each() {
        let bound = net.bind(Purpose::Listening);
        let address = bound.local().unwrap();
        let old = bound.listen().unwrap();
        let active = Active::new(&net, asking(offer(2)));
        active.connect(&net, address, None);
        net.until("a peer", || old.is_somebody_there());
        let wire = old.accept().unwrap();
        let request = net.read(&wire, request().len()).0;
        assert_eq!(request[17], 2);
        drop(wire);
        assert_eq!(active.outcome(&net), InitiatorOutcome::FallBack);
        active.connect(&net, address, None);
        net.until("a peer", || old.is_somebody_there());
        let request = net.read(&old.accept().unwrap(), 20).0;
        assert_eq!(request[17], 1);
        let ended = active.outcome(&net);
        let failed = matches!(ended, InitiatorOutcome::Failed(InitiatorFailure::Ended(_)));
        assert!(failed, "{ended:?}");
    }
}

/// The end of the hold wakes the set-up: there is no other event on the stream.
#[test]
fn what_a_fault_plan_holds_arrives_when_the_hold_ends() {
    let net = Net::simulated();
    let (listener, address) = net.listener();
    let plan: Plan = "when 1st MPA Reply received: hold for 3 s after octet 4"
        .parse()
        .unwrap();
    let faults = Faults::new(plan);
    let active = Active::new(&net, asking(offer(2)));
    active.connect(&net, address, Some(&faults));
    Passive::take(&net, &listener).accept();
    let start = net.time();
    assert!(matches!(active.outcome(&net), InitiatorOutcome::Agreed(_)));
    assert_eq!((net.time() - start).as_secs(), 3);
}

#[test]
fn mpa_015_who_does_not_wait_for_the_reply_is_reset() {
    for net in Net::each() {
        let (listener, address) = net.listener();
        let wire = net.wire(address);
        wire.write(&[&request()[..], b"more"].concat()).unwrap();
        assert!(net.read(&wire, 1).1.is_some());
        assert_eq!(listener.count(), 0);
        // Behind a whole Request, before a client has asked for it.
        let wire = net.wire(address);
        wire.write(&request()).unwrap();
        net.until("a request", || listener.count() > 0);
        wire.write(b"more").unwrap();
        net.until("the end", || !listener.ended.lock().is_empty());
        assert!(listener.first().has_ended());
        assert!(listener.first().take().is_none());
    }
}

/// Two hundred arrive at the same moment, more than one turn of the acceptor accepts. The socket reports them once.
#[test]
fn a_crowd_is_let_in_over_several_turns() {
    let latency = Duration::from_micros(10);
    let net = Net::over(Transport::Sim(World::new(
        1,
        Conditions {
            latency: latency..=latency,
            ..Conditions::default()
        },
    )));
    let (listener, address) = net.listener();
    let peers: Vec<_> = (0..200).map(|_| net.dial(address)).collect();
    let is_connected = |dialer: &Dialer| dialer.is_connected(Edges::WRITE).unwrap();
    net.until("connected", || peers.iter().all(is_connected));
    let wires = peers.into_iter().map(|dialer| dialer.into_wire().unwrap());
    let wires: Vec<_> = wires.collect();
    for wire in &wires {
        wire.write(&request()).unwrap();
    }
    net.until("all requests", || listener.count() == wires.len());
}

#[test]
fn sec_031_the_oldest_silent_peer_gives_way_and_one_with_a_request_does_not() {
    let net = Net::simulated();
    let limits = HalfOpenLimits {
        total: 2,
        per_peer: 2,
    };
    let (listener, address) = net.listener_with(answering(), None, limits);
    let silent = net.wire(address);
    let speaks = net.wire(address);
    speaks.write(&request()[..12]).unwrap();
    let newcomer = net.wire(address);
    assert_eq!(net.read(&silent, 1), (vec![], Some(StreamEnd::Reset)));
    speaks.write(&request()[12..]).unwrap();
    newcomer.write(&request()).unwrap();
    net.until("both requests", || listener.count() == 2);
    assert!(net.time() < SECOND, "nobody was waited for");
}

/// MPA-002: with a Reply if there is a Request, otherwise with a reset.
#[test]
fn mpa_002_an_acceptor_that_closes_refuses_everybody() {
    for net in Net::each() {
        let (listener, address) = net.listener();
        let silent = net.wire(address);
        let whole = net.wire(address);
        whole.write(&request()).unwrap();
        net.until("a request", || listener.count() == 1);
        listener.acceptor.close();
        listener.first().refuse();
        let (reply, _) = net.read(&whole, 24);
        assert_eq!(
            (&reply[..16], reply[16] & 0x20),
            (&b"MPA ID Rep Frame"[..], 0x20)
        );
        assert_eq!(net.read(&whole, 1), (vec![], Some(StreamEnd::Fin)));
        let ended = net.read(&silent, 1).1;
        // A pipe has no reset.
        let reset = net.world.as_ref().map(|_| StreamEnd::Reset);
        assert_eq!(ended, reset.or(Some(StreamEnd::Fin)));
    }
}
