//! The STag table: lookup, checks, and the copies that follow them.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use iwarp::{
    Access, AccessError, AtomicError, AtomicOp, BindError, Crc, InvalidateError, LocalAccess,
    Memory, MessageEnd, Pd, RemoteAddress, Revoked, STag, Scope, Sge, Span, WindowBind, WindowId,
};
#[cfg(all(target_os = "linux", not(loom)))]
use rdma_buffer::Extent;
use rdma_buffer::{Backend, Buffer, Part, Sum, is_slow_copy};

use crate::{
    error::RegisterError,
    options::TableOptions,
    region::Registration,
    rights::Rights,
    shared::Shared,
    slot::{Backing, Kind, Margins, Pin, Use, View},
    window::Window,
};

/// How far the kernel may put what is sent behind the place that is expected: the thread may have sent a little on other sockets
/// before, which has not been read yet.
const SINK_FURTHER: usize = 64;

/// By how many octets the place may be wrong, either way, from which the kernel takes what is received. It is less certain than the
/// other one, because the peer may have its octets read in place. And a needless copy costs less here than in sending.
const SOURCE_MARGIN: usize = 256;

/// Registered memory of one adapter. Clones are the same table, which lives as long as a clone, a [`Registration`] or a
/// [`Window`].
///
/// Spans that were not made by a check are refused, or reach registered memory only. The methods of [`Memory`] panic if a
/// span and the octets passed with it differ in length, as slices do.
///
/// ```
/// use iwarp::{Access, Memory, MessageEnd, Pd, RemoteAddress, Scope, StreamId};
/// use iwarp_mem::{Rights, Table};
///
/// let table = Table::new();
/// let buffer = rdma_buffer::Buffer::new(4096);
/// let region = table.register(&buffer, Rights::REMOTE_WRITE, Pd(1)).unwrap();
///
/// // An inbound Write: checked first, then placed.
/// let who = Scope { pd: Pd(1), stream: StreamId(7) };
/// let at = RemoteAddress { stag: region.stag(), to: region.base() + 100 };
/// let span = table.check(at, 5, Access::RemoteWrite, who).unwrap();
/// table.place(span, b"hello", MessageEnd::Last).unwrap();
/// assert_eq!(buffer.slice(100..105).to_vec(), b"hello");
///
/// // After this not one octet is touched.
/// region.deregister().unwrap();
/// assert!(table.place(span, b"again", MessageEnd::Last).is_err());
/// ```
#[derive(Clone)]
pub struct Table {
    shared: Arc<Shared>,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Table");
        f.field("strict_sinks", &self.shared.strict_sinks)
            .field("backend", &self.shared.backend);
        f.finish_non_exhaustive()
    }
}

impl Table {
    /// A table with the default options.
    ///
    /// # Panics
    ///
    /// If the operating system has no random numbers. [`Table::with_options`] returns an error instead.
    pub fn new() -> Self {
        Self::with_options(&TableOptions::default()).expect("random numbers")
    }

    /// A table with these options.
    ///
    /// # Errors
    ///
    /// [`RegisterError::NoRandomness`], never with a [seed](TableOptions::seed).
    pub fn with_options(options: &TableOptions) -> Result<Self, RegisterError> {
        Ok(Self {
            shared: Arc::new(Shared::new(options)?),
        })
    }

    /// Registers a buffer in a protection domain. One buffer may be registered many times (MR-003, TST-091), at any
    /// alignment and of any size (MR-012). The STag is valid, for this range, when the call returns (MR-033, DDP-090).
    /// The address of each octet is also its tagged offset.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Full`] if all STags are in use, [`RegisterError::NoRandomness`] if no STag can be drawn.
    pub fn register(
        &self,
        buffer: &Buffer,
        rights: Rights,
        pd: Pd,
    ) -> Result<Registration, RegisterError> {
        self.register_at(buffer, buffer.address(), rights, pd)
    }

