//! Requests whose ends are reported wrongly.

use std::ffi::c_void;
use std::mem::offset_of;
use std::time::Duration;

use netdirect::Status;
use netdirect_com::abi::*;

use super::library::{create_completion_queue, get, original, put};
use super::{Line, line};

pub(super) const LINES: &[Line] = &[
    line(
        "a shared receive queue knows only OVERLAPPEDs of its own",
        |broken| broken.tables.srq.overlapped.get_overlapped_result = canceled,
        &["TST-005.unused"],
    ),
    line(
        "a region leaves Internal as it was",
        |broken| broken.tables.region.overlapped.get_overlapped_result = old_content,
        &["TST-006.internal"],
    ),
    line(
        "Register sets no event",
        |broken| {
            broken.tables.region.register = no_event;
            broken.answer = Duration::from_millis(50);
        },
        &["GEN-007.border", "OVL-021.border"],
    ),
    line(
        "Register has a packet in spite of the lowest bit",
        |broken| broken.tables.region.register = in_spite,
        &["OVL-021.border"],
    ),
    line(
        "a completion queue with an event for a file gets one",
        |broken| broken.tables.adapter.create_completion_queue = any_file,
        &["ADPT-086.kinds"],
    ),
    line(
        "Notify takes anything for no event",
        |broken| broken.tables.cq.notify = any_event,
        &["ADPT-086.kinds"],
    ),
];

unsafe extern "system" fn canceled(_: This, _: *mut Overlapped, _: Bool) -> Status {
    Status::CANCELED
}

unsafe extern "system" fn old_content(
    this: This,
    overlapped: *mut Overlapped,
    wait: Bool,
) -> Status {
    let status = original!(
        region
            .overlapped
            .get_overlapped_result(this, overlapped, wait)
    );
    if status == Status::SUCCESS {
        put(overlapped.cast::<usize>(), 0x5A5A_5A5A);
    }
    status
}

/// `hEvent` of an OVERLAPPED.
fn event_of(overlapped: *mut Overlapped) -> *mut Handle {
    let event = overlapped.wrapping_byte_add(offset_of!(Overlapped, event));
    event.cast()
}

/// Registers with another `hEvent`, which the library reads only during the call.
fn register_with(
    this: This,
    (start, size): (*const c_void, usize),
    flags: u32,
    overlapped: *mut Overlapped,
    other: impl FnOnce(Handle) -> Handle,
) -> Status {
    let event = get(event_of(overlapped));
    put(event_of(overlapped), other(event));
    let status = original!(region.register(this, start, size, flags, overlapped));
    put(event_of(overlapped), event);
    status
}

unsafe extern "system" fn no_event(
    this: This,
    start: *const c_void,
    size: usize,
    flags: u32,
    overlapped: *mut Overlapped,
) -> Status {
    let marks = |event: Handle| std::ptr::without_provenance_mut(event.addr() & WAKE_EVENT_BIT);
    register_with(this, (start, size), flags, overlapped, marks)
}

unsafe extern "system" fn in_spite(
    this: This,
    start: *const c_void,
    size: usize,
    flags: u32,
    overlapped: *mut Overlapped,
) -> Status {
    let plain = |event: Handle| event.map_addr(|address| address & !WAKE_EVENT_BIT);
    register_with(this, (start, size), flags, overlapped, plain)
}

unsafe extern "system" fn any_file(
    this: This,
    iid: *const Guid,
    mut file: Handle,
    depth: u32,
    group: u16,
    affinity: usize,
    object: *mut This,
) -> Status {
    // SAFETY: the client's arguments.
    let status =
        unsafe { create_completion_queue(this, iid, file, depth, group, affinity, object) };
    if status != Status::INVALID_HANDLE || file.is_null() {
        return status;
    }
    original!(adapter.create_overlapped_file(this, &raw mut file));
    // SAFETY: the client's arguments, and a file.
    unsafe { create_completion_queue(this, iid, file, depth, group, affinity, object) }
}

unsafe extern "system" fn any_event(this: This, kind: u32, overlapped: *mut Overlapped) -> Status {
    let status = original!(cq.notify(this, kind, overlapped));
    if status != Status::INVALID_HANDLE {
        return status;
    }
    put(event_of(overlapped), std::ptr::null_mut());
    original!(cq.notify(this, kind, overlapped))
}
