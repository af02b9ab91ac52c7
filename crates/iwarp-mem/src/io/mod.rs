//! The vectored write from registered memory and the read into it: the system calls that take addresses of shared memory.
//!
//! An `IoSlice` over registered memory is not allowed, because it is a reference (`copy`). So the batch names its payload
//! by [`Span`]s, and this module turns the spans into addresses for the duration of one call of the system (`sendmsg`, WSASend). The kernel
//! reads the memory as a network adapter does: concurrent writers change what is sent, nothing else. When it receives (`recvmsg`, WSARecv)
//! it writes the memory in the same way.
//!
//! The calls never block, because pins are held during the calls, and a Deregister waits for pins. On Unix they do not, whatever the socket
//! is set to. Windows has no flag for that: there the caller passes non-blocking sockets alone.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
pub(crate) mod windows;

use std::{
    io::{Error, ErrorKind, Result},
    marker::PhantomData,
};

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use smallvec::SmallVec;

use iwarp::{PieceRef, Revoked, Span, TxBatch};

use crate::outgoing::Outgoing;
use crate::pins::Pins;
use crate::table::Table;
use crate::transfer::{Received, Sent};

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

use system::Piece;

/// The most pieces of one call, enough for 40 FPDUs of header, payload and CRC. All systems take at least this many (POSIX
/// asks for only 16, IOV_MAX is 1024 on Linux and the BSDs, and so many pieces Windows takes).
const PIECES: usize = 128;

/// Sends the contents of the batch in one `sendmsg`, as far as the socket takes it, and returns the octets sent. If the socket takes only a
/// part of an FPDU, a second `sendmsg` offers it the rest of the FPDU.
///
/// - The call sends the FPDUs in front of the first one whose memory was revoked before it began. If that is the very
///   first, nothing is sent, the batch is emptied, and the result is [`Sent::Revoked`].
/// - With the length of TCP's segments as `segment`, the call sends only as much as leaves CRC fields whole ([`TxBatch::whole_crcs`]). On
///   Linux the next call then begins a new segment (`MSG_EOR`), unless the octets sent end inside an FPDU.
/// - The batch is advanced by what was sent, and tells its connection (`Connection::handle_transmitted`). If the sent
///   octets end inside an FPDU, the rest of this FPDU is copied into the batch before its memory is unpinned. So the FPDU
///   can be finished, and nothing is pinned after the return.
/// - If the application has unmapped registered memory, the system refuses a list of pieces as a whole, or sends what comes before such
///   memory. Then the FPDUs are sent one by one, so that only the FPDU with such memory is refused, as if the memory were revoked.
///
/// Interrupted calls are repeated. A broken connection is an error, not a signal.
///
/// # Errors
///
/// Those of `sendmsg(2)` other than EAGAIN and EINTR, or of WSASend; after a reset `BrokenPipe`, `ConnectionReset` or `ConnectionAborted`. The
/// batch is advanced by what was sent before the error. EFAULT if the rest of an FPDU that was sent in part is not mapped. The batch is empty then
/// ([`TxBatch::abandon`]), and the stream has to be reset. `Other` if the memory of an FPDU that has begun is gone, which cannot happen to
/// a batch that only this function sends.
pub fn send(
    socket: BorrowedFd<'_>,
    table: &Table,
    batch: &mut TxBatch,
    segment: Option<u32>,
) -> Result<(u64, Sent)> {
    send_from(socket, table, batch, segment)
}

/// Sends as much of a frame as the socket takes, and returns how many octets these are. With `alone`, what follows the frame begins a
/// new TCP segment, as in [`send`].
///
/// # Errors
///
/// `WouldBlock`, and otherwise as [`send`].
pub fn send_frame(socket: BorrowedFd<'_>, frame: &[u8], alone: bool) -> Result<usize> {
    if frame.is_empty() {
        return Ok(0);
    }
    let sent = send_octets(socket, frame, alone)?;
    sent.ok_or_else(|| ErrorKind::WouldBlock.into())
}

fn send_from(
    socket: BorrowedFd<'_>,
    table: &Table,
    batch: &mut impl Outgoing,
    segment: Option<u32>,
) -> Result<(u64, Sent)> {
    if batch.is_empty() {
        return Ok((0, Sent::All));
    }
    let most = segment.map_or(u64::MAX, |segment| batch.whole_crcs(segment));
    let bounded = segment.is_some();
    if let Some(octets) = batch.octets() {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let octets = octets.get(..most).unwrap_or(octets);
        let sent = send_octets(socket, octets, bounded)?;
        return Ok(sent_of(batch, sent));
    }
    let mut held = Pins::new();
    let list = match gather(&*batch, table, &mut held, most) {
        Ok(list) => list,
        Err(Revoked) if batch.head_is_cut() => return Err(gone()),
        Err(Revoked) => {
            batch.revoke();
            return Ok((0, Sent::Revoked));
        }
    };
    let sent = match list.send(socket, bounded) {
        Ok(0) => return Err(ErrorKind::WriteZero.into()),
        Ok(sent) => sent as u64,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((0, Sent::WouldBlock)),
        Err(error) if is_unmapped(&error) => return send_one(socket, batch, &held, bounded),
        Err(error) => return Err(error),
    };
    batch.advance(sent);
    if batch.head_is_cut() {
        let (more, outcome) = send_one(socket, batch, &held, bounded)?;
        return Ok((sent + more, outcome));
    }
    Ok((sent, so_far(batch)))
}

