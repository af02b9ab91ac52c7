//! Datagram services of the connection manager (`RDMA_PS_UDP`): a request and its answer are one datagram each.
//!
//! [`message`] has the octets, [`asking`] the side that asks and repeats its request until it is answered, and [`listener`] the side that is asked, which
//! repeats its answers. Both are generic over the identifiers, which in turn have them.

mod asking;
mod listener;
mod message;

pub(super) use asking::{AnswerTaker, Asking};
pub(super) use listener::{Asked, BoundUdp, DatagramListener, OwnPair, RequestTaker};
pub use message::{CmMessage, MessageError, MessageKind};
