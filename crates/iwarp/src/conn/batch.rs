//! Outbound FPDUs on their way to the transport: headers, CRCs and copied payload as octets, large payload as spans of
//! registered memory that the vectored write reads in place.

use core::ops::Range;

use crate::memory::{Revoked, Span};
use crate::mpa::fpdu;

/// The amount that one [`poll_transmit`](super::Connection::poll_transmit) may produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxLimit {
    /// Octets of the stream. An FPDU that would exceed this number waits, unless it is the first.
    pub octets: usize,
    /// FPDUs.
    pub fpdus: usize,
    /// Largest ULPDU, 128..=64768 (MPA-081); values outside are cut to this range. So MPA informs DDP of the MULPDU and its changes
    /// (MPA-080, DDP-001). The value holds for the FPDUs that are made now; FPDUs made before stay as they are (DDP-002).
    pub mulpdu: u32,
}

/// A part of an FPDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Octets of the batch's own buffer.
    Bytes(Range<u32>),
    /// Registered memory.
    Payload(Span),
}

/// A part of an FPDU that is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceRef<'a> {
    /// These octets. Such pieces in a row mostly lie one behind the other in memory, so that they can share an I/O vector.
    Bytes(&'a [u8]),
    /// This registered memory.
    Payload(Span),
}

#[derive(Clone, Debug)]
struct Part {
    piece: Piece,
    /// The last part of its FPDU.
    ends: bool,
}

/// Most parts one FPDU may take: header, payload from several buffers, trailer.
pub(super) const MAX_PARTS: usize = 6;

/// FPDUs and octets that were sent and dropped since the connection last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Octets that the transport took.
    pub(super) taken: u64,
    /// Octets of FPDUs that will not be sent.
    pub(super) dropped: u64,
    /// The FPDUs were dropped because the memory of the first one was gone.
    pub(super) revoked: bool,
}

/// FPDUs of one connection in stream order, and the amount of them that was sent.
///
/// [`poll_transmit`](super::Connection::poll_transmit) fills the batch. The caller that passes the batch to the transport reports the
/// result to the batch: [`advance`](Self::advance), [`revoke`](Self::revoke), [`keep_cut_only`](Self::keep_cut_only). The connection learns
/// that in [`handle_transmitted`](super::Connection::handle_transmitted), or in the next `poll_transmit`. Until then, and until it is
/// empty, the batch belongs to one connection.
///
/// The buffers have their full capacity from creation. Filling and sending allocate nothing. Only the first FPDU that is cut
/// by a partial write while its payload lies in registered memory may grow the buffer, once
/// ([`TxBatch::make_head_private`]).
#[derive(Debug)]
pub struct TxBatch {
    /// As long as its capacity, so that copied payload needs no zeroing first; `from..fill` is in use.
    bytes: Vec<u8>,
    from: usize,
    fill: usize,
    /// How far `poll_transmit` may fill `bytes`.
    limit: usize,
    parts: Vec<Part>,
    /// The first part that is not wholly sent, and how many of its octets were sent.
    head: usize,
    skip: u32,
    remaining: u64,
    /// At least one piece is registered memory.
    shared: bool,
    outcome: Outcome,
}

impl TxBatch {
    /// The least and the greatest length of the buffer in octets. Positions in the buffer have 32 bits.
    const LEAST: usize = 256;
    const MOST: usize = u32::MAX as usize / 2;

    /// Room for `bytes` octets of headers and copied payload and for about `fpdus` FPDUs. With CRC on, or payload made
    /// private, an FPDU is copied whole: less than 64 KiB then makes smaller FPDUs than the stream would allow. There is
    /// always room for one FPDU of the smallest size.
    pub fn with_capacity(bytes: usize, fpdus: usize) -> Self {
        let bytes = bytes.clamp(Self::LEAST, Self::MOST);
        Self::in_buffer(vec![0; bytes], 0, fpdus)
    }

    /// As [`with_capacity`](Self::with_capacity), in memory of the caller: `bytes` from `from` on. So the caller chooses
    /// where in a page the octets begin that the transport copies.
    ///
    /// # Panics
    ///
    /// If fewer than 256 octets are left behind `from`, or if `bytes` has 2 GiB or more.
    pub fn in_buffer(bytes: Vec<u8>, from: usize, fpdus: usize) -> Self {
        assert!(
            bytes.len() <= Self::MOST && bytes.len().saturating_sub(from) >= Self::LEAST,
            "a batch has 256 octets at least, and less than 2 GiB"
        );
        Self {
            from,
            fill: from,
            limit: bytes.len(),
            bytes,
            parts: Vec::with_capacity(fpdus.saturating_mul(3).saturating_add(MAX_PARTS)),
            head: 0,
            skip: 0,
            remaining: 0,
            shared: false,
            outcome: Outcome::default(),
        }
    }

    /// Octets of the buffer for headers and copied payload.
    pub const fn capacity(&self) -> usize {
        self.bytes.len() - self.from
    }

