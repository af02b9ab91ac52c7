//! A provider without addresses: a list of none is a list.

use std::net::SocketAddr;
use std::ptr;
use std::sync::Arc;

use netdirect::{Adapter, AdapterId, Provider, Result, Status};
use netdirect_com::abi::*;
use netdirect_com::export::Library;

use crate::client::{call, provider, release};

#[derive(Debug)]
struct Empty;

impl Provider for Empty {
    fn name(&self) -> &'static str {
        "empty"
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        Ok(Vec::new())
    }

    fn resolve_address(&self, _: SocketAddr) -> Result<AdapterId> {
        Err(Status::INVALID_ADDRESS.into())
    }

    fn open_adapter(&self, _: AdapterId) -> Result<Arc<dyn Adapter>> {
        Err(Status::INVALID_PARAMETER.into())
    }
}

static EMPTY: Library = Library {
    open: |_| Ok(Arc::new(Empty)),
    pin: || {},
};

/// The framework reads a list for which it has not asked for room if the answer is a success (AMB-064, DLL-012).
#[test]
fn a_provider_without_addresses_says_how_much_room_their_list_needs() {
    let provider = provider(&EMPTY);
    let mut size = 0;
    let returned = call!(
        provider,
        ProviderTable,
        query_address_list(ptr::null_mut(), &raw mut size)
    );
    assert_eq!(returned, Status::BUFFER_OVERFLOW);
    let mut list = vec![u64::MAX; (size as usize).div_ceil(8)];
    let returned = call!(
        provider,
        ProviderTable,
        query_address_list(list.as_mut_ptr().cast(), &raw mut size)
    );
    assert_eq!((returned, list[0] & 0xFFFF_FFFF), (Status::SUCCESS, 0));
    assert_eq!(release(provider), 0);
}
