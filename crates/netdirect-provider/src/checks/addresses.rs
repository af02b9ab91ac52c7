//! Addresses that a client passes to Bind and Connect.

use std::net::{IpAddr, SocketAddr};

use netdirect::{Error, Result, Status};

use crate::error::fail;

/// Returns the IPv4 address that an IPv6 address may be a form of (`::ffff:192.0.2.7`, RFC 4291 section 2.5.5.2). Other addresses stay as
/// they are. Every address that a client passes goes through here first.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::from((v4, address.port())),
        IpAddr::V6(_) => address,
    }
}

/// Returns the addresses that a listener's Bind to `ip` covers. The unspecified address means the adapter's addresses of its family
/// (LSTN-010). `serves` returns true for an address that connections of the adapter may use.
///
/// # Errors
///
/// [`INVALID_ADDRESS`](Status::INVALID_ADDRESS): it is not an address of the adapter (LSTN-012).
pub fn covered(ip: IpAddr, own: &[IpAddr], serves: impl Fn(IpAddr) -> bool) -> Result<Vec<IpAddr>> {
    if ip.is_unspecified() {
        let family = own.iter().copied();
        let family: Vec<_> = family.filter(|own| own.is_ipv4() == ip.is_ipv4()).collect();
        if !family.is_empty() {
            return Ok(family);
        }
    } else if serves(ip) {
        return Ok(vec![ip]);
    }
    Err(not_own(ip))
}

/// Checks the address of a connector's Bind.
///
/// # Errors
///
/// [`INVALID_ADDRESS`](Status::INVALID_ADDRESS): it is not an address of the adapter (CONN-012).
pub fn local(ip: IpAddr, serves: impl Fn(IpAddr) -> bool) -> Result<()> {
    if serves(ip) {
        return Ok(());
    }
    Err(not_own(ip))
}

fn not_own(ip: IpAddr) -> Error {
    let what = format!("{ip} is not an address of this adapter");
    Error::new(Status::INVALID_ADDRESS, what)
}

/// Checks the peer's address of a Connect.
///
/// # Errors
///
/// - [`BAD_NETWORK_NAME`](Status::BAD_NETWORK_NAME): the unspecified address (AMB-032).
/// - [`INVALID_ADDRESS`](Status::INVALID_ADDRESS): port 0.
pub fn destination(address: SocketAddr) -> Result<()> {
    if address.ip().is_unspecified() {
        return fail(
            Status::BAD_NETWORK_NAME,
            "cannot connect to the unspecified address: give the address of the peer",
        ); // AMB-032
    }
    if address.port() == 0 {
        return fail(
            Status::INVALID_ADDRESS,
            "cannot connect to port 0: give the port the peer listens on",
        );
    }
    Ok(())
}

/// Changes the error of a Connect whose local address another program has taken since an earlier attempt. ND2 lists no ND_SHARING_VIOLATION
/// for Connect; clients choose another address by Bind if a connection of the address exists (AMB-026).
#[must_use]
pub fn taken_at_connect(error: Error) -> Error {
    match error.status() {
        Status::SHARING_VIOLATION => {
            Error::new(Status::ADDRESS_ALREADY_EXISTS, error.what().to_owned())
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const OWN: [IpAddr; 2] = [
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    ];

    fn status<T>(result: Result<T>) -> Result<T, Status> {
        result.map_err(|error| error.status())
    }

    #[test]
    fn lstn_010_lstn_012_the_wildcard_covers_the_addresses_of_its_family() {
        let serves = |ip| OWN.contains(&ip);
        let find = |ip: IpAddr| status(covered(ip, &OWN, serves));
        assert_eq!(find(Ipv4Addr::UNSPECIFIED.into()), Ok(OWN.to_vec()));
        assert_eq!(find(OWN[1]), Ok(vec![OWN[1]]));
        let none: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()];
        for ip in none {
            assert_eq!(find(ip), Err(Status::INVALID_ADDRESS));
            assert_eq!(status(local(ip, serves)), Err(Status::INVALID_ADDRESS)); // CONN-012
        }
        assert_eq!(local(OWN[0], serves), Ok(()));
    }

    #[test]
    fn an_ipv4_address_may_come_as_one_of_ipv6() {
        let check = |from: &str, to: &str| {
            let canonical = canonical(from.parse().unwrap());
            assert_eq!(canonical, to.parse().unwrap());
        };
        check("[::ffff:10.0.0.1]:7", "10.0.0.1:7");
        for other in ["10.0.0.1:7", "[::1]:7", "[::]:0", "[fe80::1%3]:7"] {
            check(other, other);
        }
    }

    #[test]
    fn amb_032_a_peer_has_an_address_and_a_port() {
        let check = |ip: Ipv4Addr, port| status(destination((ip, port).into()));
        assert_eq!(check(Ipv4Addr::LOCALHOST, 1), Ok(()));
        let unspecified = Ipv4Addr::UNSPECIFIED;
        assert_eq!(check(unspecified, 1), Err(Status::BAD_NETWORK_NAME));
        assert_eq!(check(Ipv4Addr::LOCALHOST, 0), Err(Status::INVALID_ADDRESS));
    }

    #[test]
    fn amb_026_connect_tells_of_a_taken_address_by_a_status_of_its_own() {
        let taken = Error::new(Status::SHARING_VIOLATION, "10.0.0.1:5 is in use");
        let error = taken_at_connect(taken);
        assert_eq!(error.status(), Status::ADDRESS_ALREADY_EXISTS);
        assert_eq!(error.what(), "10.0.0.1:5 is in use");
        let other = Error::new(Status::INVALID_ADDRESS, "no");
        assert_eq!(taken_at_connect(other.clone()), other);
    }
}
