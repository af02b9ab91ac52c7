//! A bare QUIC stream, with which RDMA over UDP is compared.
//!
//! The stream is made of `quinn-proto` and `quinn-udp` alone: one socket, one connection with one stream, and one thread at
//! each side that receives, moves data and sends in a plain loop. Without the feature `ring` there is no cryptography, and
//! therefore no stream.

#[cfg(feature = "ring")]
mod end;
#[cfg(not(feature = "ring"))]
mod missing;
#[cfg(feature = "ring")]
mod security;
#[cfg(feature = "ring")]
mod settings;
#[cfg(feature = "ring")]
mod stream;
#[cfg(all(test, feature = "ring"))]
mod tests;

#[cfg(not(feature = "ring"))]
pub(super) use missing::{NoListener as QuicListener, NoStream as QuicStream};
#[cfg(feature = "ring")]
pub(super) use stream::{QuicListener, QuicStream};
