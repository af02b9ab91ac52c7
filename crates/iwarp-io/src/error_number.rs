//! The numbers of errors, on every system.
//!
//! [`Errno`] has a name for each error that sockets have. For some errors of Unix, Windows has numbers of system errors, which `Errno` does
//! not name. This module names them, so that transports, the simulated network and the statuses of a provider compare one number with one
//! name. The standard library gives both numbers of a pair the same kind.

pub use rustix::io::Errno;

#[cfg(unix)]
use rustix::io::Errno as system;

/// The numbers of Windows (winerror.h).
#[cfg(windows)]
#[expect(
    non_camel_case_types,
    reason = "it stands where other systems have the type of numbers"
)]
struct system;

#[cfg(windows)]
impl system {
    /// `ERROR_BROKEN_PIPE`.
    const PIPE: Errno = Errno::from_raw_os_error(109);
    /// `ERROR_NOT_ENOUGH_MEMORY`.
    const NOMEM: Errno = Errno::from_raw_os_error(8);
    /// `ERROR_NO_SYSTEM_RESOURCES`.
    const NFILE: Errno = Errno::from_raw_os_error(1450);
    /// `ERROR_ACCESS_DENIED`.
    const PERM: Errno = Errno::from_raw_os_error(5);
    /// `ERROR_CALL_NOT_IMPLEMENTED`.
    const NOSYS: Errno = Errno::from_raw_os_error(120);
}

/// This end of the stream is closed for sending, or the peer has broken the connection.
pub const EPIPE: Errno = system::PIPE;
/// The system has no memory left.
pub const ENOMEM: Errno = system::NOMEM;
/// The system has no descriptors left, whatever the process may have.
pub const ENFILE: Errno = system::NFILE;
/// A rule of the machine forbids the call.
pub const EPERM: Errno = system::PERM;
/// The system does not have the call.
pub const ENOSYS: Errno = system::NOSYS;

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn the_numbers_have_the_same_kinds_on_every_system() {
        let kind = |errno: Errno| Error::from(errno).kind();
        assert_eq!(kind(EPIPE), ErrorKind::BrokenPipe);
        assert_eq!(kind(ENOMEM), ErrorKind::OutOfMemory);
        assert_eq!(kind(EPERM), ErrorKind::PermissionDenied);
        assert_eq!(kind(ENOSYS), ErrorKind::Unsupported);
        let all = [EPIPE, ENOMEM, ENFILE, EPERM, ENOSYS];
        for (at, errno) in all.iter().enumerate() {
            assert!(!all[..at].contains(errno), "{errno:?} has two names");
        }
    }
}
