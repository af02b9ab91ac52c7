//! Providers as objects of COM, used by their tables as a program in C uses them.
#![cfg(unix)]

mod client;
mod ends;
mod panics;
mod two_ends;
