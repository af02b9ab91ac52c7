//! Addresses by names: `rdma_getaddrinfo`.

use std::ffi::{CStr, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use softverbs::{Errno, Result};

use crate::abi::cm::rdma_addrinfo;
use crate::abi::constants::{IBV_QPT_RC, RAI_FAMILY, RAI_NUMERICHOST, RAI_PASSIVE, RDMA_PS_TCP};
use crate::abi::describe::Zeroed;
use crate::border::{Address, Input, Output, Text, error, minus_one, storage};
use crate::calls::device::{allocate, free_array};

fn text(text: Option<&CStr>) -> Result<Option<&str>> {
    let text = text.map(CStr::to_str).transpose();
    text.map_err(|_| error(Errno::INVAL, "a name that is not UTF-8"))
}

fn port(service: Option<&str>) -> Result<u16> {
    let port = service.map_or(Ok(0), str::parse);
    port.map_err(|_| error(Errno::INVAL, "a service is the number of a port"))
}

/// The first address of a host, of the wanted family.
fn resolve(node: Option<&str>, port: u16, flags: c_int, family: c_int) -> Result<SocketAddr> {
    let is_wanted = |address: &SocketAddr| match family {
        libc::AF_INET => address.is_ipv4(),
        libc::AF_INET6 => address.is_ipv6(),
        _ => true,
    };
    let Some(node) = node else {
        let ip = match (flags & RAI_PASSIVE != 0, family == libc::AF_INET6) {
            (true, true) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            (true, false) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            (false, true) => IpAddr::from(Ipv6Addr::LOCALHOST),
            (false, false) => IpAddr::from(Ipv4Addr::LOCALHOST),
        };
        return Ok((ip, port).into());
    };
    let unknown = || error(Errno::NODEV, "the host has no address");
    if let Ok(ip) = node.parse::<IpAddr>() {
        return Some((ip, port).into())
            .filter(is_wanted)
            .ok_or_else(unknown);
    }
    if flags & RAI_NUMERICHOST != 0 {
        return Err(error(Errno::INVAL, "the host is no numeric address"));
    }
    let mut all = (node, port).to_socket_addrs().map_err(|_| unknown())?;
    all.find(is_wanted).ok_or_else(unknown)
}

pub(crate) extern "C" fn get(
    node: Text,
    service: Text,
    hints: Input<rdma_addrinfo>,
    to: Output<*mut rdma_addrinfo>,
) -> c_int {
    minus_one(|| {
        let hints = hints.get_if().unwrap_or_else(rdma_addrinfo::zeroed);
        if hints.ai_port_space != 0 && hints.ai_port_space.cast_unsigned() != RDMA_PS_TCP {
            return Err(error(
                Errno::OPNOTSUPP,
                "the only port space is RDMA_PS_TCP",
            ));
        }
        let asked = Asked {
            node: text(node.get())?,
            service: text(service.get())?,
            source: given(hints.ai_src_addr)?,
            destination: given(hints.ai_dst_addr)?,
            flags: hints.ai_flags,
            family: hints.ai_family,
        };
        let (source, destination) = asked.addresses()?;
        to.set(make(&hints, source, destination)?);
        Ok(0)
    })
}

fn given(address: *mut libc::sockaddr) -> Result<Option<SocketAddr>> {
    let address = Address::passed(address);
    match address.is_null() {
        true => Ok(None),
        false => address.get().map(Some),
    }
}

/// What a program asks for.
struct Asked<'a> {
    node: Option<&'a str>,
    service: Option<&'a str>,
    /// The addresses of the hints.
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
    flags: c_int,
    family: c_int,
}

impl Asked<'_> {
    /// The source and the destination. Without a host and a service they are those of the hints.
    fn addresses(&self) -> Result<(Option<SocketAddr>, Option<SocketAddr>)> {
        if self.node.is_none() && self.service.is_none() {
            return match (self.source, self.destination) {
                (None, None) => Err(error(Errno::INVAL, "no host, no service and no address")),
                given => Ok(given),
            };
        }
        let family = match self.flags & RAI_FAMILY {
            0 => 0,
            _ => self.family,
        };
        let address = resolve(self.node, port(self.service)?, self.flags, family)?;
        Ok(match self.flags & RAI_PASSIVE {
            0 => (self.source, Some(address)),
            _ => (Some(address), None),
        })
    }
}

/// Makes the structure. It and its addresses are pieces of memory of their own, because programs free and replace the addresses.
fn make(
    hints: &rdma_addrinfo,
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
) -> Result<*mut rdma_addrinfo> {
    let mut c = rdma_addrinfo::zeroed();
    c.ai_flags = hints.ai_flags;
    let is_ipv6 = source.or(destination).is_some_and(|one| one.is_ipv6());
    c.ai_family = if is_ipv6 {
        libc::AF_INET6
    } else {
        libc::AF_INET
    };
    c.ai_qp_type = IBV_QPT_RC.cast_signed();
    c.ai_port_space = RDMA_PS_TCP.cast_signed();
    for (address, to, len) in [
        (source, &mut c.ai_src_addr, &mut c.ai_src_len),
        (destination, &mut c.ai_dst_addr, &mut c.ai_dst_len),
    ] {
        if address.is_some() {
            let stored = storage(address);
            *to = allocate(stored.0)?.cast();
            *len = stored.1;
        }
    }
    allocate(c)
}

pub(crate) extern "C" fn free(mut info: *mut rdma_addrinfo) {
    while let Some(c) = Input::passed(info).get_if() {
        let pieces = [
            c.ai_src_addr.cast(),
            c.ai_dst_addr.cast(),
            c.ai_route,
            c.ai_connect,
        ];
        let names = [c.ai_src_canonname, c.ai_dst_canonname];
        let names = names.map(<*mut _>::cast);
        for piece in pieces.into_iter().chain(names).chain([info.cast()]) {
            free_array(piece);
        }
        info = c.ai_next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Asked<'_> = Asked {
        node: None,
        service: None,
        source: None,
        destination: None,
        flags: 0,
        family: 0,
    };

    fn address(text: &str) -> Option<SocketAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_host_is_the_destination_or_what_a_passive_side_binds_to() {
        let host = Asked {
            node: Some("192.0.2.1"),
            service: Some("7471"),
            ..NOTHING
        };
        assert_eq!(host.addresses().unwrap(), (None, address("192.0.2.1:7471")));
        let passive = Asked {
            flags: RAI_PASSIVE,
            ..host
        };
        assert_eq!(
            passive.addresses().unwrap(),
            (address("192.0.2.1:7471"), None)
        );
    }

    #[test]
    fn without_a_host_the_addresses_of_the_hints_are_taken() {
        // As libfabric asks before it connects.
        let hints = Asked {
            destination: address("192.0.2.1:57776"),
            flags: RAI_FAMILY,
            family: libc::AF_INET,
            ..NOTHING
        };
        assert_eq!(
            hints.addresses().unwrap(),
            (None, address("192.0.2.1:57776"))
        );
        assert_eq!(NOTHING.addresses().unwrap_err().errno(), Errno::INVAL);
    }
}
