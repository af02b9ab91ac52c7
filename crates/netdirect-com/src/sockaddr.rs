//! Socket addresses as structures of C.

use std::mem::offset_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use netdirect::{Error, Result, Status};

use crate::abi::{SocketAddress, SocketAddressList};

/// Octets of `sockaddr_in`.
const V4: usize = 16;
/// Octets of `sockaddr_in6`, the longest structure that ND2 knows.
pub const V6: usize = 28;

const AF_INET: u16 = 2;
#[cfg(target_os = "linux")]
const AF_INET6: u16 = 10;
#[cfg(windows)]
const AF_INET6: u16 = 23;
#[cfg(target_os = "freebsd")]
const AF_INET6: u16 = 28;
#[cfg(not(any(target_os = "linux", target_os = "freebsd", windows)))]
const AF_INET6: u16 = 30;

/// The place of the family. The BSDs have the length of the structure before it.
#[cfg(any(target_os = "linux", windows))]
const FAMILY: std::ops::Range<usize> = 0..2;
#[cfg(not(any(target_os = "linux", windows)))]
const FAMILY: std::ops::Range<usize> = 1..2;

fn family(octets: &[u8; V6]) -> u16 {
    match octets[FAMILY] {
        [one] => u16::from(one),
        [low, high] => u16::from_ne_bytes([low, high]),
        _ => unreachable!("the family has one or two octets"),
    }
}

/// The address in a structure that is long enough for its family.
fn address_of(octets: &[u8; V6]) -> SocketAddr {
    let word = |at: usize| [octets[at], octets[at + 1], octets[at + 2], octets[at + 3]];
    let port = u16::from_be_bytes([octets[2], octets[3]]);
    if family(octets) == AF_INET {
        return SocketAddr::from((Ipv4Addr::from(word(4)), port));
    }
    let mut ip = [0; 16];
    ip.copy_from_slice(&octets[8..24]);
    let (flow, scope) = (u32::from_be_bytes(word(4)), u32::from_ne_bytes(word(24)));
    SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into()
}

/// The structure of an address, and its length.
pub fn from_address(address: SocketAddr) -> ([u8; V6], usize) {
    let mut octets = [0; V6];
    let len = if address.is_ipv4() { V4 } else { V6 };
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    if FAMILY.start == 1 {
        octets[..2].copy_from_slice(&family.to_be_bytes());
        octets[0] = u8::try_from(len).expect("a length of at most 28");
    } else {
        octets[..2].copy_from_slice(&family.to_ne_bytes());
    }
    octets[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => octets[4..8].copy_from_slice(&v4.ip().octets()),
        SocketAddr::V6(v6) => {
            octets[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            octets[8..24].copy_from_slice(&v6.ip().octets());
            octets[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    (octets, len)
}

/// The octets of a SOCKET_ADDRESS_LIST that will be at `start`: the entries, and behind them the addresses that they point to (PROV-011).
pub fn list_at(start: *mut u8, addresses: &[SocketAddr]) -> Vec<u8> {
    let head = offset_of!(SocketAddressList, addresses);
    let entries = size_of::<SocketAddress>();
    let mut list = vec![0; head + entries * addresses.len()];
    let count = i32::try_from(addresses.len()).unwrap_or(i32::MAX);
    list[..4].copy_from_slice(&count.to_ne_bytes());
    for (index, address) in addresses.iter().enumerate() {
        let (octets, len) = from_address(*address);
        let at = start.wrapping_add(list.len()).expose_provenance();
        let entry = head + entries * index;
        let length = i32::try_from(len).expect("a length of at most 28");
        list[entry..entry + size_of::<usize>()].copy_from_slice(&at.to_ne_bytes());
        let place = entry + offset_of!(SocketAddress, length);
        list[place..place + 4].copy_from_slice(&length.to_ne_bytes());
        list.extend_from_slice(&octets[..len]);
    }
    list
}

/// The structure of an address and its length, in the form that methods take.
pub fn raw(address: SocketAddr) -> ([u8; V6], u32) {
    let (octets, len) = from_address(address);
    (octets, u32::try_from(len).expect("a length of at most 28"))
}

/// The address in a structure of which `len` octets are known.
///
/// # Errors
///
/// [`INVALID_PARAMETER_2`](Status::INVALID_PARAMETER_2): too short for its family (DLL-016);
/// [`INVALID_ADDRESS`](Status::INVALID_ADDRESS): a family that is neither IPv4 nor IPv6.
pub fn parse(octets: &[u8; V6], len: usize) -> Result<SocketAddr> {
    let short = || {
        Error::new(
            Status::INVALID_PARAMETER_2,
            format!("{len} octets are too short for a socket address of its family"),
        )
    };
    if len < FAMILY.end {
        return Err(short());
    }
    let need = match family(octets) {
        AF_INET => V4,
        AF_INET6 => V6,
        family => {
            return Err(Error::new(
                Status::INVALID_ADDRESS,
                format!("address family {family} is neither IPv4 nor IPv6"),
            ));
        }
    };
    if len < need {
        return Err(short());
    }
    Ok(address_of(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_structure() {
        let scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0x1234, 3);
        for address in [
            "127.0.0.1:80".parse().unwrap(),
            "[::1]:4791".parse().unwrap(),
            scoped.into(),
        ] {
            let (octets, len) = from_address(address);
            assert_eq!(parse(&octets, len), Ok(address));
            assert_eq!(
                parse(&octets, len - 1).unwrap_err().status(),
                Status::INVALID_PARAMETER_2
            );
        }
        assert_eq!(
            parse(&[0; V6], 0).unwrap_err().status(),
            Status::INVALID_PARAMETER_2
        );
        assert_eq!(
            parse(&[99; V6], V6).unwrap_err().status(),
            Status::INVALID_ADDRESS
        );
    }
}
