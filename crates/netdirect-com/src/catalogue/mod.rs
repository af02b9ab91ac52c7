//! Winsock's catalogue, in which the providers of NetworkDirect are registered on Windows.

mod in_memory;
#[cfg(windows)]
mod winsock;

use std::ffi::{OsStr, OsString};
use std::io;

use crate::abi::Guid;

pub use in_memory::InMemoryCatalogue;
#[cfg(windows)]
pub use winsock::WinsockCatalogue;

/// An entry of the catalogue: fields of `WSAPROTOCOL_INFOW`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// `ProviderId`, by which the path of the library is found.
    pub provider: Guid,
    /// `dwServiceFlags1`.
    pub service_flags: u32,
    /// `dwProviderFlags`.
    pub provider_flags: u32,
    /// `iVersion`.
    pub version: i32,
    /// `iAddressFamily`.
    pub address_family: i32,
    /// `iSocketType`.
    pub socket_type: i32,
    /// `iProtocol`.
    pub protocol: i32,
    /// `iProtocolMaxOffset`.
    pub protocol_max_offset: i32,
    /// `szProtocol`, a name for people: at most 255 characters of UTF-16.
    pub name: String,
}

/// `PFL_NETWORKDIRECT_PROVIDER`.
const NETWORK_DIRECT: u32 = 0x10;

impl CatalogueEntry {
    /// `XP1_GUARANTEED_DELIVERY`, `XP1_GUARANTEED_ORDER`, `XP1_MESSAGE_ORIENTED` and `XP1_CONNECT_DATA` (DLL-007).
    pub const SERVICE_FLAGS: u32 = 0x2 | 0x4 | 0x8 | 0x80;
    /// `PFL_HIDDEN` and `PFL_NETWORKDIRECT_PROVIDER` (DLL-008).
    pub const PROVIDER_FLAGS: u32 = 0x4 | NETWORK_DIRECT;
    /// `ND_VERSION_2` (DLL-009).
    pub const VERSION: i32 = 0x2_0000;
    /// `AF_INET` and `AF_INET6` of Windows (DLL-010).
    pub const ADDRESS_FAMILIES: [i32; 2] = [2, 23];
    /// The socket type of such entries (DLL-011).
    pub const SOCKET_TYPE: i32 = -1;

    /// The entry of a provider of NetworkDirect v2. One entry with `AF_INET6` stands for both families (DLL-010).
    pub fn of_provider(provider: Guid, name: impl Into<String>) -> Self {
        Self {
            provider,
            service_flags: Self::SERVICE_FLAGS,
            provider_flags: Self::PROVIDER_FLAGS,
            version: Self::VERSION,
            address_family: Self::ADDRESS_FAMILIES[1],
            socket_type: Self::SOCKET_TYPE,
            protocol: 0,
            protocol_max_offset: 0,
            name: name.into(),
        }
    }

    /// Returns true if the entry says that it is one of NetworkDirect, of whichever version, and whether or not programs take it.
    pub fn is_of_network_direct(&self) -> bool {
        self.provider_flags & NETWORK_DIRECT != 0
    }

    /// Returns true if the entry is a provider of NetworkDirect's second version, as NetworkDirect's own framework looks for it.
    pub fn is_provider(&self) -> bool {
        self.service_flags & Self::SERVICE_FLAGS == Self::SERVICE_FLAGS
            && self.provider_flags & Self::PROVIDER_FLAGS == Self::PROVIDER_FLAGS
            && self.version == Self::VERSION
            && Self::ADDRESS_FAMILIES.contains(&self.address_family)
            && self.socket_type == Self::SOCKET_TYPE
            && self.protocol == 0
            && self.protocol_max_offset == 0
    }
}

/// A catalogue.
pub trait Catalogue {
    /// All entries, the hidden ones as well.
    ///
    /// # Errors
    ///
    /// Winsock's error.
    fn entries(&self) -> io::Result<Vec<CatalogueEntry>>;

    /// The path of a provider's library, in which variables of the environment are replaced (DLL-020).
    ///
    /// # Errors
    ///
    /// Winsock's error.
    fn path(&self, provider: &Guid) -> io::Result<OsString>;

