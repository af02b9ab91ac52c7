//! A library of which nothing is open.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use conform_report::{Step, Stop, fail};
use netdirect::{Provider, Status};
use netdirect_conform::{Steps, Unopened};

use super::common::status;
use crate::abi::{AdapterTable, Guid, IID_ND2_ADAPTER, IID_ND2_PROVIDER, ProviderTable, This};
use crate::handle::INFINITE;
use crate::import::loaded::Loaded;
use crate::import::pointer::{Pointer, call};
use crate::import::provider::Imported;
use crate::sockaddr;

/// The state with which every check begins.
pub(super) struct Client {
    library: Arc<Loaded>,
    /// An address of the adapter that is checked.
    pub(super) address: SocketAddr,
    /// The time in milliseconds that an event or a packet may take.
    pub(super) answer: u32,
    steps: Steps,
}

impl Client {
    /// The library behind the near provider. Nothing of it is open afterwards.
    pub(super) fn of(unopened: Unopened) -> Step<Self> {
        let Unopened {
            ends,
            steps,
            limits,
            ..
        } = unopened;
        let provider: &dyn Provider = &*ends.near.provider;
        let imported = (provider as &dyn Any).downcast_ref::<Imported>();
        let Some(imported) = imported else {
            let why = "the provider is no library with COM's entry points";
            return Err(Stop::LeftOut(why.to_owned()));
        };
        Ok(Self {
            library: Arc::clone(imported.library()),
            address: ends.near.address,
            answer: limits.answer.as_millis().try_into().unwrap_or(INFINITE),
            steps,
        })
    }

    /// Records that a step of the check begins.
    pub(super) fn step(&self, what: impl Into<String>) {
        self.steps.begin(what);
    }

    pub(super) fn library(&self) -> &Loaded {
        &self.library
    }

    /// Takes the object that a call has made, if the call was a success.
    ///
    /// The call asked for an interface whose table is `T`.
    pub(super) fn made<T>(&self, what: &str, is: Status, object: This) -> Step<Pointer<T>> {
        status(what, Status::SUCCESS, is)?;
        // SAFETY: the call was a success, and asked for an interface with this table (this method's documentation).
        let made = unsafe { Pointer::made(&self.library, is, object) };
        made.map_err(|_| fail(format!("an object from {what}"), "a null pointer"))
    }

    /// A provider.
    pub(super) fn provider(&self) -> Step<Pointer<ProviderTable>> {
        self.step("DllGetClassObject for IND2Provider");
        let (is, object) = self.library.class_object(IID_ND2_PROVIDER);
        self.made("DllGetClassObject", is, object)
    }

    /// The number of the adapter that is checked.
    pub(super) fn adapter_id(&self, provider: &Pointer<ProviderTable>) -> Step<u64> {
        self.step("ResolveAddress");
        let (octets, len) = sockaddr::raw(self.address);
        let mut id = 0;
        let is = call!(
            provider,
            resolve_address(octets.as_ptr().cast(), len, &raw mut id)
        );
        status("ResolveAddress", Status::SUCCESS, is)?;
        Ok(id)
    }

    /// The adapter that is checked.
    pub(super) fn adapter(&self, provider: &Pointer<ProviderTable>) -> Step<Pointer<AdapterTable>> {
        let id = self.adapter_id(provider)?;
        self.step("OpenAdapter");
        let (iid, mut object): (Guid, This) = (IID_ND2_ADAPTER, std::ptr::null_mut());
        let is = call!(provider, open_adapter(&raw const iid, id, &raw mut object));
        self.made("OpenAdapter", is, object)
    }
}