    /// As [`register`](Self::register), with `first` as the tagged offset of the first octet, whatever the octet's address is
    /// (`ibv_reg_mr_iova`; 0 is `IBV_ACCESS_ZERO_BASED`). Peers, local requests and windows all count from `first`.
    ///
    /// Accesses do not wrap (DDP-069), so `first` plus the length has to be below 2^64.
    ///
    /// # Errors
    ///
    /// Those of [`register`](Self::register), and [`RegisterError::Wraps`] if `first` plus the length is 2^64 or more.
    ///
    /// ```
    /// use iwarp::{Access, Memory, Pd, RemoteAddress, Scope, StreamId};
    /// use iwarp_mem::{Rights, Table};
    ///
    /// let table = Table::new();
    /// let buffer = rdma_buffer::Buffer::new(4096);
    /// let region = table.register_at(&buffer, 0, Rights::REMOTE_WRITE, Pd(1)).unwrap();
    /// assert_eq!(region.base(), 0);
    ///
    /// let who = Scope { pd: Pd(1), stream: StreamId(7) };
    /// let at = RemoteAddress { stag: region.stag(), to: 4095 };
    /// assert!(table.check(at, 1, Access::RemoteWrite, who).is_ok());
    /// assert!(table.check(at, 2, Access::RemoteWrite, who).is_err());
    /// ```
    pub fn register_at(
        &self,
        buffer: &Buffer,
        first: u64,
        rights: Rights,
        pd: Pd,
    ) -> Result<Registration, RegisterError> {
        let (base, len) = (buffer.as_ptr(), buffer.len() as u64);
        first.checked_add(len).ok_or(RegisterError::Wraps)?;
        let backing = Backing {
            base,
            len,
            first,
            pd,
            rights,
            margins: Margins::within(buffer.extent(), base, len),
            owner: 0,
        };
        // The registration holds a clone of the buffer before the STag exists.
        let buffer = buffer.clone();
        let (place, stag) =
            self.shared
                .publish(&mut self.shared.admin.lock(), Kind::Region, &backing)?;
        Ok(Registration::new(
            Arc::clone(&self.shared),
            place,
            stag,
            first,
            buffer,
        ))
    }

    /// Makes an unbound window in a protection domain (MW-001).
    ///
    /// # Errors
    ///
    /// None today. Only [`Window::prepare`] takes an STag.
    pub fn create_window(&self, pd: Pd) -> Result<Window, RegisterError> {
        Ok(Window::new(Arc::clone(&self.shared), pd))
    }

    /// The part of this table that registrations, windows and protection domains share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// As [`Window::cancel`], for a caller that knows only the STag.
    pub fn cancel_prepared(&self, stag: STag) {
        self.shared.cancel(stag, None);
    }

    /// Returns how many times a Read sink with only [`Rights::LOCAL_WRITE`] was allowed, which iWARP adapters refuse (AMB-015). Always zero
    /// with [`TableOptions::strict_sinks`].
    pub fn lenient_sinks(&self) -> u64 {
        self.shared.lenient_sinks.load(Ordering::Relaxed)
    }

    /// Checks a stretch that a local work request named by an STag of this slot.
    #[inline]
    pub(crate) fn granted_locally(
        &self,
        number: u32,
        view: &View,
        sge: Sge,
        need: LocalAccess,
        pd: Pd,
    ) -> Result<Span, AccessError> {
        if view.kind != Kind::Region {
            return Err(AccessError::InvalidSTag); // local tokens are regions'
        }
        if view.backing.pd != pd {
            return Err(AccessError::NotAssociated);
        }
        let rights = view.backing.rights;
        let allowed = match need {
            LocalAccess::Read => true,
            LocalAccess::Write => rights.contains(Rights::LOCAL_WRITE),
            LocalAccess::ReadSink => self.shared.sink_allowed(sge.token, rights),
        };
        if !allowed {
            return Err(AccessError::Rights);
        }
        span(number, view, sge.address, sge.length)
    }

    /// Returns true if a read of the socket straight to `at` is slow where page offsets matter. `arrived` octets have arrived since nothing
    /// was left to read.
    ///
    /// The octets of a peer on the same machine lie where the kernel has put them, which begins at the front of a page when all
    /// octets before have been read. Where the octets of other peers lie is not known.
    pub fn is_slow_target(&self, at: Span, arrived: usize) -> bool {
        let Ok(held) = self.pin(at) else {
            return false;
        };
        held.address(at).is_ok_and(|to| {
            let first = to.addr().wrapping_sub(SOURCE_MARGIN);
            is_slow_copy(arrived, first, 2 * SOURCE_MARGIN)
        })
    }

    /// Finds and pins the slot that an STag names, if the slot is in use.
    #[inline]
    pub(crate) fn pin_stag(&self, stag: STag) -> Option<Held<'_>> {
        let slot = self.shared.index.find(stag)?;
        let (pin, usage) = self.shared.slots.get(slot)?.pin_stag(stag)?;
        Some(Held {
            pin,
            slot,
            usage,
            backend: self.shared.backend,
        })
    }

    /// Pins the memory of a span for one copy or one system call.
    pub(crate) fn pin(&self, at: Span) -> Result<Held<'_>, Revoked> {
        let slot = self.shared.slots.get(at.slot()).ok_or(Revoked)?;
        let usage = Use {
            key: at.key(),
            epoch: at.epoch(),
        };
        let pin = slot.pin(usage).ok_or(Revoked)?;
        Ok(Held {
            pin,
            slot: at.slot(),
            usage,
            backend: self.shared.backend,
        })
    }
}

