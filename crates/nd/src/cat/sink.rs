//! The place of the received file. An incomplete file never has its final name.
//!
//! A file is received in the folder of its final place and renamed when it is whole. On Linux, where the file system can do that, the file
//! has no name until then, so that not even a killed process leaves anything behind. Elsewhere its name is `.NAME.xxxxxx.part`, and the
//! program removes the file when it ends by itself.
//!
//! A file that takes the place of another one has that one's owner, group and mode. Where this user may not give a file to them, it is like any
//! new file, and the user reads so.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use super::place::directory;
use super::source::is_named_pipe;
use crate::errors::{Failure, Result};
use crate::provider::user_files::{self, TakenOver, create_unnamed, give_name};
use crate::stderr;

/// The place of the received file, checked before anything is received.
#[derive(Debug)]
pub(super) struct Sink {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Stdout,
    /// A device or a pipe, which is written to directly, or a file that cannot be replaced by another one.
    Direct(File),
    /// A file, with what is known of the one that it replaces.
    File {
        path: PathBuf,
        replaces: Option<fs::Metadata>,
    },
}

impl Sink {
    /// Finds out what is at `path`, and whether it can be written. Leaves no file behind.
    pub(super) fn new(path: &Path) -> Result<Self> {
        let target = if path == Path::new("-") {
            Ok(Target::Stdout)
        } else {
            target(path)
        };
        let target = target.map_err(|error| writing(path, &error))?;
        if let Target::File { path: place, .. } = &target {
            check_directory(path, place)?;
        }
        let sink = Self {
            path: path.to_owned(),
            target,
        };
        sink.part()?; // removed again at once
        Ok(sink)
    }

    /// Returns true if the file goes to standard output.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// Begins a file.
    pub(super) fn begin(self) -> Result<Writing> {
        let part = self.part()?;
        if let Target::Direct(file) = &self.target {
            let is_file = file.metadata().is_ok_and(|found| found.is_file());
            let emptied = if is_file {
                user_files::empty(file)
            } else {
                Ok(())
            };
            emptied.map_err(|error| writing(&self.path, &error))?;
        }
        Ok(Writing {
            sink: self,
            part,
            is_empty: true,
        })
    }

    /// The temporary file in the folder of the final one. It is removed when it is dropped.
    fn part(&self) -> Result<Option<Part>> {
        let Target::File { path, .. } = &self.target else {
            return Ok(None);
        };
        Part::create(path)
            .map(Some)
            .map_err(|error| writing(&self.path, &error))
    }
}

fn target(path: &Path) -> io::Result<Target> {
    if path
        .as_os_str()
        .to_string_lossy()
        .ends_with(['/', std::path::MAIN_SEPARATOR])
    {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // The place to which links of this user lead, so that a link stays a link.
    let followed = if path.file_name().is_some() {
        user_files::followed(path)?
    } else {
        path.to_owned()
    };
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) && path.file_name().is_some() =>
        {
            return Ok(Target::File {
                path: followed,
                replaces: None,
            });
        }
        Err(error) if is_of_a_device(&error) => {
            return user_files::open_existing(&followed).map(Target::Direct);
        }
        Err(error) => return Err(error),
    };
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if is_named_pipe(path, &found) {
        stderr::note(format_args!("waiting for a reader of {}", path.display()));
    }
    // A file that may not be written is not replaced either, even if its directory would allow that.
    let file = user_files::open_existing(&followed)?;
    if !found.is_file() {
        return Ok(Target::Direct(file));
    }
    let path = user_files::without_links(&followed)?;
    // Of what was opened: another file may have the name by now.
    let found = file.metadata()?;
    if !replaceable::is_replaceable(&path, &found)? {
        return Ok(Target::Direct(file));
    }
    Ok(Target::File {
        path,
        replaces: Some(found),
    })
}

/// Returns true if Windows answers so when it is asked for the metadata of a device, such as `NUL`.
#[cfg(windows)]
fn is_of_a_device(error: &io::Error) -> bool {
    const INVALID_FUNCTION: i32 = 1;
    // Of wine.
    const INVALID_PARAMETER: i32 = 87;
    matches!(
        error.raw_os_error(),
        Some(INVALID_FUNCTION | INVALID_PARAMETER)
    )
}

#[cfg(not(windows))]
fn is_of_a_device(_: &io::Error) -> bool {
    false
}

/// A file being received. Dropped before [`Writing::finish`], it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Writing {
    sink: Sink,
    part: Option<Part>,
    is_empty: bool,
}

impl Writing {
    /// Appends to the file.
    pub(super) fn write(&mut self, data: &[u8]) -> Result<()> {
        self.is_empty &= data.is_empty();
        let written = match (&mut self.part, &mut self.sink.target) {
            (Some(part), _) => part.file.write_all(data),
            (None, Target::Direct(file)) => file.write_all(data),
            (None, _) => std::io::stdout().lock().write_all(data),
        };
        written.map_err(|error| writing(&self.sink.path, &error))
    }

