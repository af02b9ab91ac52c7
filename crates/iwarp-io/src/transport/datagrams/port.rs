//! A UDP socket shared by several users, which each have a completion queue.
//!
//! A user [watches](DatagramPort::watch) the port in the domain of its queue. A thread that drives one of these domains receives the datagrams
//! of all users. While there is none, the driver's control domain drives the port.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::owner::DatagramOwner;
use super::{
    BATCH, CarriedWatch, Driving, FaultedSocket, LONGEST_TRAIN, Outgoing, PlainSocket, Socket,
    SocketDrivers, with_memory,
};
use crate::environment::Environment;
use crate::faults::Faults;
use crate::log::targets;
use crate::progress::Edges;
use crate::progress::domain::{Domain, Source, Turn};
use crate::progress::shared_descriptor::{CarriedSource, Carrier, CarrierId};
use crate::progress::timers::{Timed, TimerKey};
use crate::transport::both_ports::ReservedUdp;

/// The most receives of one call, so that a flood does not keep the driver from other work for long.
const VISITS: usize = 32;

/// The time after which a socket that was full is tried again.
const FULL: Duration = Duration::from_millis(1);

/// A UDP socket at one address. A thread that drives the domain of one of its users receives the datagrams of all.
pub struct DatagramPort<O: DatagramOwner> {
    socket: Socket,
    local: SocketAddr,
    environment: Environment,
    drivers: SocketDrivers,
    owner: Weak<O>,
    /// Held by the thread that receives.
    receiving: Mutex<()>,
    /// The socket may have more datagrams than were taken.
    unread: AtomicBool,
    /// The owner waits for [`DatagramOwner::has_room`] until this time.
    retry: Mutex<Option<Instant>>,
    driving: Driving<Self>,
}

impl<O: DatagramOwner> std::fmt::Debug for DatagramPort<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatagramPort")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

/// Makes the threads that drive a domain receive the datagrams of a port, until it is dropped.
pub struct WatchedPort<O: DatagramOwner> {
    port: Arc<DatagramPort<O>>,
    source: Arc<CarriedSource>,
    domain: Arc<Domain>,
    token: u64,
    /// What the domain calls when the port is ready. The domain has driven the port by then.
    #[expect(dead_code, reason = "the domain has a weak reference")]
    at: Arc<dyn Source>,
}

impl<O: DatagramOwner> std::fmt::Debug for WatchedPort<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WatchedPort").field(&self.port).finish()
    }
}

impl<O: DatagramOwner> Drop for WatchedPort<O> {
    fn drop(&mut self) {
        self.domain.remove(&CarriedWatch(&self.source), self.token);
    }
}

/// The source of a domain that drives the port by itself.
struct Nothing;

impl Source for Nothing {
    fn ready(&self, _: Edges) -> Turn {
        Turn::default()
    }
}

impl<O: DatagramOwner> DatagramPort<O> {
    /// Opens the socket at this address, whose port was reserved, or at any port if it is 0. `owner` gets its datagrams, and the fault plan applies to them.
    ///
    /// # Errors
    ///
    /// Those of the system, when it refuses the socket.
    pub fn open(
        environment: &Environment,
        drivers: SocketDrivers,
        reserved: &ReservedUdp,
        local: SocketAddr,
        faults: Option<&Arc<Faults>>,
        owner: Weak<O>,
    ) -> io::Result<Arc<Self>> {
        let environment = environment.clone();
        let socket = match &environment {
            Environment::Sim(world) => PlainSocket::of_world(world, local)?,
            Environment::System => match reserved.take(local.ip()) {
                Some(udp) => PlainSocket::of_bound(udp)?,
                None => PlainSocket::of_system(local)?,
            },
        };
        let local = socket.local()?;
        let faults = faults.and_then(|faults| faults.datagrams(false));
        let beginning = environment.now();
        let port = Arc::new_cyclic(|this: &Weak<Self>| Self {
            socket: match faults {
                None => Socket::Plain(socket),
                Some(faults) => {
                    let known = Arc::new(OnceLock::from(drivers.clone()));
                    let (environment, carrier) = (environment.clone(), this.clone());
                    let faulted = FaultedSocket::new(socket, faults, environment, known, carrier);
                    Socket::Faulted(Box::new(faulted))
                }
            },
            local,
            environment,
            drivers,
            owner,
            receiving: Mutex::default(),
            unread: AtomicBool::new(false),
            retry: Mutex::new(None),
            driving: Driving::new(this.clone(), beginning),
        });
        port.driving.settle(Some(&port.drivers));
        Ok(port)
    }

