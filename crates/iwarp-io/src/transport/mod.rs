//! Byte streams under a connection.

pub mod sim;
