//! Providers as objects of COM, called by their tables as a program in C would.

mod client;
// Several threads use one adapter, and on Windows there are none but those of simulated networks yet.
#[cfg(unix)]
mod connection_end;
mod ends;
#[cfg(unix)]
mod explanations;
mod no_addresses;
mod panics;
#[cfg(windows)]
mod system_handles;
mod two_ends;
