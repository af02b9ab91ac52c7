//! Addresses of the host that a user or a caller has named, for hosts that do not list their network interfaces.
//!
//! The list comes from a netlink socket, which hardened services and Android refuse to programs. An address that the user names is
//! tried by binding a socket to it.

use std::io;
use std::net::IpAddr;

use iwarp_io::interfaces;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::local_addresses::LocalAddresses;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct NamedAddresses(Mutex<Vec<IpAddr>>);

impl NamedAddresses {
    /// Adds an address, if the system lets sockets have it.
    pub(crate) fn add(&self, address: IpAddr) -> io::Result<()> {
        let mut known = self.0.lock();
        let mut served = known.iter().map(|known| LocalAddresses::one(*known));
        if served.any(|known| known.serves(address)) {
            return Ok(());
        }
        // Sockets may have these as well, but connections may not.
        let is_of_one_host = match address {
            IpAddr::V4(v4) => !v4.is_broadcast(),
            IpAddr::V6(_) => true,
        };
        if address.is_unspecified() || address.is_multicast() || !is_of_one_host {
            return Err(Errno::ADDRNOTAVAIL.into());
        }
        interfaces::check_own(address)?;
        known.push(address);
        Ok(())
    }

    /// All of them, in the order in which they were named.
    pub(crate) fn all(&self) -> Vec<IpAddr> {
        self.0.lock().clone()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_address_counts_if_the_host_has_it() {
        let named = NamedAddresses::default();
        // Sockets may have the broadcast address of a network. The last one is reserved for documentation (RFC 5737).
        for strange in [
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "127.255.255.255",
            "198.51.100.7",
        ] {
            let error = named.add(strange.parse().unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable, "{strange}");
        }
        assert!(named.all().is_empty());
        for own in ["127.0.0.1", "127.0.0.1", "127.0.0.2"] {
            named.add(own.parse().unwrap()).unwrap();
        }
        assert_eq!(named.all(), [IpAddr::from([127, 0, 0, 1])]);
    }
}
