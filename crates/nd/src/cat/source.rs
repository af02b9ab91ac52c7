//! The file that is sent: a regular file, standard input, or anything else that can be read to an end.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::errors::{Failure, Result};
use crate::stderr;

/// The file to send.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: File,
    /// The octets that are sent: those that a regular file has now. `None`: all octets up to the end, whenever that comes.
    pub(super) size: Option<u64>,
    /// What messages call it.
    pub(super) name: String,
}

/// The path that means standard input.
const STDIN: &str = "-";

impl Source {
    /// Opens the file. If it is a pipe, prints a message and waits for a writer.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let is_stdin = path == Path::new(STDIN);
        let name = if is_stdin {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let explain = |error| Failure::io(format_args!("open {name}"), &error);
        // A directory can be opened on some systems only.
        let check = |found: &Metadata| {
            if !found.is_dir() {
                return Ok(());
            }
            let what = format!("cannot send {name}: it is a directory");
            Err(Failure::new(what, "name a file"))
        };
        let mut file = if is_stdin {
            stdin().map_err(explain)?
        } else {
            let found = fs::metadata(path).map_err(explain)?;
            check(&found)?;
            if is_named_pipe(path, &found) {
                stderr::note(format_args!("waiting for data from {name}"));
            }
            File::open(path).map_err(explain)?
        };
        check(&file.metadata().map_err(explain)?)?;
        let size = size(&mut file).map_err(explain)?;
        Ok(Self { file, size, name })
    }

    /// A path that leads to the same file, for [`super::place`].
    pub(super) fn place(path: &Path) -> &Path {
        if path == Path::new(STDIN) && cfg!(unix) {
            Path::new("/dev/stdin")
        } else {
            path
        }
    }
}

/// Standard input without the buffer of `std`.
#[cfg(unix)]
fn stdin() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

#[cfg(windows)]
fn stdin() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
}

/// The octets of a regular file that are left to read. `None` if the system's figure is not that of the octets: files of `/proc`
/// report 0, and those of `/sys` a whole page, so the last octet is looked at.
fn size(file: &mut File) -> io::Result<Option<u64>> {
    let found = file.metadata()?;
    let Some(last) = found.len().checked_sub(1).filter(|_| found.is_file()) else {
        return Ok(None);
    };
    let begin = file.stream_position()?;
    file.seek(SeekFrom::Start(last))?;
    let is_there = file.read(&mut [0])? > 0;
    file.seek(SeekFrom::Start(begin))?;
    Ok(found.len().checked_sub(begin).filter(|_| is_there))
}

/// Returns true if opening this file waits for a writer, because it is a named pipe. A pipe with which this process was started has
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

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of(path: &Path) -> Option<u64> {
        Source::open(path).expect("opened").size
    }

    #[test]
    fn a_size_is_stated_for_octets_that_are_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, [7; 5000]).expect("written");
        let Source { mut file, size, .. } = Source::open(&path).expect("opened");
        assert_eq!(size, Some(5000));
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).expect("read");
        assert_eq!(octets, [7; 5000], "from the beginning");
        fs::write(&path, "").expect("written");
        assert_eq!(size_of(&path), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_size_is_stated_where_the_systems_figure_is_another_one() {
        assert_eq!(size_of(Path::new("/proc/version")), None);
        assert_eq!(size_of(Path::new("/dev/null")), None);
        let of_a_page = Path::new("/sys/devices/system/cpu/online");
        if of_a_page.exists() {
            assert_eq!(size_of(of_a_page), None);
        }
    }
}