/// Sends what is left of the first FPDU, whose memory is pinned, and nothing behind it. What the socket does not take of it is copied
/// into the batch.
///
/// So memory that is not mapped is found in its own FPDU. That memory is not copied, because a copy of it would end the process.
fn send_one(
    socket: BorrowedFd<'_>,
    batch: &mut impl Outgoing,
    held: &Pins<'_>,
    bounded: bool,
) -> Result<(u64, Sent)> {
    let mut sent = 0;
    loop {
        let list = gather_first(&*batch, held).map_err(|Revoked| gone())?;
        match list.send(socket, bounded) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                batch.advance(count as u64);
                sent += count as u64;
                if !batch.head_is_cut() {
                    return Ok((sent, so_far(batch)));
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if is_unmapped(&error) && batch.head_is_cut() => {
                batch.abandon();
                return Err(error);
            }
            Err(error) if is_unmapped(&error) => {
                batch.revoke();
                return Ok((sent, Sent::Revoked));
            }
            Err(error) => return Err(error),
        }
    }
    if batch.head_is_cut() {
        // The addresses come from the pins, not from the table, because the STag may have been invalidated during the call.
        // The thread that did this waits for the pins.
        batch
            .make_head_private(|at, into| held.copy_out(at, into))
            .map_err(|Revoked| gone())?;
    }
    Ok((sent, Sent::WouldBlock))
}

/// [`Sent::All`] or [`Sent::Partly`].
fn so_far(batch: &impl Outgoing) -> Sent {
    if batch.is_empty() {
        Sent::All
    } else {
        Sent::Partly
    }
}

/// Returns true if a system call has failed because memory that it was given is not mapped.
fn is_unmapped(error: &Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::FAULT)
}

/// Reads from the socket in one call of the system: first into registered memory at `place`, then into `rest`. For readers of the memory this is
/// like a device's write (`copy`). The last word of a message must not be read by this function, because the kernel does not say in which
/// order it writes.
///
/// Interrupted calls are repeated.
///
/// # Errors
///
/// Those of `recvmsg(2)` other than EINTR, or of WSARecv; `WouldBlock` if nothing has arrived.
pub fn receive(
    socket: BorrowedFd<'_>,
    table: &Table,
    place: Span,
    rest: &mut [u8],
) -> Result<Received> {
    let Ok(held) = table.pin(place) else {
        return Ok(Received::Revoked);
    };
    let Ok(address) = held.address(place) else {
        return Ok(Received::Revoked);
    };
    // The place is pinned until `held` goes, and the region's rights let a peer write it (the engine has checked the span for that). `rest` is
    // borrowed.
    let pieces = [
        Piece::new(address, place.len() as usize),
        Piece::new(rest.as_mut_ptr(), rest.len()),
    ];
    // SAFETY: the kernel only writes, by address, octets that stay valid during the call.
    let received = unsafe { system::receive(socket, &pieces) };
    match received {
        Ok(octets) => Ok(Received::Octets(octets)),
        Err(error) if is_unmapped(&error) => Ok(Received::Unmapped),
        Err(error) => Err(error),
    }
}

fn gone() -> Error {
    Error::other("the memory of an FPDU was revoked after its first octets had been sent")
}

