//! The tests of the crate's public side, in one program.
#![cfg(not(loom))]

mod common;
mod ext;
mod extensions;
mod overlapped;
mod port;
mod prometheus;
mod tables;
