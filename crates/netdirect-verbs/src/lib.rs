//! A NetworkDirect provider over rdma-core: for hardware adapters (iWARP, RoCE, InfiniBand), and for the kernel's siw.
//!
//! The provider implements the traits of [`netdirect`] by libibverbs and librdmacm. It loads both libraries when a provider is
//! asked for, so that a program with this crate builds and starts on machines without them. [`provider`] then fails with one
//! sentence that names the missing package.
//!
//! ```no_run
//! let provider = netdirect_verbs::provider(netdirect_verbs::Options::default())?;
//! let address = netdirect_verbs::device_address(&*provider, "siw0")?;
//! let adapter = provider.open_adapter(provider.resolve_address(address)?)?;
//! println!("{:?}", adapter.query()?);
//! # Ok::<(), netdirect::Error>(())
//! ```
//!
//! Devices without windows, Atomics or shared receive queues report this by their [`Capabilities`](netdirect::Capabilities) and limits. The
//! table [`QUIRKS`] has the peculiarities of drivers.
//!
//! An adapter has the addresses that its device had when it was opened. For an address that is added later, open the adapter again.
//!
//! On InfiniBand and RoCE, private data has a field of fixed size: 56 octets in the request for a connection, 196 in the reply, 148 in a
//! rejection. The provider marks the length in the last four octets of the field, if the data leaves room for it, and cuts received data
//! with such a mark. Data of other programs arrives with zeros to the end of the field.
//!
//! On systems other than Linux, [`provider`] always fails.
//!
//! # The layers
//!
//! ```text
//!   netdirect-provider         handles of clients; checks of calls, listeners, connectors, the end of objects
//!  ──────────────────────────────────────────────────────────────────────────────────────────────
//!   provider   adapter         the devices of the machine; an open adapter, which makes all other objects
//!   connect                    connectors and listeners, over the connection manager
//!    ├ connector               an attempt to connect: `active` and `passive` sides, `state`, `removal`
//!    ├ listener                requests of peers
//!    └ private_data            the length of private data on InfiniBand and RoCE
//!   qp   entries               the device's queue pair: requests on their way, those outstanding, the end of both
//!   srq   mw   mr              shared receive queues, windows with their bindings, registered memory
//!   cq                         results, moved from the device's queue into a ring
//!   slots                      outstanding requests of a queue, for the kind and contexts of a result
//!   file                       threads that wait for requests, and do the provider's work meanwhile
//!   core                       what the objects of an adapter share: context, protection domain, limits, owners of events
//!   device   fault_plan        all objects of a device, for its removal; calls that a test makes fail
//!   driver                     descriptors that are ready; the adapter's thread, for times and where no other thread waits
//!  ──────────────────────────────────────────────────────────────────────────────────────────────
//!   handle                     owners of the libraries' objects, with errors as `io::Error`
//!   sys                        types, constants and functions of libibverbs and librdmacm, loaded at run time
//! ```
//!
//! Outside the layers: `options` (what a program chooses), `limits` (a device's limits in ND2's terms), `quirks` (drivers, and what this
//! provider does about them), `status` (errors as statuses of ND2), `sockets` (TCP's sockets in the tables of the system), `unavailable`
//! and `unlisted` (why there is no provider, or no adapter).
//!
//! # Who calls whom
//!
//! - **A client posts**: `netdirect_provider::queue_pair` checks the request → `qp/handle.rs` makes it one of the device → `entries`, and
//!   `slots` keeps its kind and contexts → `handle` → libibverbs.
//! - **A client polls or waits**: `cq` polls the device's queue → `qp` finds the request in `slots` → the result in the ring of `cq` →
//!   GetResults. A thread that waits in `file` sees the descriptor of the completion channel, and `driver` calls the source behind it.
//! - **No thread waits**: the thread of `driver` does the same.
//! - **A client connects or listens**: `netdirect_provider::connector` or `listener` decides → `connect` makes the call of librdmacm → an
//!   event on the adapter's one channel → `core` finds the owner of the identifier → `connect` → `netdirect_provider`. Connect itself runs
//!   in a thread that may be left behind, because the driver's call can take a minute.
//! - **The device goes away**: an asynchronous event → `core` → `device`, which ends all objects in the order of
//!   `netdirect_provider::removal`.
//!
//! # Where to read first
//!
//! 1. `provider.rs` and `adapter.rs`: how objects come about.
//! 2. `core.rs` and `driver.rs`: who takes which event, and in which thread.
//! 3. `qp/mod.rs`, then `slots.rs` and `cq.rs`: a request from the post to its result.
//! 4. `connect/connector/mod.rs` and `connect/connector/active.rs`: Connect; `connection_end.rs`: what verbs tell about the end.
//! 5. `tests/mod.rs` and `tests/fake/mod.rs`: a library that a test puts in the place of rdma-core.
//!
//! The page Verbs of the book (`docs/internals/verbs.md`) says why it is built this way. `sys` and `handle` alone hold `unsafe`.
#![cfg_attr(not(target_os = "linux"), forbid(unsafe_code))]

