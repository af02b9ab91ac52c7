//! For tests and fuzz targets (feature `testing`): registered memory made of vectors, and two connections joined by two
//! byte streams on a virtual clock. No sockets, no threads, no sleeping; the same calls give the same run.

mod memory;
mod pair;

pub use memory::{Rights, VecMemory};
pub use pair::{End, Knobs, Pair, SIZES, frames, marked_frames, stream};
