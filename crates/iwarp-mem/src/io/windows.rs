//! The calls of Windows (Winsock).

use std::io::{Error, Result};
use std::os::windows::io::{AsRawSocket, BorrowedSocket};
use std::ptr::null_mut;

use rustix::net::SendFlags;
use windows_sys::Win32::Networking::WinSock::{SOCKET, WSABUF, WSAGetLastError, WSARecv, WSASend};

/// Octets in memory, as the system's calls take them.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Piece(WSABUF);

impl Piece {
    /// Lengths have 32 bits, as those of spans have.
    pub(super) fn new(address: *mut u8, len: usize) -> Self {
        Self(WSABUF {
            len: length(len),
            buf: address,
        })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.0.buf
    }

    pub(super) fn len(&self) -> usize {
        self.0.len as usize
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.0.len = length(len);
    }
}

/// A length of a piece.
fn length(len: usize) -> u32 {
    u32::try_from(len)
        .expect("a batch is shorter than 4 GiB, and so is the room for octets that arrive")
}

/// The error of the last call of this thread.
pub(crate) fn last_error() -> Error {
    // SAFETY: the call has no arguments.
    Error::from_raw_os_error(unsafe { WSAGetLastError() })
}

/// The socket as the system's calls take it.
pub(crate) fn number(socket: BorrowedSocket<'_>) -> SOCKET {
    usize::try_from(socket.as_raw_socket()).expect("a handle is as long as an address")
}

fn count(pieces: &[Piece]) -> u32 {
    u32::try_from(pieces.len()).expect("at most PIECES")
}

/// Sends the pieces, as far as the socket takes them. Segments begin anywhere: the system has no flag for that. With memory that is not mapped
/// among the pieces it sends nothing.
///
/// # Safety
///
/// During the call the memory of all pieces can be read.
pub(super) unsafe fn send(socket: BorrowedSocket<'_>, pieces: &[Piece], _: bool) -> Result<usize> {
    let mut sent = 0;
    // SAFETY: `socket` keeps the socket open, `Piece` has the layout of WSABUF, and the caller keeps the pieces readable. Without OVERLAPPED
    // the call is over when it returns.
    let outcome = unsafe {
        WSASend(
            number(socket),
            pieces.as_ptr().cast(),
            count(pieces),
            &raw mut sent,
            0,
            null_mut(),
            None,
        )
    };
    match outcome {
        0 => Ok(sent as usize),
        _ => Err(last_error()),
    }
}

/// Fills the pieces with what has arrived.
///
/// # Safety
///
/// During the call the memory of all pieces can be written.
pub(super) unsafe fn receive(socket: BorrowedSocket<'_>, pieces: &[Piece]) -> Result<usize> {
    let (mut received, mut flags) = (0, 0);
    // SAFETY: as in `send`; the caller keeps the pieces writable.
    let outcome = unsafe {
        WSARecv(
            number(socket),
            pieces.as_ptr().cast(),
            count(pieces),
            &raw mut received,
            &raw mut flags,
            null_mut(),
            None,
        )
    };
    match outcome {
        0 => Ok(received as usize),
        _ => Err(last_error()),
    }
}

/// The flags of a `send` of octets.
pub(super) fn octet_flags(_: bool) -> SendFlags {
    SendFlags::empty()
}
