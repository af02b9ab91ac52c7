//! Peers that mean harm, and what the endpoint of a listener holds of them, in a simulated network.

mod datagrams;
mod handshakes;
mod moving;
mod rig;
mod streams;
