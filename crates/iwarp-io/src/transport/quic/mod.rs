//! iWARP over QUIC: one UDP socket for all outgoing streams of an adapter, and one for each address at which it listens.
//!
//! `docs/internals/iwarp-over-quic.md` specifies the octets on the wire. A [`Quic`] is the transport of one adapter. A `SharedSocket` is
//! one UDP socket with the connections of QUIC on it; a stream of one of them is a connection of NetworkDirect.
//!
//! Without the feature `udp` nothing of this is compiled, and `no_udp` refuses to make the transport.

#[cfg(feature = "udp")]
mod account;
#[cfg(feature = "udp")]
mod adapter_sockets;
#[cfg(feature = "udp")]
mod address_probe;
#[cfg(feature = "udp")]
mod addresses_in_use;
#[cfg(feature = "udp")]
mod arrivals;
#[cfg(feature = "udp")]
mod close_reason;
#[cfg(feature = "udp")]
mod config;
#[cfg(feature = "udp")]
mod congestion;
#[cfg(feature = "udp")]
mod connection_ids;
#[cfg(feature = "udp")]
mod endpoint;
#[cfg(feature = "udp")]
mod handshake_sends;
#[cfg(not(feature = "udp"))]
mod no_udp;
mod options;
#[cfg(feature = "udp")]
pub mod preamble;
#[cfg(feature = "udp")]
mod quic_stream;
#[cfg(feature = "udp")]
mod quic_transport;
#[cfg(feature = "udp")]
mod received_frames;
#[cfg(feature = "udp")]
mod refusals;
pub mod security;
#[cfg(feature = "udp")]
mod send_buffers;
#[cfg(feature = "udp")]
mod shared_socket;
#[cfg(feature = "udp")]
mod undelivered;
#[cfg(feature = "udp")]
mod watched_session;
#[cfg(feature = "udp")]
mod wire;

#[cfg(not(feature = "udp"))]
pub use no_udp::{Bound, Dialer, Listener, NoQuic as Quic, Wire, close_all};
pub use options::{QuicOptions, UndeliveredLimits};
#[cfg(feature = "udp")]
pub use quic_transport::{Quic, close_all};
#[cfg(feature = "udp")]
pub use wire::{Bound, Dialer, Listener, Wire};
