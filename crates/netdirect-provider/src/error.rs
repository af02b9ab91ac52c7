//! Errors of calls.

use netdirect::{Error, Fault, Result, Status};

/// Fails with this status and message.
///
/// # Errors
///
/// Always.
pub fn fail<T>(status: Status, what: &'static str) -> Result<T> {
    Err(Error::new(status, what))
}

/// Returns the error of a call that needs the device, when the device was removed (GEN-015).
#[cold]
#[must_use]
pub fn removed() -> Error {
    Error::new(
        Status::DEVICE_REMOVED,
        "the device was removed; open the adapter again",
    )
}

/// Returns the end of an overlapped request with this status, with words for the statuses by which clients and devices end requests of all
/// kinds.
#[cold]
#[must_use]
pub fn request_ends(status: Status) -> Error {
    match status {
        Status::CANCELED => Error::new(
            status,
            "the program cancelled the request, or released or flushed an object that the request was for",
        ),
        Status::DEVICE_REMOVED => removed(),
        _ => status.into(),
    }
}

/// Returns the error for a fault that an object of this provider cannot have.
#[must_use]
pub fn cannot_inject(fault: &Fault) -> Error {
    let what = format!("this object of the provider cannot have the fault {fault:?}");
    Error::new(Status::NOT_SUPPORTED, what)
}
