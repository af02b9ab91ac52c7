//! The tests of the crate's public side, in one program.
#![cfg(not(loom))]

mod atomics;
#[cfg(all(unix, not(miri)))]
mod engine;
mod model;
#[cfg(planted_bugs)]
mod planted;
mod predictions;
mod races;
mod table;
mod windows;
