//! Providers as objects of COM, called by their tables as a program in C would.
#![cfg(unix)]

mod client;
mod connection_end;
mod ends;
mod explanations;
mod no_addresses;
mod panics;
mod two_ends;
