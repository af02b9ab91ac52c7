//! Connection set-up: the MPA start-up exchange, as two machines without a socket and without a clock.
//!
//! An [`Initiator`] begins when its transport has connected, a [`Responder`] when it has accepted a stream. Octets and time go into them;
//! frames, deadlines and outcomes come out. Their driver reads no more octets than a machine [wants](Machine::wanted), so that octets
//! behind a start-up frame stay in the transport.
//!
//! ```text
//!  Initiator                                        Responder
//!  handle_connected ──────── Request ───────────▸ handle_bytes: Requested
//!  handle_bytes: Agreed ◂─────── Reply ────────── accept, reject
//!  complete, SendReady ── ready-to-receive message ──▸ handle_ready: Connected
//! ```
//!
//! The ready-to-receive message is an FPDU, which the engine's connection sends and receives.
//!
//! `MpaStartup` drives a machine over a stream of an adapter: it reads, sends, sets deadlines, and looks again when a fault plan no
//! longer holds the stream. An [`ActiveSide`] has one, from a destination to an agreement, and so has a [`PassiveSide`], from a whole Request
//! to the ready-to-receive message. An [`Acceptor`] accepts connections, limits the number of half-open ones, and notifies its owner of whole
//! Requests.

mod acceptor;
mod active_side;
mod awaited_fpdu;
mod exchange;
mod half_open;
mod incoming;
mod initiator;
mod mpa_startup;
mod own_connection;
mod passive_side;
mod responder;
mod stream_config;

pub use acceptor::{Acceptor, AcceptorConfig, AcceptorOwner};
pub use active_side::{ActiveConfig, ActiveOutcome, ActiveSide, ConnectFailure};
pub use half_open::HalfOpenLimits;
pub use incoming::Incoming;
pub use iwarp::mpa::startup::{
    Acceptance, Agreed, ConcludeError, Enhanced, Frame, FrameKind, MAX_FRAME, Offer, ReadyKinds,
    StartupError,
};
pub use iwarp::{
    Confirmations, ReadLimits, Role, StreamConfig, StreamEnd, TerminateCode, terminate_frame,
};

pub use awaited_fpdu::{AwaitedFpdu, Heard};
pub use exchange::Machine;
pub use initiator::{Agreement, Initiator, InitiatorConfig, InitiatorFailure, InitiatorOutcome};
pub use mpa_startup::{ConnectionRequest, StartupOwner};
pub use own_connection::OwnConnection;
pub use passive_side::{PassiveOutcome, PassiveSide};
pub use responder::{Accepted, Responder, ResponderConfig, ResponderFailure, ResponderOutcome};
pub use stream_config::stream_config;

#[cfg(test)]
mod tests;
