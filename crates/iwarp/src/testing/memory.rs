//! Registered memory made of vectors. It follows every rule of [`Memory`], but is for one thread.

use std::cell::RefCell;

use crate::memory::{
    Access, AccessError, AtomicError, BindError, InvalidateError, LocalAccess, Memory, MessageEnd,
    RemoteRights, Revoked, Scope, Span, WindowBind,
};
use crate::mpa::Crc;
use crate::rdmap::AtomicOp;
use crate::types::{Pd, RemoteAddress, STag, Sge, WindowId};

/// The rights of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Receives may be placed here.
    pub(crate) local_write: bool,
    /// Peers may read.
    pub(crate) remote_read: bool,
    /// Peers may write.
    pub(crate) remote_write: bool,
    /// Peers may use Atomics.
    pub(crate) remote_atomic: bool,
    /// Read Responses may be placed here.
    pub(crate) read_sink: bool,
}

impl Rights {
    /// Everything.
    pub(crate) const ALL: Self = Self {
        local_write: true,
        remote_read: true,
        remote_write: true,
        remote_atomic: true,
        read_sink: true,
    };

    /// Only a source of Sends and Writes.
    pub(crate) const NONE: Self = Self {
        local_write: false,
        remote_read: false,
        remote_write: false,
        remote_atomic: false,
        read_sink: false,
    };
}

#[derive(Debug)]
struct Region {
    stag: STag,
    base: u64,
    bytes: Vec<u8>,
    rights: Rights,
    pd: Pd,
    valid: bool,
}

#[derive(Debug)]
struct Window {
    pd: Pd,
    bound: Option<(WindowBind, Scope)>,
    epoch: u32,
}

#[derive(Debug, Default)]
struct Inner {
    regions: Vec<Region>,
    windows: Vec<Window>,
    next: u32,
    placed: u64,
    messages: u64,
}

/// Registered memory made of vectors. An address is the region's base plus an offset, a local token is its STag.
#[derive(Debug, Default)]
pub(crate) struct VecMemory(RefCell<Inner>);

/// Slots from here on are windows.
const WINDOWS: u32 = 1 << 31;

impl VecMemory {
    /// Memory without any region.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Registers `bytes` at `base` under an STag of the caller's choice.
    pub(crate) fn register_as(
        &self,
        stag: STag,
        base: u64,
        bytes: Vec<u8>,
        rights: Rights,
        pd: Pd,
    ) {
        self.0.borrow_mut().regions.push(Region {
            stag,
            base,
            bytes,
            rights,
            pd,
            valid: true,
        });
    }

    /// Registers `bytes` at some base; the SGE returned covers all of it.
    pub(crate) fn register(&self, bytes: Vec<u8>, rights: Rights, pd: Pd) -> Sge {
        let mut inner = self.0.borrow_mut();
        inner.next += 1;
        let token = STag(inner.next << 8 | 0x5a);
        let address = u64::from(inner.next) << 32;
        let length = u32::try_from(bytes.len()).expect("a test buffer");
        drop(inner);
        self.register_as(token, address, bytes, rights, pd);
        Sge {
            token,
            address,
            length,
        }
    }

    /// The content of a region, also after it was deregistered.
    pub(crate) fn bytes(&self, stag: STag) -> Vec<u8> {
        let inner = self.0.borrow();
        let region = inner.regions.iter().find(|region| region.stag == stag);
        region.expect("a region").bytes.clone()
    }

