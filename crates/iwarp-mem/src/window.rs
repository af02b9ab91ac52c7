//! Memory windows, type 2: a window opens a range of a region, with its own rights, to the peer of one stream (MW-010, DDP-088, DDP-090).
//!
//! A Bind takes two steps, because it is a work request. [`Window::prepare`] is called when the request is posted, so that
//! the STag is known at once (MW-008). `Memory::bind` is called when the request's turn comes. From then on the STag is
//! valid.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;

use iwarp::{BindError, InvalidateError, Pd, RemoteRights, STag, Scope, WindowBind, WindowId};

use crate::{
    admin::{Admin, Bound, Place, Prepared},
    error::RegisterError,
    region::Registration,
    rights::Rights,
    shared::Shared,
    slot::{Backing, Kind, Margins},
};

/// A window object (IND2MemoryWindow). It is unbound when new, and can be bound many times, to one range at a time.
///
/// Dropping the window unbinds it (MW-014). Prepared Binds then no longer keep their region. Their STags stay set aside
/// until the Binds end: by `Memory::bind`, which succeeds and binds nothing, or by
/// [`Table::cancel_prepared`](crate::Table::cancel_prepared). Every prepared Bind has to end in one of these two ways. An
/// Invalidate that is still queued succeeds too.
#[must_use = "dropping it unbinds the window"]
pub struct Window {
    shared: Arc<Shared>,
    id: WindowId,
    pd: Pd,
}

impl Window {
    pub(crate) fn new(shared: Arc<Shared>, pd: Pd) -> Self {
        let id = shared.admin.lock().add_window(pd);
        Self { shared, id, pd }
    }

    /// The ID of the window, whatever STag it has.
    pub fn id(&self) -> WindowId {
        self.id
    }

    /// The STag of the latest Bind, prepared or in force. `None` if there is neither (MW-007, MW-008).
    pub fn stag(&self) -> Option<STag> {
        self.shared.admin.lock().windows.get(&self.id)?.stag()
    }

    /// Returns true if the window is bound to a region at the moment.
    pub fn is_bound(&self) -> bool {
        self.shared
            .admin
            .lock()
            .windows
            .get(&self.id)
            .is_some_and(|record| record.bound.is_some())
    }

    /// The part of a Bind that is done when it is posted: checks rights and range, and sets an STag aside. The STag becomes
    /// valid when `Memory::bind` executes the request, or is given back by [`Window::cancel`]. Until then the region cannot
    /// be deregistered (MR-026), so that the Bind finds all errors of the region at the post (AMB-011). `address` counts as the
    /// region's tagged offsets do, and is the tagged offset of the window's first octet.
    ///
    /// A window without any right is legal (MW-012). Whether the window is free is checked only when the request executes,
    /// because an Invalidate may be queued before it.
    ///
    /// # Errors
    ///
    /// - [`BindError::Access`] if the range is not inside the region (QP-039), for the right to write, or to use Atomics, on a region without
    ///   [`Rights::LOCAL_WRITE`] (QP-038), and for a region of another table or protection domain (MW-004).
    /// - [`BindError::InvalidState`] if there is no STag, for one of the reasons of [`RegisterError`].
    pub fn prepare(
        &self,
        region: &Registration,
        address: u64,
        length: u64,
        rights: RemoteRights,
    ) -> Result<WindowBind, BindError> {
        if !region.belongs_to(&self.shared) {
            return Err(BindError::Access);
        }
        let outer = self
            .shared
            .current(region.place())
            .ok_or(BindError::Access)?
            .backing;
        let writes = rights.write || rights.atomic;
        if outer.pd != self.pd || writes && !outer.rights.contains(Rights::LOCAL_WRITE) {
            return Err(BindError::Access);
        }
        let offset = address
            .checked_sub(region.base())
            .ok_or(BindError::Access)?;
        let end = offset.checked_add(length).ok_or(BindError::Access)?;
        if end > outer.len {
            return Err(BindError::Access);
        }
        let mut inner = Rights::empty();
        inner.set(Rights::REMOTE_READ, rights.read);
        inner.set(Rights::REMOTE_WRITE, rights.write);
        inner.set(Rights::REMOTE_ATOMIC, rights.atomic);
        let offset = usize::try_from(offset).map_err(|_| BindError::Access)?;
        let base = region.buffer().as_ptr().wrapping_add(offset);
        let backing = Backing {
            base,
            len: length,
            first: address,
            rights: inner,
            margins: Margins::within(region.buffer().extent(), base, length),
            owner: self.id.0,
            ..outer
        };
        let stag = self
            .set_aside(region, &backing)
            .map_err(|_| BindError::InvalidState)?;
        Ok(WindowBind {
            window: self.id,
            stag,
            region: region.stag(),
            address,
            length,
            rights,
        })
    }

