//! Private files on Unix. Links are followed only to pipes and devices (`/dev/stdout` is such a link).

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

/// Read and write for the owner.
const PRIVATE: u32 = 0o600;
/// Read for the group and for all others.
const READ_BY_OTHERS: u32 = 0o044;

/// Opens a file to be written from its beginning. A new file has mode 0600. An existing file gets this mode, and is emptied.
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`] if the name is a link to a regular file, or if the file belongs to another user; the
/// errors of opening the file.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut writing = OpenOptions::new();
    open(path, writing.write(true), |file| {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
        file.set_len(0)
    })
}

/// Opens a file to be appended to. A new file has mode 0600.
///
/// # Errors
///
/// Those of [`create`], and [`ErrorKind::PermissionDenied`] if others may read the file: it may be open already, or copied.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    let mut appending = OpenOptions::new();
    open(path, appending.append(true), |file| {
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        if mode & READ_BY_OTHERS == 0 {
            return Ok(());
        }
        Err(refused(format!(
            "others may read it (its mode is {mode:04o}, and must be {PRIVATE:04o})"
        )))
    })
}

/// Opens the file, or creates it. `prepare` gets an existing regular file of this user.
fn open(
    path: &Path,
    options: &OpenOptions,
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<File> {
    let created = options.clone().create_new(true).mode(PRIVATE).open(path);
    match created {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    let (file, linked) = match options.clone().custom_flags(no_follow).open(path) {
        Ok(file) => (file, false),
        Err(error) if is_of_link(&error) => (options.open(path)?, true),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if found.is_file() {
        if linked {
            return Err(refused("it is a link to a file".to_owned()));
        }
        if found.uid() != geteuid().as_raw() {
            return Err(refused("it belongs to another user".to_owned()));
        }
        prepare(&file)?;
    }
    Ok(file)
}

/// Returns true if a link was not followed. FreeBSD has a separate error for this.
fn is_of_link(error: &io::Error) -> bool {
    [Errno::LOOP, Errno::MLINK]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn refused(why: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}
