//! The fuzz targets as plain functions. A fuzzer calls a target with generated input, and `cargo test` with every file of
//! the corpus. A target returns, or panics because a property does not hold.

#![deny(unsafe_code)]

mod codec;
#[cfg(unix)]
#[expect(unsafe_code, reason = "it is a program in C")]
mod com;
mod datagrams;
mod engine;
mod fault_plan;
mod input;
mod memory;
mod number_call;
mod pair;
mod preamble;
mod quic;
mod receives;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod same_host;
mod setup;
mod side;
mod startup;
mod verbs;
mod wire;

pub use codec::codec;
#[cfg(unix)]
pub use com::com;
pub use datagrams::datagrams;
pub use engine::engine;
pub use fault_plan::fault_plan;
pub use number_call::number_call;
pub use pair::pair;
pub use preamble::preamble;
#[cfg(target_os = "linux")]
pub use ring::ring;
#[cfg(target_os = "linux")]
pub use same_host::same_host;
pub use setup::{initiator, responder};
pub use startup::startup;
pub use verbs::verbs;
