//! Registered regions.

use std::{fmt, sync::Arc};

use iwarp::STag;
use rdma_buffer::Buffer;

use crate::{admin::Place, error::Busy, shared::Shared, slot::Kind};

/// One registered buffer. Its STag is valid until the registration is deregistered or dropped.
///
/// A drop does not check whether the region is in use. Windows bound to the region become unbound, and prepared Binds
/// succeed at their turn without binding anything.
///
/// The registration keeps the buffer alive, so that a leaked region stays sound. After [`Registration::deregister`] or the
/// drop has returned, no octet of the buffer is read or written through this table any more (MR-034, SEC-005). Both may be
/// called from any thread, except from within a call of this table. They wait for copies and system calls in progress,
/// never for a peer.
#[must_use = "dropping it deregisters the buffer"]
pub struct Registration {
    shared: Arc<Shared>,
    place: Place,
    stag: STag,
    first: u64,
    buffer: Buffer,
    registered: bool,
}

impl Registration {
    pub(crate) fn new(
        shared: Arc<Shared>,
        place: Place,
        stag: STag,
        first: u64,
        buffer: Buffer,
    ) -> Self {
        Self {
            shared,
            place,
            stag,
            first,
            buffer,
            registered: true,
        }
    }

    pub(crate) fn belongs_to(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The token for local work requests, and for peers as far as the rights allow (IND2MemoryRegion::GetLocalToken,
    /// GetRemoteToken).
    pub fn stag(&self) -> STag {
        self.stag
    }

    /// The tagged offset of the first octet, from which SGE addresses count as well: the octet's address, unless
    /// [`Table::register_at`](crate::Table::register_at) was given another number.
    pub fn base(&self) -> u64 {
        self.first
    }

    /// Octets.
    pub fn len(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Returns true if the region has no octets.
    pub fn is_empty(&self) -> bool {
        self.buffer.len() == 0
    }

    /// Returns true if windows are bound to the region, or prepared Binds have not ended, so that the region cannot be deregistered
    /// (MR-026, MW-011). A Bind of a window that was dropped does not count.
    pub fn is_in_use(&self) -> bool {
        self.shared.admin.lock().is_in_use(self.place)
    }

    /// Ends the registration: makes the STag invalid (DDP-090), waits for copies and system calls in progress, then
    /// releases the buffer.
    ///
    /// # Errors
    ///
    /// [`Busy`] while the region [is in use](Self::is_in_use), with the registration unchanged (MR-026).
    pub fn deregister(mut self) -> Result<(), (Self, Busy)> {
        {
            let admin = self.shared.admin.lock();
            if admin.is_in_use(self.place) {
                drop(admin);
                return Err((self, Busy));
            }
            // Done under the lock, so that no Bind is prepared in between.
            self.shared.revoke(Kind::Region, self.place);
        }
        self.registered = false;
        self.shared.retire(&[self.place.slot]);
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.registered {
            return;
        }
        let mut gone = vec![self.place.slot];
        {
            let mut admin = self.shared.admin.lock();
            self.shared.revoke(Kind::Region, self.place);
            for bound in admin.detach_all(self.place) {
                self.shared.revoke(Kind::Window, bound.place);
                gone.push(bound.place.slot);
            }
        }
        self.shared.retire(&gone);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Registration");
        f.field("stag", &self.stag)
            .field("base", &self.base())
            .field("len", &self.len())
            .finish()
    }
}
