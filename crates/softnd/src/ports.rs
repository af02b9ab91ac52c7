//! Local ports: ND2's range for ports that the provider picks, and binding that notices a port in use.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use netdirect::{Error, Result, Status};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::status::bind_status;

/// Where the provider picks ports from (IW-052).
const EPHEMERAL: RangeInclusive<u16> = 49152..=65535;

/// Binds a socket to `address`; with port 0 to a port of the ephemeral range. Connections made with it, or through it
/// when it listens, use TCP segments of at most `segment` octets.
pub(crate) fn bind(address: SocketAddr, segment: Option<u16>) -> Result<Socket> {
    let (mut sockets, _) = bind_all(&[address.ip()], address.port(), segment)?;
    Ok(sockets.pop().expect("one address was given"))
}

/// As [`bind`], for several addresses: a socket for each of them, and the port, which is the same for all.
pub(crate) fn bind_all(
    addresses: &[IpAddr],
    port: u16,
    segment: Option<u16>,
) -> Result<(Vec<Socket>, u16)> {
    let start = if port == 0 { start()? } else { 0 };
    let (sockets, port) = find(addresses, port, start)?;
    if let Some(segment) = segment {
        for socket in &sockets {
            socket.set_tcp_mss(segment.into()).map_err(|error| {
                let what = format!("TCP does not take segments of {segment} octets: {error}");
                Error::new(Status::INVALID_PARAMETER, what)
            })?;
        }
    }
    Ok((sockets, port))
}

/// Where the search for a free port begins. Nobody can tell it beforehand (RFC 6056), and two processes do not run into each
/// other all the way, as they would if they began at the same port.
fn start() -> Result<u64> {
    getrandom::u64().map_err(|error| {
        let what = format!("cannot pick a port without a random number: {error}");
        Error::new(Status::INSUFFICIENT_RESOURCES, what)
    })
}

/// Sockets bound to `port`; with port 0 to the first port that is free on all the addresses, from the `start`-th on.
fn find(addresses: &[IpAddr], port: u16, start: u64) -> Result<(Vec<Socket>, u16)> {
    let cannot = |(address, error): (SocketAddr, io::Error)| {
        let what = format!("cannot bind to {address}: {error}");
        Error::new(bind_status(&error), what)
    };
    if port != 0 {
        let sockets = bind_each(addresses, port).map_err(cannot)?;
        return Ok((sockets, port));
    }
    let count = u64::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
    for step in 0..count {
        let offset = (start % count + step) % count;
        let offset = u16::try_from(offset).expect("below the size of a range of u16");
        let port = EPHEMERAL.start() + offset;
        match bind_each(addresses, port) {
            Ok(sockets) => return Ok((sockets, port)),
            // LSTN-009: free on all of the addresses, or not to be had.
            Err((_, error)) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {}
            Err((address, error)) => {
                let unasked = SocketAddr::new(address.ip(), 0);
                return Err(cannot((unasked, error)));
            }
        }
    }
    Err(Error::new(
        Status::TOO_MANY_ADDRESSES,
        format!("every port from {EPHEMERAL:?} is in use"),
    ))
}

/// A socket for each address, or the address that cannot be had.
fn bind_each(
    addresses: &[IpAddr],
    port: u16,
) -> std::result::Result<Vec<Socket>, (SocketAddr, io::Error)> {
    let addresses = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
    addresses
        .map(|address| bind_to(address).map_err(|error| (address, error)))
        .collect()
}

/// A socket for `address`, not yet bound.
pub(crate) fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Binds so that a port in use is noticed, and one that only old connections in TIME-WAIT hold is not.
///
/// Address reuse is asked for when the plain attempt fails, and taken back at once: a live socket then still refuses
/// later binds, with reuse or without. Before a connection ends it is switched on again, by [`release`].
fn bind_to(address: SocketAddr) -> io::Result<Socket> {
    let socket = socket(address)?;
    match socket.bind(&address.into()) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.set_reuse_address(false)?;
        }
        other => other?,
    }
    Ok(socket)
}

/// Lets the port be bound again while the connection that is about to end stays in TIME-WAIT (IW-054).
pub(crate) fn release(socket: &impl std::os::fd::AsFd) {
    let _ = rustix::net::sockopt::set_socket_reuseaddr(socket, true);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loopback address for one test of one process: nothing else takes its ports.
    fn own_address(number: u8) -> IpAddr {
        let [.., high, low] = std::process::id().to_be_bytes();
        [127, number, high, low].into()
    }

    #[test]
    fn iw_052_ports_come_from_the_ephemeral_range() {
        let socket = bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let port = socket.local_addr().unwrap().as_socket().unwrap().port();
        assert!(EPHEMERAL.contains(&port));
    }

    #[test]
    fn lstn_009_a_port_that_is_taken_on_one_of_the_addresses_is_passed_over() {
        let addresses = [11, 12].map(own_address);
        let taken = bind(SocketAddr::new(addresses[1], 0), None).unwrap();
        let taken = (
            taken.local_addr().unwrap().as_socket().unwrap().port(),
            taken,
        );
        let at_it = u64::from(taken.0 - EPHEMERAL.start());
        let (sockets, port) = find(&addresses, 0, at_it).unwrap();
        assert_ne!(port, taken.0);
        for (socket, ip) in sockets.iter().zip(addresses) {
            let local = socket.local_addr().unwrap().as_socket().unwrap();
            assert_eq!(local, SocketAddr::new(ip, port));
        }
        // A port that was asked for by its number is not replaced by another.
        let refused = find(&addresses, taken.0, 0).unwrap_err();
        assert_eq!(refused.status(), Status::SHARING_VIOLATION);
        let address = addresses[1].to_string();
        assert!(refused.to_string().contains(&address), "{refused}");
    }

    #[test]
    fn conn_008_a_port_in_use_is_a_sharing_violation() {
        let first = bind(SocketAddr::new(own_address(13), 0), None).unwrap();
        let taken = first.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(
            bind(taken, None).unwrap_err().status(),
            Status::SHARING_VIOLATION
        );
        drop(first);
        bind(taken, None).unwrap();
    }
}
