//! Adapters in a simulated network. The network connects any number of adapters of one process, and has a virtual clock. The
//! same seed gives the same run.
//!
//! ```
//! use netdirect::{Overlapped, Status};
//! use softnd::{Options, simulation::Simulation};
//!
//! # fn main() -> netdirect::Result<()> {
//! let simulation = Simulation::new(7);
//! let client = simulation.open([10, 0, 0, 1], Options::default())?;
//! let server = simulation.open([10, 0, 0, 2], Options::default())?;
//!
//! let (file, listening) = (client.create_overlapped_file()?, server.create_overlapped_file()?);
//! let connector = client.create_connector(&file)?;
//! let listener = server.create_listener(&listening)?;
//! listener.bind("10.0.0.2:7174".parse().unwrap())?;
//! listener.listen(0)?;
//! let asked = Overlapped::new();
//! let accepting = server.create_connector(&listening)?;
//! let _ = listener.get_connection_request(&accepting, &asked)?;
//! // No peer connects, and nothing is left that could make a peer connect. On a real network this wait would hang.
//! assert_eq!(asked.wait(), Status::POSSIBLE_DEADLOCK);
//! # drop(connector);
//! # Ok(())
//! # }
//! ```
//!
//! The calls of the program drive the simulation. A call that waits, or that polls and finds nothing, moves the virtual clock to
//! the next event. The same call does the work that an adapter's own thread does on a real network. A test in a simulation
//! therefore never sleeps, and an hour of virtual time costs milliseconds.
//!
//! Two runs with the same seed send the same octets and end their requests in the same order. For this, the program has to make
//! the same calls in both runs, and the buffers that the program names to its peers have to lie at the same addresses.
//!
//! A network exists as long as the program holds anything of it: a [`Simulation`], a provider, an adapter, any object of an adapter, a raw
//! stream or a socket for datagrams. With the last of these the network ends, with all connections in it.
//!
//! A simulation belongs to the thread that created the simulation. A wait in another thread ends with
//! [`INVALID_DEVICE_REQUEST`](Status::INVALID_DEVICE_REQUEST), and connections that another thread uses break.

mod keys;
mod raw;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iwarp_io::simulation::World;
use iwarp_io::simulation::world::WeakWorld;
pub use iwarp_io::simulation::{Chance, Conditions, Disturbances};
pub use iwarp_io::transport::sim::DatagramSocket;
use netdirect::{Adapter, Error, Result, SimulatedTime, Sleep, Status};

use crate::core::step;
use crate::options::Options;
use crate::provider::{Protocol, Provider};

pub use raw::{RawListener, RawStream};

/// The scheme of the URLs of simulated adapters.
pub const SCHEME: &str = "softnd+sim://";

