//! Streams between the adapters of one process, on a virtual clock.

mod conditions;
mod network;

pub use conditions::{Chance, Conditions};
