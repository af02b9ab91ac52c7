//! Files for results. A command opens them before its work begins, and writes them when it is done.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::errors::{Failure, Result};
use crate::provider::user_files;

/// A file that will get the results. What it had stays until then.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// Name of the results, for errors.
    what: &'static str,
    file: File,
    /// The file was made for the results, and none are in it.
    is_empty: bool,
}

impl OutputFile {
    /// Opens or makes the file, which proves that it can be written.
    pub fn open(path: &Path, what: &'static str) -> Result<Self> {
        let opened = user_files::open_or_create(path);
        let (file, path, is_empty) = opened.map_err(|error| unwritten(what, path, &error))?;
        Ok(Self {
            path,
            what,
            file,
            is_empty,
        })
    }

    /// Writes the results in the place of what the file had.
    pub fn write(mut self, text: &str) -> Result<()> {
        let mut written = self.file.write_all(text.as_bytes());
        if written.is_ok() && self.file.metadata().is_ok_and(|found| found.is_file()) {
            written = self.file.set_len(text.len() as u64);
        }
        self.is_empty &= written.is_err();
        written.map_err(|error| unwritten(self.what, &self.path, &error))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_empty {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn unwritten(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::io(format_args!("write the {what} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_the_results_and_nothing_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "longer than the results").expect("written");
        for path in [&old, &new] {
            let file = OutputFile::open(path, "report").expect("opened");
            file.write("results").expect("written");
            assert_eq!(fs::read_to_string(path).expect("there"), "results");
        }
    }

    #[test]
    fn without_results_a_file_is_as_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "old").expect("written");
        for path in [&old, &new] {
            drop(OutputFile::open(path, "report").expect("opened"));
        }
        assert_eq!(fs::read_to_string(&old).expect("there"), "old");
        assert!(!new.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_leads_to_the_results() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        let file = OutputFile::open(&link, "report").expect("opened");
        file.write("results").expect("written");
        assert_eq!(fs::read_to_string(target).expect("there"), "results");
    }
}
