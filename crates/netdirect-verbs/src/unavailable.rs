//! The reasons why a machine has no provider over rdma-core.

use std::fmt;

use netdirect::{Error, Status};

/// The reason why [`provider`](crate::provider) has no provider for this machine. It is printed as one line, with the remedy.
///
/// As an [`Error`] of ND2 it has the status [`DEVICE_NOT_READY`](Status::DEVICE_NOT_READY).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The system is not Linux.
    OtherSystem,
    /// A library cannot be loaded.
    #[non_exhaustive]
    LibraryMissing {
        /// The library's file.
        file: &'static str,
        /// The Debian name of the package that contains the file.
        package: &'static str,
        /// The message of the system.
        error: String,
    },
    /// A library lacks a function.
    #[non_exhaustive]
    LibraryTooOld {
        /// The library's file.
        file: &'static str,
        /// The Debian name of the package that contains the file.
        package: &'static str,
        /// The message of the system.
        error: String,
    },
    /// The machine has no RDMA device.
    NoDevice,
    /// The kernel's RDMA connection manager cannot be used.
    #[non_exhaustive]
    NoConnectionManager {
        /// The message of the system.
        error: String,
    },
}

/// The problem of a machine without devices.
const NO_DEVICE: &str = "this machine has no RDMA device";
/// The remedy.
const MAKE_DEVICE: &str = "`rdma link add siw0 type siw netdev …` makes one in software";

impl Unavailable {
    /// The problem.
    pub fn reason(&self) -> String {
        match self {
            Self::OtherSystem => {
                "RDMA devices are reached by rdma-core, which only Linux has".to_owned()
            }
            Self::LibraryMissing { file, error, .. } => {
                format!("{file} of rdma-core cannot be loaded ({error})")
            }
            Self::LibraryTooOld { file, error, .. } => {
                format!("{file} of rdma-core is too old ({error})")
            }
            Self::NoDevice => NO_DEVICE.to_owned(),
            Self::NoConnectionManager { error } => {
                format!("the kernel's RDMA connection manager cannot be used ({error})")
            }
        }
    }

    /// The remedy.
    pub fn advice(&self) -> String {
        match self {
            Self::OtherSystem => "use another provider".to_owned(),
            Self::LibraryMissing { package, .. } => format!("install the package {package}"),
            Self::LibraryTooOld { package, .. } => format!("install a newer package {package}"),
            Self::NoDevice => MAKE_DEVICE.to_owned(),
            Self::NoConnectionManager { .. } => {
                "load the module rdma_ucm, and look whether this user may open /dev/infiniband/rdma_cm".to_owned()
            }
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason(), self.advice())
    }
}

impl std::error::Error for Unavailable {}

impl From<Unavailable> for Error {
    fn from(unavailable: Unavailable) -> Self {
        Self::new(Status::DEVICE_NOT_READY, unavailable.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_to_do_are_one_line() {
        let missing = Unavailable::LibraryMissing {
            file: "libibverbs.so.1",
            package: "libibverbs1",
            error: "not found: nowhere".to_owned(),
        };
        assert_eq!(missing.advice(), "install the package libibverbs1");
        let reason = "libibverbs.so.1 of rdma-core cannot be loaded (not found: nowhere)";
        assert_eq!(missing.reason(), reason);
        let error = Error::from(missing);
        assert_eq!(error.status(), Status::DEVICE_NOT_READY);
        assert_eq!(
            error.what(),
            format!("{reason}: install the package libibverbs1")
        );
        let all = [
            Unavailable::OtherSystem,
            Unavailable::LibraryTooOld {
                file: "librdmacm.so.1",
                package: "librdmacm1",
                error: "no symbol".to_owned(),
            },
            Unavailable::NoDevice,
            Unavailable::NoConnectionManager {
                error: "no such file".to_owned(),
            },
        ];
        for unavailable in all {
            let line = unavailable.to_string();
            assert!(
                !line.contains('\n') && line.ends_with(&unavailable.advice()),
                "{line}"
            );
        }
    }
}