    /// Writes into a region as its owner.
    pub(crate) fn write(&self, stag: STag, at: usize, bytes: &[u8]) {
        let mut inner = self.0.borrow_mut();
        let region = inner
            .regions
            .iter_mut()
            .find(|region| region.stag == stag)
            .expect("a region");
        region.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Ends all access through `stag`.
    pub(crate) fn deregister(&self, stag: STag) {
        let mut inner = self.0.borrow_mut();
        for region in inner
            .regions
            .iter_mut()
            .filter(|region| region.stag == stag)
        {
            region.valid = false;
        }
    }

    /// A window, not bound.
    pub(crate) fn window(&self, pd: Pd) -> WindowId {
        let mut inner = self.0.borrow_mut();
        let id = u32::try_from(inner.windows.len()).expect("few windows");
        inner.windows.push(Window {
            pd,
            bound: None,
            epoch: 0,
        });
        WindowId(id)
    }

    /// A Bind of `window` over `sge`, under its own STag.
    pub(crate) fn prepare(
        &self,
        window: WindowId,
        sge: Sge,
        read: bool,
        write: bool,
    ) -> WindowBind {
        let mut inner = self.0.borrow_mut();
        inner.next += 1;
        WindowBind {
            window,
            stag: STag(inner.next << 8 | 0xa5),
            region: sge.token,
            address: sge.address,
            length: u64::from(sge.length),
            rights: RemoteRights::with_both(read, write),
        }
    }

    /// Octets placed so far.
    pub(crate) fn placed(&self) -> u64 {
        self.0.borrow().placed
    }

    /// Pieces placed so far that ended a message.
    pub(crate) fn messages(&self) -> u64 {
        self.0.borrow().messages
    }
}

impl Inner {
    fn region(&self, stag: STag) -> Option<(u32, &Region)> {
        let found = self
            .regions
            .iter()
            .enumerate()
            .find(|(_, region)| region.stag == stag && region.valid);
        found.map(|(slot, region)| (u32::try_from(slot).expect("few regions"), region))
    }

    fn window_of(&self, stag: STag) -> Option<(u32, &Window, WindowBind, Scope)> {
        let mut windows = self.windows.iter().enumerate();
        windows.find_map(|(slot, window)| {
            let (bind, scope) = window.bound.filter(|(bind, _)| bind.stag == stag)?;
            Some((
                u32::try_from(slot).expect("few windows"),
                window,
                bind,
                scope,
            ))
        })
    }

