//! Streams between the adapters of one process, on a virtual clock.

mod conditions;
mod network;
mod world;

pub use conditions::{Chance, Conditions};
pub use world::World;
