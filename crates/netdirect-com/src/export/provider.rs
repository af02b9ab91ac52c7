//! `IND2Provider`.

use std::ffi::c_char;
use std::sync::Arc;

use netdirect::{AdapterId, Error, Provider, Result, Status};
use parking_lot::Mutex;

use super::adapter::AdapterObject;
use super::faults;
use super::image::Library;
use super::object::{Class, Object, method, unknown, unknown_of_more};
use super::pointers::{In, Octets, Out, Room, without_port};
use crate::abi::{
    Guid, IID_ND2_PROVIDER, IID_PROVIDER_EXTENSION, InjectedFault, ProviderExtensionTable,
    ProviderTable, SocketAddressList, This,
};

pub(super) struct ProviderObject {
    provider: Mutex<Arc<dyn Provider>>,
    library: &'static Library,
}

static TABLE: ProviderTable = ProviderTable {
    unknown: unknown::<ProviderObject>(),
    query_address_list: method!(ProviderObject, query_address_list(list: Out<SocketAddressList>, size: Out<u32>) -> Result<()>),
    resolve_address: method!(ProviderObject, resolve_address(address: Octets, size: u32, adapter_id: Out<u64>) -> Result<()>),
    open_adapter: method!(ProviderObject, open_adapter(iid: In<Guid>, adapter_id: u64, adapter: Out<This>) -> Result<()>),
};

static EXTENSION: ProviderExtensionTable = ProviderExtensionTable {
    unknown: unknown_of_more::<ProviderObject>(),
    configure: method!(more ProviderObject, configure(text: In<c_char>, size: u32) -> Result<()>),
    inject: method!(more ProviderObject, inject(fault: In<InjectedFault>) -> Result<()>),
};

impl Class for ProviderObject {
    type Table = ProviderTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_PROVIDER];
    const OUTLIVES_FORKS: bool = true;

    type More = ProviderExtensionTable;
    const MORE: Option<Guid> = Some(IID_PROVIDER_EXTENSION);

    fn more() -> &'static ProviderExtensionTable {
        &EXTENSION
    }

    fn table() -> &'static ProviderTable {
        &TABLE
    }
}

impl ProviderObject {
    pub(super) fn create(library: &'static Library, iid: Guid) -> Result<This> {
        let object = Self {
            provider: Mutex::new((library.open)("")?),
            library,
        };
        Object::create(object, iid)
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.provider.lock())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn configure(&self, text: In<c_char>, size: u32) -> Result<()> {
        let text = text.octets(size, 1)?;
        let text = String::from_utf8(text).map_err(|_| {
            Error::new(
                Status::INVALID_PARAMETER_1,
                "the configuration is not UTF-8",
            )
        })?;
        let provider = (self.library.open)(&text)?;
        *self.provider.lock() = provider;
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn inject(&self, fault: In<InjectedFault>) -> Result<()> {
        let provider = self.provider();
        let extensions = provider.extensions().ok_or(Status::NOT_SUPPORTED)?;
        faults::inject(&fault, |fault| extensions.inject(fault))
    }

    fn query_address_list(&self, list: Out<SocketAddressList>, size: Out<u32>) -> Result<()> {
        let addresses = self.provider().query_address_list()?.into_iter();
        let addresses: Vec<_> = addresses.map(without_port).collect();
        Room::new(&list, size).fill_list(&addresses)
    }

    fn resolve_address(&self, address: Octets, size: u32, adapter_id: Out<u64>) -> Result<()> {
        adapter_id.required(3)?;
        let address = address.address(size, 1)?;
        adapter_id.set(self.provider().resolve_address(address)?.0);
        Ok(())
    }

    fn open_adapter(&self, iid: In<Guid>, adapter_id: u64, adapter: Out<This>) -> Result<()> {
        adapter.object(3, || {
            let iid = iid.iid()?;
            AdapterObject::check(iid)?;
            (self.library.pin)();
            AdapterObject::create(self.provider().open_adapter(AdapterId(adapter_id))?, iid)
        })
    }
}