/// The engine's CRC, for copies that compute a CRC.
struct Summed<'a>(&'a mut Crc);

impl Sum for Summed<'_> {
    fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    fn carry(&self) -> [u8; 4] {
        self.0.carry()
    }

    fn become_sum_of(&mut self, remainder: &[u8]) {
        *self.0 = Crc::of_remainder(remainder);
    }
}

/// A pinned slot, with its use.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pin: Pin<'a>,
    slot: u32,
    usage: Use,
    backend: Backend,
}

impl Held<'_> {
    /// Returns true if this holds the memory of `at`.
    pub(crate) fn covers(&self, at: Span) -> bool {
        self.slot == at.slot()
            && self.usage
                == Use {
                    key: at.key(),
                    epoch: at.epoch(),
                }
    }

    /// The number of the slot.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// See [`Pin::fields`].
    #[inline]
    pub(crate) fn fields(&self) -> View {
        self.pin.fields()
    }

    /// See [`Pin::is_revoked`].
    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.pin.is_revoked()
    }

    /// The address of the first octet of `at`, valid for the length of `at` as long as `self` lives.
    pub(crate) fn address(&self, at: Span) -> Result<*mut u8, Revoked> {
        debug_assert!(self.covers(at), "a span of another slot");
        self.pin.locate(at).map(|(base, _)| base).ok_or(Revoked)
    }

    /// As [`address`](Self::address), with the memory around it that may be accessed in whole words, and the way to copy.
    #[cfg(all(target_os = "linux", not(loom)))]
    pub(crate) fn located(&self, at: Span) -> Result<(*mut u8, Extent, Backend), Revoked> {
        debug_assert!(self.covers(at), "a span of another slot");
        let (base, extent) = self.pin.locate(at).ok_or(Revoked)?;
        Ok((base, extent, self.backend))
    }

    /// See [`Memory::is_slow_in_place`].
    pub(crate) fn is_slow_in_place(&self, at: Span, ahead: usize) -> bool {
        let address = self.address(at);
        address.is_ok_and(|from| is_slow_copy(from.addr(), ahead, SINK_FURTHER))
    }

    /// Copies `src` in. The lengths are equal.
    #[inline]
    pub(crate) fn copy_in(&self, at: Span, src: &[u8], end: MessageEnd) -> Result<(), Revoked> {
        assert_eq!(
            src.len() as u64,
            u64::from(at.len()),
            "octets for a span of another length"
        );
        let (dst, extent) = self.pin.locate(at).ok_or(Revoked)?;
        let part = match end {
            MessageEnd::More => Part::More,
            MessageEnd::Last => Part::Last,
        };
        // `rdma_buffer::Buffer` vouches for all of the extent: its own memory consists of atomic words; the maker of a
        // foreign buffer promised that an adapter may write it at any time, and `Buffer` itself reaches it by the same
        // atomics.
        // SAFETY: `locate` found the range inside the registered buffer, which the registration keeps alive until the
        // pin is gone (`Registration`).
        unsafe { rdma_buffer::copy_in(dst, extent, src, part, self.backend) };
        Ok(())
    }

    /// Carries out an Atomic on the word at `at`. All Atomics on this word, of any table and stream, and all accesses
    /// through `rdma_buffer::Buffer` use the same atomic (RDMAPX-015). Bulk copies and system calls on the word act as a
    /// device does.
    pub(crate) fn change(&self, at: Span, op: AtomicOp) -> Result<u64, AtomicError> {
        assert_eq!(
            at.len(),
            AtomicOp::LEN,
            "an Atomic on a span of another length"
        );
        let (word, _) = self.pin.locate(at).ok_or(Revoked)?;
        if !word.addr().is_multiple_of(size_of::<u64>()) {
            return Err(AtomicError::Misaligned); // RDMAPX-010: where it lies, whatever the offset is
        }
        // SAFETY: aligned, as just seen; for the rest as in `copy_in`.
        Ok(unsafe { rdma_buffer::change_word(word, |old| op.apply(old)) })
    }

    /// Copies out into `dst`, and adds the copy to the CRC. The lengths are equal.
    #[inline]
    pub(crate) fn copy_out(
        &self,
        at: Span,
        dst: &mut [u8],
        crc: Option<&mut Crc>,
    ) -> Result<(), Revoked> {
        assert_eq!(
            dst.len() as u64,
            u64::from(at.len()),
            "room for a span of another length"
        );
        let (src, extent) = self.pin.locate(at).ok_or(Revoked)?;
        let Some(crc) = crc else {
            // SAFETY: as in `copy_in`, for reading.
            unsafe { rdma_buffer::copy_out(src, extent, dst, self.backend) };
            return Ok(());
        };
        // SAFETY: as above.
        unsafe { rdma_buffer::copy_out_summed(src, extent, dst, &mut Summed(crc), self.backend) };
        Ok(())
    }
}