#[cfg(target_os = "linux")]
mod adapter;
#[cfg(target_os = "linux")]
mod connect;
#[cfg(target_os = "linux")]
mod connection_end;
#[cfg(target_os = "linux")]
mod core;
#[cfg(target_os = "linux")]
mod cq;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod entries;
#[cfg(target_os = "linux")]
mod fault_plan;
#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod handle;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod mr;
#[cfg(target_os = "linux")]
mod mw;
mod options;
#[cfg(target_os = "linux")]
mod provider;
#[cfg(target_os = "linux")]
mod qp;
mod quirks;
#[cfg(target_os = "linux")]
mod slots;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod srq;
#[cfg(target_os = "linux")]
mod status;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(all(test, target_os = "linux"))]
mod tests;
mod unavailable;
mod unlisted;

use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{Error, Provider, Result, Status};

pub use options::{Options, Timeouts};
pub use quirks::{QUIRKS, Quirk};
pub use unavailable::Unavailable;
pub use unlisted::UnlistedDevice;

/// Loads the libraries, and returns the provider of this machine's RDMA devices.
///
/// # Errors
///
/// A library is missing or too old, the machine has no RDMA device, the kernel has no RDMA connection manager, or the system is not
/// Linux.
pub fn provider(options: Options) -> Result<Arc<dyn Provider>, Unavailable> {
    #[cfg(target_os = "linux")]
    {
        let libraries = sys::Libraries::load()?;
        Ok(Arc::new(provider::VerbsProvider::new(libraries, options)?))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = options;
        Err(Unavailable::OtherSystem)
    }
}

/// The devices of this machine that are not adapters now, with the reasons: a device without an address, or one whose port is down. If the
/// machine has no device, one entry reports this. The provider is one that [`provider`] has returned; of others, there are none.
///
/// # Errors
///
/// [`INSUFFICIENT_RESOURCES`](Status::INSUFFICIENT_RESOURCES) and others: the devices cannot be listed.
pub fn unlisted_devices(provider: &dyn Provider) -> Result<Vec<UnlistedDevice>> {
    #[cfg(target_os = "linux")]
    {
        let any: &dyn std::any::Any = provider;
        if let Some(provider) = any.downcast_ref::<provider::VerbsProvider>() {
            return provider.unlisted();
        }
    }
    let _ = provider;
    Ok(Vec::new())
}

/// The name of the device that has this address of the machine, such as `siw0`. `None` if no device of the provider has it.
pub fn device_name(provider: &dyn Provider, address: SocketAddr) -> Option<String> {
    #[cfg(target_os = "linux")]
    {
        let any: &dyn std::any::Any = provider;
        let provider = any.downcast_ref::<provider::VerbsProvider>()?;
        provider.device_of(address.ip())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (provider, address);
        None
    }
}

/// An address of the device with this name, such as `siw0`, for [`Provider::resolve_address`]. The provider is one that
/// [`provider`] has returned.
///
/// # Errors
///
/// - [`INVALID_ADDRESS`](Status::INVALID_ADDRESS): there is no such device.
/// - [`DEVICE_NOT_READY`](Status::DEVICE_NOT_READY): the device has no address, or its port is down.
/// - [`INVALID_PARAMETER_1`](Status::INVALID_PARAMETER_1): another provider.
pub fn device_address(provider: &dyn Provider, name: &str) -> Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    {
        let any: &dyn std::any::Any = provider;
        if let Some(provider) = any.downcast_ref::<provider::VerbsProvider>() {
            return provider.address_of(name);
        }
    }
    let what = format!("{} has no devices of names such as {name}", provider.name());
    Err(Error::new(Status::INVALID_PARAMETER_1, what))
}

/// The programs of the readme are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
