//! Memory that an RDMA adapter may write at any time: [`Buffer`], and copies into and out of such memory.
//!
//! The peer writes while the application reads, and two connections may write one buffer. One rule keeps this defined: **no
//! reference to such memory is ever created**. Data is copied in and out, either by atomic words, or in bulk by instructions
//! that count as a device's access; [`copy_in`] has the details. This crate is the one place for the rule and for the `unsafe`
//! code that it needs.
//!
//! As the lowest crate of the libraries it also has the one way to their variables of the [`environment`], and counts [`forks`], and keeps
//! [`signals`] from their threads, whose [`time_slice`] it can shorten. For programs it has the allocator's [`heaps`].

mod buffer;
mod copy;
pub mod environment;
mod error;
mod extent;
pub mod forks;
pub mod heaps;
pub mod signals;
pub mod time_slice;
mod usable;

pub use buffer::Buffer;
pub use copy::{
    BULK_MIN, Backend, Part, Sum, change_word, copy_across, copy_in, copy_out, copy_out_summed,
    is_slow_copy, page_offsets_matter, prefers_strings,
};
pub use error::NoMemory;
pub use extent::Extent;
pub use usable::is_usable;
