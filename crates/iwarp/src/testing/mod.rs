//! Helpers for tests: registered memory made of vectors, two connections joined by two byte streams on a virtual clock, and a queue of
//! Receives that connections share. There are no sockets and no threads, and nothing sleeps. The same calls give the same run.

mod memory;
mod pair;
mod shared;

pub(crate) use memory::{Rights, VecMemory};
pub(crate) use pair::{End, Knobs, Pair, SIZES, frames, marked_frames, stream};
pub(crate) use shared::SharedReceives;
