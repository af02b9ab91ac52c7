//! Symbolic links, whose owners count.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
pub(super) use system::descriptor;

/// The path with the links at its end followed, whether or not their target exists. Names of the descriptors of this process, such as
/// `/dev/stdout` and `/proc/self/fd/7`, are left to the system.
///
/// # Errors
///
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if a link belongs to a user other than this one and root; those of looking at a file.
pub fn followed(path: &Path) -> io::Result<PathBuf> {
    system::followed(path)
}

/// The absolute path of a file, without links. `path` is what [`followed`] has returned: a link that is at its end by now stays one.
///
/// # Errors
///
/// Those of looking at a folder.
pub fn without_links(path: &Path) -> io::Result<PathBuf> {
    system::without_links(path)
}

/// Has a file opened without following a link at the end of `path`, which was followed already. The system's names of descriptors are links.
pub(super) fn follow_no_more(options: &mut OpenOptions, path: &Path) {
    system::follow_no_more(options, path);
}

#[cfg(unix)]
mod system {
    use std::fs::{self, OpenOptions};
    use std::io::{self, ErrorKind};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::path::{Path, PathBuf};

    use rustix::fs::OFlags;
    use rustix::io::Errno;

    use super::super::owner;
    use super::super::refused::refused;

    /// The most links that are followed, as many as Linux follows.
    const LINKS: u32 = 40;

    pub(super) fn followed(path: &Path) -> io::Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let found = match fs::symlink_metadata(&path) {
                Err(error) if is_absence(&error) => return Ok(path),
                found => found?,
            };
            if !found.is_symlink() {
                return Ok(path);
            }
            if !owner::is_trusted(found.uid()) {
                return Err(refused(format!(
                    "{} is a link that another user made (user {})",
                    path.display(),
                    found.uid()
                )));
            }
            if descriptor(&path).is_some() {
                return Ok(path);
            }
            // A relative one begins where the link is.
            path = folder(&path).join(fs::read_link(&path)?);
        }
        Err(Errno::LOOP.into())
    }

    pub(super) fn without_links(path: &Path) -> io::Result<PathBuf> {
        match path.file_name() {
            Some(name) if descriptor(path).is_none() => {
                Ok(fs::canonicalize(folder(path))?.join(name))
            }
            _ => fs::canonicalize(path),
        }
    }

    fn is_absence(error: &io::Error) -> bool {
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
    }

    /// The descriptor of this process that a path names, if it does.
    pub(in crate::user_files) fn descriptor(path: &Path) -> Option<i32> {
        let number = path.file_name()?.to_str()?.parse().ok()?;
        let folder = folder(path);
        let is_of_process = || {
            let own = fs::canonicalize("/proc/self/fd").ok()?;
            Some(fs::canonicalize(folder).ok()? == own)
        };
        (folder == Path::new("/dev/fd") || is_of_process() == Some(true)).then_some(number)
    }

    pub(super) fn follow_no_more(options: &mut OpenOptions, path: &Path) {
        let mut flags = OFlags::NOCTTY;
        if descriptor(path).is_none() {
            flags |= OFlags::NOFOLLOW;
        }
        options.custom_flags(flags.bits().cast_signed());
    }

    fn folder(path: &Path) -> &Path {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }
}

/// The system follows links.
#[cfg(not(unix))]
mod system {
    use std::fs::OpenOptions;
    use std::io;
    use std::path::{Path, PathBuf};

    #[expect(clippy::unnecessary_wraps, reason = "on other systems it fails")]
    pub(super) fn followed(path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    pub(super) fn without_links(path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    pub(super) fn follow_no_more(_options: &mut OpenOptions, _path: &Path) {}
}
