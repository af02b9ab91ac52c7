//! Two rings of octets in memory that two processes share, one for each direction of a connection.
//!
//! The process at the other end is a peer: everything in the shared memory may change at any time. Each word is read once and checked before
//! it is used. No reference to the octets of a ring exists. What was copied out is private, and nothing is read a second time. Own indices
//! are never read back.
//!
//! [`words`] has the indices, and the rules by which one end wakes the other. [`Ring`] moves octets between the rings and registered memory,
//! as [`io`](crate::io) does for sockets.

#[cfg(all(target_os = "linux", not(loom)))]
mod mapping;
pub mod words;

#[cfg(all(target_os = "linux", not(loom)))]
pub use octets::{Ring, RingSize};

#[cfg(all(target_os = "linux", not(loom)))]
mod octets;

#[cfg(all(test, target_os = "linux", not(any(loom, miri))))]
mod tests;

#[cfg(all(test, loom))]
mod loom_model;
