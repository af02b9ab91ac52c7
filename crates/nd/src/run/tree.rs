//! The tree of files that programs see below `/sys/class/infiniband` and `/dev/infiniband`.
//!
//! There is one tree for each set of devices, named by its contents, in a folder that only the user can write. A run first looks whether the
//! tree is whole: what removes old files from temporary folders may have been at work, or a program that has made files there. It makes what
//! is missing, under a lock, by renaming whole files, so that programs of other runs never see a part of one, and removes what is foreign.
//! Nobody may write to files and folders of the tree; `nd-paths` says so to root, for whom modes are no obstacle.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use softverbs::Device;

use super::attributes::{Entries, Entry};
use crate::errors::Failure;

/// The longest root that the library takes (`nd-paths`).
const LONGEST_ROOT: usize = 1024;

/// Makes the tree of these devices in the private folder, unless it is there. Returns its root.
pub(super) fn make(devices: &[impl AsRef<Device>], private: &Path) -> Result<PathBuf, Failure> {
    in_folder(private, &Entries::for_devices(devices))
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
    let plan = Plan::new(entries);
    if !plan.is_whole(&root) {
        mend(&folder, &root, &plan).map_err(|error| {
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

/// The modes of folders and files: a program is refused what it must not do, and `ls` shows why.
const FOLDER_MODE: u32 = 0o555;
const FILE_MODE: u32 = 0o444;

/// What there is in a whole tree, by paths that begin at its root. A folder stands before what is in it.
struct Plan<'a>(BTreeMap<PathBuf, Planned<'a>>);

enum Planned<'a> {
    Folder,
    Entry(&'a Entry),
}

impl<'a> Plan<'a> {
    fn new(entries: &'a Entries) -> Self {
        let mut all = BTreeMap::new();
        for (path, entry) in &entries.0 {
            let path = Path::new(path);
            for above in path.ancestors().skip(1) {
                all.insert(above.to_owned(), Planned::Folder);
            }
            all.insert(path.to_owned(), Planned::Entry(entry));
        }
        Self(all)
    }

    fn folders(&self) -> impl DoubleEndedIterator<Item = &Path> {
        let folders = self.0.iter();
        let folders = folders.filter(|(_, planned)| matches!(planned, Planned::Folder));
        folders.map(|(path, _)| path.as_path())
    }

    /// What is in a folder of the tree and not in the plan, because a program has made it.
    fn foreign(&self, root: &Path, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut foreign = Vec::new();
        for entry in fs::read_dir(root.join(folder))? {
            let path = folder.join(entry?.file_name());
            if !self.0.contains_key(&path) {
                foreign.push(root.join(path));
            }
        }
        Ok(foreign)
    }

    fn is_whole(&self, root: &Path) -> bool {
        let mut all = self.0.iter();
        let is_alone = |folder: &Path| {
            let foreign = self.foreign(root, folder);
            foreign.is_ok_and(|foreign| foreign.is_empty())
        };
        all.all(|(path, planned)| planned.is_there(&root.join(path)))
            && self.folders().all(is_alone)
    }
}

impl Planned<'_> {
    fn is_there(&self, path: &Path) -> bool {
        let has_mode = |expected: u32| {
            let found = fs::symlink_metadata(path).map(|found| found.mode());
            found.is_ok_and(|mode| mode & 0o7777 == expected)
        };
        match self {
            Self::Folder => is_folder(path) && has_mode(FOLDER_MODE),
            Self::Entry(Entry::File(text)) => {
                has_mode(FILE_MODE) && fs::read(path).is_ok_and(|found| found == text.as_bytes())
            }
            Self::Entry(Entry::Link(to)) => {
                fs::read_link(path).is_ok_and(|found| found == Path::new(to))
            }
        }
    }
}

/// Makes what is missing, and removes what a program has made. Programs of other runs see no difference, because their tree is the same.
fn mend(folder: &Path, root: &Path, plan: &Plan<'_>) -> io::Result<()> {
    // Held until this file is closed, and by no process that has ended.
    let lock = File::create(folder.join("paths.lock"))?;
    lock.lock()?;
    if plan.is_whole(root) {
        return Ok(()); // another run was first
    }
    for path in plan.folders() {
        let path = root.join(path);
        if !is_folder(&path) {
            remove(&path)?;
            fs::create_dir(&path)?;
        }
        set_mode(&path, 0o755)?;
    }
    for path in plan.folders() {
        let foreign = plan.foreign(root, path)?;
        foreign.iter().try_for_each(|path| remove(path))?;
    }
    let new = folder.join("paths.new");
    for (path, planned) in &plan.0 {
        let path = root.join(path);
        let Planned::Entry(entry) = planned else {
            continue;
        };
        if planned.is_there(&path) {
            continue;
        }
        // One that a run has left which was killed.
        remove(&new)?;
        match entry {
            Entry::File(text) => {
                File::create_new(&new)?.write_all(text.as_bytes())?;
                set_mode(&new, FILE_MODE)?;
            }
            Entry::Link(to) => symlink(to, &new)?,
        }
        if is_folder(&path) {
            remove(&path)?;
        }
        fs::rename(&new, &path)?;
    }
    let mut folders = plan.folders().rev();
    folders.try_for_each(|path| set_mode(&root.join(path), FOLDER_MODE))
}

/// Returns true for a folder, and false for a link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Removes a file, a link or a folder with all that is in it, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    if is_folder(path) {
        set_mode(path, 0o700)?;
        for entry in fs::read_dir(path)? {
            remove(&entry?.path())?;
        }
        return fs::remove_dir(path);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
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

    /// Lets the owner change a tree.
    fn open(path: &Path) {
        if is_folder(path) {
            set_mode(path, 0o755).unwrap();
            for entry in fs::read_dir(path).unwrap() {
                open(&entry.unwrap().path());
            }
        }
    }

    /// A temporary folder. Dropping it makes the trees in it writable first, so that they can be removed with it.
    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> &Path {
            self.0.path()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            open(self.path());
        }
    }

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_thousand_runs_leave_one_tree() {
        let folder = Folder::new();
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
        let folder = Folder::new();
        let root = in_folder(folder.path(), &entries()).unwrap();
        open(&root);
        fs::remove_dir_all(root.join("sys")).unwrap();
        fs::remove_file(root.join("dev/d")).unwrap();
        fs::write(root.join("dev/d"), "no link").unwrap();
        fs::write(
            folder.path().join("paths.new"),
            "left by a run that was killed",
        )
        .unwrap();
        assert_eq!(in_folder(folder.path(), &entries()).unwrap(), root);
        assert!(Plan::new(&entries()).is_whole(&root));
        assert_eq!(count(folder.path()), 2);
    }

    #[test]
    fn what_a_program_has_made_is_removed() {
        let folder = Folder::new();
        let root = in_folder(folder.path(), &entries()).unwrap();
        let kept = fs::metadata(root.join("sys/a/c")).unwrap().ino();
        open(&root);
        fs::write(root.join("sys/new"), "").unwrap();
        fs::create_dir_all(root.join("sys/a/folder/deep")).unwrap();
        set_mode(&root.join("sys/a/folder/deep"), 0).unwrap();
        set_mode(&root.join("sys/a/folder"), 0o500).unwrap();
        symlink("/etc", root.join("dev/link")).unwrap();
        fs::remove_file(root.join("sys/a/b")).unwrap();
        fs::create_dir(root.join("sys/a/b")).unwrap();
        fs::write(root.join("sys/a/b/x"), "").unwrap();
        assert_eq!(in_folder(folder.path(), &entries()).unwrap(), root);
        assert!(Plan::new(&entries()).is_whole(&root));
        // What was right is the same file: a program that has it open goes on.
        assert_eq!(fs::metadata(root.join("sys/a/c")).unwrap().ino(), kept);
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn modes_are_set_again() {
        let folder = Folder::new();
        let root = in_folder(folder.path(), &entries()).unwrap();
        for (path, mode) in [("sys/a/b", 0o644), ("sys/a", 0o755), ("", 0o700)] {
            set_mode(&root.join(path), mode).unwrap();
            assert!(!Plan::new(&entries()).is_whole(&root), "{path}");
            in_folder(folder.path(), &entries()).unwrap();
            assert!(Plan::new(&entries()).is_whole(&root), "{path}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_one_sentence() {
        // Not even root makes files in a folder that is a file.
        let folder = Folder::new();
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
