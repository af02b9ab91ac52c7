//! `IND2Provider`.

use std::any::Any;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Adapter, AdapterId, ProviderExtensions, Result};

/// `IND2Provider`: the entry to one supplier's adapters.
///
/// Adapters keep what they need of the provider, which may be released once an adapter is open (PROV-021).
pub trait Provider: Any + Debug + Send + Sync {
    /// The provider's name, for people and reports: one word, such as `softnd`.
    fn name(&self) -> &str;

    /// `QueryAddressList`: all local addresses that this provider serves. The list may change at any time (PROV-010); ports
    /// are 0.
    ///
    /// # Errors
    ///
    /// None is documented besides the buffer size protocol, which has no counterpart here.
    fn query_address_list(&self) -> Result<Vec<SocketAddr>>;

    /// `ResolveAddress`: the adapter that a local address belongs to; the port is ignored (PROV-015). Addresses of one
    /// adapter give the same number (PROV-016).
    ///
    /// # Errors
    ///
    /// - [`INVALID_ADDRESS`](crate::Status::INVALID_ADDRESS): the provider does not serve it.
    /// - [`NO_MEMORY`](crate::Status::NO_MEMORY).
    fn resolve_address(&self, address: SocketAddr) -> Result<AdapterId>;

    /// `OpenAdapter`: opens the adapter with a number from [`resolve_address`](Self::resolve_address). An adapter may be
    /// opened several times (PROV-022).
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): no such number was ever issued.
    /// - [`NO_MEMORY`](crate::Status::NO_MEMORY).
    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>>;

    /// `QueryInterface` for what ND2 does not have: faults on request. `None` where the provider lacks them.
    fn extensions(&self) -> Option<&dyn ProviderExtensions> {
        None
    }
}