    /// Returns true if nothing is left to be sent.
    pub const fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// Returns true if nothing is left to be sent, and the connection knows what was sent and dropped. Another connection may then
    /// use the batch.
    pub const fn is_settled(&self) -> bool {
        self.is_empty() && !self.has_outcome()
    }

    /// Returns true if the connection does not know yet what was sent and dropped.
    pub(super) const fn has_outcome(&self) -> bool {
        self.outcome.taken > 0 || self.outcome.dropped > 0
    }

    /// Returns what was sent and dropped since the last call.
    pub(super) fn take_outcome(&mut self) -> Outcome {
        core::mem::take(&mut self.outcome)
    }

    /// Begins at the front of the buffer again.
    fn clear(&mut self) {
        self.parts.clear();
        self.fill = self.from;
        self.head = 0;
        self.skip = 0;
        self.remaining = 0;
        self.shared = false;
    }

    /// Octets not yet sent.
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The pieces that are not yet sent, in order. The first one is already shortened. The flag says that the piece is the
    /// last of its FPDU.
    pub fn pieces(&self) -> impl Iterator<Item = (PieceRef<'_>, bool)> {
        let mut skip = self.skip;
        self.parts[self.head..].iter().map(move |part| {
            let skip = core::mem::take(&mut skip);
            let piece = match &part.piece {
                Piece::Bytes(range) => {
                    PieceRef::Bytes(&self.bytes[(range.start + skip) as usize..range.end as usize])
                }
                Piece::Payload(span) => PieceRef::Payload(span.slice(skip, span.len() - skip)),
            };
            (piece, part.ends)
        })
    }

    /// Everything that is not yet sent, as one run of octets, if no piece is registered memory. So the transport needs no
    /// list for a batch of small messages.
    pub fn octets(&self) -> Option<&[u8]> {
        // Without registered memory the pieces follow each other in the buffer, up to where it is filled.
        let first = self.parts.get(self.head).filter(|_| !self.shared)?;
        match &first.piece {
            Piece::Bytes(range) => self
                .bytes
                .get((range.start + self.skip) as usize..self.fill),
            Piece::Payload(_) => None,
        }
    }

    /// Returns how many octets one write takes so that no TCP segment begins inside the CRC field or the padding of an FPDU (MPA-085). TCP
    /// begins a segment behind each write, and after each `segment` octets of a write. The write ends in front of the first FPDU whose CRC
    /// field would be cut. An FPDU that is longer than a segment cannot be kept from it.
    pub fn whole_crcs(&self, segment: u32) -> u64 {
        let segment = u64::from(segment.max(1));
        if self.remaining <= segment {
            return self.remaining;
        }
        let (mut whole, mut end) = (0, 0);
        let mut skip = self.skip;
        for part in &self.parts[self.head..] {
            end += u64::from(part.len() - core::mem::take(&mut skip));
            if part.ends {
                // How far the last segment reaches into the FPDU, from behind.
                let last = end % segment;
                if whole > 0 && (1..fpdu::MAX_TRAILER_LEN as u64).contains(&last) {
                    break;
                }
                whole = end;
            }
        }
        whole
    }

    /// The transport took `octets`.
    ///
    /// # Panics
    ///
    /// If this is more than the batch held.
    pub fn advance(&mut self, octets: u64) {
        assert!(octets <= self.remaining, "more octets sent than were there");
        self.remaining -= octets;
        self.outcome.taken += octets;
        if self.remaining == 0 {
            return self.clear();
        }
        let mut left = octets;
        loop {
            let part = self.parts[self.head].len() - self.skip;
            if left < u64::from(part) {
                // Less than `part`, which has 32 bits.
                self.skip += u32::try_from(left).unwrap_or(part);
                return;
            }
            left -= u64::from(part);
            self.head += 1;
            self.skip = 0;
        }
    }

    /// Returns true if the first FPDU was sent in part. Either the FPDU has to be finished, or the stream reset.
    pub fn head_is_cut(&self) -> bool {
        !self.is_empty() && (self.skip > 0 || (self.head > 0 && !self.parts[self.head - 1].ends))
    }

    /// Copies what is left of a cut FPDU into the batch's own buffer, so that the rest does not depend on registered memory.
    /// Does nothing when no FPDU is cut.
    ///
    /// # Errors
    ///
    /// If `fetch` fails. The FPDU cannot be finished then, and the stream has to be reset.
    pub fn make_head_private(
        &mut self,
        mut fetch: impl FnMut(Span, &mut [u8]) -> Result<(), Revoked>,
    ) -> Result<(), Revoked> {
        if !self.head_is_cut() {
            return Ok(());
        }
        for at in self.head..self.parts.len() {
            if let Piece::Payload(span) = self.parts[at].piece {
                let skip = if at == self.head { self.skip } else { 0 };
                let rest = span.slice(skip, span.len() - skip);
                let start = self.fill;
                let end = start + rest.len() as usize;
                if end > self.bytes.len() {
                    self.bytes.resize(end, 0);
                }
                fetch(rest, &mut self.bytes[start..end])?;
                self.fill = end;
                self.parts[at].piece = Piece::Bytes(to_u32(start)..to_u32(end));
                if at == self.head {
                    self.skip = 0;
                    // `head_is_cut` has to stay true: the part before, or this mark, says so.
                    self.mark_cut();
                }
            }
            if self.parts[at].ends {
                break;
            }
        }
        Ok(())
    }

