//! A folder for links that only the user can write.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use softnd::user_files::folder::lasting;

use crate::errors::Failure;
use crate::stderr;

/// Makes the folder, unless it is there. Others could lead the program to their own libraries if they could write it, or put another one in
/// its place.
pub(super) fn make() -> Result<PathBuf, Failure> {
    if let Some(runtime) = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
        && runtime.is_dir()
    {
        match usable(&runtime) {
            Ok(parent) => return in_folder(&parent),
            Err(why) => stderr::note(format_args!(
                "XDG_RUNTIME_DIR ({}) is not used: {why}",
                runtime.display()
            )),
        }
    }
    let temporary = env::temp_dir();
    let parent = usable(&temporary).map_err(|why| {
        Failure::new(
            format!(
                "cannot put the libraries' links into {}: {why}",
                temporary.display()
            ),
            "name a folder with TMPDIR that only you can write to, as those above it",
        )
    })?;
    in_folder(&parent)
}

/// The path of a folder whose contents stay what this user has made them, and which the dynamic linker takes in its lists; or why it is
/// none.
fn usable(folder: &Path) -> Result<PathBuf, String> {
    let folder = lasting(folder).map_err(|error| error.to_string())?;
    let is_special = |octet: &u8| matches!(octet, b' ' | b':' | b';' | b'$');
    if folder.as_os_str().as_encoded_bytes().iter().any(is_special) {
        return Err(format!(
            "the path {} has a space, colon, semicolon or dollar sign, which mean something else in the dynamic linker's lists of libraries",
            folder.display()
        ));
    }
    Ok(folder)
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
        .map_err(|error| Failure::io(format!("look at {}", folder.display()), &error))?;
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
    fn lists_of_libraries_take_no_folder_that_would_divide_them() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["a b", "a:b", "a;b", "$ORIGIN", "a$"] {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            let refused = usable(&folder).unwrap_err();
            assert!(refused.contains(name), "{refused}");
        }
        let folder = parent.path().join("a-b_c");
        fs::create_dir(&folder).unwrap();
        let link = parent.path().join("a link");
        symlink(&folder, &link).unwrap();
        assert_eq!(usable(&link).unwrap(), folder.canonicalize().unwrap());
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