/// A simulated network. All clones refer to the same network. The network exists [as long as anything of it is held](self).
#[derive(Clone)]
pub struct Simulation {
    seed: u64,
    pub(crate) world: World,
    protocol: Protocol,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("seed", &self.seed)
            .field("time", &self.world.time())
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// Creates a network with the default [`Conditions`], which the calling thread drives.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Conditions::default())
    }

    /// Creates a network with these conditions, which the calling thread drives.
    pub fn with(seed: u64, conditions: Conditions) -> Self {
        Self {
            seed,
            world: World::new(seed, conditions),
            protocol: Protocol::Streams,
        }
    }

    /// The same network, in which adapters that are opened from here on connect [over UDP](crate::udp_provider).
    #[must_use]
    pub fn over_udp(&self) -> Self {
        Self {
            protocol: Protocol::Quic,
            ..self.clone()
        }
    }

    /// The seed of all random choices of the network.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Opens the adapter that has this address in the network. An adapter can be opened more than once, as on a real host.
    ///
    /// # Errors
    ///
    /// [`INVALID_ADDRESS`](Status::INVALID_ADDRESS) for the unspecified address and for multicast addresses.
    pub fn open(&self, address: impl Into<IpAddr>, options: Options) -> Result<Arc<dyn Adapter>> {
        let address = address.into().to_canonical();
        if address.is_unspecified() || address.is_multicast() {
            let what =
                format!("an adapter cannot have the address {address}: give a unicast address");
            return Err(Error::new(Status::INVALID_ADDRESS, what));
        }
        let provider = self.provider([address], options);
        let id = provider.resolve_address((address, 0).into())?;
        provider.open_adapter(id)
    }

    /// Makes a provider with one adapter for each of these addresses.
    pub fn provider(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
        options: Options,
    ) -> Arc<dyn netdirect::Provider> {
        let addresses = addresses.into_iter();
        let addresses = addresses.map(|address| address.to_canonical()).collect();
        Arc::new(Provider::simulated(
            self.world.clone(),
            addresses,
            self.protocol,
            options,
        ))
    }

    /// The virtual time since the network was created.
    pub fn time(&self) -> Duration {
        self.world.time()
    }

    /// Runs the next event of the network. Returns false when no event is left.
    pub fn step(&self) -> bool {
        self.world.step()
    }

    /// Lets this much virtual time pass, and runs all events within that time.
    pub fn pass(&self, time: Duration) {
        self.world.pass(time);
    }

    /// A timer of the network: a future that ends when this much virtual time has passed. It corresponds to `sleep` of a runtime: a pause,
    /// or the time limit of another future. Dropping it cancels the timer. A program that has only an adapter finds the same at its
    /// overlapped file, as [`OverlappedFile::simulation`](netdirect::OverlappedFile::simulation).
    ///
    /// ```
    /// use std::time::Duration;
    /// use softnd::simulation::Simulation;
    ///
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = std::pin::pin!(future);
    /// #     loop {
    /// #         let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    /// #         if let std::task::Poll::Ready(output) = future.as_mut().poll(context) { return output }
    /// #     }
    /// # }
    /// let simulation = Simulation::new(7);
    /// block_on(simulation.sleep(Duration::from_secs(60)))?;
    /// assert_eq!(simulation.time(), Duration::from_secs(60));
    /// # Ok::<(), netdirect::Error>(())
    /// ```
    pub fn sleep(&self, time: Duration) -> Sleep {
        let clock: Arc<dyn SimulatedTime> = Arc::new(Clock(self.world.clone()));
        clock.sleep(time)
    }

    /// Reports, one line each, the requests of all adapters with the events that they wait for, and the amount of data that each stream
    /// carries. When no event is left that could end a wait, the wait logs this report at level error and returns the report in its error.
    pub fn report(&self) -> Vec<String> {
        self.world.report()
    }

    /// Cuts two hosts off from each other for this long from now on: all datagrams between them are lost. Another call for the
    /// same hosts replaces this one; a time of zero ends the cut. Streams are not cut.
    pub fn cut(&self, one: impl Into<IpAddr>, other: impl Into<IpAddr>, time: Duration) {
        let (one, other) = (one.into(), other.into());
        self.world
            .network(|network| network.datagrams().cut(one, other, time));
        self.world.moved();
    }

    /// Makes others see the sockets for datagrams from which a host connects at other ports from now on, as behind a NAT that has forgotten
    /// them. Datagrams to the former ports are lost. Returns the number of these sockets; those of listeners keep their ports.
    ///
    /// # Errors
    ///
    /// [`INSUFFICIENT_RESOURCES`](Status::INSUFFICIENT_RESOURCES) if no port is left.
    pub fn rebind(&self, host: impl Into<IpAddr>) -> Result<usize> {
        let host = host.into();
        let rebound = self
            .world
            .network(|network| network.datagrams().rebind_host(host));
        self.world.moved();
        rebound.map_err(|error| Error::new(Status::INSUFFICIENT_RESOURCES, error.to_string()))
    }

    /// The number of disturbances of the network's streams and datagrams, by kind.
    pub fn disturbances(&self) -> Disturbances {
        self.world.network(|network| network.disturbances())
    }

    /// Changes the conditions of the network from now on.
    pub fn change(&self, change: impl FnOnce(&mut Conditions)) {
        self.world
            .network(|network| change(network.conditions_mut()));
        self.world.moved();
    }
}

/// The time of a network, for a program without an adapter.
struct Clock(World);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.0.time()).finish()
    }
}

impl SimulatedTime for Clock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn step(&self, until: Option<Instant>) -> Result<()> {
        step(&self.0, until)
    }

    fn set_alarm(&self, at: Instant) -> u64 {
        self.0.set_alarm(at)
    }

    fn clear_alarm(&self, alarm: u64) {
        self.0.clear_alarm(alarm);
    }
}

/// A network in which a thread has opened adapters by URL.
struct ByUrl {
    world: WeakWorld,
    /// The last part of the last address given out.
    number: u8,
}

thread_local! {
    /// The networks in which this thread has opened adapters by URL. The key is the URL without its scheme and its address.
    static OPENED: RefCell<BTreeMap<String, ByUrl>> = const { RefCell::new(BTreeMap::new()) };
}

/// The number of networks that this thread remembers by their URLs.
#[cfg(test)]
pub(crate) fn opened() -> usize {
    OPENED.with_borrow(BTreeMap::len)
}

/// Opens an adapter. `name` is the part of its URL behind the [`SCHEME`]: `seed=7`, and optionally `protocol=udp` and keys for the
/// [`Conditions`]. URLs that differ only in their `address` name the same network in one thread, for as long as anything of the network is
/// held. Opened again after that, the network begins anew.
pub(crate) fn open(name: &str, options: Options) -> Result<Arc<dyn Adapter>> {
    let asked = Asked::parse(name).map_err(|what| {
        let what = format!("{SCHEME}{name}: {what}");
        Error::new(Status::INVALID_ADDRESS, what)
    })?;
    let (simulation, number) = OPENED.with_borrow_mut(|opened| asked.join(opened));
    let address = asked.address.unwrap_or(IpAddr::from([10, 0, 0, number]));
    simulation.open(address, options)
}

