//! Streams between the adapters of one process, on a virtual clock.

mod conditions;
pub mod network;
pub mod world;

pub use conditions::{Chance, Conditions};
pub use world::World;
