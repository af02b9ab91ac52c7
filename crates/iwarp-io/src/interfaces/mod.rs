//! The network interfaces of the machine, and the one from which a peer is reached.
//!
//! [`of_system`] decides for every interface above, ND2's and verbs', what an interface is and which addresses it has. On Linux the system's
//! own lists come from a netlink socket; elsewhere from the crate `if-addrs`.

mod link;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(not(target_os = "linux"))]
mod no_watch;
mod owner;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(target_os = "linux")]
mod watch;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;

use crate::descriptors::is_shortage;
use crate::system_call::named;

use link::{Link, LinkFlags, Lists};
#[cfg(target_os = "linux")]
use netlink::lists;
#[cfg(not(target_os = "linux"))]
use portable::lists;

#[cfg(not(target_os = "linux"))]
pub use no_watch::NoWatch as InterfaceWatch;
pub use owner::InterfaceOwner;
#[cfg(target_os = "linux")]
pub use watch::InterfaceWatch;

/// One network interface with at least one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    /// The name, for example `eth0`.
    pub name: String,
    /// What identifies the interface in the system: its name, or on Windows, where users change names, its GUID.
    pub identity: String,
    /// The number of the interface in the system.
    pub index: u32,
    /// IPv4 addresses, then IPv6 addresses. Of the loopback interface, 127.0.0.1 and ::1 come first in their families.
    pub addresses: Vec<IpAddr>,
    /// The longest packet in octets.
    pub mtu: u32,
    /// The hardware address; all 0 if there is none.
    pub hardware_address: [u8; 6],
    /// Packets stay within the machine.
    pub is_loopback: bool,
    /// The interface has a carrier. Without one its addresses work within the machine only.
    pub has_carrier: bool,
}

impl NetworkInterface {
    /// An interface of a simulated host.
    pub fn simulated(index: u32, addresses: Vec<IpAddr>) -> Self {
        let [_, _, high, low] = index.to_be_bytes();
        let name = format!("sim{index}");
        Self {
            identity: name.clone(),
            name,
            index,
            addresses,
            mtu: 1500,
            hardware_address: [2, 0, 0, 0, high, low],
            is_loopback: false,
            has_carrier: true,
        }
    }
}

/// The network interfaces of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkInterfaces {
    /// Those that are up and have an address, in this order: the one of the default route, the others that have a carrier by name, those
    /// without a carrier by name, the loopback interface. No address is in the list twice.
    pub list: Vec<NetworkInterface>,
    /// Addresses that several interfaces have.
    pub shared: Vec<SharedAddress>,
}

/// An address that two interfaces have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedAddress {
    /// The address.
    pub address: IpAddr,
    /// The name of the interface in whose list the address is.
    pub owner: String,
    /// The name of the other interface.
    pub other: String,
}

impl fmt::Display for SharedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            owner,
            other,
        } = self;
        write!(
            f,
            "{owner} and {other} both have the address {address}, and {owner} answers for it"
        )
    }
}

/// The interfaces that are up and have an address. IPv6 addresses that are valid on one link only are left out, because they are useless
/// without the link.
///
/// # Errors
///
/// Those of the system, if it does not list its interfaces.
pub fn of_system() -> io::Result<NetworkInterfaces> {
    Ok(arrange(lists()?, default_source()))
}

/// Makes the interfaces of what the system lists. `first` is the address of the interface that comes first.
fn arrange(lists: Lists, first: Option<IpAddr>) -> NetworkInterfaces {
    let mut addresses = HashMap::<u32, Vec<IpAddr>>::new();
    for (index, address) in lists.addresses {
        if !is_link_local(address) {
            let known = addresses.entry(index).or_default();
            if !known.contains(&address) {
                known.push(address);
            }
        }
    }
    let up = lists.links.into_iter();
    let up = up.filter(|link| link.flags.contains(LinkFlags::UP));
    let mut interfaces: Vec<_> = up
        .filter_map(|link| Some((addresses.remove(&link.index)?, link)))
        .map(|(addresses, link)| interface(link, addresses))
        .collect();
    interfaces.sort_by_cached_key(|interface| {
        let is_default = first.is_some_and(|first| interface.addresses.contains(&first));
        let name = interface.name.clone();
        (
            interface.is_loopback,
            !is_default,
            !interface.has_carrier,
            name,
        )
    });
    let mut shared = Vec::new();
    let mut owners = HashMap::<IpAddr, String>::new();
    for NetworkInterface {
        name, addresses, ..
    } in &mut interfaces
    {
        addresses.retain(|&address| match owners.get(&address) {
            Some(owner) => {
                let (owner, other) = (owner.clone(), name.clone());
                shared.push(SharedAddress {
                    address,
                    owner,
                    other,
                });
                false
            }
            None => {
                owners.insert(address, name.clone());
                true
            }
        });
    }
    interfaces.retain(|interface| !interface.addresses.is_empty());
    NetworkInterfaces {
        list: interfaces,
        shared,
    }
}

fn interface(link: Link, mut addresses: Vec<IpAddr>) -> NetworkInterface {
    let is_loopback = link.flags.contains(LinkFlags::LOOPBACK);
    addresses.sort_by_key(|address| {
        let comes_first = is_loopback && is_the_loopback_address(*address);
        (address.is_ipv6(), !comes_first)
    });
    NetworkInterface {
        identity: link.identity.unwrap_or_else(|| link.name.clone()),
        name: link.name,
        index: link.index,
        addresses,
        mtu: link.mtu,
        hardware_address: link.hardware_address,
        is_loopback,
        has_carrier: link.flags.contains(LinkFlags::LOWER_UP),
    }
}

/// Returns true for 127.0.0.1 and ::1, and false for the other addresses of 127.0.0.0/8.
fn is_the_loopback_address(address: IpAddr) -> bool {
    address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The local address from which the system would send to `peer`. Nothing is sent.
///
/// # Errors
///
/// Those of the system, for example `ENETUNREACH`.
pub fn source_for(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // A connected socket of UDP has chosen its route. Linux refuses port 0 on some systems, and the port does not matter.
    let mut peer = peer;
    if peer.port() == 0 {
        peer.set_port(9);
    }
    socket.connect(peer)?;
    let source = socket.local_addr()?.ip();
    if source.is_unspecified() {
        return Err(Errno::NETUNREACH.into());
    }
    Ok(source)
}

/// Checks that this host has an address. No packet is sent.
///
/// # Errors
///
/// `EADDRNOTAVAIL` for an address of another host or of none; those of the system, if it refuses sockets.
pub fn check_own(address: IpAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((address, 0)).map_err(named("bind"))?;
    let own = socket.local_addr().map_err(named("getsockname"))?;
    // Sockets may also have the broadcast address of a network, and with `ip_nonlocal_bind` every address. But only with an own address
    // they can be connected to themselves.
    match socket.connect(own) {
        Err(error) if is_shortage(&error) => Err(error),
        Err(_) => Err(Errno::ADDRNOTAVAIL.into()),
        Ok(()) => Ok(()),
    }
}

/// The source address of packets that follow the default route.
fn default_source() -> Option<IpAddr> {
    // Addresses for documentation, which no machine has (RFC 5737, RFC 3849).
    let v4 = SocketAddr::from(([192, 0, 2, 1], 9));
    let v6 = SocketAddr::from(([0x2001, 0xDB8, 0, 0, 0, 0, 0, 1], 9));
    source_for(v4).or_else(|_| source_for(v6)).ok()
}

#[cfg(test)]
mod tests;