    fn set_aside(&self, region: &Registration, backing: &Backing) -> Result<STag, RegisterError> {
        let mut admin = self.shared.admin.lock();
        let (place, stag) = self.shared.publish(&mut admin, Kind::Reserved, backing)?;
        if let Some(record) = admin.windows.get_mut(&self.id) {
            record.prepared.push(Prepared {
                stag,
                place,
                region: region.place(),
            });
            admin.begin_use(region.place());
        }
        Ok(stag)
    }

    /// Gives back an STag of this window that a Bind set aside and that will not be bound, because the request was flushed
    /// or failed. Does nothing if the STag was bound or given back before.
    pub fn cancel(&self, prepared: STag) {
        self.shared.cancel(prepared, Some(self.id));
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let bound = self.shared.admin.lock().release(self.id, &self.shared);
        if let Some(bound) = bound {
            self.shared.retire(&[bound.place.slot]);
        }
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("id", &self.id)
            .field("stag", &self.stag())
            .finish()
    }
}

impl Admin {
    /// Releases the window: revokes its binding and returns the slots, to be retired without the lock.
    fn release(&mut self, id: WindowId, shared: &Shared) -> Option<Bound> {
        let record = self.windows.get_mut(&id)?;
        record.released = true;
        let bound = record.bound.take();
        let regions = record.prepared.iter().map(|prepared| prepared.region);
        let regions: SmallVec<[_; 4]> = regions.chain(bound.map(|bound| bound.region)).collect();
        if record.prepared.is_empty() {
            self.windows.remove(&id);
        }
        for region in regions {
            self.end_use(region);
        }
        if let Some(bound) = bound {
            shared.revoke(Kind::Window, bound.place);
        }
        bound
    }

    /// Binds a window. If there is nothing to bind any more, revokes the STag and returns its slot, to be retired without
    /// the lock.
    fn bind(
        &mut self,
        bind: &WindowBind,
        who: Scope,
        shared: &Shared,
    ) -> Result<Option<Place>, BindError> {
        let record = self
            .windows
            .get_mut(&bind.window)
            .ok_or(BindError::InvalidState)?;
        let at = record.find(|prepared| prepared.stag == bind.stag);
        let at = at.ok_or(BindError::InvalidState)?;
        if record.bound.is_some() {
            return Err(BindError::InvalidState); // QP-043
        }
        if record.pd != who.pd {
            return Err(BindError::Access);
        }
        let Prepared {
            stag,
            place,
            region,
        } = record.prepared[at];
        // Deregister is refused while the Bind is prepared, so a region that is gone was released. If its slot is in use
        // again, that is another use.
        if record.released || shared.current(region).is_none() {
            record.lapsed = Some(who.stream);
            self.give_up(bind.window, at, shared);
            return Ok(Some(place));
        }
        let slot = shared.slots.get(place.slot);
        let slot = slot.ok_or(BindError::InvalidState)?;
        if !slot.bind(place.r#use, who.stream) {
            return Err(BindError::InvalidState);
        }
        record.prepared.remove(at);
        record.lapsed = None;
        record.bound = Some(Bound {
            stag,
            place,
            region,
            stream: who.stream,
        });
        Ok(None)
    }

