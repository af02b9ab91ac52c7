//! The error for what a user should name otherwise.

use std::io::{self, ErrorKind};

pub(super) fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why.into())
}
