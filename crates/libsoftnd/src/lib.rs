//! softnd for programs that load NetworkDirect providers: a library with two exports.

mod config;
mod exports;
mod pin;
