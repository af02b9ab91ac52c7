//! Malicious peers, and the memory that the endpoint of a listener holds for them, in a simulated network.

mod datagrams;
mod gaps;
mod handshakes;
mod leaving_out;
mod moving;
mod order;
mod rig;
mod streams;