    /// Opens a port with this number at each of `addresses`, as [`open`](Self::open) does.
    ///
    /// # Errors
    ///
    /// The first failure, with the address where it happened.
    pub fn open_at_each<'a>(
        environment: &Environment,
        drivers: &SocketDrivers,
        reserved: &ReservedUdp,
        (addresses, port): (impl IntoIterator<Item = &'a IpAddr>, u16),
        faults: Option<&Arc<Faults>>,
        owner: &Weak<O>,
    ) -> Result<Vec<Arc<Self>>, (SocketAddr, io::Error)> {
        let open = |ip: &IpAddr| {
            let local = SocketAddr::new(*ip, port);
            let (drivers, owner) = (drivers.clone(), owner.clone());
            Self::open(environment, drivers, reserved, local, faults, owner)
                .map_err(|error| (local, error))
        };
        addresses.into_iter().map(open).collect()
    }

    /// The address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends a datagram.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the socket is full; [`DatagramOwner::has_room`] follows. Others if the system refuses
    /// the datagram, because it has no route for example: then it is lost.
    pub fn send(&self, to: SocketAddr, octets: &[u8]) -> io::Result<()> {
        let outgoing = Outgoing {
            to,
            ecn: None,
            octets,
            stride: None,
        };
        let sent = self.socket.send(&outgoing);
        match &sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *self.retry.lock() = Some(self.environment.now() + FULL);
                self.plan();
            }
            Err(_) => {}
            Ok(()) => {
                if let Environment::Sim(world) = &self.environment {
                    world.moved();
                }
                if matches!(self.socket, Socket::Faulted(_)) {
                    self.plan();
                }
            }
        }
        sent
    }

    /// Makes the threads that drive `domain` receive the datagrams of the port.
    ///
    /// # Errors
    ///
    /// Those of the system, when it refuses to watch the socket.
    pub fn watch(self: &Arc<Self>, domain: &Arc<Domain>) -> io::Result<WatchedPort<O>> {
        let source = self.driving.source();
        let at: Arc<dyn Source> = Arc::new(Nothing);
        let token = domain.add(&CarriedWatch(&source), Arc::downgrade(&at), Edges::READ)?;
        Ok(WatchedPort {
            port: Arc::clone(self),
            source,
            domain: Arc::clone(domain),
            token,
            at,
        })
    }

    /// Ends the control domain's part, so that the socket is closed as soon as no user watches it.
    pub fn close(&self) {
        self.driving.close(Some(&self.drivers));
    }

    /// Takes datagrams, and passes them to the owner.
    fn receive(&self) {
        let Some(owner) = self.owner.upgrade() else {
            return;
        };
        let mut deferred = Vec::new();
        let receiving = self.receiving.lock();
        let mut unread = true;
        for _ in 0..VISITS {
            unread = self.receive_batch(&owner, &mut deferred);
            if !unread {
                break;
            }
        }
        // A report that the peer has no socket is of no use here.
        while self.socket.take_refused().is_some() {}
        self.unread.store(unread, Ordering::Relaxed);
        if !unread {
            self.driving.arm(Some(&self.drivers), &self.socket);
        }
        drop(receiving);
        if !deferred.is_empty()
            && let Environment::Sim(world) = &self.environment
        {
            world.moved();
        }
        drop(deferred);
        let now = self.environment.now();
        let has_room = self.retry.lock().take_if(|at| *at <= now).is_some();
        if has_room {
            owner.has_room();
        }
        self.plan();
    }

    /// Takes a batch of datagrams. Returns true if there may be more.
    fn receive_batch(&self, owner: &O, deferred: &mut Vec<O::Deferred>) -> bool {
        with_memory(|buffers, received| {
            let unread = match self.socket.receive(buffers, received) {
                Ok(()) => received.len() == BATCH,
                Err(error) => {
                    received.clear();
                    let is_empty = error.kind() == io::ErrorKind::WouldBlock;
                    if !is_empty {
                        // The network's report about a datagram that was sent earlier.
                        tracing::trace!(target: targets::UDP, %error, "a UDP socket reports an error");
                    }
                    !is_empty
                }
            };
            for (train, octets) in received.iter().zip(buffers.chunks(LONGEST_TRAIN)) {
                let octets = &octets[..train.len.min(LONGEST_TRAIN)];
                let empty = octets.is_empty().then_some(octets);
                for octets in octets.chunks(train.stride.max(1)).chain(empty) {
                    deferred.extend(owner.received(self.local, train.from, octets));
                }
            }
            unread
        })
    }

    /// Sets the time of the next deadline, and the timer of the background thread.
    fn plan(&self) {
        let now = self.environment.now();
        let unread = self.unread.load(Ordering::Relaxed);
        let deadlines = [
            unread.then_some(now),
            *self.retry.lock(),
            self.socket.next_deadline(now),
        ];
        let next = deadlines.into_iter().flatten().min();
        self.driving.set_due(next);
        self.driving.set_timer(Some(&self.drivers), next);
    }
}

