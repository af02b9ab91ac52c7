//! The connection manager: `rdma_cm` over the start-up exchange of MPA for the port space `RDMA_PS_TCP`, and over datagrams for `RDMA_PS_UDP`
//! ([`datagram_side`], [`datagrams`]).
//!
//! [`channel`] has channels and their events, [`state`] identifiers; [`resolve`] has local addresses and routes; [`active`] and [`passive`]
//! are the two sides of a connection, [`pending`] the shares of peers at a listener; [`sync`] makes calls wait for their events; [`id`] has the calls. [`queues`] and [`shared`] have the
//! objects that identifiers make or share, and [`options`] their options. [`endpoint`] has the calls that do several steps, for the
//! addresses that [`addrinfo`] finds. Only private data and read limits cross the wire, so the number of a peer's queue pair is unknown; a
//! connection's own number takes its place.

mod active;
mod addrinfo;
mod carrier;
mod channel;
mod claim;
mod datagram_side;
mod datagrams;
mod endpoint;
mod event;
mod id;
mod options;
mod passive;
mod pending;
mod queues;
mod reports;
mod resolve;
mod shared;
mod space;
mod state;
mod sync;

pub use addrinfo::{
    AddrInfo, AddrInfoError, AddrInfoFlags, AddrInfoHints, AddressFamily, NameFailure, NameQuery,
    PORT_SPACE_TCP, QP_TYPE_RC, Resolver, address_info,
};
pub use channel::{ChannelOf, EventOf};
pub use datagrams::{CmMessage, MessageError, MessageKind};
pub use event::{CmEventKind, ConnParameters, DatagramParameters, LastEvent};
pub use options::IdQpOptions;
pub use shared::SharedDevice;
pub use space::PortSpace;
pub use state::{CmEvent, CmId, EventChannel};
