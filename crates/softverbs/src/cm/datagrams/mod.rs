//! Datagram services of the connection manager (`RDMA_PS_UDP`): a request and its answer are one datagram each.
//!
//! [`message`] has the octets, [`asking`] the side that asks and repeats its request until it is answered, and [`service`] the listener, which
//! repeats its answers. Both are generic over the identifiers, which in turn have them.

mod asking;
mod message;
mod service;

pub(super) use asking::{AnswerTaker, Asking};
pub use message::{CmMessage, MessageError, MessageKind};
pub(super) use service::{Asked, RequestTaker, Service};
