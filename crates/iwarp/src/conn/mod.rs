//! One RDMAP stream over one MPA connection: the state machine.
//!
//! A [`Connection`] never fails as a call. What the peer does wrong becomes a queued Terminate and an [`Event`]; what a
//! request does wrong becomes its completion. Time is an argument of the two calls that need it,
//! [`Connection::poll_timeout`] and [`Connection::handle_timeout`]. From
//! [`Connection::start`] on any order of calls is legal: a lazy caller gains latency, never a wrong state. In debug builds a call
//! panics where the stream that it tells of has not started.
//!
//! ```no_run
//! # use iwarp::{Connection, Memory, OwnQueue, TxBatch, TxLimit};
//! # fn turn(conn: &mut Connection, mem: &impl Memory, batch: &mut TxBatch, limit: TxLimit,
//! #         staging: &mut Vec<u8>, mut write: impl FnMut(&TxBatch) -> u64) {
//! let taken = conn.handle_bytes(staging, mem, OwnQueue); // what the transport received
//! staging.drain(..taken);                                // a cut FPDU stays with the caller
//! conn.poll_transmit(mem, limit, batch);
//! batch.advance(write(batch));                           // as much as the transport takes
//! conn.handle_transmitted(batch);                        // completes Sends and Writes
//! while let Some(event) = conn.poll_event() { /* ... */ }
//! # }
//! ```
//!
//! How it is cut: `connection` has the parts of a connection. `initiator` and `receives` hold work requests, `rx` and `tx` the
//! state of the two halves. Above it are the calls that drive it: `deframe` cuts the stream into FPDUs, `inbound` takes them in,
//! `placement` those whose payload is placed while they arrive; `outbound` says what is sent next, `send` makes FPDUs;
//! `extensions` has both halves of RFC 7306, `end` every way a stream can end.

mod batch;
mod config;
mod connection;
mod counters;
mod deframe;
mod early;
mod end;
mod event;
mod extensions;
mod fault;
mod frame;
mod inbound;
mod initiator;
mod outbound;
mod phase;
mod placement;
mod receives;
mod ring;
mod rx;
mod send;
mod terminated;
mod tx;
mod work;

#[cfg(test)]
mod tests;

pub use crate::mpa::{Markers, Ready, Role};
pub use batch::{Piece, PieceRef, TxBatch, TxLimit};
pub use config::{QueueSizes, StreamConfig, StreamEnd};
pub use connection::Connection;
pub use counters::{Counters, Traffic};
pub use event::Event;
pub use fault::Fault;
pub use placement::DirectPlacement;
pub use receives::{OwnQueue, ReceiveSlot, ReceiveSource};
pub use send::terminate_frame;
pub use work::{Completion, InitiatorWqe, Operation, Payload, PostError, RequestKind, WqeStatus};
