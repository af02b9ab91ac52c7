//! A bare QUIC stream, with which RDMA over UDP is compared.
//!
//! The stream is made of `quinn-proto` and `quinn-udp` alone: one socket, one connection with one stream, and one thread at
//! each side that receives, moves data and sends in a plain loop. Without the feature `udp` there is no such
//! stream.

#[cfg(feature = "udp")]
mod end;
#[cfg(not(feature = "udp"))]
mod missing;
#[cfg(feature = "udp")]
mod security;
#[cfg(feature = "udp")]
mod settings;
#[cfg(feature = "udp")]
mod stream;
#[cfg(all(test, feature = "udp"))]
mod tests;

#[cfg(not(feature = "udp"))]
pub(super) use missing::{NoListener as QuicListener, NoStream as QuicStream};
#[cfg(feature = "udp")]
pub(super) use stream::{QuicListener, QuicStream};
