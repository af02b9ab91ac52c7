//! Registered memory.

use std::ops::{Bound, Deref, RangeBounds};
use std::sync::Arc;

use netdirect::{
    Adapter, Buffer, MemoryRegion, MrFlags, Overlapped, OverlappedFile, RemoteAddress, Result, Sge,
    ext,
};

/// A [`Buffer`] with its registration, from [`AsyncAdapter::register`](crate::AsyncAdapter::register).
///
/// It is what was registered: a slice of a buffer, where a slice was. The methods of the [`Buffer`] read and write the memory. A clone is the same memory and the same registration. The
/// registration ends when the last clone is dropped, or with [`deregister`](Self::deregister).
#[derive(Clone, Debug)]
pub struct RegisteredBuffer {
    buffer: Buffer,
    region: Arc<dyn MemoryRegion>,
}

impl RegisteredBuffer {
    pub(crate) async fn new(
        adapter: &Arc<dyn Adapter>,
        file: &Arc<dyn OverlappedFile>,
        buffer: &Buffer,
        flags: MrFlags,
    ) -> Result<Self> {
        let region = adapter.create_memory_region(file)?;
        let overlapped = Overlapped::new().without_port();
        ext::finished(region.register(buffer, flags, &overlapped), &overlapped).await?;
        Ok(Self {
            buffer: buffer.clone(),
            region,
        })
    }

    /// The memory region, `IND2MemoryRegion`.
    pub fn region(&self) -> &Arc<dyn MemoryRegion> {
        &self.region
    }

    /// A part of the memory for a request of this side, `ND2_SGE`.
    ///
    /// # Panics
    ///
    /// If the range lies outside the buffer, or if its length does not fit in 32 bits.
    pub fn sge(&self, range: impl RangeBounds<usize>) -> Sge {
        Sge::new(&self.buffer, range, self.region.get_local_token())
    }

    /// A part of the memory for a request of an [`Endpoint`](crate::Endpoint). The part keeps the registration.
    ///
    /// # Panics
    ///
    /// As [`sge`](Self::sge).
    pub fn part(&self, range: impl RangeBounds<usize>) -> BufferPart {
        BufferPart {
            sge: self.sge(range),
            parent: self.clone(),
        }
    }

    /// The address of an octet for the peer's Reads and Writes. The peer learns the address in a way that the application
    /// chooses, for example [in a message or as private data](RemoteAddress::to_bytes).
    ///
    /// # Panics
    ///
    /// If `at` is greater than the length of the buffer.
    pub fn remote(&self, at: usize) -> RemoteAddress {
        let here = self.buffer.slice((Bound::Included(at), Bound::Unbounded));
        RemoteAddress {
            address: here.address(),
            token: self.region.get_remote_token(),
        }
    }

    /// `Deregister`: when the future has ended, the adapter no longer reads or writes the memory. This ends the registration
    /// of all clones.
    ///
    /// # Errors
    ///
    /// Those of [`MemoryRegion::deregister`], including its final statuses.
    pub async fn deregister(&self) -> Result<()> {
        let overlapped = Overlapped::new().without_port();
        ext::finished(self.region.deregister(&overlapped), &overlapped).await
    }
}

impl Deref for RegisteredBuffer {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

/// A part of registered memory, from [`RegisteredBuffer::part`]. It keeps the registration, and so does the request that it is
/// passed to.
#[derive(Clone, Debug)]
pub struct BufferPart {
    sge: Sge,
    parent: RegisteredBuffer,
}

impl BufferPart {
    /// The part as `ND2_SGE`.
    pub fn sge(&self) -> Sge {
        self.sge
    }

    /// The memory that this is a part of.
    pub fn buffer(&self) -> &RegisteredBuffer {
        &self.parent
    }
}
