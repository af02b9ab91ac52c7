//! Files that only this user may read: captures, counters, and logs of keys.
//!
//! What a name leads to may change at any time, so each decision is made about the opened file. What may be written to:
//!
//! - a name that does not exist, which is made with mode 0600;
//! - a regular file of this user that has no other name;
//! - pipes and terminals that belong to this user, or to root and are not open to others;
//! - the system's null, zero and full;
//! - the standard streams of this process, whatever they are.
//!
//! All else is refused, and left as it was. Links that this user or root has made are followed, but not to regular files.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

#[cfg(unix)]
pub(crate) use unix::{append, create};
#[cfg(windows)]
pub(crate) use windows::{append, create};

/// Writes a whole file that only this user may read, in the place of one of this name that may be there: a reader finds the old octets or the
/// new ones, and never a part of them. They are written first to a file beside it, with `.part` behind the name.
///
/// # Errors
///
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) for what may not be written to; those of writing and renaming a file.
pub fn put_secret(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut part = OsString::from(path);
    part.push(".part");
    let part = Path::new(&part);
    create(part)?.write_all(octets)?;
    fs::rename(part, path)
}
