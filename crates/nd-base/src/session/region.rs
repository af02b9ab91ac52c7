//! Registered memory.

use std::ops::Range;
use std::sync::Arc;

use netdirect::{Buffer, MemoryRegion, RemoteAddress, Sge};

use crate::errors::{Failure, Result};
use crate::units;

/// Registered memory with the buffer behind it.
#[derive(Clone, Debug)]
pub struct Region {
    /// The region, for its tokens.
    pub region: Arc<dyn MemoryRegion>,
    /// The registered memory.
    pub buffer: Buffer,
}

impl Region {
    /// A part of the region as an entry of a local request.
    pub fn sge(&self, part: Range<usize>) -> Sge {
        Sge::new(&self.buffer, part, self.region.get_local_token())
    }

    /// The region as the peer names it.
    pub fn remote(&self) -> RemoteAddress {
        RemoteAddress {
            address: self.buffer.address(),
            token: self.region.get_remote_token(),
        }
    }
}

/// A new buffer, zeroed.
pub(super) fn memory_of(len: usize) -> Result<Buffer> {
    Buffer::try_new(len).map_err(|error| {
        Failure::nd(
            format_args!("get {} of memory", units::bytes(len as u64)),
            &error.into(),
        )
    })
}
