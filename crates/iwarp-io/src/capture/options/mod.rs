//! The room that a capture may take.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::pcapng::Sink;
use crate::log::targets;
use crate::user_files::secret;

/// The room of a capture, and who learns that it is taken.
///
/// Peers decide how much a capture records. So it has a limit: what is beyond it is left out, and that is said once. With several files the
/// capture goes on instead: each file takes its part of the limit, and the oldest gives way. The connections go on in any case.
///
/// ```no_run
/// use iwarp_io::capture::CaptureOptions;
///
/// // The newest 300 to 400 MiB, in adapter-1.pcapng to adapter-4.pcapng.
/// let capture = CaptureOptions::default()
///     .limit(400 << 20)
///     .files(4)
///     .create("adapter.pcapng")?;
/// # drop(capture);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaptureOptions {
    limit: u64,
    files: u32,
    on_full: fn(&str),
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self {
            limit: Self::LIMIT,
            files: 1,
            on_full: |text| tracing::warn!(target: targets::CAPTURE, "{text}"),
        }
    }
}

impl CaptureOptions {
    /// The limit by default: 1 GiB.
    pub const LIMIT: u64 = 1 << 30;
    /// The most files. All of them are open as long as the capture.
    pub const MOST_FILES: u32 = 64;
    /// The least octets of a file: some of the largest packets.
    pub const LEAST: u64 = 256 << 10;

    /// Sets the most octets of all files together. Default: 1 GiB.
    #[must_use]
    pub fn limit(mut self, octets: u64) -> Self {
        self.limit = octets;
        self
    }

    /// Sets the number of files that take turns. Default: 1, which ends at the limit.
    #[must_use]
    pub fn files(mut self, files: u32) -> Self {
        self.files = files;
        self
    }

    /// Sets what is called once when the capture has reached its limit, with a sentence for the user. Default: a warning in the log.
    #[must_use]
    pub fn on_full(mut self, say: fn(&str)) -> Self {
        self.on_full = say;
        self
    }

    /// Opens the file or files.
    pub(super) fn open(&self, path: &Path) -> io::Result<Sink> {
        self.check()?;
        if self.files > 1 && fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            let why = "several files cannot take turns here, because it is no file";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let files = self.paths(path);
        let files = files.iter().map(|file| secret::create(file));
        let files = files.collect::<io::Result<Vec<_>>>()?;
        Sink::ring(files, self.limit / u64::from(self.files))
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput), as for [`create`](Self::create).
    pub fn check(&self) -> io::Result<()> {
        let why = if !(1..=Self::MOST_FILES).contains(&self.files) {
            format!(
                "a capture has from 1 to {} files, not {}",
                Self::MOST_FILES,
                self.files
            )
        } else if self.limit / u64::from(self.files) < Self::LEAST {
            format!(
                "a capture needs {} KiB for each file: its limit is {} octets, for {}",
                Self::LEAST >> 10,
                self.limit,
                self.count()
            )
        } else {
            return Ok(());
        };
        Err(io::Error::new(ErrorKind::InvalidInput, why))
    }

    /// The files that a capture with this name writes.
    pub fn paths(&self, path: &Path) -> Vec<PathBuf> {
        if self.files == 1 {
            return vec![path.to_owned()];
        }
        (1..=self.files)
            .map(|number| numbered(path, number))
            .collect()
    }

    fn count(&self) -> String {
        match self.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        }
    }

    pub(super) fn say_full(&self) {
        (self.on_full)(&format!(
            "the capture has reached its limit of {} octets and ends; the connections go on",
            self.limit
        ));
    }
}

/// The name of one of several files.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}
