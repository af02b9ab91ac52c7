//! Memory regions.

use std::sync::Arc;

use iwarp_io::memory::{RegisterError, Registration, Rights};
use parking_lot::Mutex;
use rdma_buffer::Buffer;

use crate::device::limits;
use crate::error::{Errno, Error, Result, fail};
use crate::pd::ProtectionDomain;
use crate::users::{Tag, User};

bitflags::bitflags! {
    /// The access flags of a region, with the values of `IBV_ACCESS_…`. Sends may always be made from a region.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AccessFlags: u32 {
        /// Receives and the answers to Reads may be placed.
        const LOCAL_WRITE = 1;
        /// Peers may write.
        const REMOTE_WRITE = 1 << 1;
        /// Peers may read.
        const REMOTE_READ = 1 << 2;
        /// Peers may use Atomics.
        const REMOTE_ATOMIC = 1 << 3;
        /// Windows may be bound.
        const MW_BIND = 1 << 4;
        /// Offsets count from 0.
        const ZERO_BASED = 1 << 5;
        /// The region is looked up when it is used.
        const ON_DEMAND = 1 << 6;
        /// The memory consists of huge pages.
        const HUGETLB = 1 << 7;
        /// Writes may be placed in any order.
        const RELAXED_ORDERING = 1 << 20;
    }
}

/// The flags that a program may always give, because a device may ignore them (`IBV_ACCESS_OPTIONAL_RANGE`).
const OPTIONAL: u32 = 0x3FF0_0000;

impl AccessFlags {
    /// Checks the flags of a region.
    fn check(bits: u32) -> Result<Self> {
        let access = Self::from_bits_truncate(bits);
        let known = Self::LOCAL_WRITE
            | Self::REMOTE_WRITE
            | Self::REMOTE_READ
            | Self::REMOTE_ATOMIC
            | Self::MW_BIND
            | Self::ZERO_BASED
            | Self::HUGETLB;
        if access.contains(Self::ON_DEMAND) {
            return fail(Errno::OPNOTSUPP, "regions cannot be paged on demand");
        }
        if bits & !(known.bits() | OPTIONAL) != 0 {
            return fail(
                Errno::INVAL,
                format!("{bits:#x} has access flags that do not exist"),
            );
        }
        let needs_write = Self::REMOTE_WRITE | Self::REMOTE_ATOMIC;
        if access.intersects(needs_write) && !access.contains(Self::LOCAL_WRITE) {
            return fail(
                Errno::INVAL,
                "a region that peers may write needs IBV_ACCESS_LOCAL_WRITE too",
            );
        }
        Ok(access)
    }

    fn rights(self) -> Rights {
        let mut rights = Rights::empty();
        let table = [
            (Self::LOCAL_WRITE, Rights::LOCAL_WRITE | Rights::READ_SINK),
            (Self::REMOTE_WRITE, Rights::REMOTE_WRITE),
            (Self::REMOTE_READ, Rights::REMOTE_READ),
            (Self::REMOTE_ATOMIC, Rights::REMOTE_ATOMIC),
        ];
        for (flag, right) in table {
            if self.contains(flag) {
                rights |= right;
            }
        }
        rights
    }
}

/// A registered stretch of memory. Its local and its remote key are the same number, the STag.
#[derive(Debug)]
pub struct MemoryRegion {
    pd: Arc<ProtectionDomain>,
    registration: Mutex<Option<Registration>>,
    key: u32,
    first: u64,
    len: u64,
    tag: Tag,
    user: User,
}

impl MemoryRegion {
    /// Registers memory. Peers and local requests count offsets from `first`, which for `ibv_reg_mr` is the address of the memory. With
    /// [`AccessFlags::ZERO_BASED`] they count from 0, whatever `first` is. `access` has the bits of [`AccessFlags`].
    ///
    /// # Errors
    ///
    /// EINVAL for flags that do not go together, or a region that is too long; ENOMEM when the table of regions is full.
    pub fn register(
        pd: &Arc<ProtectionDomain>,
        buffer: &Buffer,
        first: u64,
        access: u32,
    ) -> Result<Arc<Self>> {
        let access = AccessFlags::check(access)?;
        if buffer.len() as u64 > limits::REGION {
            return fail(Errno::INVAL, "the region is longer than max_mr_size");
        }
        let first = if access.contains(AccessFlags::ZERO_BASED) {
            0
        } else {
            first
        };
        let engine = pd.context().engine()?;
        let registration = engine
            .table
            .register_at(buffer, first, access.rights(), pd.number())
            .map_err(|error| {
                let errno = match error {
                    RegisterError::Wraps => Errno::INVAL,
                    _ => Errno::NOMEM,
                };
                Error::new(errno, error.to_string())
            })?;
        Ok(Arc::new(Self {
            key: registration.stag().0,
            first: registration.base(),
            len: registration.len(),
            registration: Mutex::new(Some(registration)),
            tag: Tag::default(),
            user: pd.users.add(),
            pd: Arc::clone(pd),
        }))
    }

    /// The protection domain.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }

    /// The key for local requests and for peers.
    pub fn key(&self) -> u32 {
        self.key
    }

    /// The offset of the first octet.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The length in octets.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the region has no octets.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Ends the registration. When the call has returned, no octet of the memory is touched any more.
    ///
    /// # Errors
    ///
    /// EINVAL if the registration has ended before.
    pub fn deregister(&self) -> Result<()> {
        let registration = self.registration.lock().take();
        let Some(registration) = registration else {
            return fail(Errno::INVAL, "the memory region was deregistered before");
        };
        // The drop waits for copies and system calls in progress, never for a peer.
        drop(registration);
        self.user.release();
        Ok(())
    }
}
