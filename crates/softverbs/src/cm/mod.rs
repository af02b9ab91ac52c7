//! The connection manager: `rdma_cm` over the start-up exchange of MPA, for the port space `RDMA_PS_TCP`.
//!
//! [`state`] has identifiers, channels and events; [`resolve`] local addresses and routes; [`active`] and [`passive`] the two sides of a
//! connection; [`id`] the calls. They use each other in this order. Nothing but private data and read limits crosses the wire, so the
//! number of a peer's queue pair is unknown; a connection's own number stands for it.

mod active;
mod addrinfo;
mod carrier;
mod event;
mod id;
mod passive;
mod resolve;
mod state;

pub use addrinfo::{
    AddrInfo, AddrInfoError, AddrInfoFlags, AddrInfoHints, AddressFamily, NameFailure, NameQuery,
    PORT_SPACE_TCP, QP_TYPE_RC, Resolver, address_info,
};
pub use event::{CmEventKind, ConnParameters};
pub use state::{CmEvent, CmId, EventChannel};
