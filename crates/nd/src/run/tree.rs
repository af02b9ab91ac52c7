//! The tree of files that programs see below `/sys/class/infiniband` and `/dev/infiniband`.
//!
//! There is one tree for each set of devices, named by its contents, in a folder that only the user can write. A run first looks whether the
//! tree is whole: what removes old files from temporary folders may have been at work. It makes what is missing, under a lock, by renaming
//! whole files, so that programs of other runs never see a part of one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use softverbs::Device;

use super::attributes::{Entries, Entry};
use crate::errors::Failure;

/// The longest root that the library takes (`nd-paths`).
const LONGEST_ROOT: usize = 1024;

/// Makes the tree of these devices in the private folder, unless it is there. Returns its root.
pub(super) fn make(devices: &[impl AsRef<Device>], private: &Path) -> Result<PathBuf, Failure> {
    in_folder(private, &Entries::of(devices))
}

fn in_folder(folder: &Path, entries: &Entries) -> Result<PathBuf, Failure> {
    // The name of the folder after the C library has followed links, so that the root is found in its results.
    let folder = folder
        .canonicalize()
        .map_err(|error| Failure::io(format!("look at {}", folder.display()), &error))?;
    let root = folder.join(format!("paths-{}", name_of(entries)));
    if root.as_os_str().len() > LONGEST_ROOT {
        return Err(Failure::new(
            format!("the path {} is too long", root.display()),
            "name a folder with a shorter path with TMPDIR",
        ));
    }
    if !is_whole(&root, entries) {
        mend(&folder, &root, entries).map_err(|error| {
            Failure::new(
                format!("cannot describe the devices in {}: {error}", root.display()),
                "name a folder that can be written with TMPDIR",
            )
        })?;
    }
    Ok(root)
}

/// A name that follows from the contents.
fn name_of(entries: &Entries) -> String {
    let mut digest = Sha256::new();
    for (path, entry) in &entries.0 {
        let (kind, text) = match entry {
            Entry::File(text) => ("file", text),
            Entry::Link(to) => ("link", to),
        };
        for part in [kind, path, text] {
            digest.update(part);
            digest.update([0]);
        }
    }
    let digest = digest.finalize();
    digest
        .iter()
        .take(8)
        .map(|octet| format!("{octet:02x}"))
        .collect()
}

fn is_there(path: &Path, entry: &Entry) -> bool {
    match entry {
        Entry::File(text) => fs::read(path).is_ok_and(|found| found == text.as_bytes()),
        Entry::Link(to) => fs::read_link(path).is_ok_and(|found| found == Path::new(to)),
    }
}

fn is_whole(root: &Path, entries: &Entries) -> bool {
    let mut all = entries.0.iter();
    all.all(|(path, entry)| is_there(&root.join(path), entry))
}

/// Makes what is missing.
fn mend(folder: &Path, root: &Path, entries: &Entries) -> io::Result<()> {
    // Held until this file is closed, and by no process that has ended.
    let lock = File::create(folder.join("paths.lock"))?;
    lock.lock()?;
    let new = folder.join("paths.new");
    for (path, entry) in &entries.0 {
        let path = root.join(path);
        if is_there(&path, entry) {
            continue;
        }
        let above = path.parent().unwrap_or(root);
        fs::create_dir_all(above)?;
        // One that a run has left which was killed.
        let _ = fs::remove_file(&new);
        match entry {
            Entry::File(text) => File::create_new(&new)?.write_all(text.as_bytes())?,
            Entry::Link(to) => symlink(to, &new)?,
        }
        fs::rename(&new, &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    fn entries() -> Entries {
        let file = |path: &str, text: &str| (path.to_owned(), Entry::File(text.to_owned()));
        let link = |path: &str, to: &str| (path.to_owned(), Entry::Link(to.to_owned()));
        Entries(vec![
            file("sys/a/b", "one\n"),
            file("sys/a/c", "two\n"),
            link("dev/d", "/dev/null"),
        ])
    }

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_thousand_runs_leave_one_tree() {
        let folder = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..250 {
                        let root = in_folder(folder.path(), &entries()).unwrap();
                        assert_eq!(fs::read_to_string(root.join("sys/a/c")).unwrap(), "two\n");
                    }
                });
            }
        });
        assert_eq!(count(folder.path()), 2, "a tree and the lock");
        let mut others = entries();
        others.0.pop();
        in_folder(folder.path(), &others).unwrap();
        assert_eq!(
            count(folder.path()),
            3,
            "another set of devices has another tree"
        );
    }

    #[test]
    fn what_is_missing_or_changed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = in_folder(folder.path(), &entries()).unwrap();
        fs::remove_dir_all(root.join("sys")).unwrap();
        fs::remove_file(root.join("dev/d")).unwrap();
        fs::write(root.join("dev/d"), "no link").unwrap();
        fs::write(
            folder.path().join("paths.new"),
            "left by a run that was killed",
        )
        .unwrap();
        assert_eq!(in_folder(folder.path(), &entries()).unwrap(), root);
        assert!(is_whole(&root, &entries()));
        assert_eq!(count(folder.path()), 2);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_one_sentence() {
        // Not even root makes files in a folder that is a file.
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join(format!("paths-{}", name_of(&entries())));
        fs::write(&root, "").unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o400)).unwrap();
        let failed = in_folder(folder.path(), &entries())
            .unwrap_err()
            .to_string();
        assert!(failed.contains("cannot describe the devices"), "{failed}");
        assert!(failed.contains("TMPDIR"), "{failed}");
        assert_eq!(failed.lines().count(), 1, "{failed}");
    }
}
