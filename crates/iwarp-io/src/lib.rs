//! What an iWARP connection runs on, apart from the engine and from any face of it.
//!
//! [`progress`] decides which thread drives which streams, [`capture`] records what streams carry, [`faults`] says what is to
//! go wrong, and [`transport::sim`] is a simulated network of byte streams on a virtual clock, which is driven by whoever waits in it, in
//! one thread, and runs the same way for the same seed.
#![forbid(unsafe_code)]

pub mod capture;
pub mod descriptors;
pub mod environment;
pub mod faults;
#[macro_use]
pub mod log;
pub mod progress;
pub mod socket_buffer;
pub mod sync;
pub mod transport;
