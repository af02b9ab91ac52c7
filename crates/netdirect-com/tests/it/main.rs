//! Providers as objects of COM, used by their tables as a program in C uses them.
#![cfg(unix)]

mod broken;
mod client;
mod ends;
mod no_addresses;
mod panics;
mod two_ends;
