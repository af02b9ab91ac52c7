//! Linux' lists of interfaces and addresses, by the messages of rtnetlink(7).
//!
//! The lists that the C library makes of the same messages name an address by its label, which need not be the name of an interface
//! (`ip addr add … label lovely`). The files below `/sys/class/net` are those of the network in which `/sys` was mounted, not of this one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::link::{Link, LinkFlags, Lists};
use crate::system_call::named;

/// Types of messages (`linux/netlink.h`, `linux/rtnetlink.h`).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;

/// Flags of messages: a request for a whole list, and the mark of a list that has changed while it was sent.
const REQUEST_DUMP: u16 = 0x301;
const DUMP_INTERRUPTED: u16 = 0x10;

/// The group of messages about interfaces.
const RTMGRP_LINK: u32 = 1;

/// Attributes of an interface (`linux/if_link.h`).
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;

/// Attributes of an address (`linux/if_addr.h`). On a point-to-point interface `IFA_ADDRESS` is the other end's address.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Another machine has the address too, so that the system does not use it.
const IFA_F_DADFAILED: u8 = 0x8;

const MESSAGE_HEADER: usize = 16;
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ATTRIBUTE_HEADER: usize = 4;

/// No message of the kernel's lists is longer.
const BUFFER: usize = 64 * 1024;
/// Times that a list is asked for which changes while it is sent.
const TRIES: usize = 16;

/// Asks the system for its lists.
pub(super) fn lists() -> io::Result<Lists> {
    let socket = socket(SocketFlags::empty())?;
    Ok(Lists {
        links: list(&socket, RTM_GETLINK, RTM_NEWLINK, link)?,
        addresses: list(&socket, RTM_GETADDR, RTM_NEWADDR, address)?,
    })
}

/// Returns true if the system has an interface with this number.
pub(super) fn exists(index: u32) -> io::Result<bool> {
    let links = list(
        &socket(SocketFlags::empty())?,
        RTM_GETLINK,
        RTM_NEWLINK,
        link,
    )?;
    Ok(links.iter().any(|link| link.index == index))
}

/// A socket that gets a message when an interface changes or goes, and no others.
pub(super) fn changes() -> io::Result<OwnedFd> {
    let socket = socket(SocketFlags::NONBLOCK)?;
    let address = SocketAddrNetlink::new(0, RTMGRP_LINK);
    bind(&socket, &address).map_err(named("bind"))?;
    Ok(socket)
}

/// Takes the messages that have come to such a socket. Returns true if an interface with this number may have gone: messages may be lost.
pub(super) fn may_have_gone(changes: &OwnedFd, index: u32) -> bool {
    let mut buffer = vec![0; BUFFER];
    let mut gone = false;
    loop {
        let received = retry_on_intr(|| recv(changes, &mut buffer[..], RecvFlags::TRUNC));
        let length = match received {
            Ok((_, length)) => length,
            Err(Errno::AGAIN) => return gone,
            Err(Errno::NOBUFS) => {
                gone = true;
                continue;
            }
            // Nothing can be learned any more.
            Err(_) => return gone,
        };
        let octets = buffer.get(..length).unwrap_or_default();
        let read = messages(octets, |message| {
            gone |= message.kind == RTM_DELLINK && u32_at(message.body, 4) == Some(index);
        });
        gone |= octets.is_empty() || read.is_err();
    }
}

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    // Without a protocol, which is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None);
    socket.map_err(named("socket"))
}

