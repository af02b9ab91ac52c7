//! Peers that mean harm, and what the endpoint of a listener holds of them, in a simulated network.

mod datagrams;
mod handshakes;
mod moving;
mod order;
mod rig;
mod streams;
