//! Completion ports.

#![allow(non_snake_case, reason = "the names are Windows'")]

use std::mem::MaybeUninit;
use std::ptr;
use std::slice;

use netdirect_com::abi::{Bool, Handle, Overlapped, Packet, Status};
use netdirect_com::handle::{FileRef, PortRef};

use crate::errors::{Win32Error, answer, value_or};

/// CreateIoCompletionPort. The number of threads is not limited.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn CreateIoCompletionPort(
    file: Handle,
    existing: Handle,
    key: usize,
    _threads: u32,
) -> Handle {
    // INVALID_HANDLE_VALUE.
    let is_without_file = file.addr() == usize::MAX;
    let created = match (is_without_file, existing.is_null()) {
        (true, true) => Ok(PortRef::create().into_handle()),
        (true, false) => Err(Win32Error::INVALID_PARAMETER),
        (false, true) => {
            // SAFETY: the promise of programs.
            let port = unsafe { associate(file, &PortRef::create(), key) };
            port.map(PortRef::into_handle)
        }
        (false, false) => {
            // SAFETY: the promise of programs.
            let port = unsafe { port(existing) };
            // SAFETY: as above. The reference of the call ends with it.
            port.and_then(|port| unsafe { associate(file, &port, key) })
                .map(|_| existing)
        }
    };
    value_or(ptr::null_mut(), created)
}

/// Makes the ends of the file's requests go to the port. Returns another reference to the port.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
unsafe fn associate(file: Handle, port: &PortRef, key: usize) -> Result<PortRef, Win32Error> {
    // SAFETY: the promise of programs.
    let file = unsafe { FileRef::retain(file) }?;
    file.associate(port, key)?;
    Ok(port.clone())
}

/// Takes a reference for a call: a thread that takes the packet may close the port before the call returns.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
unsafe fn port(handle: Handle) -> Result<PortRef, Win32Error> {
    // SAFETY: the promise of programs.
    unsafe { PortRef::retain(handle) }.map_err(Win32Error::from)
}

/// PostQueuedCompletionStatus.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn PostQueuedCompletionStatus(
    handle: Handle,
    bytes: u32,
    key: usize,
    overlapped: *mut Overlapped,
) -> Bool {
    let packet = Packet {
        key,
        overlapped,
        internal: 0,
        bytes,
    };
    // SAFETY: the promise of programs.
    answer(unsafe { port(handle) }.map(|port| port.post(&packet)))
}

/// Waits for packets, and returns the number that have arrived, which is not 0.
fn take(
    port: &PortRef,
    room: &mut [MaybeUninit<Packet>],
    milliseconds: u32,
) -> Result<usize, Win32Error> {
    match port.take(room, milliseconds) {
        Ok(0) => Err(Win32Error::WAIT_TIMEOUT),
        Ok(count) => Ok(count),
        Err(_) => Err(Win32Error::ABANDONED_WAIT),
    }
}

/// GetQueuedCompletionStatus.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn GetQueuedCompletionStatus(
    handle: Handle,
    bytes: *mut u32,
    key: *mut usize,
    overlapped: *mut *mut Overlapped,
    milliseconds: u32,
) -> Bool {
    if bytes.is_null() || key.is_null() || overlapped.is_null() {
        return answer(Err(Win32Error::INVALID_PARAMETER));
    }
    // Distinguishes a wait that has failed from the packet of a request that has failed. SAFETY: the program passes room for a pointer.
    unsafe { overlapped.write(ptr::null_mut()) };
    let mut room = [MaybeUninit::uninit()];
    // SAFETY: the promise of programs.
    let taken = unsafe { port(handle) }.and_then(|port| take(&port, &mut room, milliseconds));
    if let Err(error) = taken {
        return answer(Err(error));
    }
    // SAFETY: `take` has filled the place, because it has returned without an error.
    let packet = unsafe { room[0].assume_init() };
    // SAFETY: the program passes room for a number.
    unsafe { bytes.write(packet.bytes) };
    // SAFETY: as above.
    unsafe { key.write(packet.key) };
    // SAFETY: the program passes room for a pointer.
    unsafe { overlapped.write(packet.overlapped) };
    answer(outcome(packet.internal))
}

/// Converts the status of a request for Win32: warnings are failures too.
#[expect(clippy::cast_possible_truncation, reason = "an NTSTATUS has 32 bits")]
fn outcome(internal: usize) -> Result<(), Win32Error> {
    let status = Status::from_bits(internal as u32);
    if status.is_success() {
        Ok(())
    } else {
        Err(status.into())
    }
}

/// GetQueuedCompletionStatusEx. Nothing can alert a thread, so `_alertable` is ignored.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn GetQueuedCompletionStatusEx(
    handle: Handle,
    entries: *mut Packet,
    count: u32,
    removed: *mut u32,
    milliseconds: u32,
    _alertable: Bool,
) -> Bool {
    if entries.is_null() || count == 0 || removed.is_null() {
        return answer(Err(Win32Error::INVALID_PARAMETER));
    }
    // SAFETY: the program passes room for `count` entries.
    let room = unsafe { slice::from_raw_parts_mut(entries.cast(), count as usize) };
    // SAFETY: the promise of programs.
    let taken = unsafe { port(handle) }.and_then(|port| take(&port, room, milliseconds));
    let count = u32::try_from(taken.unwrap_or(0)).expect("at most `count`");
    // SAFETY: the program passes room for a number.
    unsafe { removed.write(count) };
    answer(taken.map(drop))
}
