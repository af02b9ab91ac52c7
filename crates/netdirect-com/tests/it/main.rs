//! Providers as objects of COM, called by their tables as a program in C would.

mod client;
mod connection_end;
mod ends;
mod explanations;
mod no_addresses;
mod panics;
#[cfg(windows)]
mod system_handles;
mod two_ends;