    /// The region and offset of a span, if the span is still valid.
    fn resolve(&self, span: Span) -> Result<(usize, usize), Revoked> {
        let region = if span.slot() < WINDOWS {
            span.slot() as usize
        } else {
            let window = &self.windows[(span.slot() - WINDOWS) as usize];
            let (bind, _) = window.bound.ok_or(Revoked)?;
            if window.epoch != span.epoch() {
                return Err(Revoked);
            }
            self.region(bind.region).ok_or(Revoked)?.0 as usize
        };
        if !self.regions[region].valid {
            return Err(Revoked);
        }
        Ok((region, usize::try_from(span.offset()).map_err(|_| Revoked)?))
    }
}

/// Where `len` octets from `at` begin in a buffer of `length` octets at `base`.
fn within(at: u64, len: u32, base: u64, length: u64) -> Result<u64, AccessError> {
    if at.checked_add(u64::from(len) - 1).is_none() {
        return Err(AccessError::Wrap);
    }
    let offset = at.checked_sub(base).ok_or(AccessError::Bounds)?;
    let fits = offset <= length && u64::from(len) <= length - offset;
    if fits {
        Ok(offset)
    } else {
        Err(AccessError::Bounds)
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
        let inner = self.0.borrow();
        if let Some((slot, window, bind, scope)) = inner.window_of(at.stag) {
            if scope != who {
                return Err(AccessError::NotAssociated);
            }
            if !bind.rights.allow(need) {
                return Err(AccessError::Rights);
            }
            let offset = within(at.to, len, bind.address, bind.length)?;
            let (_, region) = inner.region(bind.region).ok_or(AccessError::InvalidSTag)?;
            let offset = bind.address - region.base + offset;
            return Ok(Span::new(WINDOWS + slot, 0, window.epoch, offset, len));
        }
        let (slot, region) = inner.region(at.stag).ok_or(AccessError::InvalidSTag)?;
        if region.pd != who.pd {
            return Err(AccessError::NotAssociated);
        }
        let granted = match need {
            Access::RemoteRead => region.rights.remote_read,
            Access::RemoteWrite => region.rights.remote_write,
            Access::Atomic => region.rights.remote_atomic,
        };
        if !granted {
            return Err(AccessError::Rights);
        }
        let offset = within(at.to, len, region.base, region.bytes.len() as u64)?;
        Ok(Span::new(slot, 0, 0, offset, len))
    }

    fn check_local(&self, sge: Sge, need: LocalAccess, pd: Pd) -> Result<Span, AccessError> {
        let inner = self.0.borrow();
        let (slot, region) = inner.region(sge.token).ok_or(AccessError::InvalidSTag)?;
        if region.pd != pd {
            return Err(AccessError::NotAssociated);
        }
        let granted = match need {
            LocalAccess::Read => true,
            LocalAccess::Write => region.rights.local_write,
            LocalAccess::ReadSink => region.rights.read_sink,
        };
        if !granted {
            return Err(AccessError::Rights);
        }
        let length = region.bytes.len() as u64;
        let offset = within(sge.address, sge.length, region.base, length)?;
        Ok(Span::new(slot, 0, 0, offset, sge.length))
    }

    fn place(&self, at: Span, src: &[u8], end: MessageEnd) -> Result<(), Revoked> {
        assert_eq!(src.len(), at.len() as usize, "place fits its span");
        assert!(!src.is_empty(), "nothing is placed as nothing");
        let mut inner = self.0.borrow_mut();
        let (region, offset) = inner.resolve(at)?;
        inner.regions[region].bytes[offset..offset + src.len()].copy_from_slice(src);
        inner.placed += src.len() as u64;
        inner.messages += u64::from(end == MessageEnd::Last);
        Ok(())
    }

    fn fetch(&self, at: Span, dst: &mut [u8], crc: Option<&mut Crc>) -> Result<(), Revoked> {
        assert_eq!(dst.len(), at.len() as usize, "fetch fits its span");
        let inner = self.0.borrow();
        let (region, offset) = inner.resolve(at)?;
        dst.copy_from_slice(&inner.regions[region].bytes[offset..offset + dst.len()]);
        if let Some(crc) = crc {
            crc.update(dst);
        }
        Ok(())
    }

    /// As if the transport put the first octet of a batch at the front of a page, and copied slowly to places up to 64 octets
    /// behind the source. The source is where its address says.
    fn is_slow_in_place(&self, at: Span, ahead: usize) -> bool {
        let inner = self.0.borrow();
        let Ok((region, offset)) = inner.resolve(at) else {
            return false; // the fetch, or the transport, finds out
        };
        let address = inner.regions[region].base + offset as u64;
        (ahead as u64).wrapping_sub(address) % 4096 < 64
    }

    fn atomic(&self, at: Span, op: AtomicOp) -> Result<u64, AtomicError> {
        assert_eq!(at.len(), AtomicOp::LEN, "an Atomic fits its span");
        let mut inner = self.0.borrow_mut();
        let (region, offset) = inner.resolve(at)?;
        let region = &mut inner.regions[region];
        let address = region.base.wrapping_add(offset as u64);
        if !address.is_multiple_of(AtomicOp::LEN.into()) {
            return Err(AtomicError::Misaligned);
        }
        let octets = region.bytes[offset..]
            .first_chunk_mut()
            .ok_or(AtomicError::Revoked)?;
        let before = u64::from_ne_bytes(*octets);
        *octets = op.apply(before).to_ne_bytes();
        Ok(before)
    }

    fn bind(&self, bind: &WindowBind, who: Scope) -> Result<(), BindError> {
        let mut inner = self.0.borrow_mut();
        let (_, region) = inner.region(bind.region).ok_or(BindError::Access)?;
        let granted = (!bind.rights.read || region.rights.remote_read)
            && (!bind.rights.write || region.rights.remote_write)
            && (!bind.rights.atomic || region.rights.remote_atomic);
        let end = bind.address.checked_add(bind.length);
        let inside = bind.address >= region.base
            && end.is_some_and(|end| end - region.base <= region.bytes.len() as u64);
        if !granted || !inside || region.pd != who.pd {
            return Err(BindError::Access);
        }
        let window = inner
            .windows
            .get_mut(bind.window.0 as usize)
            .ok_or(BindError::InvalidState)?;
        if window.bound.is_some() || window.pd != who.pd {
            return Err(BindError::InvalidState);
        }
        window.bound = Some((*bind, who));
        window.epoch += 1;
        Ok(())
    }

    fn unbind(&self, window: WindowId, who: Scope) -> Result<(), BindError> {
        let mut inner = self.0.borrow_mut();
        let window = inner
            .windows
            .get_mut(window.0 as usize)
            .ok_or(BindError::InvalidState)?;
        match window.bound {
            Some((_, scope)) if scope == who => {
                window.bound = None;
                window.epoch += 1;
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
        let Some((slot, _, _, scope)) = inner.window_of(stag) else {
            return Err(InvalidateError::Unknown);
        };
        if scope != who {
            return Err(InvalidateError::NotAllowed);
        }
        let window = &mut inner.windows[slot as usize];
        window.bound = None;
        window.epoch += 1;
        Ok(())
    }
}
