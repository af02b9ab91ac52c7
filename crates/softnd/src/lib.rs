//! Software NetworkDirect provider: iWARP over ordinary TCP sockets.
//!
//! No root, no kernel module, no device: [`open`] an adapter and use it through the traits of [`netdirect`].
//!
//! ```
//! # fn main() -> netdirect::Result<()> {
//! let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
//! println!("{:#?}", adapter.query()?);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod adapter;
mod cm;
mod core;
mod cq;
mod device;
mod fault_names;
mod file;
mod leniency;
mod limits;
mod mr;
mod mw;
mod options;
pub mod peer;
mod provider;
mod qp;
mod sge;
pub mod simulation;
mod srq;
mod status;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use netdirect::{Adapter, Error, Result, Status};

pub use iwarp_io::capture;
pub use iwarp_io::faults;
pub use limits::{LONGEST_PRIVATE_DATA, Limits};
pub use options::{Options, Profile, Timeouts};

/// What URLs of this provider begin with.
pub const SCHEME: &str = "softnd+tcp://";

/// The provider over TCP, with every interface of the host as an adapter.
#[must_use]
pub fn provider(options: Options) -> Arc<dyn netdirect::Provider> {
    Arc::new(provider::Provider::new(options))
}

/// Opens the adapter that owns an address, `softnd+tcp://127.0.0.1`, `softnd+tcp://[::1]`, or the bare address; or one of a
/// [simulated network](simulation): `softnd+sim://seed=7`.
///
/// # Errors
///
/// `ND_INVALID_ADDRESS` when the URL has another form, or the address is none of this host's;
/// `ND_INSUFFICIENT_RESOURCES` when the system has no descriptors or threads left.
pub fn open(url: &str, options: Options) -> Result<Arc<dyn Adapter>> {
    if let Some(name) = url.strip_prefix(simulation::SCHEME) {
        return simulation::open(name, options);
    }
    let address = url.strip_prefix(SCHEME).unwrap_or(url);
    if let Some((scheme, _)) = address.split_once("://") {
        let what = format!(
            "there is no scheme {scheme}://; there are {SCHEME}ADDRESS and {}seed=NUMBER",
            simulation::SCHEME
        );
        return Err(Error::new(Status::INVALID_ADDRESS, what));
    }
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    let address = match (bare.parse::<IpAddr>(), address.parse::<SocketAddr>()) {
        (Ok(ip), _) => SocketAddr::new(ip, 0),
        (_, Ok(address)) => address,
        _ => {
            let what = format!(
                "{url:?} is not an address; expected {SCHEME}ADDRESS, for example {SCHEME}127.0.0.1"
            );
            return Err(Error::new(Status::INVALID_ADDRESS, what));
        }
    };
    let provider = provider(options);
    provider.open_adapter(provider.resolve_address(address)?)
}
