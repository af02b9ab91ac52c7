//! Events, and waits for them.

#![allow(non_snake_case, reason = "the names are Windows'")]

use std::ffi::{c_char, c_void};
use std::ptr;
use std::slice;

use netdirect_com::abi::{Bool, Handle};
use netdirect_com::handle::{EventRef, wait, wait_for_all, wait_for_any};

use crate::errors::{Win32Error, answer, set_last, value_or};

/// MAXIMUM_WAIT_OBJECTS.
const MAX_EVENTS: u32 = 64;
/// WAIT_OBJECT_0.
const WAIT_OBJECT: u32 = 0;
const WAIT_TIMEOUT: u32 = 258;
const WAIT_FAILED: u32 = u32::MAX;

/// CreateEventA. Security attributes and names are not supported.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn CreateEventA(
    attributes: *const c_void,
    manual_reset: Bool,
    initial_state: Bool,
    name: *const c_char,
) -> Handle {
    let is_plain = attributes.is_null() && name.is_null();
    create(is_plain, manual_reset != 0, initial_state != 0)
}

/// CreateEventW. The name's type is `const WCHAR *`; a name is not supported.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn CreateEventW(
    attributes: *const c_void,
    manual_reset: Bool,
    initial_state: Bool,
    name: *const c_void,
) -> Handle {
    CreateEventA(attributes, manual_reset, initial_state, name.cast())
}

fn create(is_plain: bool, has_manual_reset: bool, is_set: bool) -> Handle {
    if !is_plain {
        set_last(Win32Error::NOT_SUPPORTED);
        return ptr::null_mut();
    }
    // On Windows, ERROR_ALREADY_EXISTS would report that the event is not new.
    set_last(Win32Error::SUCCESS);
    EventRef::create(has_manual_reset, is_set).into_handle()
}

/// Takes a reference for a call: a thread that wakes up may close the event before the call returns.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
unsafe fn event(handle: Handle) -> Result<EventRef, Win32Error> {
    // SAFETY: the promise of programs.
    unsafe { EventRef::retain(handle) }.map_err(Win32Error::from)
}

/// SetEvent.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn SetEvent(handle: Handle) -> Bool {
    // SAFETY: the promise of programs.
    answer(unsafe { event(handle) }.map(|event| event.set()))
}

/// ResetEvent.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn ResetEvent(handle: Handle) -> Bool {
    // SAFETY: the promise of programs.
    answer(unsafe { event(handle) }.map(|event| event.reset()))
}

/// WaitForSingleObject, for events.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn WaitForSingleObject(handle: Handle, milliseconds: u32) -> u32 {
    // SAFETY: the promise of programs.
    let is_set = unsafe { event(handle) }.map(|event| wait(&event, milliseconds));
    let waited = is_set.map(|is_set| if is_set { WAIT_OBJECT } else { WAIT_TIMEOUT });
    value_or(WAIT_FAILED, waited)
}

/// WaitForMultipleObjects, for events.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn WaitForMultipleObjects(
    count: u32,
    handles: *const Handle,
    wait_all: Bool,
    milliseconds: u32,
) -> u32 {
    // SAFETY: the promise of programs.
    let events = unsafe { events(handles, count) };
    let waited = events.and_then(|events| {
        if wait_all == 0 {
            let first = wait_for_any(&events, milliseconds);
            Ok(first.map(|index| WAIT_OBJECT + u32::try_from(index).expect("at most 64")))
        } else {
            let are_set = wait_for_all(&events, milliseconds)?;
            Ok(are_set.then_some(WAIT_OBJECT))
        }
    });
    value_or(
        WAIT_FAILED,
        waited.map(|waited| waited.unwrap_or(WAIT_TIMEOUT)),
    )
}

/// The events of an array.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
unsafe fn events(handles: *const Handle, count: u32) -> Result<Vec<EventRef>, Win32Error> {
    if handles.is_null() || !(1..=MAX_EVENTS).contains(&count) {
        return Err(Win32Error::INVALID_PARAMETER);
    }
    // SAFETY: the program passes `count` handles.
    let handles = unsafe { slice::from_raw_parts(handles, count as usize) };
    // SAFETY: the promise of programs.
    let events = handles.iter().map(|handle| unsafe { event(*handle) });
    events.collect()
}
