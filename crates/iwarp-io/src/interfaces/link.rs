//! Interfaces and addresses as the system lists them.

use std::net::IpAddr;

use bitflags::bitflags;

bitflags! {
    /// The state of an interface (`IFF_UP` and the others of `if.h`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct LinkFlags: u32 {
        const UP = 0x1;
        const LOOPBACK = 0x8;
        /// There is a carrier. `IFF_RUNNING` says so up to a second later.
        const LOWER_UP = 0x1_0000;
        const _ = !0;
    }
}

/// An interface as the system lists it, with or without addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    /// Identifies the interface, where its name does not because users change it.
    pub(super) identity: Option<String>,
    pub(super) flags: LinkFlags,
    pub(super) mtu: u32,
    pub(super) hardware_address: [u8; 6],
}

/// The lists of the system.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) links: Vec<Link>,
    /// With the index of the interface that has the address.
    pub(super) addresses: Vec<(u32, IpAddr)>,
}
