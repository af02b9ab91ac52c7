//! Registered memory as plain vectors. The code is small enough to be checked by reading, and strict about how the engine
//! may use the memory.

use std::cell::RefCell;

use iwarp::{
    Access, AccessError, AtomicError, AtomicOp, BindError, Crc, InvalidateError, LocalAccess,
    Memory, MessageEnd, Pd, RemoteAddress, Revoked, STag, Scope, Sge, Span, StreamId, WindowBind,
    WindowId,
};

/// The rights that the owner of a region gives to others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rights {
    pub(crate) local_write: bool,
    pub(crate) remote_read: bool,
    pub(crate) remote_write: bool,
    pub(crate) remote_atomic: bool,
}

#[derive(Debug)]
struct Region {
    stag: STag,
    base: u64,
    octets: Vec<u8>,
    pd: Pd,
    rights: Rights,
    alive: bool,
}

#[derive(Debug, Default)]
struct Window {
    /// Counts binds and unbinds. A span from before the last one is revoked.
    epoch: u32,
    bound: Option<(WindowBind, StreamId)>,
}

/// Spans of regions have their index as slot, spans of windows this much more.
const WINDOWS: u32 = 1 << 16;

#[derive(Debug, Default)]
struct Inner {
    regions: Vec<Region>,
    windows: Vec<Window>,
}

/// One adapter's memory.
#[derive(Debug, Default)]
pub(crate) struct VecMemory(RefCell<Inner>);

/// A number range inside a region, checked.
fn range(region: &Region, address: u64, len: u64) -> Result<u64, AccessError> {
    address.checked_add(len).ok_or(AccessError::Wrap)?;
    let offset = address
        .checked_sub(region.base)
        .ok_or(AccessError::Bounds)?;
    if offset + len > region.octets.len() as u64 {
        return Err(AccessError::Bounds);
    }
    Ok(offset)
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("few regions")
}

impl Inner {
    fn region(&self, stag: STag) -> Option<(u32, &Region)> {
        let at = self
            .regions
            .iter()
            .position(|region| region.alive && region.stag == stag)?;
        Some((index(at), &self.regions[at]))
    }

    fn window(&self, stag: STag) -> Option<(usize, &WindowBind, StreamId)> {
        self.windows
            .iter()
            .enumerate()
            .find_map(|(at, window)| match &window.bound {
                Some((bind, stream)) if bind.stag == stag => Some((at, bind, *stream)),
                _ => None,
            })
    }

    /// The region of a span, if the span is still valid.
    fn resolve(&self, span: Span) -> Result<usize, Revoked> {
        let slot = if span.slot() < WINDOWS {
            span.slot() as usize
        } else {
            let window = &self.windows[(span.slot() - WINDOWS) as usize];
            let (bind, _) = window.bound.as_ref().ok_or(Revoked)?;
            if window.epoch != span.epoch() {
                return Err(Revoked);
            }
            self.region(bind.region).ok_or(Revoked)?.0 as usize
        };
        if self.regions[slot].alive {
            Ok(slot)
        } else {
            Err(Revoked)
        }
    }

    fn octets(&mut self, span: Span, len: usize) -> Result<&mut [u8], Revoked> {
        assert_eq!(
            span.len() as usize,
            len,
            "a span and its buffer have one length"
        );
        let slot = self.resolve(span)?;
        let start = usize::try_from(span.offset()).expect("small regions");
        Ok(&mut self.regions[slot].octets[start..start + len])
    }
}

impl VecMemory {
    /// Registers `octets`; its STag is new.
    pub(crate) fn register(&self, stag: STag, base: u64, octets: Vec<u8>, pd: Pd, rights: Rights) {
        let mut inner = self.0.borrow_mut();
        assert!(inner.region(stag).is_none());
        inner.regions.push(Region {
            stag,
            base,
            octets,
            pd,
            rights,
            alive: true,
        });
    }

    pub(crate) fn deregister(&self, stag: STag) {
        let mut inner = self.0.borrow_mut();
        if let Some(region) = inner.regions.iter_mut().find(|region| region.stag == stag) {
            region.alive = false;
        }
    }

    pub(crate) fn create_window(&self) -> WindowId {
        let mut inner = self.0.borrow_mut();
        inner.windows.push(Window::default());
        WindowId(index(inner.windows.len() - 1))
    }

    /// The octets of a region, also of one that was deregistered.
    pub(crate) fn read(&self, stag: STag) -> Vec<u8> {
        let inner = self.0.borrow();
        let region = inner.regions.iter().find(|region| region.stag == stag);
        region.expect("a region of ours").octets.clone()
    }
}

