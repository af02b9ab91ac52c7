//! softnd
#![forbid(unsafe_code)]

pub mod capture;
