//! Registered memory as the engine uses it: a trait, so that the same engine runs over real regions, over a `Vec` in tests and over nothing
//! in fuzzing.
//!
//! The engine never borrows memory. It asks for a [`Span`], a checked stretch. Each use of a span may find that it was
//! [`Revoked`].

use crate::mpa::Crc;
use crate::rdmap::AtomicOp;
use crate::types::{Pd, RemoteAddress, STag, Sge, StreamId, WindowId};

/// The stream and the protection domain on whose behalf memory is used. STags of another protection domain, and windows of
/// another stream, cannot be used (RFC 5041 section 8.2, which has both kinds of association: DDP-088).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Protection domain of the stream.
    pub pd: Pd,
    /// The stream itself.
    pub stream: StreamId,
}

/// The access of a peer to a stretch of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Source of an RDMA Read Response.
    RemoteRead,
    /// Target of an RDMA Write.
    RemoteWrite,
    /// Target of an Atomic, which is a right apart (RDMAPX-011).
    Atomic,
}

/// Rights of the peer: those of a window, or those on one connection, which count in addition to those of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteRights {
    /// The peer may read.
    pub read: bool,
    /// The peer may write.
    pub write: bool,
    /// The peer may use Atomics.
    pub atomic: bool,
}

impl Default for RemoteRights {
    /// The memory alone decides.
    fn default() -> Self {
        Self {
            read: true,
            write: true,
            atomic: true,
        }
    }
}

impl RemoteRights {
    /// The rights to read and to write, and to use Atomics where both are given.
    pub const fn with_both(read: bool, write: bool) -> Self {
        Self {
            read,
            write,
            atomic: read && write,
        }
    }

    /// Returns true if the rights allow this access.
    pub const fn allow(self, need: Access) -> bool {
        match need {
            Access::RemoteRead => self.read,
            Access::RemoteWrite => self.write,
            Access::Atomic => self.atomic,
        }
    }
}

/// The access of a local work request to a stretch of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalAccess {
    /// Source of a Send or Write.
    Read,
    /// Target of a Receive.
    Write,
    /// Target of an RDMA Read. The memory decides which rights this needs.
    ReadSink,
}

/// Why an access was refused. The engine turns it into the Terminate that fits the message, RFC 5040 section 4.8 and
/// RFC 5041 section 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessError {
    /// There is no such STag, or it has been invalidated.
    InvalidSTag,
    /// The STag belongs to another protection domain or stream.
    NotAssociated,
    /// The buffer does not grant this kind of access.
    Rights,
    /// The range is not inside the buffer.
    Bounds,
    /// Offset plus length exceeds 2^64.
    Wrap,
}

/// The memory behind a [`Span`] is gone: it was deregistered, invalidated or rebound after the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revoked;

/// Why an Atomic was not carried out; the memory is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicError {
    /// The memory is gone.
    Revoked,
    /// The address of the word is not aligned to its size (RFC 7306 section 5.1).
    Misaligned,
}

impl From<Revoked> for AtomicError {
    fn from(_: Revoked) -> Self {
        Self::Revoked
    }
}

/// Whether a piece holds the last octet of its message. The word of this octet is stored last, with release order, so that
/// a reader who sees this word sees the whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageEnd {
    /// More of the message follows.
    More,
    /// This piece holds the last octet of the message.
    Last,
}

/// A checked stretch of registered memory. A span is a value, not a borrow. It is resolved again at each use, and may be
/// [`Revoked`] then.
///
/// Only the memory interprets the fields. The engine only cuts spans with [`Span::slice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    offset: u64,
    slot: u32,
    epoch: u32,
    len: u32,
    key: u8,
}

impl Span {
    /// A span over `len` octets from `offset` of the memory's slot `slot`. By `key` and `epoch` the memory recognises a
    /// slot that has been used again.
    pub const fn new(slot: u32, key: u8, epoch: u32, offset: u64, len: u32) -> Self {
        Self {
            offset,
            slot,
            epoch,
            len,
            key,
        }
    }

    /// The memory's slot.
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    /// The key the slot had when the span was checked.
    pub const fn key(&self) -> u8 {
        self.key
    }

    /// The epoch the slot had when the span was checked.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// First octet, counted from the start of the slot's memory.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Octets.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if the span has no octets.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` octets that begin `from` octets into this span.
    ///
    /// # Panics
    ///
    /// If these octets are not inside the span.
    #[must_use]
    #[inline]
    pub const fn slice(self, from: u32, len: u32) -> Self {
        assert!(
            from <= self.len && len <= self.len - from,
            "slice outside its span"
        );
        Self {
            offset: self.offset + from as u64,
            len,
            ..self
        }
    }
}

