//! The tests of the suite itself, in one program.

mod broken;
mod catalogue;
mod frame;
mod sample;
mod tables;
mod wrapper;
