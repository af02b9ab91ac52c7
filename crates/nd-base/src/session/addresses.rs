//! Addresses that a command line names.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use crate::errors::{Failure, Result};

/// The addresses of `text`, which is HOST:PORT. There is at least one.
pub fn resolve(text: &str) -> Result<Vec<SocketAddr>> {
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(_))) {
        return Err(Failure::new(
            format!("'{text}' is not an address with a port"),
            "write HOST:PORT, for example 127.0.0.1:4791 or [::1]:4791",
        ));
    }
    let advice = "check the name, or write the address in numbers";
    let found = text
        .to_socket_addrs()
        .map_err(|error| Failure::io(format_args!("resolve '{text}'"), &error).advise(advice))?
        // An IPv4 address may be written as one of IPv6 (::ffff:192.0.2.7).
        .map(|found| SocketAddr::new(found.ip().to_canonical(), found.port()))
        .collect::<Vec<_>>();
    if found.is_empty() {
        return Err(Failure::new(
            format!("cannot resolve '{text}': it has no address"),
            advice,
        ));
    }
    Ok(found)
}

/// Any port of this machine's own address: 127.0.0.1, or ::1 on machines without IPv4.
pub fn loopback() -> SocketAddr {
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    match UdpSocket::bind(own) {
        // Other errors occur again when the address is used, and are reported then.
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            SocketAddr::from((Ipv6Addr::LOCALHOST, 0))
        }
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_a_port() {
        for bad in [
            "",
            "localhost",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:x",
            "[::1]",
            "1.2.3.4:65536",
        ] {
            let failure = resolve(bad).expect_err(bad).to_string();
            assert!(failure.contains("HOST:PORT"), "{failure}");
        }
    }

    #[test]
    fn addresses_in_numbers_need_no_resolver() {
        assert_eq!(
            resolve("127.0.0.1:80").expect("IPv4"),
            [SocketAddr::from(([127, 0, 0, 1], 80))]
        );
        assert_eq!(
            resolve("[::1]:80").expect("IPv6"),
            [SocketAddr::from((Ipv6Addr::LOCALHOST, 80))]
        );
    }
}
