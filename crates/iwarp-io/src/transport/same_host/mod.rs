//! How two ends of a connection within one machine agree to use shared memory.
//!
//! A connector makes an offer to the socket that the listener has for them (`meeting`), then connects TCP as always. A listener that finds
//! the offer for a connection sends the first token of it, the connector answers with the second one ([`Pairing`]), and both are on the rings,
//! which [`shared_memory`](super::shared_memory) has. In every other case the connection is plain TCP.
//!
//! Only Linux has them.

#[cfg(all(target_os = "linux", not(loom)))]
mod budget;
#[cfg(all(target_os = "linux", not(loom)))]
mod check;
#[cfg(all(target_os = "linux", not(loom)))]
mod counts;
mod first_octets;
#[cfg(all(target_os = "linux", not(loom)))]
mod meeting;
#[cfg(any(not(target_os = "linux"), loom))]
mod no_rings;
#[cfg(all(target_os = "linux", not(loom)))]
mod offer;
#[cfg(all(target_os = "linux", not(loom)))]
mod option;
#[cfg(all(target_os = "linux", not(loom)))]
mod pairing;
mod pairing_step;
#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests;

pub use first_octets::FirstOctets;
#[cfg(any(not(target_os = "linux"), loom))]
pub use no_rings::{
    NoMeeting as Meeting, NoPairing as Pairing, NoRing, NoSameHost as SameHost, check,
};
pub use pairing_step::PairingStep;
#[cfg(all(target_os = "linux", not(loom)))]
pub use {check::check, meeting::Meeting, meeting::SharedRing, option::SameHost, pairing::Pairing};
