//! `IND2Provider`.

use std::sync::Arc;

use netdirect::{AdapterId, Provider, Result};

use super::adapter::AdapterObject;
use super::object::{Class, Object, method, unknown};
use super::pointers::{In, Octets, Out, Room, without_port};
use crate::abi::{Guid, IID_ND2_PROVIDER, ProviderTable, SocketAddressList, This};

pub(super) struct ProviderObject {
    provider: Arc<dyn Provider>,
    pin: fn(),
}

static TABLE: ProviderTable = ProviderTable {
    unknown: unknown::<ProviderObject>(),
    query_address_list: method!(ProviderObject, query_address_list(list: Out<SocketAddressList>, size: Out<u32>) -> Result<()>),
    resolve_address: method!(ProviderObject, resolve_address(address: Octets, size: u32, adapter_id: Out<u64>) -> Result<()>),
    open_adapter: method!(ProviderObject, open_adapter(iid: In<Guid>, adapter_id: u64, adapter: Out<This>) -> Result<()>),
};

impl Class for ProviderObject {
    type Table = ProviderTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_PROVIDER];

    fn table() -> &'static ProviderTable {
        &TABLE
    }
}

impl ProviderObject {
    pub(super) fn create(provider: Arc<dyn Provider>, pin: fn(), iid: Guid) -> Result<This> {
        Object::create(Self { provider, pin }, iid)
    }

    fn query_address_list(&self, list: Out<SocketAddressList>, size: Out<u32>) -> Result<()> {
        let addresses = self.provider.query_address_list()?.into_iter();
        let addresses: Vec<_> = addresses.map(without_port).collect();
        Room::of(&list, size).fill_list(&addresses)
    }

    fn resolve_address(&self, address: Octets, size: u32, adapter_id: Out<u64>) -> Result<()> {
        adapter_id.required(3)?;
        let address = address.address(size, 1)?;
        adapter_id.set(self.provider.resolve_address(address)?.0);
        Ok(())
    }

    fn open_adapter(&self, iid: In<Guid>, adapter_id: u64, adapter: Out<This>) -> Result<()> {
        adapter.object(3, || {
            let iid = iid.iid()?;
            AdapterObject::check(iid)?;
            (self.pin)();
            AdapterObject::create(self.provider.open_adapter(AdapterId(adapter_id))?, iid)
        })
    }
}
