//! softnd's `libibverbs.so.1`, with the functions of `librdmacm.so.1`: the interface that verbs programs were compiled against.
//!
//! - `abi`: structures and numbers, as the headers have them;
//! - `border`: objects and pointers of C programs, and panics; nearly all `unsafe`;
//! - `process`: the devices, as `nd run` wants them;
//! - `calls`: the functions, over `softverbs`;
//! - `exports`: which function has which name and version;
//! - `unsupported`: what the functions answer that are not supported.
//!
//! The library exists on Linux with glibc on x86-64, linked by an LLD. Elsewhere cargo builds an empty library that holds the
//! reason, for `nd run` to print.

#![cfg_attr(
    any(not(with_versions), test),
    allow(dead_code, reason = "nothing is exported here")
)]

#[cfg(target_os = "linux")]
mod abi;
#[cfg(target_os = "linux")]
#[macro_use]
mod border;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(all(with_versions, not(test)))]
mod exports;
#[cfg(not(with_versions))]
mod why_empty;

#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod udp;
#[cfg(target_os = "linux")]
mod unsupported;
