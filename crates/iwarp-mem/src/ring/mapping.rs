//! Memory that two processes share: a memfd, sealed so that nobody can take pages away from under its users.

use std::io::{Error, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};

use iwarp::{Revoked, Span};
use rdma_buffer::{Backend, Extent, Part};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::words::Words;
use crate::table::Held;

/// The words of both rings come first.
pub(super) const HEAD: usize = 4096;
const _: () = assert!(2 * size_of::<Words>() <= HEAD, "the words of two rings");

/// The number of a memory-backed file system, in which a file's pages exist for as long as its length says so. A file of huge pages is in
/// another one, and its pages can be missing.
const TMPFS: u64 = 0x0102_1994;

/// The seals that a peer's file needs.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// One of the two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the maker of the file to its peer.
    Out,
    /// From the peer to the maker.
    Back,
}

/// The mapped memory. A child of a fork does not have it.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    capacity: usize,
    forks: u32,
}

// SAFETY: the memory belongs to the process, not to a thread, and is accessed by atomics and device-like copies alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes a file for two rings of `capacity` octets each, a power of two of at least a page, and maps it.
    pub(super) fn create(capacity: usize) -> Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = match rustix::fs::memfd_create("softnd", flags | MemfdFlags::NOEXEC_SEAL) {
            // An older system does not know that flag.
            Err(Errno::INVAL) => rustix::fs::memfd_create("softnd", flags),
            made => made,
        }?;
        rustix::fs::ftruncate(&file, len_of(capacity) as u64)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        Ok((Self::of_file(&file, capacity)?, file))
    }

    /// Maps the file that a peer has made.
    pub(super) fn open(file: &impl AsFd, capacity: usize) -> Result<Self> {
        // Anything but a memfd has no seals.
        let seals = rustix::fs::fcntl_get_seals(file)?;
        let length = rustix::fs::fstat(file)?.st_size;
        #[allow(
            clippy::cast_sign_loss,
            clippy::unnecessary_cast,
            reason = "the type of this number differs between processors"
        )]
        let system = rustix::fs::fstatfs(file)?.f_type as u64;
        let is_right = seals.contains(SEALS)
            && u64::try_from(length) == Ok(len_of(capacity) as u64)
            && system == TMPFS;
        if !is_right {
            return Err(Errno::INVAL.into());
        }
        Self::of_file(file, capacity)
    }

    fn of_file(file: &impl AsFd, capacity: usize) -> Result<Self> {
        rdma_buffer::forks::watch();
        let len = len_of(capacity);
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses a free range of addresses, and nothing knows the range yet.
        let base =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, flags, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        let mapping = Self {
            base,
            capacity,
            forks: rdma_buffer::forks::forked(),
        };
        // SAFETY: the range that was just mapped; the children of forks alone lose it.
        unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    /// Checks that this is the process that has mapped the memory.
    ///
    /// # Errors
    ///
    /// It is the child of a fork.
    #[inline]
    pub(super) fn is_ours(&self) -> Result<()> {
        if rdma_buffer::forks::forked() == self.forks {
            Ok(())
        } else {
            Err(of_parent())
        }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The words of a ring.
    ///
    /// # Errors
    ///
    /// Those of [`is_ours`](Self::is_ours).
    #[inline]
    pub(super) fn words(&self, way: Way) -> Result<&Words> {
        self.is_ours()?;
        let at = match way {
            Way::Out => 0,
            Way::Back => size_of::<Words>(),
        };
        let words = self.base.as_ptr().wrapping_add(at).cast::<Words>();
        // The words are atomics, for which every value is valid, and which other processes access in the same way.
        // SAFETY: inside the mapping, which lives as long as `self` and has not gone in a fork, as just seen; pages are aligned enough.
        Ok(unsafe { &*words })
    }

    /// The octets of a ring.
    #[inline]
    fn ring(&self, way: Way) -> (*mut u8, Extent) {
        let from = match way {
            Way::Out => HEAD,
            Way::Back => HEAD + self.capacity,
        };
        let first = self.base.as_ptr().wrapping_add(from);
        let address = first.addr() as u64;
        let extent = Extent {
            from: address,
            to: address + self.capacity as u64,
        };
        (first, extent)
    }

    /// The place at `at` with room for `len` octets, which do not go beyond the end of the ring.
    ///
    /// # Panics
    ///
    /// If they do, and in the child of a fork.
    #[inline]
    fn place(&self, way: Way, at: usize, len: usize) -> (*mut u8, Extent) {
        assert!(
            at <= self.capacity && len <= self.capacity - at,
            "a place outside of the ring"
        );
        assert!(
            self.is_ours().is_ok(),
            "shared memory of the parent of a fork"
        );
        let (first, extent) = self.ring(way);
        (first.wrapping_add(at), extent)
    }

    /// Gives the pages that lie in a ring alone back to the system. They are zeroes when they are next touched.
    pub(super) fn remove_pages(&self, way: Way) -> Result<()> {
        let (first, extent) = self.place(way, 0, self.capacity);
        let page = page() as u64;
        let from = extent.from.next_multiple_of(page);
        let len = (extent.to / page * page).saturating_sub(from);
        let (Ok(skipped), Ok(len)) = (usize::try_from(from - extent.from), usize::try_from(len))
        else {
            return Ok(());
        };
        if len > 0 {
            let at = first.wrapping_add(skipped).cast();
            // SAFETY: whole pages inside the ring, whose octets all processes access by copies for which every value is valid.
            unsafe { rustix::mm::madvise(at, len, Advice::LinuxRemove) }?;
        }
        Ok(())
    }

    /// Copies private octets into a ring.
    #[inline]
    pub(super) fn write(&self, way: Way, at: usize, octets: &[u8]) {
        let (to, extent) = self.place(way, at, octets.len());
        // SAFETY: inside the ring, as `place` has seen, whose octets all processes access by such copies.
        unsafe { rdma_buffer::copy_in(to, extent, octets, Part::More, Backend::default()) };
    }

    /// Copies octets of a ring out.
    #[inline]
    pub(super) fn read(&self, way: Way, at: usize, into: &mut [u8]) {
        let (from, extent) = self.place(way, at, into.len());
        // SAFETY: as in `write`.
        unsafe { rdma_buffer::copy_out(from, extent, into, Backend::default()) };
    }

    /// Copies registered memory into a ring.
    pub(super) fn write_from(
        &self,
        way: Way,
        at: usize,
        held: &Held<'_>,
        span: Span,
    ) -> std::result::Result<(), Revoked> {
        let len = span.len() as usize;
        let (from, of_region, backend) = held.located(span)?;
        let to = self.place(way, at, len);
        // SAFETY: inside the ring, as `place` has seen, and inside registered memory, which `held` pins and its region vouches for; a
        // buffer does not lie in this private mapping.
        unsafe { rdma_buffer::copy_across(to, (from, of_region), len, backend) };
        Ok(())
    }

    /// Copies octets of a ring into registered memory.
    pub(super) fn read_to(
        &self,
        way: Way,
        at: usize,
        held: &Held<'_>,
        span: Span,
    ) -> std::result::Result<(), Revoked> {
        let len = span.len() as usize;
        let (to, of_region, backend) = held.located(span)?;
        let from = self.place(way, at, len);
        // SAFETY: as in `write_from`; the rights of the region let a peer write there (the engine has checked the span for that).
        unsafe { rdma_buffer::copy_across((to, of_region), from, len, backend) };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // In the child of a fork something else may be at these addresses.
        if self.is_ours().is_ok() {
            // SAFETY: the range was mapped by `of_file`, and no pointer into it outlives `self`.
            let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), len_of(self.capacity)) };
        }
    }
}

/// The size of the system's pages.
pub(super) fn page() -> usize {
    rustix::param::page_size()
}

const fn len_of(capacity: usize) -> usize {
    HEAD + 2 * capacity
}

fn of_parent() -> Error {
    Error::new(
        std::io::ErrorKind::ConnectionAborted,
        "the connection belongs to the parent of this process",
    )
}
