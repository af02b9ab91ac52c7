//! The rules of ND2 that every provider keeps, whatever carries its connections.
//!
//! A provider implements the traits of [`netdirect`] for its objects. What ND2 demands of all providers alike is here, so that it
//! is written once: [`checks`] of the arguments of calls.
//!
//! This crate has no I/O, no thread, no clock and no `unsafe`.

#![forbid(unsafe_code)]

pub mod checks;
mod error;

pub use error::{fail, removed};
