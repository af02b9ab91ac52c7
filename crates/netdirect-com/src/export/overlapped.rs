//! `IND2Overlapped` of all objects that have requests.

use netdirect::Status;

use super::guard::guarded;
use super::pointers::{ClientOverlapped, Passed};
use super::requests::overlapped_result;
use crate::abi::{Bool, Overlapped, This};

/// GetOverlappedResult of all objects. It does not look at the object: another thread may give the last reference back while this one
/// waits, which then learns that the request was cancelled.
pub(super) unsafe extern "system" fn get_overlapped_result(
    _this: This,
    overlapped: *mut Overlapped,
    wait: Bool,
) -> Status {
    // SAFETY: the promise of clients (export).
    let overlapped = unsafe { ClientOverlapped::passed(overlapped) };
    guarded(None, || overlapped_result(overlapped, wait != 0))
}
