//! Connectors that accept unreadable memory, or demand arguments that may be left out.

use std::ffi::c_void;
use std::ptr;

use netdirect::Status;
use netdirect_com::abi::*;

use super::library::original;
use super::{Line, line};

pub(super) const LINES: &[Line] = &[
    line(
        "a connector binds to an address that is cut short",
        |broken| broken.tables.connector.bind = any_length,
        &["CONN-013.short"],
    ),
    line(
        "Connect leaves out private data that it cannot read",
        |broken| broken.tables.connector.connect = connect,
        &["CONN-025.unreadable"],
    ),
    line(
        "Accept leaves out private data that it cannot read",
        |broken| broken.tables.connector.accept = accept,
        &["CONN-057.unreadable"],
    ),
    line(
        "Reject leaves out private data that it cannot read",
        |broken| broken.tables.connector.reject = reject,
        &["CONN-072.unreadable"],
    ),
    line(
        "GetReadLimits wants both pointers",
        |broken| broken.tables.connector.get_read_limits = both_limits,
        &["CONN-082.null"],
    ),
    line(
        "GetReadLimits without one pointer says nothing",
        |broken| broken.tables.connector.get_read_limits = both_or_none,
        &["CONN-082.null"],
    ),
];

unsafe extern "system" fn any_length(this: This, address: *const c_void, size: u32) -> Status {
    match original!(connector.bind(this, address, size)) {
        Status::INVALID_PARAMETER_2 => Status::SUCCESS,
        status => status,
    }
}

/// Replaces data that cannot be read by no data.
fn readable(data: *const c_void, size: u32) -> (*const c_void, u32) {
    if data.addr() < 0x10000 {
        (ptr::null(), 0)
    } else {
        (data, size)
    }
}

unsafe extern "system" fn connect(
    this: This,
    qp: This,
    address: *const c_void,
    size: u32,
    inbound: u32,
    outbound: u32,
    data: *const c_void,
    data_size: u32,
    overlapped: *mut Overlapped,
) -> Status {
    let (data, data_size) = readable(data, data_size);
    original!(connector.connect(
        this, qp, address, size, inbound, outbound, data, data_size, overlapped
    ))
}

unsafe extern "system" fn accept(
    this: This,
    qp: This,
    inbound: u32,
    outbound: u32,
    data: *const c_void,
    data_size: u32,
    overlapped: *mut Overlapped,
) -> Status {
    let (data, data_size) = readable(data, data_size);
    original!(connector.accept(this, qp, inbound, outbound, data, data_size, overlapped))
}

unsafe extern "system" fn reject(this: This, data: *const c_void, size: u32) -> Status {
    let (data, size) = readable(data, size);
    original!(connector.reject(this, data, size))
}

unsafe extern "system" fn both_limits(this: This, inbound: *mut u32, outbound: *mut u32) -> Status {
    if inbound.is_null() || outbound.is_null() {
        return Status::INVALID_PARAMETER;
    }
    original!(connector.get_read_limits(this, inbound, outbound))
}

unsafe extern "system" fn both_or_none(
    this: This,
    inbound: *mut u32,
    outbound: *mut u32,
) -> Status {
    if inbound.is_null() || outbound.is_null() {
        return Status::SUCCESS;
    }
    original!(connector.get_read_limits(this, inbound, outbound))
}
