//! Registered regions.

use std::{fmt, sync::Arc};

use iwarp::STag;
use rdma_buffer::Buffer;

use crate::{admin::Place, error::Busy, shared::Shared, slot::Kind};

/// One registered buffer: its STag is valid until this is deregistered or dropped.
///
/// A drop does not ask whether it is in use: windows bound to it become unbound, and Binds that are prepared succeed at
/// their turn without binding anything.
///
/// It keeps the buffer alive, so that a region that is leaked stays sound. After [`Registration::deregister`] or the
/// drop has returned, not one octet of the buffer is read or written through this table any more (MR-034, SEC-005).
/// Both may be called from any thread except from within a call of this table; they wait for copies and system calls
/// that are under way, never for a peer.
#[must_use = "dropping it deregisters the buffer"]
pub struct Registration {
    shared: Arc<Shared>,
    place: Place,
    stag: STag,
    buffer: Buffer,
    registered: bool,
}

impl Registration {
    pub(crate) fn new(shared: Arc<Shared>, place: Place, stag: STag, buffer: Buffer) -> Self {
        Self {
            shared,
            place,
            stag,
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

    /// The token for local work requests, and for peers as far as the rights go (IND2MemoryRegion::GetLocalToken,
    /// GetRemoteToken).
    pub fn stag(&self) -> STag {
        self.stag
    }

    /// Address of the first octet: where tagged offsets and SGE addresses start.
    pub fn base(&self) -> u64 {
        self.buffer.address()
    }

    /// Octets.
    pub fn len(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// No octets: nothing can be reached through it.
    pub fn is_empty(&self) -> bool {
        self.buffer.len() == 0
    }

    /// Windows are bound to it at the moment, or Binds are prepared that have not ended, so that it cannot be
    /// deregistered (MR-026, MW-011). A Bind on a window that was dropped does not count.
    pub fn is_in_use(&self) -> bool {
        self.shared.admin.lock().is_in_use(self.place)
    }

    /// Ends the registration: the STag becomes invalid (DDP-090), then copies and system calls under way are waited
    /// for, then the buffer is let go.
    ///
    /// # Errors
    ///
    /// [`Busy`] while it [is in use](Self::is_in_use), with the registration unchanged (MR-026).
    pub fn deregister(mut self) -> Result<(), (Self, Busy)> {
        {
            let admin = self.shared.admin.lock();
            if admin.is_in_use(self.place) {
                drop(admin);
                return Err((self, Busy));
            }
            // Under the lock, so that no Bind is prepared in between.
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
