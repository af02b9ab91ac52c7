//! The options of Windows (Winsock).

use std::io::Result;
use std::os::windows::io::BorrowedSocket;
use std::ptr::null_mut;

use windows_sys::Win32::Networking::WinSock::{
    SIO_TCP_INFO, SIO_TCP_INITIAL_RTO, SO_EXCLUSIVEADDRUSE, SOL_SOCKET, TCP_INITIAL_RTO_PARAMETERS,
    WSAIoctl, setsockopt,
};

use crate::io::windows::{last_error, number};

/// An attempt to connect is not repeated (TCP_INITIAL_RTO_NO_SYN_RETRANSMISSIONS), and waits as long as the system decides
/// (TCP_INITIAL_RTO_UNSPECIFIED_RTT).
const NO_REPETITION: TCP_INITIAL_RTO_PARAMETERS = TCP_INITIAL_RTO_PARAMETERS {
    Rtt: u16::MAX,
    MaxSynRetransmissions: u8::MAX - 1,
};

/// What the system tells of a connection: TCP_INFO_v0, of which the length of segments is read. All fields are numbers, so any octets
/// are a value.
#[derive(Default)]
#[repr(C)]
struct TcpInfo {
    state: u32,
    segment: u32,
    rest: [u64; 10],
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

fn length_of<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("a structure of the system is short")
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
            length_of::<I>(),
            std::ptr::from_mut(output).cast(),
            length_of::<O>(),
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
