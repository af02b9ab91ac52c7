//! Connection management: ND2's connectors and listeners over the MPA start-up exchange.

mod backlog;
pub(crate) mod connector;
pub(crate) mod listener;
mod requests;