/// Makes a provider in a new simulated network, which the calling thread drives. `name` is the part of a URL behind the [`SCHEME`]:
/// `seed=7`, and maybe `protocol=udp` and keys for the [`Conditions`]. The provider has two adapters. The first adapter has the address
/// that the name asks for, or 10.0.0.1.
///
/// # Errors
///
/// [`INVALID_ADDRESS`](Status::INVALID_ADDRESS) for a name of another form.
pub fn provider(name: &str, options: Options) -> Result<Arc<dyn netdirect::Provider>> {
    let asked = Asked::parse(name).map_err(|what| {
        let what = format!("{SCHEME}{name}: {what}");
        Error::new(Status::INVALID_ADDRESS, what)
    })?;
    let first = asked.address.unwrap_or(IpAddr::from([10, 0, 0, 1]));
    let second = match first {
        IpAddr::V4(_) => [IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 3])],
        IpAddr::V6(_) => [
            IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, 2]),
            IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, 3]),
        ],
    };
    let second = second.into_iter().find(|second| *second != first);
    let simulation = asked.simulation();
    Ok(simulation.provider([first].into_iter().chain(second), options))
}

/// The parsed part of a URL behind the scheme.
#[derive(Debug)]
struct Asked {
    seed: u64,
    address: Option<IpAddr>,
    conditions: Conditions,
    protocol: Protocol,
    /// All parts of the URL except the address, as written.
    network: Vec<String>,
}

impl Asked {
    fn simulation(&self) -> Simulation {
        self.in_world(self.new_world())
    }

    fn new_world(&self) -> World {
        World::new(self.seed, self.conditions.clone())
    }

    fn in_world(&self, world: World) -> Simulation {
        Simulation {
            seed: self.seed,
            world,
            protocol: self.protocol,
        }
    }

    /// The network of this URL: the one in which adapters are open, or a new one. Also returns the number of the last address given
    /// out there.
    fn join(&self, opened: &mut BTreeMap<String, ByUrl>) -> (Simulation, u8) {
        let network = self.network.join(",");
        let known = opened.get(&network);
        let known = known.and_then(|known| Some((known.world.upgrade()?, known.number)));
        let (world, before) = known.unwrap_or_else(|| (self.new_world(), 0));
        let number = match self.address {
            Some(_) => before,
            None => before.wrapping_add(1),
        };
        opened.retain(|_, known| known.world.is_alive());
        let entry = ByUrl {
            world: world.downgrade(),
            number,
        };
        opened.insert(network, entry);
        (self.in_world(world), number)
    }

    fn parse(name: &str) -> std::result::Result<Self, String> {
        let mut asked = Self {
            seed: 0,
            address: None,
            conditions: Conditions::default(),
            protocol: Protocol::Streams,
            network: Vec::new(),
        };
        let mut seed = None;
        let (mut seen, mut conditions) = (Vec::new(), Vec::new());
        if name.trim().is_empty() {
            return Err(without_seed(&[]));
        }
        for part in name.split(',').map(str::trim) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!(
                    "expected KEY=VALUE instead of {part:?}, for example seed=7; keys are {}",
                    keys::names()
                ));
            };
            if seen.contains(&key) {
                return Err(format!("{key} is there twice; leave out one of them"));
            }
            seen.push(key);
            if key != "address" {
                asked.network.push(part.to_owned());
            }
            let invalid = |what: &str| format!("{value:?} is not {what} (of {key})");
            match key {
                "seed" => seed = Some(value.parse().map_err(|_| invalid("a number"))?),
                "address" => {
                    asked.address = Some(value.parse().map_err(|_| invalid("an IP address"))?);
                }
                "protocol" => {
                    asked.protocol = match value {
                        "tcp" => Protocol::Streams,
                        "udp" => Protocol::Quic,
                        _ => return Err(invalid("tcp or udp")),
                    };
                }
                _ => {
                    let key = keys::find(key)?;
                    key.set(&mut asked.conditions, value)?;
                    conditions.push(key);
                }
            }
        }
        // The protocol may be named behind the conditions.
        for key in conditions {
            key.check(asked.protocol)?;
        }
        let parts = || name.split(',').map(str::trim).collect::<Vec<_>>();
        asked.seed = seed.ok_or_else(|| without_seed(&parts()))?;
        Ok(asked)
    }
}

