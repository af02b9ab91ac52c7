//! `IND2Provider`.

use std::any::Any;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Adapter, AdapterId, ProviderExtensions, Result};

/// `IND2Provider`: opens the adapters of one supplier.
///
/// The provider may be released as soon as an adapter is open, because the adapter keeps what it needs (PROV-021).
pub trait Provider: Any + Debug + Send + Sync {
    /// The provider's name, for people and reports: one word, such as `softnd`.
    fn name(&self) -> &str;

    /// `QueryAddressList`: all local addresses that this provider serves, with port 0. The list may change at any time
    /// (PROV-010).
    ///
    /// # Errors
    ///
    /// ND2 documents only errors about the size of the caller's buffer, which cannot occur here.
    fn query_address_list(&self) -> Result<Vec<SocketAddr>>;

    /// `ResolveAddress`: the number of the adapter that has a local address. The port is ignored (PROV-015). All addresses of
    /// one adapter have the same number (PROV-016).
    ///
    /// # Errors
    ///
    /// - [`INVALID_ADDRESS`](crate::Status::INVALID_ADDRESS): the provider does not serve this address.
    /// - [`NO_MEMORY`](crate::Status::NO_MEMORY).
    fn resolve_address(&self, address: SocketAddr) -> Result<AdapterId>;

    /// `OpenAdapter`: opens the adapter with a number from [`resolve_address`](Self::resolve_address). An adapter may be
    /// opened several times (PROV-022).
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): the provider has not issued this number.
    /// - [`NO_MEMORY`](crate::Status::NO_MEMORY).
    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>>;

    /// Features that ND2 does not have: faults for tests. `None` if the provider has no such features. ND2 programs would use
    /// `QueryInterface`.
    fn extensions(&self) -> Option<&dyn ProviderExtensions> {
        None
    }
}
