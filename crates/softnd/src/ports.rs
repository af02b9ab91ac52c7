//! Local ports: ND2's range for ports that the provider picks, and binding that notices a port in use.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
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
    let socket = find(address)?;
    if let Some(segment) = segment {
        socket.set_tcp_mss(segment.into()).map_err(|error| {
            let what = format!("TCP does not take segments of {segment} octets: {error}");
            Error::new(Status::INVALID_PARAMETER, what)
        })?;
    }
    Ok(socket)
}

fn find(address: SocketAddr) -> Result<Socket> {
    if address.port() != 0 {
        return bind_to(address).map_err(|error| {
            Error::new(
                bind_status(&error),
                format!("cannot bind to {address}: {error}"),
            )
        });
    }
    let count = u64::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
    // An unpredictable start: two processes that begin at the same port would run into each other all the way.
    let start = RandomState::new().hash_one(address) % count;
    for step in 0..count {
        let offset =
            u16::try_from((start + step) % count).expect("below the size of a range of u16");
        let candidate = SocketAddr::new(address.ip(), EPHEMERAL.start() + offset);
        match bind_to(candidate) {
            Ok(socket) => return Ok(socket),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {}
            Err(error) => {
                return Err(Error::new(
                    bind_status(&error),
                    format!("cannot bind to {}: {error}", address.ip()),
                ));
            }
        }
    }
    Err(Error::new(
        Status::TOO_MANY_ADDRESSES,
        format!("every port from {EPHEMERAL:?} is in use"),
    ))
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

    #[test]
    fn iw_052_ports_come_from_the_ephemeral_range() {
        let socket = bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let port = socket.local_addr().unwrap().as_socket().unwrap().port();
        assert!(EPHEMERAL.contains(&port));
    }

    #[test]
    fn conn_008_a_port_in_use_is_a_sharing_violation() {
        let first = bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let taken = first.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(
            bind(taken, None).unwrap_err().status(),
            Status::SHARING_VIOLATION
        );
        drop(first);
        bind(taken, None).unwrap();
    }
}
