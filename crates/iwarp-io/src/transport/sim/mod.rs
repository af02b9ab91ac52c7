//! Streams and datagrams between the adapters of one process, on a virtual clock.

mod conditions;
mod datagram_socket;
pub mod network;
mod wire;
pub mod world;

pub use conditions::{Chance, Conditions};
pub use datagram_socket::{DatagramSocket, Received};
pub use network::Disturbances;
pub use wire::{Bound, Dialer, Listener, Wire};
pub use world::World;
