//! Drives iWARP connections over transports.
#![forbid(unsafe_code)]

mod progress;
pub mod transport;
