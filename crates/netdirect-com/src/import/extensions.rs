//! Features of some libraries beyond ND2, by interfaces of this project.

use std::ptr;
use std::sync::Arc;

use netdirect::{
    AdapterExtensions, Call, Capabilities, Counters, Error, Fault, ProviderExtensions, Result,
    Status,
};
use parking_lot::Mutex;

use super::addresses;
use super::pointer::{Pointer, argument, call, check};
use super::queues::{ImportedCompletionQueue, ImportedSharedReceiveQueue};
use super::requests::ImportedRequests;
use super::text::text;
use crate::abi::{AdapterExtensionTable, FaultKind, InjectedFault, ProviderExtensionTable};

/// Calls `inject` with a fault in the form that a library takes.
fn inject(fault: &Fault, inject: impl FnOnce(*const InjectedFault) -> Status) -> Result<()> {
    let mut injected = InjectedFault {
        kind: 0,
        call: 0,
        nth: 0,
        status: Status::SUCCESS,
        object: ptr::null_mut(),
        address: ptr::null(),
        address_length: 0,
    };
    let octets;
    match fault {
        Fault::RemoveDevice => injected.kind = FaultKind::REMOVE_DEVICE,
        Fault::Call { call, nth, status } => {
            injected.kind = FaultKind::CALL;
            injected.call = number(*call)?;
            (injected.nth, injected.status) = (*nth, *status);
        }
        Fault::BreakCompletionQueue { queue, status } => {
            injected.kind = FaultKind::BREAK_COMPLETION_QUEUE;
            injected.object = argument::<ImportedCompletionQueue>(&**queue, 1)?.this();
            injected.status = *status;
        }
        Fault::BreakSharedReceiveQueue { queue, status } => {
            injected.kind = FaultKind::BREAK_SHARED_RECEIVE_QUEUE;
            injected.object = argument::<ImportedSharedReceiveQueue>(&**queue, 1)?.this();
            injected.status = *status;
        }
        Fault::UnreachableHost { address } => {
            injected.kind = FaultKind::UNREACHABLE_HOST;
            octets = addresses::sockaddr((*address, 0).into());
            injected.address = octets.0.as_ptr().cast();
            injected.address_length = octets.1;
        }
        _ => return Err(unknown(fault)),
    }
    check(inject(&raw const injected))
}

fn unknown(what: &dyn std::fmt::Debug) -> Error {
    Error::new(
        Status::NOT_SUPPORTED,
        format!("libraries know no fault {what:?}"),
    )
}

fn number(call: Call) -> Result<u32> {
    if call == Call::Any {
        return Ok(0);
    }
    let place = Call::ALL.iter().position(|known| *known == call);
    let place = place.and_then(|place| u32::try_from(place + 1).ok());
    place.ok_or_else(|| unknown(&call))
}

#[derive(Debug)]
pub(super) struct OfProvider(pub(super) Pointer<ProviderExtensionTable>);

impl OfProvider {
    /// Passes lines of the library's configuration file, for adapters that are opened from now on.
    pub(super) fn configure(&self, lines: &str) -> Result<()> {
        let too_long = |_| Error::new(Status::INVALID_PARAMETER_2, "a configuration of 4 GiB");
        let len = u32::try_from(lines.len()).map_err(too_long)?;
        check(call!(&self.0, configure(lines.as_ptr().cast(), len)))
    }
}

impl ProviderExtensions for OfProvider {
    fn inject(&self, fault: Fault) -> Result<()> {
        inject(&fault, |fault| call!(&self.0, inject(fault)))
    }
}

#[derive(Debug)]
pub(super) struct OfAdapter {
    pub(super) object: Pointer<AdapterExtensionTable>,
    /// The requests of the adapter, which faults end.
    pub(super) requests: Arc<Mutex<Option<Arc<ImportedRequests>>>>,
}

impl AdapterExtensions for OfAdapter {
    fn capabilities(&self) -> Capabilities {
        Capabilities::from_bits_retain(call!(&self.object, get_capabilities()))
    }

    fn counters(&self) -> Counters {
        let text = text(4096, |start, size| {
            call!(&self.object, get_counters(start, size))
        });
        let text = text.unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let (name, number) = line.rsplit_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        lines.collect()
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        let injected = inject(&fault, |fault| call!(&self.object, inject(fault)));
        let requests = self.requests.lock().clone();
        if let Some(requests) = requests {
            requests.drain_all();
        }
        injected
    }
}