    /// Gives the file up. Returns the place for another one, unless something of this file is there already, in a pipe or a device.
    pub(super) fn abandon(self) -> Option<Sink> {
        let is_clean = self.part.is_some() || self.is_empty;
        is_clean.then_some(self.sink)
    }

    /// Gives the whole file its name.
    pub(super) fn finish(self) -> Result<()> {
        let done = match (self.part, &self.sink.target) {
            (Some(part), Target::File { path, replaces }) => part
                .take_after(path, replaces.as_ref())
                .and_then(|()| part.publish(path)),
            (_, Target::Direct(file)) => (&*file).flush(),
            _ => std::io::stdout().lock().flush(),
        };
        done.map_err(|error| writing(&self.sink.path, &error))
    }
}

/// A file that does not have its final name yet.
#[derive(Debug)]
struct Part {
    file: File,
    /// `None`: the file has no name.
    name: Option<TempPath>,
}

impl Part {
    /// A new file on the file system of `path`.
    fn create(path: &Path) -> io::Result<Self> {
        match create_unnamed(directory(path))? {
            Some(file) => Ok(Self { file, name: None }),
            None => Self::named(path),
        }
    }

    fn named(path: &Path) -> io::Result<Self> {
        let prefix = prefix(path);
        let (file, name) = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".part")
            .make_in(directory(path), user_files::create_new)
            .map_err(|error| without_path(&error))?
            .into_parts();
        Ok(Self {
            file,
            name: Some(name),
        })
    }

    /// Gives the file the rights of the one that it replaces.
    fn take_after(&self, path: &Path, replaces: Option<&fs::Metadata>) -> io::Result<()> {
        let Some(old) = replaces else {
            return Ok(());
        };
        if user_files::take_after(&self.file, old)? == TakenOver::Nothing {
            stderr::note(format_args!(
                "{} belonged to another user or group; the file in its place is yours",
                path.display()
            ));
        }
        Ok(())
    }

    /// Gives the file its final name.
    fn publish(self, path: &Path) -> io::Result<()> {
        let name = match self.name {
            Some(name) => name,
            None => {
                // A link cannot replace a file, but a rename can.
                let link = |name: &Path| give_name(&self.file, name);
                let prefix = prefix(path);
                let mut builder = tempfile::Builder::new();
                builder
                    .prefix(&prefix)
                    .suffix(".part")
                    .make_in(directory(path), link)
                    .map_err(|error| without_path(&error))?
                    .into_temp_path()
            }
        };
        name.persist(path).map_err(|error| error.error)
    }
}

/// The error of the system, without the name of a temporary file, which would mean nothing to the user.
fn without_path(error: &io::Error) -> io::Error {
    if let Some(number) = error.raw_os_error() {
        return io::Error::from_raw_os_error(number);
    }
    let cause = error.get_ref().and_then(|inner| inner.source());
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.and_then(io::Error::raw_os_error) {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    }
}

/// Checks that the directory of the file exists. `path` is the name that the user gave.
fn check_directory(path: &Path, place: &Path) -> Result<()> {
    let folder = directory(place);
    let why = match fs::metadata(folder) {
        Ok(found) if was_removed(&found) => "was removed",
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "is not a directory",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist",
        Err(error) => return Err(writing(path, &error)),
    };
    Err(Failure::new(
        format!(
            "cannot write {}: {} {why}",
            path.display(),
            folder.display()
        ),
        "create that directory first, or choose another place",
    ))
}

/// Returns true if a directory has no name any more, and takes no files: the current directory may have been removed.
#[cfg(unix)]
fn was_removed(folder: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    folder.is_dir() && folder.nlink() == 0
}

#[cfg(not(unix))]
fn was_removed(_: &fs::Metadata) -> bool {
    false
}

fn prefix(path: &Path) -> String {
    // Names have at most 255 octets, of which the prefix and the suffix need some.
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|name| name.len() <= 200);
    format!(".{}.", name.unwrap_or("nd"))
}

/// Files that no rename can replace, although they can be written.
#[cfg(target_os = "linux")]
mod replaceable {
    use std::fs::{self, Metadata};
    use std::io;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

    use super::directory;

    /// Files of other users in directories with this bit cannot be replaced (unlink(2), EPERM).
    const STICKY: u32 = 0o1000;

    /// Returns true if the file can be replaced, as far as the system reports it. Mount points cannot be (rename(2), EBUSY).
    pub(super) fn is_replaceable(path: &Path, found: &Metadata) -> io::Result<bool> {
        let folder = fs::metadata(directory(path))?;
        let user = rustix::process::geteuid().as_raw();
        let is_ours = [found.uid(), folder.uid(), 0].contains(&user);
        if folder.mode() & STICKY != 0 && !is_ours {
            return Ok(false);
        }
        // Older systems do not report this, but the mount of another file system is visible.
        let status = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
        let is_mount_point =
            status.is_ok_and(|status| status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
        Ok(!is_mount_point && found.dev() == folder.dev())
    }
}

#[cfg(not(target_os = "linux"))]
mod replaceable {
    use std::fs::Metadata;
    use std::io;
    use std::path::Path;

