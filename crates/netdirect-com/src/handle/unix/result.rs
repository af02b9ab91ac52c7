//! Win32's GetOverlappedResult, which knows only the file and the client's memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use netdirect::Status;

use super::refs::{EventRef, FileRef};
use super::sync::{Condvar, Mutex};
use super::wait::wait;
use crate::abi::{Bool, Handle, Overlapped, WAKE_EVENT_BIT, Watcher};
use crate::handle::INFINITE;

/// Returns the status in `OVERLAPPED.Internal`, once the request has ended if `waits` is set. [`PENDING`](Status::PENDING) if the request
/// is in flight; [`DEVICE_REMOVED`](Status::DEVICE_REMOVED) if it was in flight at the fork that has made this process, where it cannot end.
///
/// A wait sleeps on `hEvent`, whose lowest bit is ignored, or without one until requests of the file end. The method of this name of
/// `IND2Overlapped` is better: it asks the provider's record of the request.
///
/// # Errors
///
/// [`INVALID_HANDLE`](Status::INVALID_HANDLE): `hEvent` is not an event; or the wait needs the file, and `file` is not one.
///
/// # Safety
///
/// `overlapped` points to an OVERLAPPED that lives during the call, and is written by others only by atomic stores to `Internal`. `file`
/// and `hEvent` are null or handles that are not closed before the request ends.
pub unsafe fn overlapped_result(
    file: Handle,
    overlapped: *mut Overlapped,
    waits: bool,
) -> Result<Status, Status> {
    // SAFETY: the contract of this function.
    let internal = unsafe { &raw mut (*overlapped).internal };
    // SAFETY: the word lives during the call, is aligned, and is written by atomic stores.
    let internal = unsafe { AtomicUsize::from_ptr(internal) };
    if status(internal) == Status::PENDING {
        // SAFETY: the contract of this function.
        let file = unsafe { FileRef::retain(file) };
        if file.is_ok_and(|file| file.is_of_parent()) {
            return Ok(Status::DEVICE_REMOVED);
        }
    }
    if !waits || status(internal) != Status::PENDING {
        return Ok(status(internal));
    }
    // SAFETY: the contract of this function.
    let event = unsafe { (*overlapped).event };
    let event = event.map_addr(|address| address & !WAKE_EVENT_BIT);
    if !event.is_null() {
        // SAFETY: the contract of this function.
        let event = unsafe { EventRef::retain(event) }?;
        wait(&event, INFINITE);
    }
    if status(internal) == Status::PENDING {
        // SAFETY: the contract of this function.
        let file = unsafe { FileRef::retain(file) }?;
        wait_for_end(&file, || status(internal) != Status::PENDING);
    }
    Ok(status(internal))
}

#[expect(clippy::cast_possible_truncation, reason = "an NTSTATUS has 32 bits")]
fn status(internal: &AtomicUsize) -> Status {
    Status::from_bits(internal.load(Ordering::Acquire) as u32)
}

/// Waits until `has_ended` returns true, and calls it after each end of a request of the file.
fn wait_for_end(file: &FileRef, has_ended: impl Fn() -> bool) {
    let end = EndWait {
        watcher: Watcher { wake },
        has_come: Mutex::new(false),
        woken: Condvar::default(),
    };
    let watcher = (&raw const end).cast();
    // SAFETY: the watcher does not move until it was removed below.
    unsafe { file.watch(watcher) };
    while !has_ended() {
        let mut has_come = end.has_come.lock();
        while !*has_come {
            (has_come, _) = end.woken.wait(has_come, None);
        }
        *has_come = false;
    }
    file.unwatch(watcher);
}

/// A wait for the end of a request, and its watcher.
#[derive(Debug)]
#[repr(C)]
struct EndWait {
    watcher: Watcher,
    has_come: Mutex<bool>,
    woken: Condvar,
}

unsafe extern "system" fn wake(watcher: *const Watcher) -> Bool {
    // SAFETY: only the watcher of `wait_for_end` calls this, which does not move until it is removed.
    let end = unsafe { &*watcher.cast::<EndWait>() };
    *end.has_come.lock() = true;
    end.woken.notify_one();
    0
}
