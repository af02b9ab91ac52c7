//! A catalogue for tests.

use std::ffi::{OsStr, OsString};
use std::io;

use parking_lot::Mutex;

use super::{Catalogue, CatalogueEntry, LONGEST_PATH};
use crate::abi::Guid;

/// A catalogue in memory, which refuses what Winsock refuses. It is for tests of programs that register providers.
#[derive(Debug, Default)]
pub struct InMemoryCatalogue {
    registered: Mutex<Vec<Registered>>,
    is_read_only: bool,
    is_deaf: bool,
}

#[derive(Debug)]
struct Registered {
    entry: CatalogueEntry,
    /// `None` if the path is lost.
    path: Option<OsString>,
}

impl InMemoryCatalogue {
    /// Refuses changes, as Winsock refuses those of users who are no administrators.
    pub fn read_only(self) -> Self {
        Self {
            is_read_only: true,
            ..self
        }
    }

    /// Takes changes, and does nothing, as wine's catalogue.
    pub fn deaf(self) -> Self {
        Self {
            is_deaf: true,
            ..self
        }
    }

    /// From now on the path of this provider cannot be found.
    pub fn lose_path(&self, provider: &Guid) {
        let mut registered = self.registered.lock();
        let lost = registered.iter_mut();
        lost.filter(|one| one.entry.provider == *provider)
            .for_each(|one| one.path = None);
    }

    /// Returns true if a change is to be made.
    fn may_change(&self) -> io::Result<bool> {
        if self.is_read_only {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(!self.is_deaf)
    }
}

impl Catalogue for InMemoryCatalogue {
    fn entries(&self) -> io::Result<Vec<CatalogueEntry>> {
        let registered = self.registered.lock();
        Ok(registered.iter().map(|one| one.entry.clone()).collect())
    }

    fn path(&self, provider: &Guid) -> io::Result<OsString> {
        let registered = self.registered.lock();
        let mut found = registered.iter();
        let found = found.find(|one| one.entry.provider == *provider);
        let path = found.and_then(|one| one.path.clone());
        path.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn install(&self, path: &OsStr, entry: &CatalogueEntry) -> io::Result<()> {
        if path.len() >= LONGEST_PATH {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !self.may_change()? {
            return Ok(());
        }
        let mut registered = self.registered.lock();
        let is_there = |one: &Registered| one.entry.provider == entry.provider;
        if registered.iter().any(is_there) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        registered.push(Registered {
            entry: entry.clone(),
            path: Some(path.to_owned()),
        });
        Ok(())
    }

    fn deinstall(&self, provider: &Guid) -> io::Result<()> {
        if !self.may_change()? {
            return Ok(());
        }
        let mut registered = self.registered.lock();
        let before = registered.len();
        registered.retain(|one| one.entry.provider != *provider);
        if registered.len() == before {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_winsock_refuses_is_refused() {
        let catalogue = InMemoryCatalogue::default();
        let entry = CatalogueEntry::of_provider(Guid::new(1, 2, 3, 4), "one");
        let kind = |done: io::Result<()>| done.unwrap_err().kind();
        let long = "x".repeat(LONGEST_PATH);
        let refused = catalogue.install(long.as_ref(), &entry);
        assert_eq!(kind(refused), io::ErrorKind::InvalidInput);
        let unknown = catalogue.deinstall(&entry.provider);
        assert_eq!(kind(unknown), io::ErrorKind::NotFound);

        catalogue
            .install(long[1..].as_ref(), &entry)
            .expect("a path that just fits");
        let twice = catalogue.install("y".as_ref(), &entry);
        assert_eq!(kind(twice), io::ErrorKind::AlreadyExists);
        assert_eq!(catalogue.path(&entry.provider).unwrap(), long[1..]);

        let catalogue = catalogue.read_only();
        let removed = catalogue.deinstall(&entry.provider);
        assert_eq!(kind(removed), io::ErrorKind::PermissionDenied);
        assert_eq!(catalogue.entries().unwrap(), [entry]);
    }
}
