//! softnd for programs that load NetworkDirect providers: a library with two exports.

#[cfg(unix)]
mod config;
#[cfg(unix)]
mod exports;
#[cfg(unix)]
mod pin;
