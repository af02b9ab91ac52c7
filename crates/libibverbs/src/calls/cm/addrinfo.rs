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
        let family = match hints.ai_flags & RAI_FAMILY {
            0 => 0,
            _ => hints.ai_family,
        };
        let port = port(text(service.get())?)?;
        let address = resolve(text(node.get())?, port, hints.ai_flags, family)?;
        let is_passive = hints.ai_flags & RAI_PASSIVE != 0;
        let given = Address::passed(hints.ai_src_addr);
        let source = match (is_passive, given.is_null()) {
            (true, _) => Some(address),
            (false, true) => None,
            (false, false) => Some(given.get()?),
        };
        let destination = (!is_passive).then_some(address);
        to.set(make(&hints, source, destination, address.is_ipv6())?);
        Ok(0)
    })
}

/// Makes the structure. It and its addresses are pieces of memory of their own, because programs free and replace the addresses.
fn make(
    hints: &rdma_addrinfo,
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
    is_ipv6: bool,
) -> Result<*mut rdma_addrinfo> {
    let mut c = rdma_addrinfo::zeroed();
    c.ai_flags = hints.ai_flags;
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