    /// The memory of the first FPDU was revoked before any of the FPDU was sent. Drops all FPDUs. The connection fails the
    /// request of the first one, or refuses the peer's Read (RFC 5040 section 4.8).
    ///
    /// # Panics
    ///
    /// If the first FPDU is cut, because then it has to be finished, or the stream reset.
    pub fn revoke(&mut self) {
        assert!(!self.head_is_cut(), "an FPDU that was begun is given up");
        self.abandon();
    }

    /// As [`revoke`](Self::revoke), where some of the first FPDU may have been sent. If so, the stream has to be reset, because the
    /// peer waits for the rest of the FPDU.
    pub fn abandon(&mut self) {
        self.outcome.dropped += self.remaining;
        self.outcome.revoked |= self.remaining > 0;
        self.clear();
    }

    /// Drops every FPDU of which nothing has been sent. This is for a stream that has ended. A stream that has not ended
    /// fails, because a gap would be left.
    pub fn keep_cut_only(&mut self) {
        let kept = if self.head_is_cut() {
            let rest = &self.parts[self.head..];
            let len = rest
                .iter()
                .position(|part| part.ends)
                .map_or(rest.len(), |at| at + 1);
            self.parts.truncate(self.head + len);
            self.shared = true; // the buffer is filled further than what is kept
            self.parts[self.head..]
                .iter()
                .map(|part| u64::from(part.len()))
                .sum::<u64>()
                - u64::from(self.skip)
        } else {
            0
        };
        self.outcome.dropped += self.remaining - kept;
        self.remaining = kept;
        if kept == 0 {
            self.clear();
        }
    }

    /// A part of the head FPDU was replaced by its unsent rest. The header before it always is its own part, so the part before the head
    /// belongs to the same FPDU.
    fn mark_cut(&self) {
        debug_assert!(
            self.head > 0 && !self.parts[self.head - 1].ends,
            "payload without a header"
        );
    }

    /// Octets that the batch holds. Tests check that this number does not grow.
    #[doc(hidden)]
    pub fn footprint(&self) -> usize {
        self.bytes.capacity() + self.parts.capacity() * size_of::<Part>()
    }

    /// The address of the first octet that the batch fills. Tests check where in a page it is.
    #[doc(hidden)]
    pub fn address(&self) -> usize {
        self.bytes[self.from..].as_ptr().addr()
    }

    /// Room in the buffer.
    pub(super) const fn bytes_left(&self) -> usize {
        self.limit.saturating_sub(self.fill)
    }

    /// Room for pieces.
    pub(super) const fn parts_left(&self) -> usize {
        self.parts.capacity() - self.parts.len()
    }

    /// The next `len` octets of the buffer, to be written.
    #[inline]
    pub(super) fn reserve(&mut self, len: usize) -> &mut [u8] {
        let start = self.fill;
        self.fill += len;
        &mut self.bytes[start..start + len]
    }

    /// Where the buffer is filled to.
    pub(super) const fn mark(&self) -> usize {
        self.fill
    }

    /// Gives back what was reserved behind `mark`.
    pub(super) const fn rewind(&mut self, mark: usize) {
        self.fill = mark;
    }

    /// Makes a piece of the octets reserved from `mark` on.
    #[inline]
    pub(super) fn push_bytes(&mut self, mark: usize, ends: bool) {
        let range = to_u32(mark)..to_u32(self.fill);
        self.remaining += u64::from(range.end - range.start);
        self.parts.push(Part {
            piece: Piece::Bytes(range),
            ends,
        });
    }

    /// Registered memory becomes a piece.
    #[inline]
    pub(super) fn push_payload(&mut self, span: Span) {
        self.remaining += u64::from(span.len());
        self.shared = true;
        self.parts.push(Part {
            piece: Piece::Payload(span),
            ends: false,
        });
    }

    /// The longest ULPDU that could be copied into an empty batch.
    pub(super) fn longest_ulpdu(&self) -> usize {
        self.limit - self.from - fpdu::HEADER_LEN - fpdu::MAX_TRAILER_LEN
    }
}

impl Part {
    fn len(&self) -> u32 {
        match &self.piece {
            Piece::Bytes(range) => range.end - range.start,
            Piece::Payload(span) => span.len(),
        }
    }
}

/// Positions in the buffer are below its capacity, which is cut to 32 bits at creation.
#[inline]
fn to_u32(position: usize) -> u32 {
    u32::try_from(position).expect("a batch is smaller than 4 GiB")
}
