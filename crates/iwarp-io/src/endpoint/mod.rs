//! One connection in use: what goes between its stream and the engine, and when a posted request leaves.
//!
//! [`StreamIo`](stream_io::StreamIo) reads and sends for an engine's connection, in visits with a budget.
//! [`Gather`](gather::Gather) decides which posts leave at once and which wait for company. The owner, a queue pair, has the
//! connection, turns its events into results, and holds the lock.

pub mod buffers;
pub mod gather;
mod mulpdu;
pub mod stream_io;
mod tx_buffers;