impl<O: DatagramOwner> Carrier for DatagramPort<O> {
    fn id(&self) -> CarrierId<'_> {
        self.socket.id()
    }

    fn drive(&self) {
        self.receive();
    }

    fn is_due(&self) -> bool {
        self.driving.is_due(|| self.environment.now())
    }

    fn held(&self, held: bool) {
        self.driving.held(Some(&self.drivers), held);
    }
}

/// The control domain has driven the port when it asks for ready sources.
impl<O: DatagramOwner> Source for DatagramPort<O> {
    fn ready(&self, _: Edges) -> Turn {
        Turn::default()
    }
}

impl<O: DatagramOwner> Timed for DatagramPort<O> {
    fn expired(&self, key: TimerKey, _: Instant) {
        self.driving.timer_expired(key);
        self.receive();
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::buffers::Buffers;
    use crate::driver::Driver;
    use crate::simulation::{Chance, Conditions, World};
    use crate::transport::Transport;
    use crate::transport::both_ports::bind_both;
    use crate::transport::tcp::{Tcp, TcpOptions};
    use iwarp_mem::Table;

    /// Keeps what arrives.
    #[derive(Default)]
    struct Keeper {
        arrived: Mutex<Vec<Vec<u8>>>,
        delivered: Arc<AtomicU64>,
        rooms: AtomicU64,
    }

    /// Counts when it is dropped.
    struct Noted(Arc<AtomicU64>);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl DatagramOwner for Keeper {
        type Deferred = Noted;

        fn received(&self, _: SocketAddr, _: SocketAddr, octets: &[u8]) -> Option<Noted> {
            self.arrived.lock().push(octets.to_vec());
            (octets.len() == 3).then(|| Noted(Arc::clone(&self.delivered)))
        }

        fn has_room(&self) {
            self.rooms.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Host {
        driver: Arc<Driver>,
        keeper: Arc<Keeper>,
        port: Arc<DatagramPort<Keeper>>,
    }

    impl Host {
        fn new(transport: Transport, ip: IpAddr) -> Self {
            let buffers = Buffers::new(Arc::new(Table::new()));
            let driver = Driver::start(transport, buffers, None).unwrap();
            let both = bind_both(&driver.transport, &[ip], None).unwrap();
            let keeper = Arc::new(Keeper::default());
            let address = SocketAddr::new(ip, both.port);
            let weak = Arc::downgrade(&keeper);
            let port = DatagramPort::open(
                &driver.environment,
                driver.socket_drivers(),
                &both.udp,
                address,
                None,
                weak,
            );
            let port = port.unwrap();
            Self {
                driver: Arc::new(driver),
                keeper,
                port,
            }
        }

        fn simulated(world: &World, last: u8) -> Self {
            Self::new(Transport::Sim(world.own()), [10, 0, 0, last].into())
        }

        fn on_sockets() -> Self {
            let tcp = Tcp::new(TcpOptions::default());
            Self::new(Transport::Tcp(tcp), [127, 0, 0, 1].into())
        }

        fn arrived(&self) -> Vec<Vec<u8>> {
            self.keeper.arrived.lock().clone()
        }
    }

    #[test]
    fn while_nobody_watches_the_control_domain_receives() {
        let world = World::new(1, Conditions::default());
        let (from, to) = (Host::simulated(&world, 1), Host::simulated(&world, 2));
        for text in [&b"one"[..], b"two", b"three"] {
            from.port.send(to.port.local(), text).unwrap();
        }
        while world.step() {}
        assert_eq!(to.arrived().len(), 3);
        assert_eq!(to.keeper.delivered.load(Ordering::Relaxed), 2);
    }

    /// Each thread that drives the domain of one user receives for all.
    #[test]
    fn each_domain_that_watches_receives() {
        let host = Host::on_sockets();
        let waiters = host.driver.waiters().unwrap();
        let domains = [(); 2].map(|()| host.driver.domain(&waiters).unwrap());
        let watches = domains
            .each_ref()
            .map(|domain| host.port.watch(domain).unwrap());
        for round in 0..50_u8 {
            let domain = &domains[usize::from(round) % 2];
            host.port.send(host.port.local(), &[round]).unwrap();
            while host.arrived().len() <= usize::from(round) {
                let _ = domain.poll();
            }
        }
        let [first, second] = watches;
        drop(first);
        host.port.send(host.port.local(), b"x").unwrap();
        while host.arrived().len() < 51 {
            let _ = domains[1].poll();
        }
        drop(second);
        host.port.send(host.port.local(), b"y").unwrap();
        while host.arrived().len() < 52 {
            host.driver.control.progress();
        }
        let expected = (0..50).map(|round| vec![round]);
        assert!(host.arrived().into_iter().take(50).eq(expected));
    }

    #[test]
    fn a_peer_that_is_not_there_keeps_nobody_busy() {
        let world = World::new(1, Conditions::default());
        let from = Host::simulated(&world, 1);
        let nobody = SocketAddr::from(([10, 0, 0, 9], 7));
        from.port.send(nobody, b"x").unwrap();
        for _ in 0..100 {
            if !world.step() {
                return;
            }
        }
        panic!("the port stays ready");
    }

    #[test]
    fn a_closed_port_is_free_again() {
        let host = Host::on_sockets();
        let local = host.port.local();
        assert!(UdpSocket::bind(local).is_err());
        host.port.close();
        drop(host);
        UdpSocket::bind(local).unwrap();
    }

    #[test]
    fn a_full_socket_says_when_to_try_again() {
        let conditions = Conditions {
            full_socket: Chance::ALWAYS,
            ..Conditions::default()
        };
        let world = World::new(1, conditions);
        let (from, to) = (Host::simulated(&world, 1), Host::simulated(&world, 2));
        let beginning = world.now();
        let error = from.port.send(to.port.local(), b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        while from.keeper.rooms.load(Ordering::Relaxed) == 0 {
            assert!(world.step(), "nothing will ever happen");
        }
        assert_eq!(world.now() - beginning, FULL);
    }
}
