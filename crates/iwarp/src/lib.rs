//! Sans-IO engine for iWARP: MPA (RFC 5044, 6581), DDP (RFC 5041) and RDMAP (RFC 5040, 7306).
//!
//! The engine has no sockets, no clock, no threads and no `unsafe`. Octets go in, octets come out, and memory is a trait. A
//! [`Connection`] is one stream. Its owner passes it what the transport received, passes what it produces to the transport,
//! and fetches events.
//!
//! ```text
//!  transport ── handle_bytes ──▸ FPDU ▸ CRC ▸ DDP ▸ RDMAP ── Memory::place ──▸ registered memory
//!                                                     └── poll_event ──▸ completions
//!  requests ── post_* ──▸ queues ── poll_transmit ──▸ TxBatch ──▸ transport ── handle_transmitted ──▸ completions
//! ```
//!
//! - [`mpa`]: start-up frames and FPDUs.
//! - [`ddp`], [`rdmap`]: headers and error tables, usable on their own by a dissector or a test peer.
//! - [`conn`]: the state machine.
//! - [`memory`]: what the engine asks of registered memory.

#![forbid(unsafe_code)]

#[macro_use]
#[doc(hidden)]
pub mod planted;

pub mod conn;
pub mod ddp;
pub mod memory;
pub mod mpa;
pub mod rdmap;
#[cfg(test)]
mod testing;
mod types;

pub use conn::{
    Completion, Confirmations, Connection, CopiedPayload, Counters, Delivery, DirectPlacement,
    Event, Fault, InitiatorWqe, Markers, Operation, OutOfMemory, OwnQueue, Payload, Piece,
    PieceRef, PostError, QueueSizes, RECOGNIZED_WITHIN, Ready, ReceiveSlot, ReceiveSource,
    ReceivedImmediate, Recognition, RequestKind, Role, StreamConfig, StreamEnd, TO_OF_INITIATOR,
    TO_OF_RESPONDER, Traffic, TxBatch, TxLimit, WqeStatus, terminate_frame,
};
pub use memory::{
    Access, AccessError, AtomicError, BindError, InvalidateError, LocalAccess, Memory, MessageEnd,
    RemoteRights, Revoked, Scope, Span, WindowBind,
};
pub use mpa::{Crc, crc32c};
pub use rdmap::{AtomicOp, AtomicRequest, AtomicResponse, ReadRequest, Terminate, TerminateCode};
pub use types::{Pd, ReadLimits, RemoteAddress, STag, Sge, StreamId, WindowId};
