//! Queue pairs for datagrams (UD).
//!
//! The number of such a queue pair names a port of UDP, as those of connected queue pairs name one of TCP. A message is one datagram, with the
//! [`header`] in front. [`sockets`] has the sockets of a port, one for each address of the device, [`pair`] the queue pair: what it posts
//! is sent at once, and what arrives takes its next Receive or is dropped and counted.

mod header;
mod pair;
mod sockets;

pub use header::{DatagramHeader, HeaderError};
pub(super) use pair::DatagramPair;
