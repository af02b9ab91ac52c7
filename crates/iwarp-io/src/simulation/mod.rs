//! Simulated worlds: a virtual clock, and a network of streams and datagrams between the adapters of one process.
//!
//! A [`World`] is below the environment of its adapters, their sets and their captures. `transport::sim` has the streams over it.

mod conditions;
pub mod network;
pub mod world;

pub use conditions::{Chance, Conditions};
pub use network::Disturbances;
pub use world::World;
