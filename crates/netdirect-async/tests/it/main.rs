//! The tests of the crate, in one program, but those that count what the process has. On Windows, whose sockets softnd cannot use yet, they
//! run in simulated networks alone.

mod common;
mod completions;
mod connect;
mod endpoint;
mod examples;
#[cfg(unix)]
mod examples_on_unix;
mod listener;
mod providers;
#[cfg(unix)]
mod tokio;
