//! Software NetworkDirect provider: iWARP over ordinary TCP sockets, over UDP by QUIC, and in a [simulated network](simulation).
//!
//! An ordinary user on an ordinary host can use this provider: [`open`] an adapter and use the adapter through the traits of
//! [`netdirect`]. Neither root rights, nor a kernel module, nor an RDMA device is needed.
//!
//! ```
//! # fn main() -> netdirect::Result<()> {
//! let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
//! println!("{:#?}", adapter.query()?);
//! # Ok(())
//! # }
//! ```
//!
//! # Where what is
//!
//! The traits are those of `netdirect`. `netdirect-provider` has the rules that every provider keeps: the checks of arguments, the states of
//! connectors and listeners, the order in which requests end. Below the rules are the types of this crate, and below these `iwarp-io`.
//!
//! ```text
//!   adapter_url                the protocol and the address in a URL
//!   provider, options          the adapters of a network; what their user chooses
//!   adapter, core              an opened adapter: its driver, its table of memory, what ends when it does
//!    ├ connect                 connectors and listeners over `iwarp_io::setup`
//!    ├ qp, cq, srq, sge        queue pairs over `iwarp_io::endpoint`, results over `iwarp_io::cq`, shared Receives
//!    ├ mr, mw, file            registered memory, windows, the overlapped files by which clients wait
//!    └ device, fault_plan      removal of the device, calls that a test makes fail
//!   status, leniency, limits   ND2's status of each outcome; what is accepted beyond the standards; limits of the adapter
//!   peer                       stacks of other makers, and what they need
//!   simulation                 adapters of a simulated network, for tests of programs
//! ```
//!
//! A call goes down: handle of `netdirect-provider` → its rules → the type here → `iwarp_io`. A completion comes up by
//! `iwarp_io::endpoint::Owner` in `qp`, a change of a connection by `connect/connector`.
#![forbid(unsafe_code)]

mod adapter;
mod adapter_url;
pub mod capture;
mod connect;
mod connection_end;
mod core;
mod cq;
mod device;
mod fault_plan;
pub mod faults;
mod file;
mod leniency;
mod limits;
mod local_addresses;
mod mr;
mod mw;
mod named_addresses;
mod options;
pub mod peer;
mod provider;
mod qp;
#[cfg(test)]
mod released;
pub mod security;
mod sge;
pub mod simulation;
mod srq;
mod status;

use std::sync::Arc;
use std::time::Duration;

use netdirect::{Adapter, Provider as _, Result};

use provider::{Protocol, Provider};

pub use adapter_url::{SCHEME, UDP_SCHEME};
pub use iwarp_io::interfaces::SharedAddress;
pub use iwarp_io::log::targets::UNKNOWN_PEERS;
// For `nd` and `libsoftnd.so`, which promise nothing about them: the files that their users name, and limits for unknown peers.
#[doc(hidden)]
pub use iwarp_io::{
    bounded_file, peer_network::PeerNetwork, peer_table::PeerTable, processors, user_files,
};
pub use limits::{LONGEST_PRIVATE_DATA, Limits};
pub use options::{Options, Profile, Timeouts};

/// Makes the provider over TCP. Every network interface of the host is one adapter.
#[must_use]
pub fn provider(options: Options) -> Arc<dyn netdirect::Provider> {
    Arc::new(Provider::new(Protocol::Streams, options))
}

/// Makes the provider over UDP: its connections are streams of QUIC, encrypted and authenticated as [`Options::security`] says. Every
/// network interface of the host is one adapter.
#[must_use]
pub fn udp_provider(options: Options) -> Arc<dyn netdirect::Provider> {
    Arc::new(Provider::new(Protocol::Quic, options))
}

/// Returns the addresses that several network interfaces of this host have. An address belongs to the adapter of one of them. Empty if the
/// system does not list its interfaces.
#[must_use]
pub fn shared_addresses() -> Vec<SharedAddress> {
    iwarp_io::interfaces::of_system().map_or_else(|_| Vec::new(), |found| found.shared)
}

/// Tries what connections through [shared memory](Options::same_host) need of the system. It takes some microseconds, and leaves nothing.
///
/// # Errors
///
/// The first call that the system refuses, with its name and the reason. Such a system has all connections over TCP.
pub fn check_same_host() -> std::io::Result<()> {
    iwarp_io::transport::same_host::check()
}

/// Opens the adapter that owns an address. The address is given as `softnd+tcp://127.0.0.1`, as `softnd+tcp://[::1]`, or by itself. With
/// `softnd+udp://` in front of it the adapter is one over [UDP](udp_provider). A URL such as `softnd+sim://seed=7` opens an adapter of a
/// [simulated network](simulation).
///
/// Adapters of a simulated network that one thread opens by URLs that differ only in their `address` share the network. Without an address
/// in the URL, the first adapter has 10.0.0.1, the next one 10.0.0.2, and so on. The network exists [as long as anything of it is
/// held](simulation). Opened again after that, it begins anew, at time 0 and with the address 10.0.0.1.
///
/// # Errors
///
/// `ND_INVALID_ADDRESS` when the URL has another form, or a port, or when this host does not have the address.
/// `ND_INSUFFICIENT_RESOURCES` when the system has no descriptors or threads left. `ND_NOT_SUPPORTED` over UDP in a program that was
/// built without the feature `udp`. `ND_INVALID_PARAMETER_MIX` for an option that this system does not have.
pub fn open(url: &str, options: Options) -> Result<Arc<dyn Adapter>> {
    if let Some(name) = url.strip_prefix(simulation::SCHEME) {
        return simulation::open(name, options);
    }
    let (protocol, address) = adapter_url::parse(url)?;
    let provider = Provider::new(protocol, options);
    provider.open_adapter(provider.resolve_address(address)?)
}

/// Closes the connections of all adapters of this process over UDP, for a process that ends without releasing its objects, such as in
/// [`std::process::exit`] or by a signal. Peers then learn of the end at once. Without this call they learn of it up to 30 s later, because
/// UDP, unlike TCP, does not report the end of a process.
///
/// Waits until everything sent has arrived, for at most `limit`. To break off at once, pass zero. Then answers, for at most 200 ms, peers
/// that a packet with the end of the connection has not reached. The ends of the connections in this process are disconnected as by the
/// peer. A process that releases its objects needs no such call: an adapter does the same when the last of its objects is released. The
/// call does nothing over TCP and in simulated networks.
pub fn close_connections(limit: Duration) {
    iwarp_io::transport::quic::close_all(limit);
}

#[cfg(all(test, not(feature = "udp")))]
mod tests {
    use netdirect::Status;

    use super::*;

    #[test]
    fn without_udp_an_adapter_over_it_is_refused_with_the_feature() {
        for url in ["softnd+udp://127.0.0.1", "softnd+sim://seed=1,protocol=udp"] {
            let error = open(url, Options::default()).map(drop).expect_err(url);
            assert_eq!(error.status(), Status::NOT_SUPPORTED, "{url}: {error}");
            let text = error.what();
            assert!(text.contains("built without the feature `udp`"), "{text}");
        }
        open("softnd+sim://seed=1", Options::default()).unwrap();
    }
}

/// The programs of the readme are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
