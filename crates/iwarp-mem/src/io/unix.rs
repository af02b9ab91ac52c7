//! The calls of Unix.

use std::ffi::c_void;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::SendFlags;

/// Octets in memory, as the system's calls take them.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Piece(libc::iovec);

impl Piece {
    pub(super) fn new(address: *mut u8, len: usize) -> Self {
        Self(libc::iovec {
            iov_base: address.cast::<c_void>(),
            iov_len: len,
        })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    pub(super) fn len(&self) -> usize {
        self.0.iov_len
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.0.iov_len = len;
    }
}

/// A message that consists of these pieces.
fn message(pieces: &[Piece]) -> libc::msghdr {
    // SAFETY: all zeroes is a value of this plain C structure: null pointers and lengths of zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    #[allow(
        clippy::cast_possible_truncation,
        reason = "at most PIECES; some systems have a smaller type here"
    )]
    let count = pieces.len() as _;
    message.msg_iovlen = count;
    message
}

/// Sends the pieces, as far as the socket takes them. With `bounded`, what follows begins a new segment.
///
/// # Safety
///
/// During the call the memory of all pieces can be read.
pub(super) unsafe fn send(
    socket: BorrowedFd<'_>,
    pieces: &[Piece],
    bounded: bool,
) -> Result<usize> {
    let flags = if bounded { FLAGS | BOUNDARY } else { FLAGS };
    let message = message(pieces);
    uninterrupted(|| {
        // SAFETY: `socket` keeps the descriptor open, and `message` names pieces that the caller keeps readable.
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) }
    })
}

/// Fills the pieces with what has arrived.
///
/// # Safety
///
/// During the call the memory of all pieces can be written.
pub(super) unsafe fn receive(socket: BorrowedFd<'_>, pieces: &[Piece]) -> Result<usize> {
    let mut message = message(pieces);
    uninterrupted(|| {
        // SAFETY: `socket` keeps the descriptor open, and `message` names pieces that the caller keeps writable.
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) }
    })
}

/// Repeats a system call while it is interrupted. Returns how many octets it moved.
fn uninterrupted(mut call: impl FnMut() -> isize) -> Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(moved) => return Ok(moved),
            Err(_) => match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// The flags of a `send` of octets. With `bounded`, what follows them begins a new segment.
pub(super) fn octet_flags(bounded: bool) -> SendFlags {
    if bounded { LAST } else { QUIETLY }
}

/// As [`FLAGS`].
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(target_vendor = "apple")]
const QUIETLY: SendFlags = SendFlags::DONTWAIT;

/// Never block, and report a reset connection by an error, not by a SIGPIPE.
#[cfg(not(target_vendor = "apple"))]
const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// Never block. There is no flag against SIGPIPE, so the creator of the socket sets SO_NOSIGPIPE.
#[cfg(target_vendor = "apple")]
const FLAGS: libc::c_int = libc::MSG_DONTWAIT;

/// The next octets begin a new TCP segment. Linux marks the socket's buffer if the call takes all octets.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BOUNDARY: libc::c_int = libc::MSG_EOR;
/// Other systems refuse MSG_EOR on TCP, or ignore it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOUNDARY: libc::c_int = 0;

/// As [`QUIETLY`], with [`BOUNDARY`].
#[cfg(any(target_os = "linux", target_os = "android"))]
const LAST: SendFlags = QUIETLY.union(SendFlags::EOR);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LAST: SendFlags = QUIETLY;
