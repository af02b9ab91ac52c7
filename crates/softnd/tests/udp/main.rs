//! The mapping of iWARP onto QUIC that `docs/internals/iwarp-over-quic.md` specifies: the effect of each event of QUIC on both sides. All
//! tests run in simulated networks. The peer is another adapter, or one over bare QUIC that can break every rule.
#![cfg(feature = "udp")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../it/connection_end.rs"]
mod connection_end;
mod connections;
mod ends;
mod example;
mod names;
mod peer;
mod streams;
mod terminates;
