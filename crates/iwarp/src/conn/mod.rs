//! One RDMAP stream over one MPA connection: the state machine.
//!
//! Calls that drive a [`Connection`] do not fail. An error of the peer becomes a queued Terminate and an [`Event`]; an
//! error of a request becomes the status of its completion. Two calls need the time and take it as an argument:
//! [`Connection::poll_timeout`] and [`Connection::handle_timeout`]. After [`Connection::start`] the calls may come in any
//! order. A slow caller causes latency, never a wrong state. Before the start, a call that reports something of the stream
//! panics in debug builds.
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
//! The modules: `connection` has the parts of a connection. `initiator` and `receives` hold work requests, `rx` and `tx`
//! the state of the two halves. The other modules have the calls that drive the state. `deframe` cuts the stream into
//! FPDUs, `inbound` handles them, and `placement` handles FPDUs whose payload is placed while they arrive. `outbound`
//! chooses what is sent next, and `send` makes FPDUs. `recognition` finds out whether the peer takes announced Sends. `extensions` has both halves of RFC 7306, `end` every way in
//! which a stream can end, and `unreliable` what is dropped where delivery is unreliable. `ahead` lets Responses pass a Send that waits.

mod ahead;
mod arriving;
mod batch;
mod config;
mod connection;
mod counters;
mod deframe;
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
mod recognition;
mod ring;
mod row;
mod rx;
mod send;
mod terminated;
mod tx;
mod unreliable;
mod work;

#[cfg(test)]
mod tests;

pub use crate::mpa::{Markers, Ready, Role};
pub use batch::{Piece, PieceRef, TxBatch, TxLimit};
pub use config::{
    Confirmations, CopiedPayload, Delivery, QueueSizes, RECOGNIZED_WITHIN, Recognition,
    StreamConfig, StreamEnd, TO_OF_INITIATOR, TO_OF_RESPONDER,
};
pub use connection::Connection;
pub use counters::{Counters, Traffic};
pub use event::Event;
pub use fault::Fault;
pub use placement::DirectPlacement;
pub use receives::{OwnQueue, ReceiveSlot, ReceiveSource};
pub use ring::OutOfMemory;
pub use send::terminate_frame;
pub use work::{
    Completion, InitiatorWqe, Operation, Payload, PostError, ReceivedImmediate, RequestKind,
    WqeStatus,
};
