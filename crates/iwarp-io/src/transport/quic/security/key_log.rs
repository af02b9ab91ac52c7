//! The keys of connections, in a file, for programs that decrypt captures.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rdma_buffer::environment;

use crate::log::targets;
use crate::user_files::secret;

use super::error::SecurityError;

/// The variable in which programs that decrypt captures expect the name of the file.
const VARIABLE: &str = "SSLKEYLOGFILE";

/// A file that gets the keys of connections ([`Security::key_log`](super::Security::key_log)), for programs that decrypt captures. A reader
/// of this file can decrypt the connections, also later.
///
/// Only this user may read the file: a new one has mode 0600. All clones write to the same file, from any thread.
#[derive(Clone)]
pub struct KeyLog {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    file: File,
}

impl KeyLog {
    /// Opens a file to which the keys are appended, or creates it.
    ///
    /// # Errors
    ///
    /// [`SecurityError::File`] if the file cannot be opened, or may be read by others, and for what
    /// [`Capture::create`](crate::capture::Capture::create) refuses.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SecurityError> {
        let path = path.as_ref();
        let file = secret::append(path).map_err(|error| {
            SecurityError::file(path, format!("cannot be used as a log of keys: {error}"))
        })?;
        Ok(Self {
            shared: Arc::new(Shared {
                path: path.to_owned(),
                file,
            }),
        })
    }

    /// Opens the file that the environment variable `SSLKEYLOGFILE` names. `None` if the variable is not set, or empty.
    ///
    /// # Errors
    ///
    /// Those of [`KeyLog::open`].
    pub fn from_environment() -> Result<Option<Self>, SecurityError> {
        let path = environment::variable(VARIABLE).filter(|path| !path.is_empty());
        path.map(Self::open).transpose()
    }

    /// Appends one line of the NSS key log format.
    pub(crate) fn append(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", Hex(client_random), Hex(secret));
        // One call for a line, so that lines of several threads and processes do not mix.
        if let Err(error) = (&self.shared.file).write_all(line.as_bytes()) {
            let path = self.shared.path.display();
            limited!(warn, target: targets::UDP, %path, %error, "the keys of a connection are not in the key log");
        }
    }

    /// The file's path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyLog").field(&self.shared.path).finish()
    }
}

/// A [`KeyLog`] as rustls calls it. It is a separate type, so that no release of rustls changes the functions of `KeyLog`.
#[cfg(feature = "udp")]
#[derive(Debug)]
pub(super) struct TlsKeyLog(pub(super) KeyLog);

#[cfg(feature = "udp")]
impl rustls::KeyLog for TlsKeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        self.0.append(label, client_random, secret);
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}
