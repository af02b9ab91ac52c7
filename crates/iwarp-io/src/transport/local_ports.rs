//! Local ports: the ephemeral range, and addresses that share one port.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use rustix::io::Errno;

use super::purpose::Purpose;
use super::{Bound, Transport, port_range};
use crate::system_call::errno;

/// The range from which a port is picked for port 0 (IW-052). Ports of it that the administrator has reserved for other programs are
/// left out (`net.ipv4.ip_local_reserved_ports` of Linux).
pub const EPHEMERAL: RangeInclusive<u16> = 49152..=65535;

/// The number of ports that are tried as [fresh](Transport::bind_fresh) ones before a port with old connections is accepted. If most ports
/// have old connections, the search for a fresh one would take long.
const FRESH: u64 = 2;

/// A function that binds to one address.
type Bind = fn(&Transport, SocketAddr, Purpose) -> io::Result<Bound>;

/// The reason why no address could be bound.
#[derive(Debug)]
pub enum BindError {
    /// The transport refuses this address.
    Refused(SocketAddr, io::Error),
    /// The system has no random number, without which no port can be picked.
    Random(io::Error),
    /// Every port of the [range](EPHEMERAL) is in use on one of the addresses.
    NoPort,
    /// Every port of the range that the user has named is in use on one of the addresses.
    RangeInUse(RangeInclusive<u16>),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(address, error) => write!(f, "cannot bind to {address}: {error}"),
            Self::Random(error) => write!(f, "cannot pick a port without a random number: {error}"),
            Self::NoPort => write!(f, "every port from {EPHEMERAL:?} is in use or reserved"),
            Self::RangeInUse(range) => {
                let (first, last) = (range.start(), range.end());
                write!(
                    f,
                    "every port from {first} to {last} is in use: give a longer range of ports"
                )
            }
        }
    }
}

impl std::error::Error for BindError {}

/// Binds to `address`; with port 0 to a port of the ephemeral range.
///
/// # Errors
///
/// See [`BindError`].
pub fn bind(
    transport: &Transport,
    address: SocketAddr,
    purpose: Purpose,
) -> Result<Bound, BindError> {
    let (mut bound, _) = bind_all(transport, &[address.ip()], address.port(), purpose)?;
    Ok(bound.pop().expect("one address was given"))
}

/// Like [`bind`], for several addresses: binds all of them to one port.
///
/// # Errors
///
/// See [`BindError`].
pub fn bind_all(
    transport: &Transport,
    addresses: &[IpAddr],
    port: u16,
    purpose: Purpose,
) -> Result<(Vec<Bound>, u16), BindError> {
    // The search for a free port begins at an unpredictable port (RFC 6056). So two processes do not collide at every port, as they would
    // if they began at the same one.
    let start = match port {
        0 => transport
            .environment()
            .random()
            .map_err(BindError::Random)?,
        _ => 0,
    };
    find(transport, addresses, port, purpose, start)
}

/// Like [`bind_all`], with port 0 to a port of `range` if there is one.
///
/// # Errors
///
/// See [`BindError`].
pub fn bind_within(
    transport: &Transport,
    addresses: &[IpAddr],
    port: u16,
    range: Option<&RangeInclusive<u16>>,
    purpose: Purpose,
) -> Result<(Vec<Bound>, u16), BindError> {
    let Some(range) = range.filter(|_| port == 0) else {
        return bind_all(transport, addresses, port, purpose);
    };
    let environment = transport.environment();
    let start = environment.random().map_err(BindError::Random)?;
    for port in port_range::from(range, start) {
        match bind_all(transport, addresses, port, purpose) {
            Err(BindError::Refused(_, error)) if errno(&error) == Some(Errno::ADDRINUSE) => {}
            other => return other,
        }
    }
    Err(BindError::RangeInUse(range.clone()))
}

/// Returns true if a connect failed because the two addresses have a connection, or had a connection until recently. Another local port may
/// work.
pub fn is_taken(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL))
}

/// The addresses with `port`. If that is 0, the first port that is free on all addresses, from the `start`-th port on.
fn find(
    transport: &Transport,
    addresses: &[IpAddr],
    port: u16,
    purpose: Purpose,
    start: u64,
) -> Result<(Vec<Bound>, u16), BindError> {
    if port != 0 {
        let bound = bind_each(transport, addresses, port, purpose, Transport::bind)
            .map_err(|(address, error)| BindError::Refused(address, error))?;
        return Ok((bound, port));
    }
    let count = u64::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
    let is_real = transport.environment().world().is_none();
    for step in 0..count + FRESH {
        let bind: Bind = match step {
            0..FRESH => Transport::bind_fresh,
            _ => Transport::bind,
        };
        let offset = (start % count + step) % count;
        let offset = u16::try_from(offset).expect("below the size of a range of u16");
        let port = EPHEMERAL.start() + offset;
        if is_real && is_reserved(port) {
            continue;
        }
        match bind_each(transport, addresses, port, purpose, bind) {
            Ok(bound) => return Ok((bound, port)),
            // LSTN-009: the port has to be free on all addresses.
            Err((_, error)) if errno(&error) == Some(Errno::ADDRINUSE) => {}
            Err((address, error)) => {
                let unasked = SocketAddr::new(address.ip(), 0);
                return Err(BindError::Refused(unasked, error));
            }
        }
    }
    Err(BindError::NoPort)
}