/// Asks for one list, and reads the messages of type `kind`. A list that changes while it is sent is asked for again.
fn list<T>(
    socket: &OwnedFd,
    request: u16,
    kind: u16,
    read: fn(&[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let mut buffer = vec![0; BUFFER];
    let mut list = Vec::new();
    for _ in 0..TRIES {
        list.clear();
        send(socket, &message(request), SendFlags::empty()).map_err(named("sendto"))?;
        let mut is_whole = true;
        loop {
            let received = retry_on_intr(|| recv(socket, &mut buffer[..], RecvFlags::TRUNC));
            let (_, length) = received.map_err(named("recvfrom"))?;
            let octets = buffer.get(..length).ok_or(Errno::MSGSIZE)?;
            let end = messages(octets, |message| {
                is_whole &= message.flags & DUMP_INTERRUPTED == 0;
                if message.kind == kind {
                    list.extend(read(message.body));
                }
            })?;
            if end {
                break;
            }
        }
        if is_whole {
            break;
        }
    }
    Ok(list)
}

/// A request for the list of all address families.
fn message(request: u16) -> Vec<u8> {
    let mut message = Vec::with_capacity(MESSAGE_HEADER + 4);
    message.extend(20_u32.to_ne_bytes());
    message.extend(request.to_ne_bytes());
    message.extend(REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 12]); // sequence number, sender, address family
    message
}

struct Message<'a> {
    kind: u16,
    flags: u16,
    body: &'a [u8],
}

