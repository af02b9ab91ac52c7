//! The local address by which the system reaches a remote one.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use netdirect_com::abi::Status;

/// The port of the discard service. Nothing is sent there; the system demands a port that is not 0.
const PORT: u16 = 9;

/// Asks the routing table. The port is 0 (DLL-019).
pub(crate) fn local_address(remote: SocketAddr) -> Result<SocketAddr, Status> {
    let remote = canonical(remote);
    if remote.ip().is_unspecified() {
        return Err(Status::INVALID_ADDRESS);
    }
    let mut local = ask(remote).map_err(|error| status(&error))?;
    local.set_port(0);
    Ok(local)
}

/// The IPv4 address that an IPv6 address may be a form of (`::ffff:192.0.2.7`); other addresses as they are.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::from((v4, address.port())),
        IpAddr::V6(_) => address,
    }
}

fn ask(mut remote: SocketAddr) -> io::Result<SocketAddr> {
    let any = match remote.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    remote.set_port(PORT);
    // A datagram socket is connected without a datagram.
    socket.connect(remote)?;
    socket.local_addr()
}

fn status(error: &io::Error) -> Status {
    match error.kind() {
        ErrorKind::NetworkUnreachable
        | ErrorKind::NetworkDown
        | ErrorKind::HostUnreachable
        // A system without IPv6.
        | ErrorKind::AddrNotAvailable => Status::NETWORK_UNREACHABLE,
        // Broadcast addresses, and scopes that do not exist.
        ErrorKind::InvalidInput | ErrorKind::PermissionDenied => Status::INVALID_ADDRESS,
        _ => Status::UNSUCCESSFUL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_reaches_itself() {
        for remote in ["127.0.0.1:5445", "[::ffff:127.0.0.1]:5445"] {
            let local = local_address(remote.parse().unwrap());
            assert_eq!(local, Ok("127.0.0.1:0".parse().unwrap()));
        }
    }

    #[test]
    fn there_is_no_way_to_nowhere() {
        for nowhere in ["0.0.0.0:1", "[::]:1", "255.255.255.255:1"] {
            let local = local_address(nowhere.parse().unwrap());
            assert_eq!(local, Err(Status::INVALID_ADDRESS), "{nowhere}");
        }
    }
}
