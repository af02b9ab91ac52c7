//! Conversion of errors of the system and of the device to the statuses of ND2.

use std::io;

use netdirect::{Error, RequestType, Status};

use crate::sys::bindings as c;

pub(crate) use netdirect_provider::{fail, removed};

/// The error of a call that could not create an object.
pub(crate) fn shortage(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| {
        let advice = match error.raw_os_error() {
            Some(libc::ENOMEM | libc::EAGAIN) => {
                "; raise the limit of locked memory (`ulimit -l`), or release objects that are not in use"
            }
            Some(libc::EPERM | libc::EACCES) => {
                "; this user may not use the device: look at /dev/infiniband and at `ulimit -l`"
            }
            Some(libc::EMFILE | libc::ENFILE) => "; raise the limit of descriptors (`ulimit -n`)",
            _ => "",
        };
        let status = match error.raw_os_error() {
            Some(libc::EIO | libc::ENODEV) => Status::DEVICE_REMOVED,
            _ => Status::INSUFFICIENT_RESOURCES,
        };
        Error::new(status, format!("{what}: {error}{advice}"))
    }
}

/// The status of a Connect that failed (CONN-021 to CONN-024).
pub(crate) fn connect_status(errno: i32) -> Status {
    match errno {
        libc::ENETUNREACH | libc::ENETDOWN | libc::EINVAL | libc::EAFNOSUPPORT | libc::ENODEV => {
            Status::NETWORK_UNREACHABLE
        }
        libc::EHOSTUNREACH | libc::EHOSTDOWN | libc::EACCES | libc::EPERM => {
            Status::HOST_UNREACHABLE
        }
        libc::ETIMEDOUT => Status::IO_TIMEOUT,
        // The four-tuple is in use (AMB-026).
        libc::EADDRNOTAVAIL | libc::EADDRINUSE => Status::ADDRESS_ALREADY_EXISTS,
        libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOBUFS => {
            Status::INSUFFICIENT_RESOURCES
        }
        libc::EIO => Status::DEVICE_REMOVED,
        _ => Status::CONNECTION_REFUSED,
    }
}

/// The status of a Bind or Listen that failed (CONN-008, LSTN-006).
pub(crate) fn bind_status(error: &io::Error) -> Status {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => Status::SHARING_VIOLATION,
        Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT | libc::ENODEV) => Status::INVALID_ADDRESS,
        Some(libc::EIO) => Status::DEVICE_REMOVED,
        _ => Status::INSUFFICIENT_RESOURCES,
    }
}

/// The status of a result (RES-015). A status that a kind of request cannot have becomes an internal error.
pub(crate) fn completion_status(kind: RequestType, status: c::ibv_wc_status) -> Status {
    let is_receive = kind == RequestType::Receive;
    let wanted = match status {
        c::IBV_WC_SUCCESS => Status::SUCCESS,
        c::IBV_WC_WR_FLUSH_ERR => Status::CANCELED,
        c::IBV_WC_LOC_LEN_ERR if is_receive => Status::BUFFER_OVERFLOW, // AMB-006
        c::IBV_WC_LOC_LEN_ERR => Status::DATA_OVERRUN,
        c::IBV_WC_LOC_PROT_ERR | c::IBV_WC_LOC_ACCESS_ERR | c::IBV_WC_REM_ACCESS_ERR => {
            Status::ACCESS_VIOLATION // AMB-002
        }
        c::IBV_WC_LOC_QP_OP_ERR | c::IBV_WC_MW_BIND_ERR => Status::INVALID_DEVICE_REQUEST,
        c::IBV_WC_RNR_RETRY_EXC_ERR | c::IBV_WC_RETRY_EXC_ERR | c::IBV_WC_RESP_TIMEOUT_ERR => {
            Status::IO_TIMEOUT // AMB-008
        }
        c::IBV_WC_REM_INV_REQ_ERR
        | c::IBV_WC_REM_OP_ERR
        | c::IBV_WC_REM_ABORT_ERR
        | c::IBV_WC_BAD_RESP_ERR => Status::REMOTE_ERROR,
        _ => Status::INTERNAL_ERROR,
    };
    if kind.allows(wanted) {
        wanted
    } else {
        Status::INTERNAL_ERROR
    }
}
