//! The calls of Windows (Winsock).

use std::io::{Error, Result};
use std::os::windows::io::{AsRawSocket, BorrowedSocket};
use std::ptr::null_mut;

use rustix::net::SendFlags;
use windows_sys::Win32::Networking::WinSock::{
    SIO_TCP_INFO, SIO_TCP_INITIAL_RTO, SO_EXCLUSIVEADDRUSE, SOCKET, SOL_SOCKET,
    TCP_INITIAL_RTO_PARAMETERS, WSABUF, WSAGetLastError, WSAIoctl, WSARecv, WSASend, setsockopt,
};

/// An attempt to connect is not repeated (TCP_INITIAL_RTO_NO_SYN_RETRANSMISSIONS), and waits as long as the system decides
/// (TCP_INITIAL_RTO_UNSPECIFIED_RTT).
const NO_REPETITION: TCP_INITIAL_RTO_PARAMETERS = TCP_INITIAL_RTO_PARAMETERS {
    Rtt: u16::MAX,
    MaxSynRetransmissions: u8::MAX - 1,
};

/// What the system tells of a connection: TCP_INFO_v0, of which the length of segments is read. All fields are numbers, so that any octets
/// are a value.
#[derive(Default)]
#[repr(C)]
struct TcpInfo {
    state: u32,
    segment: u32,
    rest: [u64; 10],
}

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
fn last_error() -> Error {
    // SAFETY: the call has no arguments.
    Error::from_raw_os_error(unsafe { WSAGetLastError() })
}

fn number(socket: BorrowedSocket<'_>) -> SOCKET {
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

/// Lets no other socket have the socket's port, which is to be bound: not even one that asks for reuse (`SO_EXCLUSIVEADDRUSE`).
///
/// # Errors
///
/// Those of `setsockopt`.
pub fn refuse_sharing(socket: BorrowedSocket<'_>) -> Result<()> {
    let on = 1_i32;
    // SAFETY: `socket` keeps the socket open; the system only reads `on`, which has the length that is named.
    let refused = unsafe {
        setsockopt(
            number(socket),
            SOL_SOCKET,
            SO_EXCLUSIVEADDRUSE,
            (&raw const on).cast(),
            4,
        )
    };
    match refused {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// An ioctl of a socket that takes one value and gives another one.
///
/// # Safety
///
/// `code` takes an `I` and gives an `O`, which is valid whatever octets the system writes.
unsafe fn ask<I, O>(
    socket: BorrowedSocket<'_>,
    code: u32,
    input: &I,
    output: &mut O,
) -> Result<()> {
    let mut written = 0;
    // SAFETY: `socket` keeps the socket open; the system reads `input` and writes `output`, each at most as long as it is. Without OVERLAPPED the
    // call is over when it returns.
    let outcome = unsafe {
        WSAIoctl(
            number(socket),
            code,
            std::ptr::from_ref(input).cast(),
            length(size_of::<I>()),
            std::ptr::from_mut(output).cast(),
            length(size_of::<O>()),
            &raw mut written,
            null_mut(),
            None,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// The length of the segments into which TCP cuts what is sent (SIO_TCP_INFO).
///
/// # Errors
///
/// Those of the system. Windows before 10 of 2017 does not have the call.
pub fn path_segment(socket: BorrowedSocket<'_>) -> Result<u32> {
    let version = 0_u32;
    let mut info = TcpInfo::default();
    // SAFETY: the code takes the version of the structure that it gives.
    unsafe { ask(socket, SIO_TCP_INFO, &version, &mut info)? };
    Ok(info.segment)
}

/// Lets an attempt to connect fail at the first refusal, instead of trying twice more (SIO_TCP_INITIAL_RTO).
///
/// # Errors
///
/// Those of the system. Windows before 10 does not have the call.
pub fn repeat_no_syn(socket: BorrowedSocket<'_>) -> Result<()> {
    // SAFETY: the code takes these parameters, and gives nothing.
    unsafe { ask(socket, SIO_TCP_INITIAL_RTO, &NO_REPETITION, &mut ()) }
}