    /// Ends a Bind without a binding: revokes its STag, whose slot has to be retired without the lock.
    fn give_up(&mut self, id: WindowId, at: usize, shared: &Shared) {
        let Some(record) = self.windows.get_mut(&id) else {
            return;
        };
        let prepared = record.prepared.remove(at);
        if !record.released {
            self.end_use(prepared.region);
        } else if record.prepared.is_empty() {
            self.windows.remove(&id);
        }
        shared.revoke(Kind::Reserved, prepared.place);
    }
}

impl Shared {
    /// Gives back a prepared STag, of `owner` if one is named.
    pub(crate) fn cancel(&self, stag: STag, owner: Option<WindowId>) {
        let Some((number, view)) = self.find(stag) else {
            return;
        };
        let id = WindowId(view.backing.owner);
        if view.kind != Kind::Reserved || owner.is_some_and(|owner| owner != id) {
            return;
        }
        let place = Place {
            slot: number,
            r#use: view.r#use,
        };
        {
            let mut admin = self.admin.lock();
            let record = admin.windows.get(&id);
            let at = record.and_then(|record| record.find(|prepared| prepared.place == place));
            let Some(at) = at else {
                return;
            };
            admin.give_up(id, at, self);
        }
        self.retire(&[number]);
    }

    /// Executes a Bind. If its window or region was released meanwhile, the Bind succeeds and binds nothing, because it can no longer give
    /// access to any peer, and releasing them was not an error.
    pub(crate) fn bind_window(&self, bind: &WindowBind, who: Scope) -> Result<(), BindError> {
        let unused = self.admin.lock().bind(bind, who, self)?;
        if let Some(unused) = unused {
            self.retire(&[unused.slot]);
        }
        Ok(())
    }

    /// Executes an Invalidate of the window's owner: makes the STag invalid, then waits for copies and system calls in
    /// progress. The Invalidate also succeeds if, after it was posted, the window was released, or the binding ended
    /// without the owner.
    pub(crate) fn unbind_window(&self, window: WindowId, who: Scope) -> Result<(), BindError> {
        let bound = {
            let mut admin = self.admin.lock();
            let Some(record) = admin.windows.get_mut(&window) else {
                let released = admin.has_made(window);
                return released.then_some(()).ok_or(BindError::InvalidState);
            };
            if record.released || record.pd == who.pd && record.lapsed == Some(who.stream) {
                record.lapsed = None;
                return Ok(());
            }
            let bound = record.take_bound(who).ok_or(BindError::InvalidState)?;
            self.revoke(Kind::Window, bound.place);
            admin.end_use(bound.region);
            bound
        };
        self.retire(&[bound.place.slot]);
        Ok(())
    }

    /// Executes an Invalidate of the peer, if the window still has this STag.
    fn unbind_for_peer(&self, window: WindowId, stag: STag, who: Scope) -> Option<()> {
        let bound = {
            let mut admin = self.admin.lock();
            let record = admin.windows.get_mut(&window)?;
            record.bound.filter(|bound| bound.stag == stag)?;
            let bound = record.take_bound(who)?;
            record.lapsed = Some(who.stream);
            self.revoke(Kind::Window, bound.place);
            admin.end_use(bound.region);
            bound
        };
        self.retire(&[bound.place.slot]);
        Some(())
    }

    /// Executes an inbound Send with Invalidate, which can only invalidate a window bound to the same stream (SEC-010, RFC
    /// 5040 §5.3).
    pub(crate) fn invalidate_by_peer(&self, stag: STag, who: Scope) -> Result<(), InvalidateError> {
        let (_, view) = self.find(stag).ok_or(InvalidateError::Unknown)?;
        match view.kind {
            Kind::Free | Kind::Reserved => Err(InvalidateError::Unknown),
            Kind::Region => Err(InvalidateError::NotAllowed),
            Kind::Window if view.stream != who.stream || view.backing.pd != who.pd => {
                Err(InvalidateError::NotAllowed)
            }
            Kind::Window => {
                let window = WindowId(view.backing.owner);
                // Fails only if the owner has unbound the window after the check above.
                self.unbind_for_peer(window, stag, who)
                    .ok_or(InvalidateError::Unknown)
            }
        }
    }
}
