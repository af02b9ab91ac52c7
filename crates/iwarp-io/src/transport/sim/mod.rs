//! Streams between the adapters of one process, on a virtual clock.

mod conditions;
pub mod network;
mod wire;
pub mod world;

pub use conditions::{Chance, Conditions};
pub use network::Disturbances;
pub use wire::{Bound, Dialer, Listener, Wire};
pub use world::World;