    pub(super) fn is_replaceable(_path: &Path, _found: &Metadata) -> io::Result<bool> {
        Ok(true)
    }
}

fn writing(path: &Path, error: &io::Error) -> Failure {
    let name = if path == Path::new("-") {
        "standard output".into()
    } else {
        path.to_string_lossy()
    };
    let failure = Failure::io(format_args!("write {name}"), error);
    match error.kind() {
        io::ErrorKind::NotFound => failure.advise("choose another place"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory)
            .expect("readable")
            .map(|entry| entry.expect("entry").file_name());
        entries
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn the_name_appears_only_with_the_whole_file() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("out");
        let sink = Sink::new(&path).expect("writable");
        assert!(
            names(directory.path()).is_empty(),
            "checking leaves nothing"
        );
        let mut writing = sink.begin().expect("begins");
        writing.write(b"half").expect("written");
        assert!(!path.exists());
        writing.write(b" and half").expect("written");
        writing.finish().expect("renamed");
        assert_eq!(fs::read(&path).expect("there"), b"half and half");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn what_is_given_up_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("out");
        fs::write(&path, "old").expect("written");
        let mut writing = Sink::new(&path).and_then(Sink::begin).expect("begins");
        writing.write(b"new").expect("written");
        drop(writing);
        assert_eq!(fs::read(&path).expect("there"), b"old");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn a_place_takes_another_file_unless_something_of_the_first_is_there() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("out");
        let mut writing = Sink::new(&path).and_then(Sink::begin).expect("begins");
        writing.write(b"first").expect("written");
        let again = writing.abandon().expect("the name is not taken");
        let mut writing = again.begin().expect("begins");
        writing.write(b"second").expect("written");
        writing.finish().expect("renamed");
        assert_eq!(fs::read(&path).expect("there"), b"second");

        let null = || {
            let name = if cfg!(windows) { "NUL" } else { "/dev/null" };
            let sink = Sink::new(Path::new(name));
            sink.and_then(Sink::begin).expect("begins")
        };
        assert!(null().abandon().is_some());
        let mut writing = null();
        writing.write(b"first").expect("written");
        assert!(writing.abandon().is_none());
    }

    #[test]
    fn where_files_need_names_the_temporary_one_is_beside_the_final_one() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("out");
        drop(Part::named(&path).expect("created"));
        assert!(names(directory.path()).is_empty());
        let mut part = Part::named(&path).expect("created");
        part.file.write_all(b"whole").expect("written");
        let [name] = names(directory.path()).try_into().expect("one");
        assert!(
            name.starts_with(".out.") && name.ends_with(".part"),
            "{name}"
        );
        part.publish(&path).expect("renamed");
        assert_eq!(fs::read(&path).expect("there"), b"whole");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_permissions_and_a_link_stays_a_link() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("directory");
        let (path, link) = (directory.path().join("out"), directory.path().join("link"));
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        let mut writing = Sink::new(&link).and_then(Sink::begin).expect("begins");
        writing.write(b"new").expect("written");
        writing.finish().expect("renamed");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        assert_eq!(
            fs::metadata(&path).expect("there").permissions().mode() & 0o777,
            0o640
        );
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_stays_a_link_and_leads_to_the_file() {
        let directory = tempfile::tempdir().expect("directory");
        let (path, link) = (directory.path().join("out"), directory.path().join("link"));
        std::os::unix::fs::symlink("out", &link).expect("linked");
        let mut writing = Sink::new(&link).and_then(Sink::begin).expect("begins");
        writing.write(b"new").expect("written");
        writing.finish().expect("renamed");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(names(directory.path()).len(), 2);

        let astray = directory.path().join("astray");
        std::os::unix::fs::symlink("no/such", &astray).expect("linked");
        let text = Sink::new(&astray).expect_err("no directory").to_string();
        let folder = directory.path().join("no");
        let why = format!("{}: {} does not exist", astray.display(), folder.display());
        assert!(text.contains(&why), "{text}");
    }

    #[test]
    fn a_missing_directory_is_named_as_it_was_written() {
        for (place, why) in [
            ("no/such/file", "no/such does not exist"),
            ("Cargo.toml/file", "Cargo.toml is not a directory"),
        ] {
            let text = Sink::new(Path::new(place)).expect_err(place).to_string();
            let expected = format!(
                "cannot write {place}: {why}; create that directory first, or choose another place"
            );
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn places_that_cannot_be_written_are_found_out_at_once() {
        let directory = tempfile::tempdir().expect("directory");
        for bad in [
            directory.path().to_owned(),
            directory.path().join("no/such"),
            directory.path().join("new/"),
        ] {
            let text = Sink::new(&bad).expect_err("not writable").to_string();
            assert!(text.starts_with("cannot write "), "{text}");
        }
        assert!(Sink::new(Path::new("")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let mut writing = Sink::new(Path::new("/dev/full"))
            .and_then(Sink::begin)
            .expect("begins");
        let text = writing.write(b"x").expect_err("full").to_string();
        assert!(
            text.contains("/dev/full")
                && text.ends_with("free some space, or choose another place"),
            "{text}"
        );
    }
}
