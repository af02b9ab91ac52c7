//! Errors of calls.

use netdirect::{Error, Result, Status};

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
