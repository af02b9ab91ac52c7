//! Octets into and out of two rings.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};

use iwarp::{PieceRef, Revoked, Span, TxBatch};
use smallvec::SmallVec;

use super::mapping::{Mapping, Way};
use super::words::{Broken, Reading, Words, Writing};
use crate::outgoing::Outgoing;
use crate::pins::Pins;
use crate::table::Table;
use crate::transfer::{Received, Sent};

/// Octets that are copied before the other end learns of them, so that both ends copy at the same time.
const CHUNK: usize = 16 * 1024;

/// The number of octets of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize(usize);

impl RingSize {
    /// The smallest and the largest ring, in octets.
    pub const LIMITS: [usize; 2] = [4096, 1 << 24];

    /// A ring of this many octets, if that is a power of two within the [limits](Self::LIMITS).
    pub fn new(octets: usize) -> Option<Self> {
        let [least, most] = Self::LIMITS;
        let is_right = octets.is_power_of_two() && (least..=most).contains(&octets);
        is_right.then_some(Self(octets))
    }

    /// The number of octets.
    pub const fn octets(self) -> usize {
        self.0
    }
}

impl Default for RingSize {
    /// 256 KiB. Smaller rings are slower in one direction, and larger ones fall out of the cache.
    fn default() -> Self {
        Self(256 * 1024)
    }
}

/// One end of a connection over two rings.
///
/// The calls never block. One thread at a time sends, and one receives.
#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    /// The ring into which this end writes.
    out: Way,
    writing: Writing,
    reading: Reading,
}

impl From<Broken> for Error {
    fn from(Broken: Broken) -> Self {
        Self::new(
            ErrorKind::ConnectionReset,
            "the peer has written into shared memory what no ring has",
        )
    }
}

/// A part of an FPDU.
enum Part<'b> {
    Private(&'b [u8]),
    Registered(Span),
}

impl Ring {
    /// Makes the memory of a connection. The peer needs the file to [`open`](Self::open) it, and nobody else.
    ///
    /// # Errors
    ///
    /// Those of `memfd_create`, `ftruncate`, `fcntl` and `mmap`.
    pub fn create(size: RingSize) -> Result<(Self, OwnedFd)> {
        let (mapping, file) = Mapping::create(size.octets())?;
        Ok((Self::over(mapping, Way::Out), file))
    }

    /// The other end of the connection whose memory a peer has made. The file is not needed afterwards.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a file that is no memfd, can be cut, has another length, or whose pages can be missing; those of the system.
    pub fn open(file: &impl AsFd, size: RingSize) -> Result<Self> {
        let mapping = Mapping::open(file, size.octets())?;
        Ok(Self::over(mapping, Way::Back))
    }

    fn over(mapping: Mapping, out: Way) -> Self {
        let capacity = mapping.capacity() as u64;
        Self {
            mapping,
            out,
            writing: Writing::new(capacity),
            reading: Reading::new(capacity),
        }
    }

    const fn back(&self) -> Way {
        match self.out {
            Way::Out => Way::Back,
            Way::Back => Way::Out,
        }
    }

    #[inline]
    fn outgoing(&self) -> Result<&Words> {
        self.mapping.words(self.out)
    }

    #[inline]
    fn incoming(&self) -> Result<&Words> {
        self.mapping.words(self.back())
    }

