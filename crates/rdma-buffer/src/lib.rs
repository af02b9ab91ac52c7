//! Memory that an RDMA adapter may write at any time: [`Buffer`], and copies into and out of such memory.
//!
//! The peer writes while the application reads, and two connections may write one buffer. One rule keeps that defined, and this
//! crate is the one place for it and for the `unsafe` that it takes: **no reference to such memory is ever formed**. It is copied
//! in and out, by atomic words, or in bulk with the standing of a device's write; [`copy_in`] has the details.

mod buffer;
mod copy;
mod error;
mod extent;

pub use buffer::Buffer;
pub use copy::{BULK_MIN, Backend, Part, Sum, change_word, copy_in, copy_out, copy_out_summed};
pub use error::NoMemory;
pub use extent::Extent;
