//! The driver of iWARP connections: everything between the engine and the interface that applications use.
//!
//! [`transport`] has the streams: over TCP, over UDP by QUIC ([`transport::quic`]), or in a simulated network with a virtual clock
//! ([`transport::sim`]). A simulation runs the same way for the same seed. [`progress`] decides which thread drives which streams, an
//! [`endpoint`] is one connection in use, [`cq`] has the completion queues, [`capture`] records what streams carry, and
//! [`faults`] says what is to go wrong. An adapter's [`environment`] gives it its clock.
#![forbid(unsafe_code)]

pub mod capture;
pub mod cq;
pub mod descriptors;
pub mod driver;
pub mod endpoint;
pub mod environment;
pub mod error_number;
pub mod faults;
pub mod interfaces;
#[macro_use]
pub mod log;
pub mod memory;
pub mod peer_network;
pub mod peer_table;
mod printable;
mod private_file;
pub mod progress;
pub mod protection_faults;
pub mod setup;
pub mod socket_buffer;
mod sync;
pub mod system_call;
mod thread_value;
pub mod transport;

#[doc(hidden)]
pub use iwarp::planted;
