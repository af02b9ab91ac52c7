//! The error of a call that could not start, and the two ways in which one can.

use std::borrow::Cow;
use std::fmt;

use crate::Status;

/// Why a call failed: the ND status, and for people what was wrong.
///
/// Only a call that returns reports an `Error`. An overlapped request that failed later ends with a [`Status`] in its
/// [`Overlapped`](crate::Overlapped), a queued request with one in its [`CompletionResult`](crate::CompletionResult).
///
/// ```
/// use netdirect::{Error, Status};
///
/// let error = Error::new(Status::SHARING_VIOLATION, "port 4791 is taken");
/// assert_eq!(error.status(), Status::SHARING_VIOLATION);
/// assert_eq!(error.to_string(), "ND_SHARING_VIOLATION: port 4791 is taken");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    what: Cow<'static, str>,
}

/// What every call returns; ND2's out parameters are the `Ok` value.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    /// An error with its explanation: one line, no full stop, saying what was wrong and where it helps what to do.
    pub fn new(status: Status, what: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            what: what.into(),
        }
    }

    /// The ND status, the only part that programs should look at.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The explanation; empty when the status says it all.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self {
            status,
            what: Cow::Borrowed(""),
        }
    }
}

impl Status {
    /// `Ok` for [`SUCCESS`](Self::SUCCESS), `Err` with the status otherwise: also with those that
    /// [`is_success`](Self::is_success) does not take for failures. A request that ended with [`TIMEOUT`](Self::TIMEOUT) has not
    /// done what was asked, and one that is [`PENDING`](Self::PENDING) has not yet.
    pub fn ok(self) -> Result<()> {
        if self == Self::SUCCESS {
            Ok(())
        } else {
            Err(self.into())
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.what.is_empty() {
            write!(f, "{}", self.status)
        } else {
            write!(f, "{}: {}", self.status, self.what)
        }
    }
}

impl std::error::Error for Error {}

/// How an overlapped method that did not fail went (GEN-007, GEN-008).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "Pending means that the result comes later"]
pub enum Started {
    /// `ND_PENDING`: the request is under way, or has ended already; in both cases its end is notified.
    Pending,
    /// `ND_SUCCESS`: finished well within the call. No event is set and no packet posted.
    Done,
}

impl From<rdma_buffer::NoMemory> for Error {
    fn from(error: rdma_buffer::NoMemory) -> Self {
        Self::new(Status::NO_MEMORY, error.to_string())
    }
}
