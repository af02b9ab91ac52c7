//! Errors of the system, with the call that the system refused.

use std::{fmt, io};

use crate::error_number::{ENOSYS, EPERM, Errno};

/// An error of the system that names the call.
#[derive(Debug)]
struct SystemCallError {
    call: &'static str,
    errno: Errno,
}

impl fmt::Display for SystemCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, errno } = self;
        write!(f, "the system refuses {call}: {}", io::Error::from(*errno))
    }
}

impl std::error::Error for SystemCallError {}

/// Adds the name of the call to an error that [`is_refusal`]; [`errno`] still finds the error's number. Other errors stay as they are.
#[inline] // a read of an idle connection ends with an error
pub(crate) fn named<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> io::Error {
    move |error| {
        let error = error.into();
        match errno(&error).filter(|errno| refuses(*errno)) {
            Some(errno) => of_call(call, errno),
            None => error,
        }
    }
}

/// An error of the system that names the call, whatever the error is.
pub(crate) fn of_call(call: &'static str, errno: Errno) -> io::Error {
    let kind = io::Error::from(errno).kind();
    io::Error::new(kind, SystemCallError { call, errno })
}

/// The number of an error of the system, whether or not the error names the call.
#[inline]
pub fn errno(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error).or_else(|| {
        let inner = error.get_ref()?.downcast_ref();
        inner.map(|SystemCallError { errno, .. }| *errno)
    })
}

/// Returns true if the system refuses the call itself: a rule of this machine forbids the call, or the system does not have it. Events of
/// peers and networks have other errors, and so has a shortage.
pub fn is_refusal(error: &io::Error) -> bool {
    errno(error).is_some_and(refuses)
}

const fn refuses(errno: Errno) -> bool {
    matches!(
        errno,
        EPERM | Errno::ACCESS | ENOSYS | Errno::NOPROTOOPT | Errno::OPNOTSUPP
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_error_keeps_its_number_and_kind() {
        let error = named("epoll_create1")(EPERM);
        assert_eq!(errno(&error), Some(EPERM));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(is_refusal(&error));
        let text = error.to_string();
        assert!(
            text.starts_with("the system refuses epoll_create1: "),
            "{text}"
        );
        let number = format!("(os error {})", EPERM.raw_os_error());
        assert!(text.ends_with(&number), "{text}");
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        for errno in [Errno::WOULDBLOCK, Errno::ADDRINUSE, Errno::MFILE] {
            let error = named("accept")(errno);
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
            assert!(!is_refusal(&error));
        }
        let other = named("accept")(io::Error::other("of a simulation"));
        assert_eq!(
            (errno(&other), other.to_string().as_str()),
            (None, "of a simulation")
        );
    }
}
