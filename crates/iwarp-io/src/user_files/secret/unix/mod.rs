//! Secret files on Unix.

#[cfg(test)]
mod tests;

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::user_files::links::{descriptor, follow_no_more, followed};
use crate::user_files::owner;
use crate::user_files::refused::refused;

/// Read and write for the owner.
const PRIVATE: u32 = 0o600;
/// Read for the group and for all others.
const READ_BY_OTHERS: u32 = 0o044;
/// Read for the group, and anything for all others. The group of terminals may write to them.
const OPEN_TO_OTHERS: u32 = 0o047;

/// Opens a file to be written from its beginning. A new file has mode 0600. An existing file gets this mode, and is emptied.
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`] for what may not be written to (see the module); the errors of opening the file.
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
    let place = followed(path)?;
    let descriptor = descriptor(&place);
    if let Some(stream) = descriptor.map(standard_stream).transpose()?.flatten() {
        return Ok(stream);
    }
    let is_linked = descriptor.is_some() || place != path;
    if !is_linked {
        let created = options.clone().create_new(true).mode(PRIVATE).open(path);
        match created {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
    // To open a pipe waits for its reader, and to open a device may set it to work. What descriptors lead to is known only then.
    if descriptor.is_none() {
        check(&fs::symlink_metadata(&place)?, is_linked)?;
    }
    let mut options = options.clone();
    follow_no_more(&mut options, &place);
    let file = options.open(&place)?;
    let found = file.metadata()?;
    check(&found, is_linked)?;
    if found.file_type().is_char_device() && !is_bottomless(&found) && !file.is_terminal() {
        return Err(neither());
    }
    if found.is_file() {
        prepare(&file)?;
    }
    Ok(file)
}

/// Checks what is known of a file before it is opened.
fn check(found: &Metadata, is_linked: bool) -> io::Result<()> {
    let kind = found.file_type();
    if kind.is_symlink() {
        return Err(refused("it has just become a link"));
    }
    if kind.is_file() && is_linked {
        return Err(refused("it is a link to a file"));
    }
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if kind.is_char_device() && is_bottomless(found) {
        return Ok(());
    }
    if !(kind.is_file() || kind.is_fifo() || kind.is_char_device() && may_be_terminal(found)) {
        return Err(neither());
    }
    let user = found.uid();
    if owner::is_this_user(user) {
        let names = found.nlink();
        if kind.is_file() && names > 1 {
            return Err(refused(format!("it has {names} names (hard links)")));
        }
        return Ok(());
    }
    if kind.is_file() || !owner::is_root(user) {
        return Err(refused("it belongs to another user"));
    }
    let mode = found.mode() & 0o7777;
    if mode & OPEN_TO_OTHERS != 0 {
        return Err(refused(format!(
            "others may open it (its mode is {mode:04o})"
        )));
    }
    Ok(())
}

fn neither() -> io::Error {
    refused("it is neither a file, a pipe nor a terminal")
}

/// A standard stream of this process, if it has this number. A regular file is written to where the stream has arrived.
fn standard_stream(number: i32) -> io::Result<Option<File>> {
    let copy = match number {
        0 => io::stdin().as_fd().try_clone_to_owned()?,
        1 => io::stdout().as_fd().try_clone_to_owned()?,
        2 => io::stderr().as_fd().try_clone_to_owned()?,
        _ => return Ok(None),
    };
    let flags = rustix::fs::fcntl_getfl(&copy)?;
    if flags & OFlags::RWMODE == OFlags::RDONLY {
        return Err(refused("this standard stream is only read from"));
    }
    Ok(Some(copy.into()))
}

/// Returns true for the devices that keep nothing and never end: null, zero and full.
#[cfg(target_os = "linux")]
fn is_bottomless(found: &Metadata) -> bool {
    let device = found.rdev();
    rustix::fs::major(device) == 1 && matches!(rustix::fs::minor(device), 3 | 5 | 7)
}

#[cfg(not(target_os = "linux"))]
fn is_bottomless(found: &Metadata) -> bool {
    let is_same = |name: &&str| {
        fs::metadata(name).is_ok_and(|device| {
            device.file_type().is_char_device()
                && owner::is_root(device.uid())
                && device.rdev() == found.rdev()
        })
    };
    ["/dev/null", "/dev/zero", "/dev/full"].iter().any(is_same)
}

/// Returns true for devices that may be terminals, which only the opened device says for certain.
#[cfg(target_os = "linux")]
fn may_be_terminal(found: &Metadata) -> bool {
    let (major, minor) = (
        rustix::fs::major(found.rdev()),
        rustix::fs::minor(found.rdev()),
    );
    // Pseudo-terminals are not in sysfs.
    let is_pseudo = (136..=143).contains(&major);
    let subsystem = format!("/sys/dev/char/{major}:{minor}/subsystem");
    is_pseudo || fs::read_link(subsystem).is_ok_and(|subsystem| subsystem.ends_with("tty"))
}

#[cfg(not(target_os = "linux"))]
fn may_be_terminal(_found: &Metadata) -> bool {
    true
}
