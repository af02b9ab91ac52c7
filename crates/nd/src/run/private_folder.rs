//! A folder for links that only the user can write.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::errors::Failure;

/// Makes the folder, unless it is there. Others could lead the program to their own libraries if they could write it.
pub(super) fn make() -> Result<PathBuf, Failure> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let parent = runtime.filter(|folder| folder.is_dir());
    let parent = parent.unwrap_or_else(env::temp_dir);
    in_folder(&parent)
}

fn in_folder(parent: &Path) -> Result<PathBuf, Failure> {
    let user = rustix::process::getuid().as_raw();
    let folder = parent.join(format!("softnd-verbs-{user}"));
    match DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => return Ok(folder),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(Failure::new(
                format!("cannot make {}: {error}", folder.display()),
                "name a folder that can be written with TMPDIR",
            ));
        }
    }
    let metadata = fs::symlink_metadata(&folder)
        .map_err(|error| Failure::io(format!("looking at {}", folder.display()), &error))?;
    if !metadata.is_dir() || metadata.uid() != user || metadata.mode() & 0o077 != 0 {
        return Err(Failure::new(
            format!("{} is not a folder that only you can use", folder.display()),
            "remove it, or name another folder with TMPDIR",
        ));
    }
    Ok(folder)
}

/// Makes a link in place of an older one. Other processes see the old one or the new one.
pub(super) fn link(to: &Path, at: &Path) -> io::Result<()> {
    if fs::read_link(at).is_ok_and(|old| old == to) {
        return Ok(());
    }
    let new = at.with_extension(format!("new-{}", std::process::id()));
    symlink(to, &new)?;
    fs::rename(&new, at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_can_use_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = in_folder(parent.path()).unwrap();
        assert_eq!(
            in_folder(parent.path()).unwrap(),
            folder,
            "it is used again"
        );
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = in_folder(parent.path()).unwrap_err().to_string();
        assert!(refused.contains("only you can use"), "{refused}");
        fs::remove_dir(&folder).unwrap();
        symlink(parent.path(), &folder).unwrap();
        assert!(in_folder(parent.path()).is_err(), "a link is followed");
    }

    #[test]
    fn a_link_replaces_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("lib.so.1");
        for to in ["/a", "/a", "/b"] {
            link(Path::new(to), &at).unwrap();
            assert_eq!(fs::read_link(&at).unwrap(), Path::new(to));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
