//! The rules of ND2 that every provider keeps, independent of the transport of its connections.
//!
//! A provider implements the traits of [`netdirect`] for its objects. Rules that ND2 demands of all providers are here, so that they are
//! written once:
//!
//! - [`adapter`]: the state that all objects of an opened adapter share, and the calls that make objects;
//! - [`checks`] of the arguments of calls;
//! - [`requests`] in flight, and work to do once a lock is released;
//! - [`completion_queue`] and [`shared_receive_queue`]: checks, and requests of Notify;
//! - [`queue_pair`]: checks of requests;
//! - [`memory_region`]: one registered buffer at a time, and its tokens;
//! - [`listener`]: backlog, and connectors that wait for a peer's request;
//! - [`removal`] of the device: the objects that end, and their order;
//! - [`connector`]: a connection from Connect or Accept to Disconnect, by a table of states and events.
//!
//! A *line* is the part of an object that the provider writes: each of these modules has a trait whose name ends in `Line`, such as
//! [`ConnectorLine`](connector::ConnectorLine). The rules here check a call first, and then call the line below them.
//!
//! This crate has no I/O, no thread, no clock and no `unsafe`.

#![forbid(unsafe_code)]

pub mod adapter;
pub mod checks;
pub mod completion_queue;
pub mod connector;
mod error;
pub mod listener;
pub mod memory_region;
pub mod queue_pair;
pub mod removal;
pub mod requests;
pub mod shared_receive_queue;
#[cfg(test)]
mod testing;

pub use adapter::ProviderAdapter;
pub use error::{cannot_inject, fail, removed, request_ends};
