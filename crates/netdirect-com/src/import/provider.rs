//! `IND2Provider` of a library.

use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{Adapter, AdapterId, Provider, ProviderExtensions, Result};

use super::adapter::ImportedAdapter;
use super::addresses;
use super::extensions::OfProvider;
use super::loaded::Loaded;
use super::pointer::{Pointer, call, check, create};
use crate::abi::{IID_ND2_ADAPTER, IID_PROVIDER_EXTENSION, ProviderTable, SocketAddressList};

#[derive(Debug)]
pub(super) struct Imported {
    name: String,
    object: Pointer<ProviderTable>,
    extension: Option<OfProvider>,
}

impl Imported {
    pub(super) fn new(name: String, object: Pointer<ProviderTable>) -> Self {
        let extension = object.query(IID_PROVIDER_EXTENSION).ok();
        Self {
            name,
            object,
            extension: extension.map(OfProvider),
        }
    }

    /// The library whose provider this is.
    pub(super) fn library(&self) -> &Arc<Loaded> {
        self.object.library()
    }
}

impl Imported {
    /// Configures the library. Returns false if it cannot be configured this way.
    pub(super) fn configure(&self, lines: &str) -> Result<bool> {
        let Some(extension) = &self.extension else {
            return Ok(false);
        };
        extension.configure(lines).map(|()| true)
    }
}

impl Provider for Imported {
    fn name(&self) -> &str {
        &self.name
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        addresses::list(|list: *mut SocketAddressList, size| {
            call!(&self.object, query_address_list(list, size))
        })
    }

    fn resolve_address(&self, address: SocketAddr) -> Result<AdapterId> {
        let (octets, len) = addresses::sockaddr(address);
        let mut id = 0;
        let status = call!(
            &self.object,
            resolve_address(octets.as_ptr().cast(), len, &raw mut id)
        );
        check(status)?;
        Ok(AdapterId(id))
    }

    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>> {
        let made = create!(&self.object, open_adapter(IID_ND2_ADAPTER, id.0));
        Ok(Arc::new(ImportedAdapter::new(made?)))
    }

    fn extensions(&self) -> Option<&dyn ProviderExtensions> {
        self.extension.as_ref().map(|extension| extension as _)
    }
}