    /// Adds a provider with this entry. Readers replace variables of the environment in the path.
    ///
    /// # Errors
    ///
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied), if the process has not the rights of an administrator. `InvalidInput`, if the
    /// path has [`LONGEST_PATH`] or more characters of UTF-16, or a zero among them. Otherwise Winsock's error, as for a provider that is
    /// there already.
    fn install(&self, path: &OsStr, entry: &CatalogueEntry) -> io::Result<()>;

    /// Removes a provider with all its entries.
    ///
    /// # Errors
    ///
    /// `PermissionDenied`, if the process has not the rights of an administrator. Otherwise Winsock's error, as for a provider that is not
    /// there.
    fn deinstall(&self, provider: &Guid) -> io::Result<()>;
}

/// The most characters of UTF-16 of a path in the catalogue, with the zero at its end: `MAX_PATH` of Winsock's functions.
pub const LONGEST_PATH: usize = 260;

/// The libraries of the providers, each once, in the order of the catalogue. Entries whose path cannot be found are left out.
///
/// # Errors
///
/// As [`Catalogue::entries`].
pub fn libraries(catalogue: &dyn Catalogue) -> io::Result<Vec<OsString>> {
    let mut paths = Vec::new();
    let entries = catalogue.entries()?;
    for entry in entries.iter().filter(|entry| entry.is_provider()) {
        match catalogue.path(&entry.provider) {
            Ok(path) if !paths.contains(&path) => paths.push(path),
            Ok(_) => {}
            Err(error) => {
                let provider = entry.provider;
                tracing::warn!(target: crate::log::TARGET, "no path of the registered provider {provider}: {error}");
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> Guid {
        Guid::new(number, 0, 0, 0)
    }

    #[test]
    fn only_providers_of_the_second_version_count_and_each_library_once() {
        let catalogue = InMemoryCatalogue::default();
        let mut number = 0;
        let mut add = |change: &dyn Fn(&mut CatalogueEntry)| {
            let mut entry = CatalogueEntry::of_provider(id(number), "a test");
            change(&mut entry);
            let path = format!("{number}.dll");
            catalogue.install(path.as_ref(), &entry).unwrap();
            number += 1;
        };
        add(&|entry| entry.address_family = 2);
        add(&|entry| entry.provider_flags |= 0x2);
        add(&|entry| entry.service_flags |= 0x1);
        for wrong in [
            |entry: &mut CatalogueEntry| entry.provider_flags = 0x10,
            |entry: &mut CatalogueEntry| entry.provider_flags = 0x4,
            |entry: &mut CatalogueEntry| entry.service_flags = 0x86,
            |entry: &mut CatalogueEntry| entry.version = 2,
            |entry: &mut CatalogueEntry| entry.address_family = 1,
            |entry: &mut CatalogueEntry| entry.socket_type = 1,
            |entry: &mut CatalogueEntry| entry.protocol = 6,
            |entry: &mut CatalogueEntry| entry.protocol_max_offset = 1,
        ] {
            add(&wrong);
        }
        let again = CatalogueEntry::of_provider(id(100), "another identifier");
        catalogue.install("1.dll".as_ref(), &again).unwrap();
        let last = CatalogueEntry::of_provider(id(101), "the last");
        catalogue.install("last.dll".as_ref(), &last).unwrap();
        catalogue.lose_path(&id(2));
        let found = libraries(&catalogue).unwrap();
        assert_eq!(found, ["0.dll", "1.dll", "last.dll"]);
        let empty = InMemoryCatalogue::default();
        assert!(libraries(&empty).unwrap().is_empty());
    }

    #[test]
    fn a_provider_is_registered_with_the_fields_of_networkdirect() {
        let entry = CatalogueEntry::of_provider(id(1), "softnd");
        // DLL-007 to DLL-011.
        let fields = (entry.service_flags, entry.provider_flags, entry.version);
        assert_eq!(fields, (0x8E, 0x14, 0x2_0000));
        assert_eq!(entry.address_family, 23);
        let socket = (entry.socket_type, entry.protocol, entry.protocol_max_offset);
        assert_eq!(socket, (-1, 0, 0));
        assert!(entry.is_provider() && entry.is_of_network_direct());
    }
}