/// Returns true if the system's administrator has reserved the port for other programs, as was set when this was first asked.
fn is_reserved(port: u16) -> bool {
    static RESERVED: OnceLock<Vec<RangeInclusive<u16>>> = OnceLock::new();
    let list = RESERVED.get_or_init(|| {
        let list = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports");
        reserved(&list.unwrap_or_default())
    });
    list.iter().any(|range| range.contains(&port))
}

/// The ports of a list such as `8080,50000-50099`.
fn reserved(list: &str) -> Vec<RangeInclusive<u16>> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).collect()
}

/// Binds to all the addresses, or returns the address that cannot be bound.
fn bind_each(
    transport: &Transport,
    addresses: &[IpAddr],
    port: u16,
    purpose: Purpose,
    bind: Bind,
) -> Result<Vec<Bound>, (SocketAddr, io::Error)> {
    let addresses = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
    addresses
        .map(|address| {
            let bound = bind(transport, address, purpose);
            bound.map_err(|error| (address, error))
        })
        .collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::simulation::{Conditions, World};
    use crate::transport::tcp::Tcp;

    fn transports() -> [Transport; 2] {
        [
            Transport::Tcp(Tcp::default()),
            Transport::Sim(World::new(1, Conditions::default())),
        ]
    }

    /// A loopback address for one test of one process: no other test uses its ports.
    fn own_address(number: u8) -> IpAddr {
        let [.., high, low] = std::process::id().to_be_bytes();
        [127, number, high, low].into()
    }

    #[test]
    fn iw_052_ports_come_from_the_ephemeral_range() {
        for transport in transports() {
            let bound = bind(
                &transport,
                "127.0.0.1:0".parse().unwrap(),
                Purpose::Listening,
            )
            .unwrap();
            assert!(EPHEMERAL.contains(&bound.local().unwrap().port()));
        }
    }

    #[test]
    fn reserved_ports_are_read_as_the_kernel_writes_them() {
        assert_eq!(reserved("\n"), []);
        assert_eq!(
            reserved("8080,50000-50099,65535\n"),
            [8080..=8080, 50000..=50099, 65535..=65535]
        );
    }

    #[test]
    fn lstn_009_a_port_that_is_taken_on_one_of_the_addresses_is_passed_over() {
        for transport in transports() {
            let addresses = [11, 12].map(own_address);
            let held = bind(
                &transport,
                SocketAddr::new(addresses[1], 0),
                Purpose::Listening,
            )
            .unwrap();
            let taken = held.local().unwrap().port();
            let at_it = u64::from(taken - EPHEMERAL.start());
            let (bound, port) = find(&transport, &addresses, 0, Purpose::Listening, at_it).unwrap();
            assert_ne!(port, taken);
            for (bound, ip) in bound.iter().zip(addresses) {
                assert_eq!(bound.local().unwrap(), SocketAddr::new(ip, port));
            }
            // A port that the caller chose is not replaced by another.
            let refused = find(&transport, &addresses, taken, Purpose::Listening, 0).unwrap_err();
            let address = addresses[1].to_string();
            assert!(refused.to_string().contains(&address), "{refused}");
            let BindError::Refused(_, error) = refused else {
                panic!("{refused}");
            };
            assert_eq!(Errno::from_io_error(&error), Some(Errno::ADDRINUSE));
        }
    }

    #[test]
    fn conn_008_a_port_in_use_is_refused_until_it_is_free() {
        for transport in transports() {
            let first = bind(
                &transport,
                SocketAddr::new(own_address(13), 0),
                Purpose::Listening,
            )
            .unwrap();
            let taken = first.local().unwrap();
            assert!(bind(&transport, taken, Purpose::Listening).is_err());
            drop(first);
            bind(&transport, taken, Purpose::Listening).unwrap();
        }
    }
    /// A port that old connections hold is not picked while there are others, but a client that names it can have it.
    #[test]
    fn conn_008_a_port_in_time_wait_is_not_picked() {
        let transport = Transport::Tcp(Tcp::default());
        let ip = own_address(14);
        let listener = std::net::TcpListener::bind((ip, 0)).unwrap();
        let free = bind(&transport, SocketAddr::new(ip, 0), Purpose::Connecting).unwrap();
        let held = free.local().unwrap();
        drop(free);
        // Connects in the way siw does.
        let other =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        other.set_reuse_address(true).unwrap();
        other.bind(&held.into()).unwrap();
        other
            .connect(&listener.local_addr().unwrap().into())
            .unwrap();
        let (accepted, _) = listener.accept().unwrap();
        // The side that closes first keeps the port.
        drop(other);
        drop(accepted);
        let held = held.port();
        let at_it = u64::from(held - EPHEMERAL.start());
        let (_, port) = find(&transport, &[ip], 0, Purpose::Connecting, at_it).unwrap();
        assert_ne!(port, held);
        bind(&transport, SocketAddr::new(ip, held), Purpose::Connecting).unwrap();
    }
}
