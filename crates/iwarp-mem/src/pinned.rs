//! The table as one call of the engine uses it: the slot that was used last stays pinned.

use std::cell::RefCell;
use std::fmt;

use iwarp::{
    Access, AccessError, AtomicError, AtomicOp, BindError, Crc, InvalidateError, LocalAccess,
    Memory, MessageEnd, Pd, RemoteAddress, Revoked, STag, Scope, Sge, Span, WindowBind, WindowId,
};

use crate::{
    slot::View,
    table::{Held, Table, granted},
};

/// A [`Table`] for one call of the engine ([`Table::pinned`]). Most segments and requests of one call use the same region. So the
/// slot that was used last stays pinned, and its fields known: the region is looked up and pinned once in a call, and not twice for
/// each message.
///
/// A Deregister of another thread waits until this value is dropped, or uses another slot. So it lives as long as one call of the
/// engine, which never blocks. While a Deregister waits, no further use of the memory is granted.
pub struct PinnedTable<'t> {
    table: &'t Table,
    last: RefCell<Option<Last<'t>>>,
}

/// The slot that was used last.
struct Last<'t> {
    stag: STag,
    held: Held<'t>,
}

impl Table {
    /// The table for one call of the engine. The thread that has it must not deregister or release memory meanwhile, because it would
    /// wait for its own pin.
    pub const fn pinned(&self) -> PinnedTable<'_> {
        PinnedTable {
            table: self,
            last: RefCell::new(None),
        }
    }
}

impl<'t> PinnedTable<'t> {
    /// Calls `check` with the slot that `stag` names, if the slot is in use.
    #[inline]
    fn with_slot<T>(
        &self,
        stag: STag,
        check: impl FnOnce(&Held<'_>, &View) -> Result<T, AccessError>,
    ) -> Result<T, AccessError> {
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|last| last.stag != stag) {
            *last = self.table.pin_stag(stag).map(|held| Last { stag, held });
        }
        let Last { held, .. } = last.as_ref().ok_or(AccessError::InvalidSTag)?; // DDP-065, RDMAP-041
        check(held, &held.fields())
    }

    /// Calls `act` with the pinned memory of `at`.
    #[inline]
    fn with<T, E: From<Revoked>>(
        &self,
        at: Span,
        act: impl FnOnce(&Held<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(last) = &*self.last.borrow()
            && last.held.covers(at)
        {
            return if last.held.is_revoked() {
                Err(Revoked.into())
            } else {
                act(&last.held)
            };
        }
        act(&self.table.pin(at)?)
    }

    /// Unpins. Every call that waits for pins begins with this, so that no thread waits for itself, and no two wait for each other.
    fn release(&self) {
        *self.last.borrow_mut() = None;
    }
}

impl fmt::Debug for PinnedTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedTable").finish_non_exhaustive()
    }
}

impl Memory for PinnedTable<'_> {
    fn check(
        &self,
        at: RemoteAddress,
        len: u32,
        need: Access,
        who: Scope,
    ) -> Result<Span, AccessError> {
        self.with_slot(at.stag, |held, view| {
            granted(held.slot(), view, (at.to, len), need, who)
        })
    }

    fn check_local(&self, sge: Sge, need: LocalAccess, pd: Pd) -> Result<Span, AccessError> {
        self.with_slot(sge.token, |held, view| {
            self.table.granted_locally(held.slot(), view, sge, need, pd)
        })
    }

    fn place(&self, at: Span, src: &[u8], end: MessageEnd) -> Result<(), Revoked> {
        self.with(at, |held| held.copy_in(at, src, end))
    }

    fn fetch(&self, at: Span, dst: &mut [u8], crc: Option<&mut Crc>) -> Result<(), Revoked> {
        self.with(at, |held| held.copy_out(at, dst, crc))
    }

    #[inline]
    fn fetch_local(
        &self,
        sge: Sge,
        pd: Pd,
        dst: &mut [u8],
        crc: Option<&mut Crc>,
    ) -> Result<(), AccessError> {
        self.with_slot(sge.token, |held, view| {
            let at = self
                .table
                .granted_locally(held.slot(), view, sge, LocalAccess::Read, pd)?;
            held.copy_out(at, dst, crc)
                .map_err(|Revoked| AccessError::InvalidSTag)
        })
    }

    #[inline]
    fn place_local(&self, sge: Sge, pd: Pd, src: &[u8]) -> Result<(), AccessError> {
        self.with_slot(sge.token, |held, view| {
            let need = LocalAccess::Write;
            let at = self
                .table
                .granted_locally(held.slot(), view, sge, need, pd)?;
            let len = u32::try_from(src.len()).map_err(|_| AccessError::Bounds)?;
            held.copy_in(at.slice(0, len), src, MessageEnd::Last)
                .map_err(|Revoked| AccessError::InvalidSTag)
        })
    }

    fn is_slow_in_place(&self, at: Span, ahead: usize) -> bool {
        let slow = self.with(at, |held| {
            Ok::<_, Revoked>(held.is_slow_in_place(at, ahead))
        });
        slow.unwrap_or(false) // if the memory is gone, whoever reads it finds out
    }

    fn atomic(&self, at: Span, op: AtomicOp) -> Result<u64, AtomicError> {
        self.with(at, |held| held.change(at, op))
    }

    fn bind(&self, bind: &WindowBind, who: Scope) -> Result<(), BindError> {
        self.release();
        self.table.bind(bind, who)
    }

    fn unbind(&self, window: WindowId, who: Scope) -> Result<(), BindError> {
        self.release();
        self.table.unbind(window, who)
    }

    fn invalidate_remote(&self, stag: STag, who: Scope) -> Result<(), InvalidateError> {
        self.release();
        self.table.invalidate_remote(stag, who)
    }
}
