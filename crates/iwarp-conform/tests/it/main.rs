//! The tests of the suite itself, in one program.

mod broken;
mod catalogue;
mod reference;
mod sample;
mod vectors;
