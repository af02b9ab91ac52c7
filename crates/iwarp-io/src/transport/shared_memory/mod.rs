//! Connections within one machine whose octets go through rings in shared memory.
//!
//! Such a connection is a TCP connection first, and stays one for its addresses, its end and its place in the sets. A [`Wire`] has the socket
//! and two rings, [`iwarp_mem::ring`]. Octets of the socket are *bells*: one of them wakes a reader or a writer that is about to sleep.
//! [`same_host`](super::same_host) has how the two ends find each other.
//!
//! Only Linux has them.

#[cfg(any(not(target_os = "linux"), loom))]
mod no_rings;
#[cfg(all(target_os = "linux", not(loom)))]
mod pages;
#[cfg(all(test, target_os = "linux", not(loom)))]
pub(in crate::transport) mod tests;
#[cfg(all(target_os = "linux", not(loom)))]
mod wire;

#[cfg(any(not(target_os = "linux"), loom))]
pub use no_rings::NoWire as Wire;
#[cfg(all(target_os = "linux", not(loom)))]
pub use wire::Wire;
