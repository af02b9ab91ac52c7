//! Malicious peers, and the memory that the endpoint of a listener holds for them, in a simulated network.

mod datagrams;
mod handshakes;
mod moving;
mod order;
mod rig;
mod streams;
