//! The file that is sent: a regular file, or anything else that can be read to an end.

use std::fs::{self, File, Metadata};
use std::path::Path;

use crate::errors::{Failure, Result};
use crate::stderr;

/// The file to send. Only the octets that are read from it count, not the size that the system reports, because files of
/// `/proc` report 0.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: File,
    /// The expected size, if it is known.
    pub(super) size: Option<u64>,
}

impl Source {
    /// Opens the file. If it is a pipe, says so and waits until somebody writes to it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let explain = |error| Failure::io(format_args!("open {}", path.display()), &error);
        let found = fs::metadata(path).map_err(explain)?;
        if found.is_dir() {
            return Err(Failure::new(
                format!("cannot send {}: it is a directory", path.display()),
                "name a file",
            ));
        }
        if is_named_pipe(path, &found) {
            stderr::note(format_args!("waiting for data from {}", path.display()));
        }
        let file = File::open(path).map_err(explain)?;
        let size = found.is_file().then_some(found.len());
        Ok(Self {
            file,
            size: size.filter(|size| *size > 0),
        })
    }
}

/// Whether opening this file waits for a writer, because it is a named pipe. A pipe with which this process was started has
/// a name in `/proc` that leads nowhere.
#[cfg(unix)]
pub(super) fn is_named_pipe(path: &Path, found: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo() && fs::canonicalize(path).is_ok()
}

#[cfg(not(unix))]
pub(super) fn is_named_pipe(_: &Path, _: &Metadata) -> bool {
    false
}
