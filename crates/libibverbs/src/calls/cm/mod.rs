//! The functions of librdmacm.

pub(crate) mod addrinfo;
pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod id;
pub(crate) mod objects;
pub(crate) mod queues;
