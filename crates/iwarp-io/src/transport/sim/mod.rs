//! Streams and datagrams over a [simulated network](crate::simulation).

mod datagram_socket;
mod wire;

pub use datagram_socket::{DatagramSocket, Received};
pub use wire::{Bound, Dialer, Listener, Wire};
