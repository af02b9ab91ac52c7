//! Files that are not secret.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::links::{follow_no_more, followed};
use super::rights::drop_special_bits;

/// Opens a file for results, which are not secret, or makes it. Returns its path with links followed, and true if it is new. What an existing
/// file has stays in it.
///
/// # Errors
///
/// Those of [`followed`], and those of opening a file.
pub fn open_or_create(path: &Path) -> io::Result<(File, PathBuf, bool)> {
    let path = followed(path)?;
    match create_new(&path) {
        Ok(file) => Ok((file, path, true)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Ok((open_existing(&path)?, path, false))
        }
        Err(error) => Err(error),
    }
}

/// Makes a file that does not exist yet. Its mode is what the umask leaves.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`], and those of opening a file.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Opens a file that exists, to be written. `path` is what [`followed`] has returned: a link that is there by now is not followed.
///
/// # Errors
///
/// Those of opening a file.
pub fn open_existing(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    follow_no_more(options.write(true), path);
    options.open(path)
}

/// Empties a regular file that is written in its place. Its rights stay, but not the bits by which a program has more rights than its user:
/// what is written comes from elsewhere.
///
/// # Errors
///
/// Those of truncating a file.
pub fn empty(file: &File) -> io::Result<()> {
    drop_special_bits(file)?;
    file.set_len(0)
}