/// Checks a stretch that the peer named by an STag of this slot.
#[inline]
pub(crate) fn granted(
    number: u32,
    view: &View,
    (to, len): (u64, u32),
    need: Access,
    who: Scope,
) -> Result<Span, AccessError> {
    let in_scope = match view.kind {
        Kind::Free | Kind::Reserved => return Err(AccessError::InvalidSTag),
        Kind::Region => view.backing.pd == who.pd, // DDP-088, DDP-089
        Kind::Window if iwarp::planted!(WindowOpenToAll) => view.backing.pd == who.pd,
        Kind::Window => view.backing.pd == who.pd && view.stream == who.stream, // MW-010, SEC-002
    };
    if !in_scope {
        return Err(AccessError::NotAssociated); // DDP-066, RDMAP-042
    }
    let right = match need {
        Access::RemoteRead => Rights::REMOTE_READ,
        Access::RemoteWrite => Rights::REMOTE_WRITE,
        Access::Atomic if iwarp::planted!(AtomicRightUnchecked) => Rights::empty(),
        Access::Atomic => Rights::REMOTE_ATOMIC, // RDMAPX-011
    };
    if !view.backing.rights.contains(right) {
        return Err(AccessError::Rights); // DDP-066, RDMAP-025, RDMAP-043, IW-044, SEC-006
    }
    span(number, view, to, len)
}

/// The range checks at the end of every access: RFC 5041 §7.1 (DDP-067, DDP-068, DDP-069), RFC 5040 §7.2
/// (RDMAP-044, RDMAP-045, RDMAP-046), with octet granularity (SEC-004).
fn span(number: u32, view: &View, address: u64, len: u32) -> Result<Span, AccessError> {
    let end = address
        .checked_add(u64::from(len))
        .ok_or(AccessError::Wrap)?;
    let Backing {
        first, len: size, ..
    } = view.backing;
    let offset = address.checked_sub(first).ok_or(AccessError::Bounds)?;
    // A registration does not wrap, but this code does not rely on that.
    let limit = first.saturating_add(size);
    let limit = limit.saturating_add(u64::from(iwarp::planted!(EndUnchecked)));
    if end > limit {
        return Err(AccessError::Bounds);
    }
    Ok(Span::new(
        number,
        view.r#use.key,
        view.r#use.epoch,
        offset,
        len,
    ))
}

impl Memory for Table {
    fn check(
        &self,
        at: RemoteAddress,
        len: u32,
        need: Access,
        who: Scope,
    ) -> Result<Span, AccessError> {
        // DDP-065, RDMAP-041
        let (number, view) = self.shared.find(at.stag).ok_or(AccessError::InvalidSTag)?;
        granted(number, &view, (at.to, len), need, who)
    }

    fn check_local(&self, sge: Sge, need: LocalAccess, pd: Pd) -> Result<Span, AccessError> {
        let (number, view) = self
            .shared
            .find(sge.token)
            .ok_or(AccessError::InvalidSTag)?;
        self.granted_locally(number, &view, sge, need, pd)
    }

    fn place(&self, at: Span, src: &[u8], end: MessageEnd) -> Result<(), Revoked> {
        self.pin(at)?.copy_in(at, src, end)
    }

    fn fetch(&self, at: Span, dst: &mut [u8], crc: Option<&mut Crc>) -> Result<(), Revoked> {
        self.pin(at)?.copy_out(at, dst, crc)
    }

    fn is_slow_in_place(&self, at: Span, ahead: usize) -> bool {
        // If the memory was revoked, the answer does not matter: the read that follows fails.
        self.pin(at)
            .is_ok_and(|held| held.is_slow_in_place(at, ahead))
    }

    fn atomic(&self, at: Span, op: AtomicOp) -> Result<u64, AtomicError> {
        self.pin(at)?.change(at, op)
    }

    fn bind(&self, bind: &WindowBind, who: Scope) -> Result<(), BindError> {
        self.shared.bind_window(bind, who)
    }

    fn unbind(&self, window: WindowId, who: Scope) -> Result<(), BindError> {
        self.shared.unbind_window(window, who)
    }

    fn invalidate_remote(&self, stag: STag, who: Scope) -> Result<(), InvalidateError> {
        self.shared.invalidate_by_peer(stag, who)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