/// A prepared Bind work request. The memory has set `stag` aside. The STag becomes valid when the request executes
/// ([`Operation::Bind`](crate::Operation::Bind)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowBind {
    /// The window to bind.
    pub window: WindowId,
    /// The STag set aside for the window.
    pub stag: STag,
    /// The region that the window opens.
    pub region: STag,
    /// First octet, as a number inside the region.
    pub address: u64,
    /// Octets.
    pub length: u64,
    /// What the peer may do.
    pub rights: RemoteRights,
}

/// Why a Bind or Invalidate work request failed when it executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindError {
    /// The window is bound already, not bound, or bound to another stream.
    InvalidState,
    /// The region's rights, range or protection domain do not allow it.
    Access,
}

/// Why an inbound Send with Invalidate failed, RFC 5040 section 5.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvalidateError {
    /// The peer may not invalidate this STag, because it is that of a region, shared, or of another scope.
    NotAllowed,
    /// There is no such STag.
    Unknown,
}

/// Registered memory as the engine uses it. Connections and threads may share an implementation.
pub trait Memory {
    /// Checks a stretch that the peer named: STag, scope, right, bounds (RFC 5041 section 7.1, RFC 5040 section 7.2). `len`
    /// is never 0: empty messages are not checked (RFC 5041 section 5.2).
    fn check(
        &self,
        at: RemoteAddress,
        len: u32,
        need: Access,
        who: Scope,
    ) -> Result<Span, AccessError>;

    /// Checks a stretch that a local work request named. `sge.length` is never 0.
    fn check_local(&self, sge: Sge, need: LocalAccess, pd: Pd) -> Result<Span, AccessError>;

    /// Copies `src` in; `src.len() == at.len()`.
    fn place(&self, at: Span, src: &[u8], end: MessageEnd) -> Result<(), Revoked>;

    /// Copies out; `dst.len() == at.len()`. With `crc` the copied octets are added to the CRC. The CRC is computed over the
    /// private copy, so that a writer in between cannot make the two differ.
    fn fetch(&self, at: Span, dst: &mut [u8], crc: Option<&mut Crc>) -> Result<(), Revoked>;

    /// [Checks](Self::check_local) the source of a short message, and [copies it out](Self::fetch); `dst.len() == sge.length`, and
    /// not 0. Fails with [`AccessError::InvalidSTag`] if the memory was revoked in between.
    fn fetch_local(
        &self,
        sge: Sge,
        pd: Pd,
        dst: &mut [u8],
        crc: Option<&mut Crc>,
    ) -> Result<(), AccessError> {
        let at = self.check_local(sge, LocalAccess::Read, pd)?;
        self.fetch(at, dst, crc)
            .map_err(|Revoked| AccessError::InvalidSTag)
    }

    /// [Checks](Self::check_local) the place of a Receive, and [copies](Self::place) a whole short message to its front; `src` is not
    /// empty, and not longer than `sge`. Fails with [`AccessError::InvalidSTag`] if the memory was revoked in between.
    fn place_local(&self, sge: Sge, pd: Pd, src: &[u8]) -> Result<(), AccessError> {
        let at = self.check_local(sge, LocalAccess::Write, pd)?;
        let len = u32::try_from(src.len()).map_err(|_| AccessError::Bounds)?;
        self.place(at.slice(0, len), src, MessageEnd::Last)
            .map_err(|Revoked| AccessError::InvalidSTag)
    }

    /// Returns true if the transport's copy of `at` would be slow if it read the memory in place, `ahead` octets of a batch behind the
    /// batch's first octet. Asked only for streams with
    /// [slow places](crate::CopiedPayload::AtSlowPlaces). Memory without such places has nothing to say.
    fn is_slow_in_place(&self, at: Span, ahead: usize) -> bool {
        let _ = (at, ahead);
        false
    }

    /// Carries out an Atomic on the word of 8 octets at `at`, indivisibly for every other Atomic (RDMAPX-015). Returns the
    /// previous value of the word.
    fn atomic(&self, at: Span, op: AtomicOp) -> Result<u64, AtomicError>;

    /// Executes a Bind work request: the prepared STag becomes valid. If the window or the region was released after the
    /// request was posted, there is nothing to bind, and the request succeeds.
    fn bind(&self, bind: &WindowBind, who: Scope) -> Result<(), BindError>;

    /// Executes an Invalidate work request. The request also succeeds if the binding has ended after the request was
    /// posted: with its window or region, or by the peer ([`Memory::invalidate_remote`]).
    fn unbind(&self, window: WindowId, who: Scope) -> Result<(), BindError>;

    /// An inbound Send with Invalidate was delivered. Afterwards no access of the peer through `stag` succeeds.
    fn invalidate_remote(&self, stag: STag, who: Scope) -> Result<(), InvalidateError>;
}
