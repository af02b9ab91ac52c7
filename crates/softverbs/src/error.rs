//! Errors of calls: the number that C programs get, and a sentence for people.

use std::borrow::Cow;
use std::fmt;
use std::io;

pub use rustix::io::Errno;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call failed: an errno as in the manual pages, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    errno: Errno,
    what: Cow<'static, str>,
}

const NO_EVENT: &str = "no event waits";

impl Error {
    /// An error with this number.
    pub fn new(errno: Errno, what: impl Into<Cow<'static, str>>) -> Self {
        let what = what.into();
        Self { errno, what }
    }

    /// A call that must not wait has found no event.
    pub(crate) fn no_event() -> Self {
        Self::new(Errno::AGAIN, NO_EVENT)
    }

    /// Returns true if a call that must not wait has found no event, which is how programs poll.
    pub fn is_no_event(&self) -> bool {
        self.errno == Errno::AGAIN && self.what == NO_EVENT
    }

    /// The number.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// The number in the form of C programs, a positive one.
    pub fn raw(&self) -> i32 {
        self.errno.raw_os_error()
    }

    /// An error of the system, which happened while the crate did `what`.
    pub(crate) fn of_system(error: &io::Error, what: &str) -> Self {
        let errno = iwarp_io::system_call::errno(error).unwrap_or(Errno::IO);
        Self::new(errno, format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {}

/// Returns an error.
pub(crate) fn fail<T>(errno: Errno, what: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(Error::new(errno, what))
}
