//! The objects of verbs, in a simulated network and on sockets.

mod common;
mod connections;
mod data;
