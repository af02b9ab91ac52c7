//! The addresses that count as one peer where resources are shared between peers.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or an IPv6 network of 64 bits, as large as the smallest that an IPv6 host is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerNetwork(IpAddr);

impl PeerNetwork {
    /// The peer to which an address belongs.
    pub fn from_address(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
            v4 => v4,
        })
    }
}

impl fmt::Display for PeerNetwork {
    /// The address, or the network with its length, as in `2001:db8::/64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}