    /// Where the octet of this number lies.
    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "less than the capacity, a power of two"
    )]
    const fn place_of(&self, number: u64) -> usize {
        (number & (self.mapping.capacity() as u64 - 1)) as usize
    }

    /// Checks that the connection belongs to this process.
    ///
    /// # Errors
    ///
    /// `ConnectionAborted` in the child of a fork. So it is with every call that touches the rings.
    pub fn check(&self) -> Result<()> {
        self.mapping.is_ours()
    }

    /// Calls `copy` for the one or two stretches of a ring that hold `len` octets from this number on: with the place in the ring, and which
    /// of the octets they are.
    #[inline]
    fn stretches<E>(
        &self,
        number: u64,
        len: usize,
        mut copy: impl FnMut(usize, std::ops::Range<usize>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let at = self.place_of(number);
        let first = len.min(self.mapping.capacity() - at);
        copy(at, 0..first)?;
        if first < len {
            copy(0, first..len)?;
        }
        Ok(())
    }

    /// Writes as many of these octets as there is room for. Returns their number, which is 0 if the ring is full.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` if the peer breaks the rules of the ring.
    #[inline]
    pub fn write(&self, octets: &[u8]) -> Result<usize> {
        let words = self.outgoing()?;
        let mut written = 0;
        while written < octets.len() {
            let rest = &octets[written..octets.len().min(written + CHUNK)];
            let room = self.writing.room(words, rest.len() as u64)?;
            let chunk = &rest[..rest.len().min(to_usize(room))];
            if chunk.is_empty() {
                break;
            }
            self.put(0, chunk);
            self.writing.publish(words, chunk.len() as u64);
            written += chunk.len();
        }
        Ok(written)
    }

    /// Copies private octets behind the published ones, and behind `unpublished` more.
    #[inline]
    fn put(&self, unpublished: usize, octets: &[u8]) {
        let number = self.writing.tail() + unpublished as u64;
        let _ = self.stretches(number, octets.len(), |at, which| {
            self.mapping.write(self.out, at, &octets[which]);
            Ok::<_, Revoked>(())
        });
    }

    /// Sends as much of a batch as there is room for, as [`io::send`](crate::io::send) does, and returns the octets sent.
    ///
    /// An FPDU that fits into half a ring is sent whole or not at all.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` if the peer breaks the rules of the ring. `Other` if the memory of an FPDU that has begun is gone, which cannot
    /// happen to a batch that only this function sends.
    pub fn send(&self, table: &Table, batch: &mut TxBatch) -> Result<(u64, Sent)> {
        self.send_from(table, batch)
    }

    #[inline]
    pub(super) fn send_from(
        &self,
        table: &Table,
        batch: &mut impl Outgoing,
    ) -> Result<(u64, Sent)> {
        if batch.is_empty() {
            return Ok((0, Sent::All));
        }
        if let Some(octets) = batch.octets() {
            let sent = self.write(octets)? as u64;
            batch.advance(sent);
            let all = batch.is_empty();
            return Ok((sent, if all { Sent::All } else { Sent::WouldBlock }));
        }
        let mut held = Pins::new();
        let mut fpdu = SmallVec::<[Part<'_>; 8]>::new();
        let (mut sent, mut len) = (0_u64, 0);
        let mut outcome = Sent::All;
        for (piece, last) in batch.pieces() {
            match piece {
                PieceRef::Bytes(octets) => {
                    len += octets.len();
                    fpdu.push(Part::Private(octets));
                }
                PieceRef::Payload(span) => {
                    // All memory of an FPDU is pinned before the first octet is sent.
                    if held.pin(table, span).is_err() {
                        outcome = Sent::Revoked;
                        break;
                    }
                    len += span.len() as usize;
                    fpdu.push(Part::Registered(span));
                }
            }
            if !last {
                continue;
            }
            let put = self.put_fpdu(&fpdu, len, &held)?;
            sent += put as u64;
            if put < len {
                outcome = Sent::WouldBlock;
                break;
            }
            fpdu.clear();
            len = 0;
            if held.is_full() {
                outcome = Sent::Partly;
                break;
            }
        }
        drop(fpdu);
        if outcome == Sent::Revoked {
            if sent == 0 && batch.head_is_cut() {
                return Err(gone());
            }
            if sent == 0 {
                batch.revoke();
                return Ok((0, Sent::Revoked));
            }
            outcome = Sent::Partly;
        }
        batch.advance(sent);
        if batch.head_is_cut() {
            batch
                .make_head_private(|at, into| held.copy_out(at, into))
                .map_err(|Revoked| gone())?;
        }
        Ok((sent, if batch.is_empty() { Sent::All } else { outcome }))
    }

    /// Sends an FPDU of `len` octets, or its beginning. Returns how many octets that is.
    fn put_fpdu(&self, fpdu: &[Part<'_>], len: usize, held: &Pins<'_>) -> Result<usize> {
        let words = self.outgoing()?;
        let capacity = self.mapping.capacity();
        let room = to_usize(self.writing.room(words, len as u64)?);
        if room < len && len <= capacity / 2 {
            return Ok(0);
        }
        let most = room.min(len);
        let (mut done, mut unpublished) = (0, 0);
        for part in fpdu {
            let of_part = match part {
                Part::Private(octets) => octets.len(),
                Part::Registered(span) => span.len() as usize,
            };
            let mut at = 0;
            while at < of_part && done < most {
                let count = CHUNK.min(of_part - at).min(most - done);
                match part {
                    Part::Private(octets) => self.put(unpublished, &octets[at..at + count]),
                    Part::Registered(span) => {
                        let stretch = span.slice(to_u32(at), to_u32(count));
                        self.put_registered(unpublished, held, stretch)
                            .map_err(|Revoked| gone())?;
                    }
                }
                at += count;
                done += count;
                unpublished += count;
                if unpublished >= CHUNK {
                    self.writing.publish(words, unpublished as u64);
                    unpublished = 0;
                }
            }
        }
        if unpublished > 0 {
            self.writing.publish(words, unpublished as u64);
        }
        Ok(done)
    }

    /// As [`put`](Self::put), from registered memory.
    fn put_registered(
        &self,
        unpublished: usize,
        held: &Pins<'_>,
        span: Span,
    ) -> std::result::Result<(), Revoked> {
        let held = held.find(span)?;
        let number = self.writing.tail() + unpublished as u64;
        self.stretches(number, span.len() as usize, |at, which| {
            let span = span.slice(to_u32(which.start), to_u32(which.len()));
            self.mapping.write_from(self.out, at, held, span)
        })
    }

    /// Reads as many octets as there are, at most `into.len()`. Returns their number, which is 0 if the ring is empty, and true if the
    /// writer has to be [asked](Self::takes_room_bell) whether it waits for the room.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` if the peer breaks the rules of the ring.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> Result<(usize, bool)> {
        let words = self.incoming()?;
        let count = into.len().min(to_usize(self.reading.octets(words)?));
        let mut half_free = false;
        for chunk in into[..count].chunks_mut(CHUNK) {
            half_free |= self.take(words, chunk);
        }
        Ok((count, half_free))
    }

    /// Takes the next octets, which are there. Returns true if half of the ring is free by that.
    #[inline]
    fn take(&self, words: &Words, into: &mut [u8]) -> bool {
        let _ = self.stretches(self.reading.head(), into.len(), |at, which| {
            self.mapping.read(self.back(), at, &mut into[which]);
            Ok::<_, Revoked>(())
        });
        self.reading.release(words, into.len() as u64)
    }

    /// Like [`read`](Self::read), but puts the first octets into registered memory at `place`, as [`io::receive`](crate::io::receive) does.
    /// The last word of a message must not be read by this function.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn receive(&self, table: &Table, place: Span, rest: &mut [u8]) -> Result<(Received, bool)> {
        let Ok(held) = table.pin(place) else {
            return Ok((Received::Revoked, false));
        };
        let words = self.incoming()?;
        let len = place.len() as usize;
        let count = len.min(to_usize(self.reading.octets(words)?));
        let (mut done, mut half_free) = (0, false);
        while done < count {
            let chunk = CHUNK.min(count - done);
            let copied = self.stretches(self.reading.head(), chunk, |at, which| {
                let span = place.slice(to_u32(done + which.start), to_u32(which.len()));
                self.mapping.read_to(self.back(), at, &held, span)
            });
            if copied.is_err() {
                // A pinned region keeps its length, so this is a span that no check has made.
                let received = match done {
                    0 => Received::Revoked,
                    octets => Received::Octets(octets),
                };
                return Ok((received, half_free));
            }
            half_free |= self.reading.release(words, chunk as u64);
            done += chunk;
        }
        drop(held);
        if done == len && len > 0 {
            let (more, freed) = self.read(rest)?;
            done += more;
            half_free |= freed;
        }
        Ok((Received::Octets(done), half_free))
    }

    /// Returns true if there are octets to be read.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    #[inline]
    pub fn has_octets(&self) -> Result<bool> {
        Ok(self.reading.octets(self.incoming()?)? > 0)
    }

    /// Returns true if the peer has ended its direction. Octets before the end may be left.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check).
    #[inline]
    pub fn is_closed(&self) -> Result<bool> {
        Ok(self.reading.is_closed(self.incoming()?))
    }

    /// Ends this side's direction, behind everything that was written. The caller wakes the peer.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check).
    pub fn close(&self) -> Result<()> {
        self.writing.close(self.outgoing()?);
        Ok(())
    }

    /// See [`Writing::takes_bell`].
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check). So it is with the next ones.
    #[inline]
    pub fn takes_bell(&self) -> Result<bool> {
        Ok(self.writing.takes_bell(self.outgoing()?))
    }

    /// See [`Writing::await_room`].
    ///
    /// # Errors
    ///
    /// `ConnectionReset` if the peer breaks the rules of the ring.
    pub fn await_room(&self) -> Result<bool> {
        Ok(self.writing.await_room(self.outgoing()?)?)
    }

    /// See [`Writing::await_no_room`].
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check).
    pub fn await_no_room(&self) -> Result<()> {
        self.writing.await_no_room(self.outgoing()?);
        Ok(())
    }

    /// See [`Reading::want_bell`].
    ///
    /// # Errors
    ///
    /// `ConnectionReset` if the peer breaks the rules of the ring.
    pub fn want_bell(&self) -> Result<bool> {
        Ok(self.reading.want_bell(self.incoming()?)?)
    }

    /// See [`Reading::want_no_bell`].
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check).
    pub fn want_no_bell(&self) -> Result<()> {
        self.reading.want_no_bell(self.incoming()?);
        Ok(())
    }

    /// See [`Reading::takes_room_bell`].
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check).
    pub fn takes_room_bell(&self) -> Result<bool> {
        Ok(self.reading.takes_room_bell(self.incoming()?))
    }

    /// See [`Reading::takes_room_bell_unfenced`].
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check).
    #[inline]
    pub fn takes_room_bell_unfenced(&self) -> Result<bool> {
        Ok(self.reading.takes_room_bell_unfenced(self.incoming()?))
    }

    /// Reads both indices of the peer.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` if the peer breaks the rules of the ring.
    pub fn look(&self) -> Result<()> {
        self.reading.octets(self.incoming()?)?;
        let all = self.mapping.capacity() as u64;
        self.writing.room(self.outgoing()?, all)?;
        Ok(())
    }

    /// The number of octets that this end has written.
    #[inline]
    pub fn written(&self) -> u64 {
        self.writing.tail()
    }

    /// The memory that the words of both rings take, in octets.
    pub fn of_words() -> u64 {
        super::mapping::page().max(super::mapping::HEAD) as u64
    }

    /// The memory that this end's ring may take, in octets, if the ring had none when the octet `from` was about to be written, and the octets
    /// before `to` are written by now. The second number is that of the octet up to which no more memory is taken; `u64::MAX`: never more.
    pub fn memory_of(&self, from: u64, to: u64) -> (u64, u64) {
        let page = super::mapping::page() as u64;
        let all = (self.mapping.capacity() as u64).next_multiple_of(page);
        let end = to.next_multiple_of(page);
        let octets = end - from / page * page;
        if octets < all {
            (octets, end)
        } else {
            (all, u64::MAX)
        }
    }

    /// Gives the memory of this end's ring back to the system, if the peer has read everything. Returns false if it has not. The next write takes
    /// memory again. Whoever sends must not send meanwhile.
    ///
    /// The writer does this: a reader cannot know whether octets are being written that are not published yet.
    ///
    /// # Errors
    ///
    /// Those of [`look`](Self::look), and of `madvise`.
    pub fn give_back(&self) -> Result<bool> {
        let all = self.mapping.capacity() as u64;
        if self.writing.room(self.outgoing()?, all)? < all {
            return Ok(false);
        }
        self.mapping.remove_pages(self.out)?;
        Ok(true)
    }

    /// How far the peer has come: octets that it has written and read, as far as this end has seen. Whoever counts bells knows by this whether
    /// something has happened between two of them.
    pub fn progress(&self) -> (u64, u64) {
        (self.reading.seen(), self.writing.seen())
    }
}

fn gone() -> Error {
    Error::other("the memory of an FPDU was revoked after its first octets had been sent")
}

fn to_usize(octets: u64) -> usize {
    usize::try_from(octets).unwrap_or(usize::MAX)
}

/// For lengths within one FPDU's payload, or a ring, which have 32 bits.
fn to_u32(octets: usize) -> u32 {
    u32::try_from(octets).unwrap_or(u32::MAX)
}
