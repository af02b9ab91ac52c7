//! Address handles, and the addresses of peers that programs name in the form of RoCE: a row of the GID table, and a GID.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::device::{Device, DeviceKind, Gid};
use crate::error::{Errno, Result, fail};
use crate::pd::ProtectionDomain;
use crate::users::User;

/// The address of a peer, as in `struct ibv_ah_attr`. Members that IP has no use for are only kept for the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// The global part counts (`is_global`): the members up to `traffic_class`.
    pub is_global: bool,
    /// The peer's GID.
    pub dgid: Gid,
    /// The row of this side's GID table.
    pub sgid_index: u8,
    /// The flow label.
    pub flow_label: u32,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The local identifier of InfiniBand.
    pub dlid: u16,
    /// The service level.
    pub sl: u8,
    /// The lower bits of the own local identifier.
    pub src_path_bits: u8,
    /// The rate limit.
    pub static_rate: u8,
    /// The port of this side.
    pub port: u8,
}

/// A checked [`AddressVector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GlobalRoute {
    /// The GID of this side.
    pub(crate) own_gid: Gid,
    /// The peer's GID.
    pub(crate) peer_gid: Gid,
}

impl GlobalRoute {
    /// The address of this side.
    pub(crate) fn own(&self) -> IpAddr {
        address_of(self.own_gid)
    }

    /// The peer's address.
    pub(crate) fn peer(&self) -> IpAddr {
        address_of(self.peer_gid)
    }
}

/// The address that a GID of RoCE v2 is a form of.
fn address_of(gid: Gid) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(gid)).to_canonical()
}

impl AddressVector {
    /// The address of the sender of a datagram that begins with this GRH, from the side that has received it.
    ///
    /// # Errors
    ///
    /// EINVAL if the datagram was sent to none of the device's addresses.
    pub fn of_sender(device: &Device, grh: &[u8; 40]) -> Result<Self> {
        let gid = |at: usize| {
            let mut gid = Gid::default();
            gid.copy_from_slice(&grh[at..at + 16]);
            gid
        };
        let (from, to) = (gid(8), gid(24));
        let rows = device.gids();
        let row = rows.iter().find(|row| row.gid == to);
        let Some(sgid_index) = row.and_then(|row| u8::try_from(row.index).ok()) else {
            return fail(
                Errno::INVAL,
                "the datagram was sent to no GID of the table: its first 40 octets are no global routing header",
            );
        };
        let [a, b, c, d, ..] = *grh;
        let first = u32::from_be_bytes([a, b, c, d]);
        Ok(Self {
            is_global: true,
            dgid: from,
            sgid_index,
            flow_label: first & 0xF_FFFF,
            hop_limit: u8::MAX,
            traffic_class: (first >> 20).to_be_bytes()[3],
            port: 1,
            ..Self::default()
        })
    }

    /// Checks the address against the GID table of a device.
    pub(crate) fn check(&self, device: &Device) -> Result<GlobalRoute> {
        if !self.is_global {
            return fail(
                Errno::INVAL,
                "the address has no global part (is_global, grh): tell the program an index of the GID table, such as -g 0 or -x 0",
            );
        }
        if self.port != 1 {
            return fail(
                Errno::INVAL,
                format!("the address names port {}: devices have port 1", self.port),
            );
        }
        let rows = device.gids();
        let Some(row) = rows.get(usize::from(self.sgid_index)) else {
            return fail(
                Errno::INVAL,
                format!(
                    "the GID table has rows 0 to {}, and no row {}: tell the program another index",
                    rows.len().saturating_sub(1),
                    self.sgid_index
                ),
            );
        };
        let route = GlobalRoute {
            own_gid: row.gid,
            peer_gid: self.dgid,
        };
        let (own, peer) = (route.own(), route.peer());
        let is_link_local = matches!(peer, IpAddr::V6(peer) if peer.is_unicast_link_local());
        if peer.is_unspecified() || peer.is_multicast() || is_link_local {
            return fail(
                Errno::INVAL,
                format!(
                    "the peer's GID {peer} is not the address of one host: use the GID of an address of its interface"
                ),
            );
        }
        if own.is_ipv4() != peer.is_ipv4() {
            let family = |address: IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" };
            return fail(
                Errno::INVAL,
                format!(
                    "row {} of the GID table is the {} address {own}, and the peer's GID is the {} address {peer}: use rows of one family \
                     at both ends",
                    self.sgid_index,
                    family(own),
                    family(peer)
                ),
            );
        }
        Ok(route)
    }
}