/// Calls `each` with the messages of a datagram. Returns true if the list ends with this datagram.
fn messages(mut octets: &[u8], mut each: impl FnMut(Message<'_>)) -> io::Result<bool> {
    while let Some(length) = u32_at(octets, 0) {
        let length = usize::try_from(length).map_err(|_| Errno::BADMSG)?;
        let whole = octets.get(..length).filter(|_| length >= MESSAGE_HEADER);
        let whole = whole.ok_or(Errno::BADMSG)?;
        let (header, body) = whole.split_at(MESSAGE_HEADER);
        let kind = u16_at(header, 4).unwrap_or_default();
        let flags = u16_at(header, 6).unwrap_or_default();
        // The number of a failed request is negative; a list that could not be sent whole ends with such a number, too.
        let number = u32_at(body, 0).map_or(0, |number| number.cast_signed().wrapping_neg());
        if matches!(kind, NLMSG_ERROR | NLMSG_DONE) && number > 0 {
            return Err(named("a list of netlink")(Errno::from_raw_os_error(number)));
        }
        each(Message { kind, flags, body });
        if kind == NLMSG_DONE {
            return Ok(true);
        }
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn link(body: &[u8]) -> Option<Link> {
    let mut link = Link {
        index: u32_at(body, 4)?,
        flags: LinkFlags::from_bits_retain(u32_at(body, 8)?),
        mtu: 1500,
        ..Link::default()
    };
    for (kind, value) in attributes(body.get(LINK_HEADER..)?) {
        match kind {
            IFLA_IFNAME => link.name = text(value),
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            // Of Ethernet. Tunnels have the addresses of their ends here.
            IFLA_ADDRESS => link.hardware_address = value.try_into().unwrap_or_default(),
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

fn address(body: &[u8]) -> Option<(u32, IpAddr)> {
    let [family, _, flags, ..] = *body else {
        return None;
    };
    let index = u32_at(body, 4)?;
    let [mut local, mut address] = [None; 2];
    for (kind, value) in attributes(body.get(ADDRESS_HEADER..)?) {
        match kind {
            IFA_LOCAL => local = ip(family, value),
            IFA_ADDRESS => address = ip(family, value),
            _ => {}
        }
    }
    let is_usable = flags & IFA_F_DADFAILED == 0;
    local
        .or(address)
        .filter(|_| is_usable)
        .map(|ip| (index, ip))
}

fn ip(family: u8, octets: &[u8]) -> Option<IpAddr> {
    if u16::from(family) == AddressFamily::INET.as_raw() {
        let octets: [u8; 4] = octets.try_into().ok()?;
        Some(Ipv4Addr::from(octets).into())
    } else if u16::from(family) == AddressFamily::INET6.as_raw() {
        let octets: [u8; 16] = octets.try_into().ok()?;
        Some(Ipv6Addr::from(octets).into())
    } else {
        None
    }
}

/// The types and values of attributes.
fn attributes(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(octets, 0)?);
        let kind = u16_at(octets, 2)?;
        let value = octets.get(ATTRIBUTE_HEADER..length)?;
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A string of C.
fn text(octets: &[u8]) -> String {
    let end = octets.iter().position(|octet| *octet == 0);
    let octets = &octets[..end.unwrap_or(octets.len())];
    String::from_utf8_lossy(octets).into_owned()
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    let (octets, _) = octets.get(at..)?.split_first_chunk()?;
    Some(u16::from_ne_bytes(*octets))
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    let (octets, _) = octets.get(at..)?.split_first_chunk()?;
    Some(u32::from_ne_bytes(*octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message in the order of octets of this machine.
    fn message_of(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(MESSAGE_HEADER + body.len()).unwrap();
        let mut octets = length.to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend(flags.to_ne_bytes());
        octets.extend([0; 8]);
        octets.extend(body);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE_HEADER + value.len()).unwrap();
        let mut octets = length.to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend(value);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    fn link_body() -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(7_u32.to_ne_bytes());
        body.extend(0x1_0009_u32.to_ne_bytes()); // up, loopback, carrier
        body.extend([0; 4]);
        body.extend(attribute(IFLA_IFNAME, b"lo0\0"));
        body.extend(attribute(IFLA_MTU, &9000_u32.to_ne_bytes()));
        body.extend(attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9]));
        body
    }

    #[test]
    fn a_link_has_its_name_flags_mtu_and_hardware_address() {
        let found = link(&link_body()).unwrap();
        assert_eq!(
            found,
            Link {
                index: 7,
                name: "lo0".into(),
                identity: None,
                flags: LinkFlags::UP | LinkFlags::LOOPBACK | LinkFlags::LOWER_UP,
                mtu: 9000,
                hardware_address: [2, 0, 0, 0, 0, 9],
            }
        );
    }

    /// On a point-to-point interface the address is the other end's.
    #[test]
    fn an_address_is_the_own_one_and_belongs_to_an_index() {
        let mut body = vec![2, 32, 0, 0]; // AF_INET
        body.extend(3_u32.to_ne_bytes());
        body.extend(attribute(IFA_ADDRESS, &[10, 0, 0, 2]));
        assert_eq!(address(&body), Some((3, [10, 0, 0, 2].into())));
        body.extend(attribute(IFA_LOCAL, &[10, 0, 0, 1]));
        assert_eq!(address(&body), Some((3, [10, 0, 0, 1].into())));
        body[2] = IFA_F_DADFAILED;
        assert_eq!(address(&body), None);
    }

    #[test]
    fn a_list_ends_with_its_last_message_and_may_fail() {
        let mut kinds = Vec::new();
        let mut octets = message_of(RTM_NEWLINK, 0, &link_body());
        octets.extend(message_of(RTM_NEWLINK, DUMP_INTERRUPTED, b"odd"));
        let more = messages(&octets, |message| kinds.push(message.flags));
        assert!(!more.unwrap());
        assert_eq!(kinds, [0, DUMP_INTERRUPTED]);
        octets.extend(message_of(NLMSG_DONE, 0, &0_u32.to_ne_bytes()));
        assert!(messages(&octets, |_| {}).unwrap());
        let refused = message_of(NLMSG_ERROR, 0, &(-13_i32).to_ne_bytes());
        let error = messages(&refused, |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(messages(&octets[..20], |_| {}).is_err());
    }

    /// Whatever is cut off, nothing panics.
    #[test]
    fn messages_that_are_cut_off_are_no_panic() {
        let octets = message_of(RTM_NEWLINK, 0, &link_body());
        for end in 0..octets.len() {
            let _ = messages(&octets[..end], |_| {});
            let _ = link(&octets[..end]);
            let _ = address(&octets[..end]);
        }
    }
}
