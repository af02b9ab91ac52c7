//! The providers that ND_PROVIDER names, from the first NdStartup to the last NdCleanup. On Windows, without the variable, those of Winsock's
//! catalogue.

use std::env::split_paths;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netdirect_com::abi::{Guid, Status, This};
use netdirect_com::environment;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::library::ProviderLibrary;
use crate::provider::ForeignProvider;
use crate::route::canonical;

/// The variable that names the providers' libraries. A program that has more rights than its user ignores it.
const VARIABLE: &str = "ND_PROVIDER";

static STARTED: Mutex<Started> = Mutex::new(Started {
    times: 0,
    providers: None,
});

struct Started {
    /// Calls of NdStartup without a matching one of NdCleanup.
    times: usize,
    providers: Option<Arc<Providers>>,
}

/// NdStartup.
pub(crate) fn start() {
    let mut started = STARTED.lock();
    started.times += 1;
    started.providers.get_or_insert_with(|| Arc::new(found()));
}

/// The providers for a program that starts.
fn found() -> Providers {
    let list = environment::variable(VARIABLE).unwrap_or_default();
    let named = Providers::named(&list);
    let providers = if named.0.is_empty() {
        registered()
    } else {
        named
    };
    if providers.0.is_empty() {
        let _ = writeln!(std::io::stderr(), "netdirect: {NONE}");
    }
    providers
}

#[cfg(unix)]
const NONE: &str = "ND_PROVIDER names no library, so there is no provider; set it to the path of one, such as libsoftnd.so";

#[cfg(windows)]
const NONE: &str = "ND_PROVIDER names no library, and none is registered, so there is no provider; set it to the path of one, such as softnd.dll";

/// Only Windows has a catalogue.
#[cfg(unix)]
fn registered() -> Providers {
    Providers(Vec::new())
}

/// The providers of the catalogue.
#[cfg(windows)]
fn registered() -> Providers {
    use netdirect_com::catalogue::{WinsockCatalogue, libraries};
    let paths = libraries(&WinsockCatalogue).unwrap_or_else(|error| {
        let _ = writeln!(
            std::io::stderr(),
            "netdirect: cannot read Winsock's catalogue of providers: {error}"
        );
        Vec::new()
    });
    let provider = |path: &OsString| Provider::new(path, "Winsock's catalogue");
    Providers(paths.iter().map(provider).collect())
}

/// NdCleanup. Providers whose objects are alive stay loaded.
pub(crate) fn clean_up() -> Result<(), Status> {
    let mut started = STARTED.lock();
    started.times = started
        .times
        .checked_sub(1)
        .ok_or(Status::DEVICE_NOT_READY)?;
    let last = if started.times == 0 {
        started.providers.take()
    } else {
        None
    };
    drop(started);
    // Libraries are unloaded here, without the lock.
    drop(last);
    Ok(())
}

/// The providers, between NdStartup and NdCleanup.
pub(crate) fn providers() -> Result<Arc<Providers>, Status> {
    STARTED
        .lock()
        .providers
        .clone()
        .ok_or(Status::DEVICE_NOT_READY)
}

/// The providers in the order of the variable.
pub(crate) struct Providers(Vec<Provider>);

impl Providers {
    /// Those of a list of paths, with the separator of the system's `PATH` between them.
    fn named(list: &OsStr) -> Self {
        let paths = split_paths(list).filter(|path| !path.as_os_str().is_empty());
        Self(
            paths
                .map(|path| Provider::new(path.as_os_str(), VARIABLE))
                .collect(),
        )
    }

    /// The addresses of all providers.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let each = self.0.iter();
        let each = each.filter_map(|provider| provider.with(|object| object.addresses()));
        each.flatten().collect()
    }

    /// Returns true if a provider has this address. Port and scope are ignored (DLL-014).
    pub(crate) fn have(&self, address: SocketAddr) -> bool {
        let address = canonical(address);
        let mut each = self.0.iter();
        each.any(|provider| provider.with(|object| has(object, address)) == Some(true))
    }

    /// Opens the adapter that has a local address, at the first provider that can (DLL-015).
    pub(crate) fn open_adapter(&self, iid: &Guid, address: SocketAddr) -> Result<This, Status> {
        let address = canonical(address);
        let mut failed = Status::INVALID_ADDRESS;
        for provider in &self.0 {
            let open = |object: &ForeignProvider<'_>| {
                has(object, address).then(|| open(object, iid, address))
            };
            match provider.with(open).flatten() {
                Some(Ok(adapter)) => return Ok(adapter),
                Some(Err(status)) => failed = status,
                None => {}
            }
        }
        Err(failed)
    }

    /// NdFlushProviders.
    pub(crate) fn flush(&self) {
        self.0.iter().for_each(Provider::try_unload);
    }
}

