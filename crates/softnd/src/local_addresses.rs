//! The local addresses of one adapter.

use std::net::IpAddr;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalAddresses {
    listed: Vec<IpAddr>,
    /// The adapter is the loopback interface, and serves all of 127.0.0.0/8.
    has_loopback_network: bool,
}

impl LocalAddresses {
    /// The addresses of a network interface. The system lists 127.0.0.1 for the loopback interface, and all of 127.0.0.0/8 is local.
    pub(crate) fn of_interface(listed: Vec<IpAddr>, is_loopback: bool) -> Self {
        let has = |address: &IpAddr| address.is_ipv4() && address.is_loopback();
        Self {
            has_loopback_network: is_loopback && listed.iter().any(has),
            listed,
        }
    }

    /// An adapter with one address.
    pub(crate) fn one(address: IpAddr) -> Self {
        Self::of_interface(vec![address], address.is_loopback())
    }

    /// The addresses that clients are shown.
    pub(crate) fn listed(&self) -> &[IpAddr] {
        &self.listed
    }

    /// Returns true if connections may use this local address.
    pub(crate) fn serves(&self, address: IpAddr) -> bool {
        let is_of_network = || address.is_ipv4() && address.is_loopback();
        self.listed.contains(&address) || self.has_loopback_network && is_of_network()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_alone_serves_the_loopback_network() {
        let [lo, other, v6] = ["127.0.0.1", "10.0.0.1", "::1"].map(|ip| ip.parse().unwrap());
        let beyond = "127.9.9.9".parse().unwrap();
        let lists = [
            (vec![lo, other], true, true),
            (vec![lo, other], false, false),
            (vec![other], true, false),
            (vec![v6], true, false),
        ];
        for (listed, is_loopback, wanted) in lists {
            let own = LocalAddresses::of_interface(listed, is_loopback);
            assert_eq!(own.serves(beyond), wanted, "{own:?}");
            assert!(own.listed().iter().all(|ip| own.serves(*ip)));
        }
        assert!(LocalAddresses::one(lo).serves(beyond));
        assert!(!LocalAddresses::one(other).serves(beyond));
    }
}
