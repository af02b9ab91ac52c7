//! Drives iWARP connections over transports.
#![forbid(unsafe_code)]

pub mod transport;