/// An address handle: a checked address.
pub struct AddressHandle {
    vector: AddressVector,
    route: GlobalRoute,
    user: User,
}

impl fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressHandle")
            .field("vector", &self.vector)
            .finish_non_exhaustive()
    }
}

impl AddressHandle {
    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// EINVAL if the address has no global part, or names a port, a row of the GID table or a peer that cannot be; EOPNOTSUPP on an adapter
    /// of iWARP.
    pub fn create(pd: &Arc<ProtectionDomain>, vector: AddressVector) -> Result<Arc<Self>> {
        let device = pd.context().device();
        if device.kind() == DeviceKind::Iwarp {
            return fail(
                Errno::OPNOTSUPP,
                "adapters of iWARP have no address handles",
            );
        }
        let route = vector.check(device)?;
        Ok(Arc::new(Self {
            vector,
            route,
            user: pd.users.add(),
        }))
    }

    /// The address.
    pub fn vector(&self) -> &AddressVector {
        &self.vector
    }

    /// The addresses of both sides.
    pub(crate) fn route(&self) -> &GlobalRoute {
        &self.route
    }

    /// Prepares to release the address handle.
    pub fn destroy(&self) {
        self.user.release();
    }
}

#[cfg(test)]
mod tests {
    use iwarp_io::interfaces::NetworkInterface;

    use super::*;
    use crate::device::gid;

    fn device() -> Device {
        let addresses = vec![[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()];
        let interface = NetworkInterface::simulated(1, addresses);
        Device::new(0, "softnd", DeviceKind::Roce, interface)
    }

    fn vector(sgid_index: u8, peer: &str) -> AddressVector {
        AddressVector {
            is_global: true,
            dgid: gid(peer.parse().unwrap()),
            sgid_index,
            port: 1,
            ..AddressVector::default()
        }
    }

    #[test]
    fn a_row_and_a_gid_of_one_family_are_a_route() {
        for (row, own, peer) in [(0, "10.0.0.1", "10.0.0.2"), (1, "fd00::1", "fd00::2")] {
            let route = vector(row, peer).check(&device()).unwrap();
            assert_eq!(route.own(), own.parse::<IpAddr>().unwrap());
            assert_eq!(route.peer(), peer.parse::<IpAddr>().unwrap());
        }
    }

    #[test]
    fn the_sender_of_a_datagram_is_found_by_its_header() {
        let mut grh = [0; 40];
        grh[..4].copy_from_slice(&0x6AB1_2345_u32.to_be_bytes());
        grh[8..24].copy_from_slice(&gid("fd00::2".parse().unwrap()));
        grh[24..].copy_from_slice(&gid("fd00::1".parse().unwrap()));
        let sender = AddressVector::of_sender(&device(), &grh).unwrap();
        assert_eq!(
            (sender.sgid_index, sender.dgid),
            (1, gid("fd00::2".parse().unwrap()))
        );
        assert_eq!((sender.traffic_class, sender.flow_label), (0xAB, 0x1_2345));
        assert!(sender.check(&device()).is_ok());
        grh[39] = 9;
        let error = AddressVector::of_sender(&device(), &grh).unwrap_err();
        assert_eq!(error.errno(), Errno::INVAL);
    }

    #[test]
    fn addresses_that_cannot_be_are_refused_with_what_to_do() {
        let refused = |vector: AddressVector| {
            let error = vector.check(&device()).unwrap_err();
            assert_eq!(error.errno(), Errno::INVAL);
            error.to_string()
        };
        let good = vector(0, "10.0.0.2");
        let local = AddressVector {
            is_global: false,
            ..good
        };
        assert!(refused(local).contains("-g 0"));
        assert!(refused(AddressVector { port: 2, ..good }).contains("port 2"));
        assert!(refused(vector(2, "10.0.0.2")).contains("rows 0 to 1"));
        for peer in ["fe80::1", "::", "ff02::1"] {
            assert!(refused(vector(1, peer)).contains(peer), "{peer}");
        }
        assert!(refused(vector(0, "0.0.0.0")).contains("0.0.0.0"));
        assert!(refused(vector(1, "10.0.0.2")).contains("rows of one family"));
    }
}
