//! Where the file that is sent comes from: a regular file, or whatever else can be read to an end.

use std::fs::{self, File, Metadata};
use std::path::Path;

use crate::errors::{Failure, Result};
use crate::stderr;

/// The file to send. What is read from it counts, not what the system says of its size: files of `/proc` say 0.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: File,
    /// What is to be expected, where there is something to expect.
    pub(super) size: Option<u64>,
}

impl Source {
    /// Opens it. Of a pipe, waits until somebody writes to it, and says so.
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

/// A pipe that opening waits for. One that this process was started with has a name in `/proc` that leads nowhere.
#[cfg(unix)]
pub(super) fn is_named_pipe(path: &Path, found: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo() && fs::canonicalize(path).is_ok()
}

#[cfg(not(unix))]
pub(super) fn is_named_pipe(_: &Path, _: &Metadata) -> bool {
    false
}
