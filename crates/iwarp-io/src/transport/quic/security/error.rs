//! Errors in the certificates, keys and names given by a user.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why the certificates and keys of an adapter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecurityError {
    /// A file cannot be read, or does not contain the expected data.
    File {
        /// Its path.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A certificate and a key that cannot be used together.
    Credentials(String),
    /// A name that no server can have.
    ServerName(String),
    /// The system's source of random numbers fails, or the cryptography refuses its settings.
    Cryptography(String),
    /// The crate was built without the feature `udp`.
    NoUdp,
}

impl SecurityError {
    pub(super) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self::File {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for SecurityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Credentials(problem) => f.write_str(problem),
            Self::ServerName(name) => write!(
                f,
                "{name:?} is neither an IP address nor a DNS name, so no certificate can be valid for it"
            ),
            Self::Cryptography(problem) => write!(
                f,
                "the cryptography of QUIC fails ({problem}): check that the system has random numbers, or connect over TCP"
            ),
            Self::NoUdp => f.write_str(
                "this program was built without the feature `udp`, which has connections over UDP: build it with that feature, or connect over TCP",
            ),
        }
    }
}

impl std::error::Error for SecurityError {}

impl From<SecurityError> for io::Error {
    fn from(error: SecurityError) -> Self {
        let kind = match error {
            SecurityError::NoUdp => io::ErrorKind::Unsupported,
            SecurityError::Cryptography(_) => io::ErrorKind::Other,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}
