//! The tests of the suite itself, in one program.

mod broken;
mod catalogue;
#[cfg(feature = "ring")]
mod given_up;
mod reference;
mod sample;
mod vectors;
