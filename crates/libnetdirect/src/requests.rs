//! The ends of requests: Win32's GetOverlappedResult, and the thread pool.

#![allow(non_snake_case, reason = "the names are Windows'")]

use netdirect_com::abi::{Bool, Handle, Overlapped, Status};
use netdirect_com::handle::{CompletionRoutine, FileRef, bind, overlapped_result};

use crate::errors::{Win32Error, answer};

/// GetOverlappedResult.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn GetOverlappedResult(
    file: Handle,
    overlapped: *mut Overlapped,
    bytes: *mut u32,
    wait: Bool,
) -> Bool {
    if overlapped.is_null() || bytes.is_null() {
        return answer(Err(Win32Error::INVALID_PARAMETER));
    }
    // SAFETY: the promise of programs; providers write `Internal` by atomic stores.
    let status = match unsafe { overlapped_result(file, overlapped, wait != 0) } {
        Ok(Status::PENDING) => return answer(Err(Win32Error::IO_INCOMPLETE)),
        Ok(status) => status,
        Err(refused) => return answer(Err(refused.into())),
    };
    // SAFETY: the request has ended, so the OVERLAPPED belongs to the program.
    let transferred = unsafe { (*overlapped).internal_high };
    #[expect(clippy::cast_possible_truncation, reason = "Win32 has 32 bits for it")]
    // SAFETY: the program passes room for a number.
    unsafe {
        bytes.write(transferred as u32);
    }
    answer(if status.is_success() {
        Ok(())
    } else {
        Err(status.into())
    })
}

/// BindIoCompletionCallback.
///
/// # Safety
///
/// The promise of programs (this crate's documentation). `routine` can be called as long as requests of the file end.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn BindIoCompletionCallback(
    file: Handle,
    routine: Option<CompletionRoutine>,
    flags: u32,
) -> Bool {
    // SAFETY: the promise of programs.
    let file = unsafe { FileRef::retain(file) }.map_err(Win32Error::from);
    answer(file.and_then(|file| match routine {
        // SAFETY: the promise of programs.
        Some(routine) if flags == 0 => Ok(unsafe { bind(&file, routine) }?),
        _ => Err(Win32Error::INVALID_PARAMETER),
    }))
}
