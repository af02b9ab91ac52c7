//! The tests of the crate's public side, in one program.
#![cfg(not(loom))]

mod atomics;
#[cfg(all(unix, not(miri)))]
mod engine;
mod model;
mod predictions;
mod races;
mod table;
mod windows;
