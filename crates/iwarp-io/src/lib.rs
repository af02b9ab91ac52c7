//! What an iWARP connection runs on, apart from the engine and from any face of it.
//!
//! So far: a simulated network of byte streams on a virtual clock ([`transport::sim`]), which is driven by whoever waits in it,
//! in one thread, and runs the same way for the same seed. Nothing drives connections over it yet.
#![forbid(unsafe_code)]

pub mod progress;
pub mod transport;