impl Memory for VecMemory {
    fn check(
        &self,
        at: RemoteAddress,
        len: u32,
        need: Access,
        who: Scope,
    ) -> Result<Span, AccessError> {
        assert_ne!(len, 0, "empty messages are not checked");
        let inner = self.0.borrow();
        if let Some((slot, region)) = inner.region(at.stag) {
            if region.pd != who.pd {
                return Err(AccessError::NotAssociated);
            }
            let allowed = match need {
                Access::RemoteRead => region.rights.remote_read,
                Access::RemoteWrite => region.rights.remote_write,
                Access::Atomic => region.rights.remote_atomic,
            };
            if !allowed {
                return Err(AccessError::Rights);
            }
            return Ok(Span::new(
                slot,
                0,
                0,
                range(region, at.to, len.into())?,
                len,
            ));
        }
        let (slot, bind, stream) = inner.window(at.stag).ok_or(AccessError::InvalidSTag)?;
        if stream != who.stream {
            return Err(AccessError::NotAssociated);
        }
        if !bind.rights.allow(need) {
            return Err(AccessError::Rights);
        }
        let (_, region) = inner.region(bind.region).ok_or(AccessError::InvalidSTag)?;
        let offset = range(region, at.to, len.into())?;
        if at.to < bind.address || at.to + u64::from(len) > bind.address + bind.length {
            return Err(AccessError::Bounds);
        }
        Ok(Span::new(
            WINDOWS + index(slot),
            0,
            inner.windows[slot].epoch,
            offset,
            len,
        ))
    }

    fn check_local(&self, sge: Sge, need: LocalAccess, pd: Pd) -> Result<Span, AccessError> {
        assert_ne!(sge.length, 0, "empty buffers are not checked");
        let inner = self.0.borrow();
        let (slot, region) = inner.region(sge.token).ok_or(AccessError::InvalidSTag)?;
        if region.pd != pd {
            return Err(AccessError::NotAssociated);
        }
        if need != LocalAccess::Read && !region.rights.local_write {
            return Err(AccessError::Rights);
        }
        let offset = range(region, sge.address, sge.length.into())?;
        Ok(Span::new(slot, 0, 0, offset, sge.length))
    }

    fn place(&self, at: Span, src: &[u8], _: MessageEnd) -> Result<(), Revoked> {
        self.0
            .borrow_mut()
            .octets(at, src.len())?
            .copy_from_slice(src);
        Ok(())
    }

    fn fetch(&self, at: Span, dst: &mut [u8], crc: Option<&mut Crc>) -> Result<(), Revoked> {
        dst.copy_from_slice(self.0.borrow_mut().octets(at, dst.len())?);
        if let Some(crc) = crc {
            crc.update(dst);
        }
        Ok(())
    }

    fn atomic(&self, at: Span, op: AtomicOp) -> Result<u64, AtomicError> {
        let mut inner = self.0.borrow_mut();
        let octets = inner.octets(at, 8)?;
        // Every region begins at an aligned address.
        if !at.offset().is_multiple_of(8) {
            return Err(AtomicError::Misaligned);
        }
        let before = u64::from_ne_bytes(octets.try_into().expect("8 octets"));
        octets.copy_from_slice(&op.apply(before).to_ne_bytes());
        Ok(before)
    }

    fn bind(&self, bind: &WindowBind, who: Scope) -> Result<(), BindError> {
        let mut inner = self.0.borrow_mut();
        let (_, region) = inner.region(bind.region).ok_or(BindError::Access)?;
        if region.pd != who.pd || (bind.rights.write && !region.rights.local_write) {
            return Err(BindError::Access);
        }
        range(region, bind.address, bind.length).map_err(|_| BindError::Access)?;
        let window = &mut inner.windows[bind.window.0 as usize];
        if window.bound.is_some() {
            return Err(BindError::InvalidState);
        }
        window.epoch += 1;
        window.bound = Some((*bind, who.stream));
        Ok(())
    }

    fn unbind(&self, window: WindowId, who: Scope) -> Result<(), BindError> {
        let mut inner = self.0.borrow_mut();
        let window = &mut inner.windows[window.0 as usize];
        match window.bound {
            Some((_, stream)) if stream == who.stream => {
                window.bound = None;
                Ok(())
            }
            _ => Err(BindError::InvalidState),
        }
    }

    fn invalidate_remote(&self, stag: STag, who: Scope) -> Result<(), InvalidateError> {
        let mut inner = self.0.borrow_mut();
        if inner.region(stag).is_some() {
            return Err(InvalidateError::NotAllowed);
        }
        let (slot, _, stream) = inner.window(stag).ok_or(InvalidateError::Unknown)?;
        if stream != who.stream {
            return Err(InvalidateError::NotAllowed);
        }
        inner.windows[slot].bound = None;
        Ok(())
    }
}
