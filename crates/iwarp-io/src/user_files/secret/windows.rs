//! Private files on Windows. A new file there has the rights of its folder, and folders of a user's profile are readable by this user only.
//! So the rights of files are neither changed nor checked.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a link itself and not its target (`FILE_FLAG_OPEN_REPARSE_POINT`).
const NO_FOLLOW: u32 = 0x0020_0000;

/// Opens a file to be written from its beginning. An existing file is emptied.
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`] if the name is a link; the errors of opening the file.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let (file, is_new) = open(path, OpenOptions::new().write(true))?;
    if !is_new && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Opens a file to be appended to, or creates it.
///
/// # Errors
///
/// Those of [`create`].
pub(crate) fn append(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().append(true)).map(|(file, _)| file)
}

/// Opens the file, or creates it. Returns true if it is new.
fn open(path: &Path, options: &OpenOptions) -> io::Result<(File, bool)> {
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        created => return created.map(|file| (file, true)),
    }
    let file = options.clone().custom_flags(NO_FOLLOW).open(path)?;
    if file.metadata()?.file_type().is_symlink() {
        let why = "it is a link".to_owned();
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok((file, false))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_emptied_or_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        create(&path).unwrap().write_all(b"first").unwrap();
        append(&path).unwrap().write_all(b" more").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first more");
        create(&path).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(create(folder.path()).is_err());
    }
}
