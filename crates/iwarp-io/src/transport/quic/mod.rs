//! iWARP over QUIC.

pub mod security;
