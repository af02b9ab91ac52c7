//! Connectors and listeners over the connection manager of rdma-core.

pub(crate) mod connector;
pub(crate) mod listener;
mod private_data;
