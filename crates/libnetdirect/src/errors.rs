//! Win32's error codes, and the last one of each thread.

use std::cell::Cell;

use netdirect_com::abi::{Bool, Status};

/// An error code of Win32, as GetLastError returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Win32Error(pub(crate) u32);

impl Win32Error {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const NOT_SUPPORTED: Self = Self(50);
    pub(crate) const INVALID_PARAMETER: Self = Self(87);
    /// WAIT_TIMEOUT.
    pub(crate) const WAIT_TIMEOUT: Self = Self(258);
    /// ERROR_ABANDONED_WAIT_0: the completion port was closed.
    pub(crate) const ABANDONED_WAIT: Self = Self(735);
    pub(crate) const IO_INCOMPLETE: Self = Self(996);
}

/// The conversion of RtlNtStatusToDosError.
impl From<Status> for Win32Error {
    fn from(status: Status) -> Self {
        Self(match status {
            Status::SUCCESS | Status::FALSE => 0,
            Status::INVALID_DEVICE_REQUEST => 1,
            Status::INVALID_HANDLE => 6,
            Status::NO_MEMORY => 8,
            Status::DEVICE_NOT_READY => 21,
            Status::INVALID_DEVICE_STATE => 22,
            Status::DATA_ERROR => 23,
            Status::UNSUCCESSFUL => 31,
            Status::SHARING_VIOLATION => 32,
            Status::NOT_SUPPORTED => 50,
            Status::REMOTE_ERROR => 51,
            Status::ADDRESS_ALREADY_EXISTS => 52,
            Status::INVALID_ADDRESS => 59,
            Status::CONNECTION_DISCONNECTED => 64,
            Status::BAD_NETWORK_NAME => 67,
            Status::TOO_MANY_ADDRESSES => 68,
            Status::INVALID_PARAMETER
            | Status::INVALID_PARAMETER_MIX
            | Status::INVALID_PARAMETER_1
            | Status::INVALID_PARAMETER_2
            | Status::INVALID_PARAMETER_3
            | Status::INVALID_PARAMETER_4
            | Status::INVALID_PARAMETER_5
            | Status::INVALID_PARAMETER_6
            | Status::INVALID_PARAMETER_7
            | Status::INVALID_PARAMETER_8
            | Status::INVALID_PARAMETER_9
            | Status::INVALID_PARAMETER_10 => 87,
            Status::IO_TIMEOUT => 121,
            Status::DEVICE_BUSY => 170,
            Status::BUFFER_OVERFLOW => 234,
            Status::NO_MORE_ENTRIES => 259,
            Status::CANCELED => 995,
            Status::PENDING => 997,
            Status::ACCESS_VIOLATION => 998,
            Status::DATA_OVERRUN => 1117,
            Status::POSSIBLE_DEADLOCK => 1131,
            Status::CONNECTION_REFUSED => 1225,
            Status::ADDRESS_ALREADY_ASSOCIATED => 1227,
            Status::CONNECTION_INVALID => 1229,
            Status::CONNECTION_ACTIVE => 1230,
            Status::NETWORK_UNREACHABLE => 1231,
            Status::HOST_UNREACHABLE => 1232,
            Status::CONNECTION_ABORTED => 1236,
            Status::INTERNAL_ERROR => 1359,
            Status::INSUFFICIENT_RESOURCES => 1450,
            Status::TIMEOUT => 1460,
            Status::DEVICE_REMOVED => 1617,
            Status::INVALID_BUFFER_SIZE => 1784,
            // ERROR_MR_MID_NOT_FOUND: a status without a code.
            _ => 317,
        })
    }
}

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
}

/// The error code of the thread's last function that has failed.
pub(crate) fn last() -> u32 {
    LAST.get()
}

pub(crate) fn set_last(error: Win32Error) {
    LAST.set(error.0);
}

/// The value of a call, or `failed` after its error was kept for GetLastError.
pub(crate) fn value_or<T>(failed: T, result: Result<T, Win32Error>) -> T {
    result.unwrap_or_else(|error| {
        set_last(error);
        failed
    })
}

/// TRUE, or FALSE after the error was kept for GetLastError.
pub(crate) fn answer(result: Result<(), Win32Error>) -> Bool {
    value_or(0, result.map(|()| 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_nd2_that_is_no_success_has_a_code() {
        for status in Status::ALL {
            let code = Win32Error::from(*status);
            let is_com = [Status::NO_INTERFACE, Status::FALSE].contains(status);
            assert!(is_com || code.0 != 317, "{status}");
            assert!(
                status.is_success() || code != Win32Error::SUCCESS,
                "{status}"
            );
        }
        assert_eq!(Win32Error::from(Status::from_bits(0xC123_4567)).0, 317);
    }
}