fn has(object: &ForeignProvider<'_>, address: SocketAddr) -> bool {
    object
        .addresses()
        .iter()
        .any(|own| own.ip() == address.ip())
}

fn open(object: &ForeignProvider<'_>, iid: &Guid, address: SocketAddr) -> Result<This, Status> {
    let id = object
        .resolve(address)
        .map_err(|_| Status::INVALID_ADDRESS)?;
    let adapter = object.open_adapter(iid, id)?;
    if adapter.is_null() {
        return Err(Status::INTERNAL_ERROR);
    }
    Ok(adapter)
}

/// A provider, whose library is loaded while it is used, or its objects are alive.
struct Provider {
    path: OsString,
    /// What names the path.
    named_by: &'static str,
    /// Locked for reading while the library is used.
    library: RwLock<Option<ProviderLibrary>>,
    /// The line about a provider that cannot be used has been printed.
    is_reported: AtomicBool,
}

impl Provider {
    fn new(path: &OsStr, named_by: &'static str) -> Self {
        Self {
            path: path.to_owned(),
            named_by,
            library: RwLock::new(None),
            is_reported: AtomicBool::new(false),
        }
    }

    /// Calls `body` with the library's provider, and unloads the library if it can be (DLL-006). `None` if there is no provider.
    fn with<T>(&self, body: impl FnOnce(&ForeignProvider<'_>) -> T) -> Option<T> {
        let value = self.with_library(|library| {
            let object = library
                .provider()
                .map_err(|status| format!("gives no provider: {status}"))?;
            Ok(body(&object))
        });
        self.try_unload();
        value.map_err(|why| self.report(&why)).ok()
    }

    fn with_library<T>(
        &self,
        body: impl FnOnce(&ProviderLibrary) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut loaded = self.library.read();
        if loaded.is_none() {
            drop(loaded);
            loaded = self.load()?;
        }
        let library = loaded
            .as_ref()
            .expect("a library that is in use stays loaded");
        body(library)
    }

    fn load(&self) -> Result<RwLockReadGuard<'_, Option<ProviderLibrary>>, String> {
        let mut place = self.library.write();
        if place.is_none() {
            *place = Some(ProviderLibrary::load(&self.path)?);
        }
        Ok(RwLockWriteGuard::downgrade(place))
    }

    fn try_unload(&self) {
        // Another thread that uses the library unloads it.
        if let Some(mut place) = self.library.try_write() {
            place.take_if(|library| library.can_unload());
        }
    }

    fn report(&self, why: &str) {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            let path = self.path.display();
            let _ = writeln!(
                std::io::stderr(),
                "netdirect: {path}, named by {}, {why}",
                self.named_by
            );
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.try_unload();
        if let Some(library) = self.library.get_mut().take() {
            library.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_a_list_of_paths() {
        let paths = |list: &str| {
            let providers = Providers::named(OsStr::new(list)).0;
            let paths = providers.iter().map(|provider| provider.path.clone());
            paths.collect::<Vec<_>>()
        };
        assert!(paths("").is_empty());
        if cfg!(windows) {
            assert!(paths(";").is_empty());
            assert_eq!(paths(r"C:\a\x.dll;;y.dll;"), [r"C:\a\x.dll", "y.dll"]);
        } else {
            assert!(paths(":").is_empty());
            assert_eq!(paths("/a/libx.so::liby.so:"), ["/a/libx.so", "liby.so"]);
        }
    }

    #[test]
    fn a_library_that_is_missing_has_no_addresses() {
        let providers = Providers::named(OsStr::new("/nonexistent/libnone.so"));
        assert!(providers.addresses().is_empty());
        assert!(!providers.have("127.0.0.1:0".parse().unwrap()));
        assert!(providers.0[0].is_reported.load(Ordering::Relaxed));
    }
}