/// Sends private octets by `send`, which needs no list and no pins. With `bounded`, what follows begins a new segment. `None` if the
/// socket takes nothing.
fn send_octets(socket: BorrowedFd<'_>, octets: &[u8], bounded: bool) -> Result<Option<usize>> {
    let flags = system::octet_flags(bounded);
    loop {
        match rustix::net::send(socket, octets, flags) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => return Ok(Some(sent)),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Advances a batch that holds private octets only.
fn sent_of(batch: &mut impl Outgoing, sent: Option<usize>) -> (u64, Sent) {
    let Some(sent) = sent else {
        return (0, Sent::WouldBlock);
    };
    let sent = sent as u64;
    batch.advance(sent);
    (sent, so_far(batch))
}

/// Lists the pieces of as many whole FPDUs as fit, `most` octets at most, and pins their memory. If even one FPDU does not fit, lists its
/// beginning and pins all of its memory. Fails if the memory of the first FPDU is gone.
fn gather<'b, 't>(
    batch: &'b impl Outgoing,
    table: &'t Table,
    held: &mut Pins<'t>,
    most: u64,
) -> std::result::Result<List<'b>, Revoked> {
    let mut list = List::new();
    let mut octets = 0;
    // Where the last whole FPDU ends, in the list and among the pins.
    let mut whole = None;
    for (piece, last) in batch.pieces() {
        let fits = !list.is_full() && !held.is_full();
        if let (false, Some((pieces, pins))) = (fits, whole) {
            list.cut_back(pieces);
            held.truncate(pins);
            break;
        }
        match piece {
            PieceRef::Bytes(bytes) => {
                octets += bytes.len() as u64;
                list.push_octets(bytes);
            }
            PieceRef::Payload(at) => match (held.pin(table, at), whole) {
                (Ok(address), _) => {
                    octets += u64::from(at.len());
                    list.push_shared(address, at.len() as usize);
                }
                (Err(Revoked), None) => return Err(Revoked),
                (Err(Revoked), Some((pieces, pins))) => {
                    list.cut_back(pieces);
                    held.truncate(pins);
                    break;
                }
            },
        }
        if last && !fits {
            list.is_whole = false; // the end of an FPDU that is longer than the list
            break;
        }
        if last {
            whole = Some((list.mark(), held.len()));
            if octets >= most {
                break;
            }
        }
    }
    Ok(list)
}

/// Lists the pieces of the first FPDU whose memory is pinned, as many as fit.
fn gather_first<'b>(
    batch: &'b impl Outgoing,
    held: &Pins<'_>,
) -> std::result::Result<List<'b>, Revoked> {
    let mut list = List::new();
    for (piece, last) in batch.pieces() {
        match piece {
            PieceRef::Bytes(octets) => list.push_octets(octets),
            PieceRef::Payload(at) => list.push_shared(held.address(at)?, at.len() as usize),
        }
        if last {
            break;
        }
    }
    // A list that is full may lack the end of the FPDU.
    list.is_whole = !list.is_full();
    Ok(list)
}

/// The pieces of one call, at most [`PIECES`].
struct List<'b> {
    pieces: SmallVec<[Piece; PIECES]>,
    /// The last piece consists of private octets, and neighbouring octets may join it.
    ends_private: bool,
    /// The list ends where an FPDU ends.
    is_whole: bool,
    /// Private octets are borrowed. The pins keep registered memory valid.
    octets: PhantomData<&'b [u8]>,
}

/// A position in a [`List`]: pieces, the length of the last one, and whether it is private.
type Mark = (usize, usize, bool);

impl<'b> List<'b> {
    fn new() -> Self {
        Self {
            pieces: SmallVec::new(),
            ends_private: false,
            is_whole: true,
            octets: PhantomData,
        }
    }

    fn is_full(&self) -> bool {
        self.pieces.len() == PIECES
    }

    fn mark(&self) -> Mark {
        let last = self.pieces.last().map_or(0, Piece::len);
        (self.pieces.len(), last, self.ends_private)
    }

    fn cut_back(&mut self, (len, last, ends_private): Mark) {
        self.pieces.truncate(len);
        self.ends_private = ends_private;
        if let Some(piece) = self.pieces.last_mut() {
            piece.set_len(last);
        }
    }

    /// Adds private octets. Octets that follow the last piece in memory join it, so that a batch of small messages becomes
    /// one piece.
    fn push_octets(&mut self, octets: &'b [u8]) {
        let joins =
            |piece: &&mut Piece| piece.address().addr() + piece.len() == octets.as_ptr().addr();
        let before = if self.ends_private {
            self.pieces.last_mut()
        } else {
            None
        };
        match before.filter(joins) {
            Some(piece) => piece.set_len(piece.len() + octets.len()),
            None => self.push(octets.as_ptr().cast_mut(), octets.len(), true),
        }
    }

    /// Adds registered memory.
    fn push_shared(&mut self, address: *mut u8, len: usize) {
        self.push(address, len, false);
    }

    /// Adds a piece, or leaves it to a later call when there is no room.
    fn push(&mut self, address: *mut u8, len: usize, private: bool) {
        if len == 0 {
            return;
        }
        // Nothing may join across a piece that was left out.
        self.ends_private = private && !self.is_full();
        if !self.is_full() {
            self.pieces.push(Piece::new(address, len));
        }
    }

    /// With `bounded`, what follows a list of whole FPDUs begins a new segment.
    fn send(&self, socket: BorrowedFd<'_>, bounded: bool) -> Result<usize> {
        // Private pieces are borrowed for 'b, one slice or several that follow each other; registered ones are pinned by the caller (`gather`).
        // SAFETY: the kernel only reads, by address, octets that stay valid during the call.
        unsafe { system::send(socket, &self.pieces, bounded && self.is_whole) }
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests;
