//! Winsock's catalogue, in which the providers of NetworkDirect are registered on Windows.

#[cfg(windows)]
mod winsock;

use std::ffi::OsString;
use std::io;

use crate::abi::Guid;

#[cfg(windows)]
pub use winsock::WinsockCatalogue;

/// An entry of the catalogue: fields of `WSAPROTOCOL_INFOW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// `ProviderId`, by which the path of the library is found.
    pub provider: Guid,
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
}

impl CatalogueEntry {
    /// `PFL_HIDDEN` and `PFL_NETWORKDIRECT_PROVIDER` (DLL-008).
    pub const PROVIDER_FLAGS: u32 = 0x4 | 0x10;
    /// `ND_VERSION_2` (DLL-009).
    pub const VERSION: i32 = 0x2_0000;
    /// `AF_INET` and `AF_INET6` of Windows (DLL-010).
    pub const ADDRESS_FAMILIES: [i32; 2] = [2, 23];
    /// The socket type of such entries (DLL-011).
    pub const SOCKET_TYPE: i32 = -1;

    /// Returns true if the entry is a provider of NetworkDirect's second version, as NetworkDirect's own framework looks for it.
    pub fn is_provider(&self) -> bool {
        self.provider_flags & Self::PROVIDER_FLAGS == Self::PROVIDER_FLAGS
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
}

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

    /// The provider's number is the first part of its identifier. Odd ones have no path, and those that differ by 100 have the same.
    struct Made(Vec<CatalogueEntry>);

    impl Catalogue for Made {
        fn entries(&self) -> io::Result<Vec<CatalogueEntry>> {
            Ok(self.0.clone())
        }

        fn path(&self, provider: &Guid) -> io::Result<OsString> {
            let number = (0..200).find(|number| *provider == id(*number)).unwrap();
            if number % 2 == 1 {
                return Err(io::Error::other("planted"));
            }
            Ok(format!("{}.dll", number % 100).into())
        }
    }

    fn id(number: u32) -> Guid {
        Guid::new(number, 0, 0, 0)
    }

    fn entry(number: u32) -> CatalogueEntry {
        CatalogueEntry {
            provider: id(number),
            provider_flags: 0x14,
            version: 0x2_0000,
            address_family: 23,
            socket_type: -1,
            protocol: 0,
            protocol_max_offset: 0,
        }
    }

    #[test]
    fn only_providers_of_the_second_version_count_and_each_library_once() {
        let mut all: Vec<_> = (0..18).map(entry).collect();
        all[0].address_family = 2;
        all[2].provider_flags |= 0x2;
        all[4].provider_flags = 0x10;
        all[6].provider_flags = 0x4;
        all[8].version = 2;
        all[10].address_family = 1;
        all[12].socket_type = 1;
        all[14].protocol = 6;
        all[16].protocol_max_offset = 1;
        all.push(entry(102));
        all.push(entry(18));
        let found = libraries(&Made(all)).unwrap();
        assert_eq!(found, ["0.dll", "2.dll", "18.dll"]);
        assert!(libraries(&Made(Vec::new())).unwrap().is_empty());
    }
}
