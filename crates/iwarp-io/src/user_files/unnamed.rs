//! Files without a name, which Linux has.

use std::fs::File;
use std::io;
use std::path::Path;

/// A file in this folder that has no name yet. `None` if the file system or the system cannot do that.
///
/// # Errors
///
/// Those of looking at `/proc`.
pub fn create_unnamed(folder: &Path) -> io::Result<Option<File>> {
    system::create_unnamed(folder)
}

/// Gives such a file a name that no other file has.
///
/// # Errors
///
/// Those of linkat(2); [`Unsupported`](io::ErrorKind::Unsupported) on other systems.
pub fn give_name(file: &File, name: &Path) -> io::Result<()> {
    system::give_name(file, name)
}

/// `O_TMPFILE` makes such files, and `linkat` from `/proc` gives them a name (open(2)).
#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags};

    pub(super) fn create_unnamed(folder: &Path) -> io::Result<Option<File>> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH; // the umask applies
        match rustix::fs::open(folder, flags, mode) {
            // A file with a name reports a bad folder with a better error.
            Err(_) => Ok(None),
            Ok(file) => {
                let file = File::from(file);
                Ok(in_proc(&file).try_exists()?.then_some(file))
            }
        }
    }

    pub(super) fn give_name(file: &File, name: &Path) -> io::Result<()> {
        Ok(rustix::fs::linkat(
            CWD,
            in_proc(file),
            CWD,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }

    fn in_proc(file: &File) -> PathBuf {
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    #[expect(clippy::unnecessary_wraps, reason = "on other systems it fails")]
    pub(super) fn create_unnamed(_folder: &Path) -> io::Result<Option<File>> {
        Ok(None)
    }

    pub(super) fn give_name(_file: &File, _name: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
