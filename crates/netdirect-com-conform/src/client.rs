//! A library of which nothing is open.

use std::net::SocketAddr;
use std::sync::Arc;

use conform_report::{Step, Stop, fail};
use netdirect::{Provider, Status};
use netdirect_com::abi::{
    AdapterTable, Guid, IID_ND2_ADAPTER, IID_ND2_PROVIDER, ProviderTable, This,
};
use netdirect_com::handle::INFINITE;
use netdirect_com::import::{Loaded, Pointer, loaded};
use netdirect_com::sockaddr;
use netdirect_conform::{Steps, Unopened};

use crate::call::call;
use crate::common::status;

/// The state with which every check begins.
pub(crate) struct Client {
    library: Arc<Loaded>,
    /// An address of the adapter that is checked.
    pub(crate) address: SocketAddr,
    /// The time in milliseconds that an event or a packet may take.
    pub(crate) answer: u32,
    steps: Steps,
}

impl Client {
    /// The library behind the near provider. Nothing of it is open afterwards.
    pub(crate) fn new(unopened: Unopened) -> Step<Self> {
        let Unopened {
            ends,
            steps,
            limits,
            ..
        } = unopened;
        let provider: &dyn Provider = &*ends.near.provider;
        let Some(library) = loaded(provider) else {
            let why = "the provider is no library with COM's entry points";
            return Err(Stop::LeftOut(why.to_owned()));
        };
        Ok(Self {
            library: Arc::clone(library),
            address: ends.near.address,
            answer: limits.answer.as_millis().try_into().unwrap_or(INFINITE),
            steps,
        })
    }

    /// Records that a step of the check begins.
    pub(crate) fn step(&self, what: impl Into<String>) {
        self.steps.begin(what);
    }

    pub(crate) fn library(&self) -> &Loaded {
        &self.library
    }

    /// Takes the object that a call has made, if the call was a success.
    ///
    /// The call asked for an interface whose table is `T`.
    pub(crate) fn made<T>(&self, what: &str, returned: Status, object: This) -> Step<Pointer<T>> {
        status(what, Status::SUCCESS, returned)?;
        // SAFETY: the call was a success, and asked for an interface with this table (this method's documentation).
        let made = unsafe { Pointer::made(&self.library, returned, object) };
        made.map_err(|_| fail(format!("an object from {what}"), "a null pointer"))
    }

    /// A provider.
    pub(crate) fn provider(&self) -> Step<Pointer<ProviderTable>> {
        self.step("DllGetClassObject for IND2Provider");
        let (returned, object) = self.library.class_object(IID_ND2_PROVIDER);
        self.made("DllGetClassObject", returned, object)
    }

    /// The number of the adapter that is checked.
    pub(crate) fn adapter_id(&self, provider: &Pointer<ProviderTable>) -> Step<u64> {
        self.step("ResolveAddress");
        let (octets, len) = sockaddr::raw(self.address);
        let mut id = 0;
        let returned = call!(
            provider,
            resolve_address(octets.as_ptr().cast(), len, &raw mut id)
        );
        status("ResolveAddress", Status::SUCCESS, returned)?;
        Ok(id)
    }

    /// The adapter that is checked.
    pub(crate) fn adapter(&self, provider: &Pointer<ProviderTable>) -> Step<Pointer<AdapterTable>> {
        let id = self.adapter_id(provider)?;
        self.step("OpenAdapter");
        let (iid, mut object): (Guid, This) = (IID_ND2_ADAPTER, std::ptr::null_mut());
        let returned = call!(provider, open_adapter(&raw const iid, id, &raw mut object));
        self.made("OpenAdapter", returned, object)
    }
}
