//! How a call ends: an error, or one of two ways to succeed.

use std::borrow::Cow;
use std::fmt;

use crate::Status;

/// Why a call failed: the ND status, and an explanation for people.
///
/// An `Error` is returned by the call itself. If an overlapped request fails later, its [`Overlapped`](crate::Overlapped) has
/// the [`Status`], and its [`result`](crate::Overlapped::result) the explanation; if a request on a queue pair fails later, its [`CompletionResult`](crate::CompletionResult) has the
/// status.
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

/// The result of a call. The `Ok` value holds what ND2 returns in out parameters.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    /// An error with an explanation: one line without a full stop that says what was wrong and, where this helps, what to do.
    pub fn new(status: Status, what: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            what: what.into(),
        }
    }

    /// The ND status. Programs should decide by the status alone.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The explanation, which may be empty.
    pub fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn into_what(self) -> Cow<'static, str> {
        self.what
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
    /// `Ok` for [`SUCCESS`](Self::SUCCESS), and `Err` for every other status. This includes [`TIMEOUT`](Self::TIMEOUT) and
    /// [`PENDING`](Self::PENDING), which [`is_success`](Self::is_success) counts as success: a request that timed out has
    /// not done its work, and a pending request has not done it yet.
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

/// How far the request of an overlapped method is when the method returns without an error (GEN-007, GEN-008).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "Pending means that the result comes later"]
pub enum Started {
    /// `ND_PENDING`: the request is in flight, or has ended in the meantime. In both cases its end is notified.
    Pending,
    /// `ND_SUCCESS`: the request has succeeded within the call. No event is set, and no packet is queued.
    Done,
}

impl From<rdma_buffer::NoMemory> for Error {
    fn from(error: rdma_buffer::NoMemory) -> Self {
        Self::new(Status::NO_MEMORY, error.to_string())
    }
}