/// The error for a URL without a seed. There is no default seed: with one every run would be the same, and no failure would show the seed.
fn without_seed(parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| format!(",{part}")).collect();
    format!(
        "the seed is missing, from which a run follows; a complete URL is {SCHEME}seed=7{parts}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_what_the_network_is_like() {
        let text = "seed=7, address=10.1.2.3,latency=1us..2ms,segment=100,reset=0.001,stall=1,bandwidth=1000";
        let asked = Asked::parse(text).unwrap();
        assert_eq!((asked.seed, asked.address), (7, Some([10, 1, 2, 3].into())));
        let conditions = asked.conditions;
        assert_eq!(
            conditions.latency,
            Duration::from_micros(1)..=Duration::from_millis(2)
        );
        assert_eq!(conditions.segment, 100..=100);
        assert_eq!(conditions.reset, Chance::per_million(1000));
        assert_eq!(
            (conditions.stall, conditions.bandwidth),
            (Chance::ALWAYS, 1000)
        );
        assert!(!asked.network.iter().any(|part| part.contains("address")));
    }

    #[test]
    fn a_url_says_whether_adapters_connect_over_udp_and_what_happens_to_datagrams() {
        let text = "seed=7,protocol=udp,loss=0.01,duplication=0.02,reordering=0.03,reordering-time=1ms..2ms,corruption=0.04,\
            datagram-buffer=10000,largest-datagram=1400";
        let asked = Asked::parse(text).unwrap();
        assert_eq!(asked.protocol, Protocol::Quic);
        let conditions = asked.conditions;
        let chances = [
            conditions.loss,
            conditions.duplication,
            conditions.reordering,
            conditions.corruption,
        ];
        assert_eq!(
            chances.map(Chance::millionths),
            [10_000, 20_000, 30_000, 40_000]
        );
        let times = Duration::from_millis(1)..=Duration::from_millis(2);
        assert_eq!(conditions.reordering_time, times);
        assert_eq!(
            (conditions.datagram_buffer, conditions.largest_datagram),
            (10_000, 1400)
        );
        assert_eq!(asked.network.len(), 9);
        for plain in ["seed=7", "seed=7,protocol=tcp"] {
            assert_eq!(Asked::parse(plain).unwrap().protocol, Protocol::Streams);
        }
    }

    #[test]
    fn what_a_url_gets_wrong_is_named() {
        for (text, named) in [
            ("", "a complete URL is softnd+sim://seed=7"),
            (" ", "a complete URL is softnd+sim://seed=7"),
            ("7", "KEY=VALUE"),
            (
                "latency=1ms, reset=0.1",
                "a complete URL is softnd+sim://seed=7,latency=1ms,reset=0.1",
            ),
            ("seed=x", "\"x\" is not a number"),
            ("seed=1,latency=2ms..1ms", "5us..2ms"),
            ("seed=1,latency=2", "5us..2ms"),
            ("seed=1,segment=0", "1..1460"),
            ("seed=1,reset=2", "from 0 to 1"),
            ("seed=1,loss=2", "from 0 to 1"),
            ("seed=1,loss=1", "loss has no effect without protocol=udp"),
            ("loss=1,protocol=tcp,seed=1", "add protocol=udp"),
            (
                "seed=1,segment=1..40,protocol=udp",
                "segment has no effect with protocol=udp",
            ),
            ("seed=1,reset=0.1,reset=0.2", "reset is there twice"),
            ("seed=1,buffer=0", "without the key it is 64k"),
            ("seed=1,protocol=sctp", "tcp or udp"),
            ("seed=1,largest-datagram=0", "a number of octets"),
            ("seed=1,colour=red", "half-close"),
        ] {
            let what = Asked::parse(text).unwrap_err();
            assert!(what.contains(named), "{text}: {what}");
        }
    }

    #[test]
    fn a_provider_by_url_has_a_network_with_two_adapters() {
        let addresses = |name| {
            let provider = provider(name, Options::default()).unwrap();
            let addresses = provider.query_address_list().unwrap();
            addresses
                .iter()
                .map(|address| address.ip().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(addresses("seed=1"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(
            addresses("seed=1,address=10.0.0.2"),
            ["10.0.0.2", "10.0.0.3"]
        );
        assert_eq!(addresses("seed=1,address=::9"), ["::9", "fd00::2"]);
        assert!(provider("seven", Options::default()).is_err());
    }

    #[test]
    fn urls_of_one_thread_and_one_seed_mean_one_network() {
        let mut kept = Vec::new();
        let mut opened = |name| {
            let adapter = open(name, Options::default()).unwrap();
            kept.push(adapter.clone());
            adapter.query_address_list().unwrap()[0].ip().to_string()
        };
        assert_eq!(opened("seed=400"), "10.0.0.1");
        assert_eq!(opened("seed=400"), "10.0.0.2");
        assert_eq!(opened("seed=401"), "10.0.0.1");
        assert_eq!(opened("seed=400,address=10.0.0.9"), "10.0.0.9");
    }
}
