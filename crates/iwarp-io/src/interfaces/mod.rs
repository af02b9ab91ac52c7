//! The network interfaces of the machine, and the one from which a peer is reached.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;

/// One network interface with at least one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    /// The name, for example `eth0`.
    pub name: String,
    /// The number of the interface in the system.
    pub index: u32,
    /// IPv4 addresses, then IPv6 addresses.
    pub addresses: Vec<IpAddr>,
    /// The longest packet in octets.
    pub mtu: u32,
    /// The hardware address; all 0 if there is none.
    pub hardware_address: [u8; 6],
    /// Packets stay within the machine.
    pub is_loopback: bool,
}

impl NetworkInterface {
    /// An interface of a simulated host.
    pub fn simulated(index: u32, addresses: Vec<IpAddr>) -> Self {
        let [_, _, high, low] = index.to_be_bytes();
        Self {
            name: format!("sim{index}"),
            index,
            addresses,
            mtu: 1500,
            hardware_address: [2, 0, 0, 0, high, low],
            is_loopback: false,
        }
    }
}

/// The interfaces that are up and have an address: the one of the default route first, the loopback interface last, the others by name.
/// IPv6 addresses that are valid on one link only are left out, because they are useless without the link.
///
/// # Errors
///
/// Those of the system, if it does not list its interfaces.
pub fn of_system() -> io::Result<Vec<NetworkInterface>> {
    let mut by_name = BTreeMap::<String, NetworkInterface>::new();
    for found in if_addrs::get_if_addrs()? {
        let address = found.ip();
        if is_link_local(address) || !found.is_oper_up() && !found.is_loopback() {
            continue;
        }
        let interface = by_name
            .entry(found.name.clone())
            .or_insert_with(|| NetworkInterface {
                index: found.index.unwrap_or(0),
                addresses: Vec::new(),
                mtu: mtu(&found.name),
                hardware_address: hardware_address(&found.name),
                is_loopback: found.is_loopback(),
                name: found.name,
            });
        interface.addresses.push(address);
    }
    let first = default_source();
    let mut interfaces: Vec<_> = by_name.into_values().collect();
    for interface in &mut interfaces {
        interface.addresses.sort_by_key(IpAddr::is_ipv6);
    }
    interfaces.sort_by_key(|interface| {
        let is_default = first.is_some_and(|first| interface.addresses.contains(&first));
        (interface.is_loopback, !is_default)
    });
    Ok(interfaces)
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

/// The source address of packets that follow the default route.
fn default_source() -> Option<IpAddr> {
    // Addresses for documentation, which no machine has (RFC 5737, RFC 3849).
    let v4 = SocketAddr::from(([192, 0, 2, 1], 9));
    let v6 = SocketAddr::from(([0x2001, 0xDB8, 0, 0, 0, 0, 0, 1], 9));
    source_for(v4).or_else(|_| source_for(v6)).ok()
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Returns the contents of a file in the system's folder of an interface; empty if there is no such file.
fn attribute(interface: &str, file: &str) -> String {
    let path = format!("/sys/class/net/{interface}/{file}");
    std::fs::read_to_string(path).unwrap_or_default()
}

fn mtu(interface: &str) -> u32 {
    attribute(interface, "mtu").trim().parse().unwrap_or(1500)
}

fn hardware_address(interface: &str) -> [u8; 6] {
    parse_hardware_address(&attribute(interface, "address")).unwrap_or_default()
}

fn parse_hardware_address(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.trim().split(':');
    for octet in &mut octets {
        *octet = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_comes_last_and_every_interface_has_an_address() {
        let interfaces = of_system().unwrap();
        let loopback = interfaces.iter().position(|one| one.is_loopback);
        assert_eq!(loopback, interfaces.len().checked_sub(1));
        for interface in interfaces {
            assert!(!interface.addresses.is_empty() && interface.mtu > 0);
        }
    }

    #[test]
    fn the_source_for_a_local_address_is_that_address() {
        for local in of_system().unwrap().iter().flat_map(|one| &one.addresses) {
            assert_eq!(source_for((*local, 7).into()).unwrap(), *local);
        }
    }

    #[test]
    fn hardware_addresses_are_six_octets() {
        let parsed = parse_hardware_address("02:42:ac:11:00:02\n");
        assert_eq!(parsed, Some([0x02, 0x42, 0xac, 0x11, 0, 2]));
        for wrong in ["", "02:42", "02:42:ac:11:00:02:03", "xx:42:ac:11:00:02"] {
            assert_eq!(parse_hardware_address(wrong), None, "{wrong}");
        }
    }
}
