//! Devices: one for each network interface that has an address.

use std::net::IpAddr;

use iwarp_io::interfaces::NetworkInterface;

/// The kind of device that programs see. On the wire both kinds speak iWARP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// A channel adapter with an Ethernet port: node type CA, transport IB, RoCE v2.
    #[default]
    Roce,
    /// An iWARP adapter: node type RNIC, transport iWARP.
    Iwarp,
}

/// A GID: the address of a port, in the form of an IPv6 address.
pub type Gid = [u8; 16];

/// A row of a port's GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID.
    pub gid: Gid,
    /// Its index in the table.
    pub index: u32,
    /// The number of the network interface.
    pub interface: u32,
}

/// The limits of all devices. A limit that is reported is a limit that is kept.
pub mod limits {
    /// The longest memory region, in octets.
    pub const REGION: u64 = 1 << 40;
    /// Memory regions.
    pub const REGIONS: u32 = 1 << 24;
    /// Completions of a completion queue.
    pub const COMPLETIONS: u32 = iwarp_io::cq::GREATEST_DEPTH;
    /// Requests of one queue of a queue pair, and of a shared receive queue.
    pub const REQUESTS: u32 = 1 << 14;
    /// SGEs of a request.
    pub const SGES: u32 = 16;
    /// Octets of a message.
    pub const MESSAGE: u32 = 1 << 30;
    /// Octets of inline data.
    pub const INLINE: u32 = 1024;
    /// Reads that a queue pair may have outstanding, in each direction.
    pub const READS: u32 = 128;
    /// Completion queues, protection domains and shared receive queues: as many as fit into 24 bits with what is reserved.
    pub const OBJECTS: u32 = 1 << 20;
    /// Queue pairs: as many as have numbers without a port.
    pub const QUEUE_PAIRS: u32 = 0x3_0000;
    /// Octets of private data in each message of the connection manager.
    pub const PRIVATE_DATA: usize = 508;
}

/// A device.
#[derive(Debug)]
pub struct Device {
    name: String,
    index: usize,
    kind: DeviceKind,
    interface: NetworkInterface,
}

impl Device {
    /// `names` is the text in front of the index in its name.
    pub(crate) fn new(
        index: usize,
        names: &str,
        kind: DeviceKind,
        interface: NetworkInterface,
    ) -> Self {
        Self {
            name: format!("{names}{index}"),
            index,
            kind,
            interface,
        }
    }

    /// The name, for example `softnd0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The place of the device among those of the process.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the kind of device that programs see.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// The network interface.
    pub fn interface(&self) -> &NetworkInterface {
        &self.interface
    }

    /// The GUID of the device, octets in their order on the wire. It is the EUI-64 of the interface's hardware address, or follows from
    /// the name of an interface without one, so that it does not change between runs.
    pub fn guid(&self) -> [u8; 8] {
        let [a, b, c, d, e, f] = match self.interface.hardware_address {
            [0, 0, 0, 0, 0, 0] => address_of_name(&self.interface.name),
            address => address,
        };
        [a ^ 2, b, c, 0xFF, 0xFE, d, e, f]
    }

    /// The GID table of the port: the IPv4 addresses mapped, then the IPv6 addresses. An iWARP adapter has one row with its hardware
    /// address.
    pub fn gids(&self) -> Vec<GidEntry> {
        let gids: Vec<Gid> = match self.kind {
            DeviceKind::Roce => self.interface.addresses.iter().copied().map(gid).collect(),
            DeviceKind::Iwarp => {
                let mut gid = [0; 16];
                gid[..6].copy_from_slice(&self.interface.hardware_address);
                vec![gid]
            }
        };
        let entries = gids.into_iter().zip(0..);
        entries
            .map(|(gid, index)| GidEntry {
                gid,
                index,
                interface: self.interface.index,
            })
            .collect()
    }

    /// The port's active MTU in octets: the largest of InfiniBand's MTUs that fits into a packet of the interface, as RoCE derives it.
    pub fn mtu(&self) -> u32 {
        // The headers that RoCE v2 puts around a payload: BTH, an extended header, ICRC, UDP and IPv6.
        let room = self.interface.mtu.saturating_sub(12 + 16 + 4 + 8 + 40);
        let mtus = [4096, 2048, 1024, 512];
        mtus.into_iter().find(|mtu| *mtu <= room).unwrap_or(256)
    }

    /// The port's active MTU as `enum ibv_mtu` has it.
    pub fn mtu_number(&self) -> u32 {
        self.mtu().ilog2() - 7 // IBV_MTU_256 is 1
    }

    /// Returns true if connections of this device may use a local address.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.interface.addresses.contains(&address.to_canonical())
    }
}

/// The GID of an IP address.
pub fn gid(address: IpAddr) -> Gid {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A locally administered hardware address that follows from a name (FNV-1a).
fn address_of_name(name: &str) -> [u8; 6] {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01B3)
    });
    let [_, _, a, b, c, d, e, _] = hash.to_be_bytes();
    [2, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: DeviceKind, mtu: u32) -> Device {
        let addresses = vec![[10, 1, 2, 3].into(), "fd00::1".parse().unwrap()];
        let mut interface = NetworkInterface::simulated(7, addresses);
        interface.mtu = mtu;
        Device::new(0, "softnd", kind, interface)
    }

    #[test]
    fn the_gid_table_has_the_addresses() {
        let roce = device(DeviceKind::Roce, 1500).gids();
        assert_eq!(roce.len(), 2);
        assert_eq!(
            roce[0].gid,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3]
        );
        assert_eq!(
            (roce[1].gid[0], roce[1].index, roce[1].interface),
            (0xFD, 1, 7)
        );
        let iwarp = device(DeviceKind::Iwarp, 1500).gids();
        assert_eq!(iwarp.len(), 1);
        assert_eq!(iwarp[0].gid[..6], [2, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn the_mtu_follows_from_the_interface() {
        for (interface, mtu) in [
            (1500, 1024),
            (9000, 4096),
            (65_536, 4096),
            (600, 512),
            (300, 256),
        ] {
            assert_eq!(device(DeviceKind::Roce, interface).mtu(), mtu);
        }
    }

    #[test]
    fn an_interface_without_a_hardware_address_has_a_guid_that_stays() {
        let mut interface = NetworkInterface::simulated(1, Vec::new());
        interface.hardware_address = [0; 6];
        let guid = |interface: &NetworkInterface| {
            Device::new(0, "softnd", DeviceKind::Roce, interface.clone()).guid()
        };
        assert_eq!(guid(&interface), guid(&interface));
        assert_ne!(guid(&interface), [0; 8]);
        let mut other = interface.clone();
        other.name.push('x');
        assert_ne!(guid(&interface), guid(&other));
    }
}
