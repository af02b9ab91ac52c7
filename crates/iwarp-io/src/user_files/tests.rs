use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::folder::{exclusive, lasting, try_to_write};
use super::*;

/// A user and a group that are not those of the tests.
const OTHER: u32 = 54_321;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Gives a file or link to another user. Returns false if this user may not do that.
fn give_away(path: &Path) -> bool {
    let given = lchown(path, Some(OTHER), Some(OTHER));
    if given.is_err() {
        eprintln!("skipped: files of other users, because only root can give files away");
    }
    given.is_ok()
}

/// A folder as [`folder`] makes it, with links followed. `None` if other users can replace what is above it, so that no test of [`lasting`]
/// holds.
fn lasting_folder(folder: &TempDir) -> Option<PathBuf> {
    lasting(folder.path())
        .inspect_err(|error| eprintln!("skipped: the folder for temporary files: {error}"))
        .ok()
}

#[track_caller]
fn assert_refused<T>(result: io::Result<T>, why: &str) {
    let error = result.err().expect("is refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let text = error.to_string();
    assert!(text.contains(why) && text.lines().count() == 1, "{text}");
}

#[test]
fn links_of_this_user_are_followed() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    symlink("sub/second", at("first")).unwrap();
    symlink("../file", at("sub/second")).unwrap();
    for is_there in [false, true] {
        assert_eq!(followed(&at("first")).unwrap(), at("sub/../file"));
        assert_eq!(followed(&at("plain")).unwrap(), at("plain"));
        let (mut file, path, is_new) = open_or_create(&at("first")).unwrap();
        assert_eq!((path, is_new), (at("sub/../file"), !is_there));
        file.write_all(b"results").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"results");
    }
    // The folders of a path are looked through, and the link at its end is not.
    symlink("sub", at("folder")).unwrap();
    let real = fs::canonicalize(folder.path()).unwrap();
    for (name, expected) in [
        ("folder/../file", "file"),
        ("folder/second", "sub/second"),
        ("first", "first"),
    ] {
        assert_eq!(without_links(&at(name)).unwrap(), real.join(expected));
    }
    symlink("round", at("round")).unwrap();
    assert!(followed(&at("round")).is_err());
    assert!(open_or_create(&at("no/file")).is_err());
    assert!(open_or_create(folder.path()).is_err());
}

#[test]
fn links_of_other_users_are_not_followed() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "content").unwrap();
    for (link, to) in [("link", "file"), ("astray", "missing")] {
        symlink(to, at(link)).unwrap();
        if !give_away(&at(link)) {
            return;
        }
        assert_refused(followed(&at(link)), "a link that another user made");
        assert_refused(open_or_create(&at(link)), "a link that another user made");
    }
    // A link that has come after the look at it.
    assert!(open_existing(&at("link")).is_err());
    assert_eq!(fs::read(at("file")).unwrap(), b"content");
    assert!(!at("missing").exists());
}

#[test]
fn what_is_not_secret_has_the_mode_of_any_new_file() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    File::create(at("usual")).unwrap();
    open_or_create(&at("results")).unwrap();
    create_new(&at("new")).unwrap();
    for name in ["results", "new"] {
        assert_eq!(mode_of(&at(name)), mode_of(&at("usual")));
    }
    if let Some(file) = create_unnamed(folder.path()).unwrap() {
        give_name(&file, &at("named")).unwrap();
        assert_eq!(mode_of(&at("named")), mode_of(&at("usual")));
        assert!(give_name(&file, &at("new")).is_err(), "it is taken");
    }
}

#[test]
fn rights_that_are_taken_over_have_no_special_bits() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for mode in [0o640, 0o600, 0o755, 0o6755, 0o4711, 0o2770, 0o1777, 0o7777] {
        let (old, new) = (at("old"), at("new"));
        File::create(&old).unwrap();
        set_mode(&old, mode);
        let file = create_new(&new).unwrap();
        let found = fs::metadata(&old).unwrap();
        assert_eq!(take_after(&file, &found).unwrap(), TakenOver::All);
        assert_eq!(mode_of(&new), mode & 0o777, "{mode:o}");
        fs::remove_file(&new).unwrap();

        fs::write(&old, "content").unwrap();
        set_mode(&old, mode);
        empty(&open_existing(&old).unwrap()).unwrap();
        assert_eq!(mode_of(&old), mode & 0o777, "{mode:o}");
        assert_eq!(fs::read(&old).unwrap(), b"");
        fs::remove_file(&old).unwrap();
    }
}

#[test]
fn root_gives_a_file_to_the_owner_and_the_group_of_the_old_one() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for (user, group) in [
        (Some(OTHER), None),
        (None, Some(OTHER)),
        (Some(OTHER), Some(OTHER)),
    ] {
        let old = at("old");
        File::create(&old).unwrap();
        if chown(&old, user, group).is_err() {
            return eprintln!("skipped: only root can give files away");
        }
        set_mode(&old, 0o6751);
        let found = fs::metadata(&old).unwrap();
        let new = create_new(&at("new")).unwrap();
        assert_eq!(take_after(&new, &found).unwrap(), TakenOver::All);
        let taken = new.metadata().unwrap();
        assert_eq!((taken.uid(), taken.gid()), (found.uid(), found.gid()));
        assert_eq!(mode_of(&at("new")), 0o751);
        fs::remove_file(at("new")).unwrap();
        fs::remove_file(old).unwrap();
    }
}

#[test]
fn a_secret_file_takes_the_place_of_an_earlier_one_as_a_whole() {
    let folder = folder();
    let path = folder.path().join("file");
    put_secret(&path, b"first").unwrap();
    let reader = File::open(&path).unwrap();
    set_mode(&path, 0o644);
    put_secret(&path, b"second, and longer").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second, and longer");
    assert_eq!(mode_of(&path), 0o600);
    assert_eq!(io::read_to_string(reader).unwrap(), "first");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    fs::write(folder.path().join("other"), "content").unwrap();
    symlink("other", folder.path().join("file.part")).unwrap();
    assert_refused(put_secret(&path, b"third"), "is a link to a file");
    assert_eq!(fs::read(folder.path().join("other")).unwrap(), b"content");
    assert_eq!(fs::read(&path).unwrap(), b"second, and longer");
}

#[test]
fn a_folder_is_tried_and_left_as_it_was() {
    let folder = folder();
    try_to_write(folder.path()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // One that was left.
    let left = format!(".nd-{}", std::process::id());
    File::create(folder.path().join(left)).unwrap();
    try_to_write(folder.path()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(try_to_write(&folder.path().join("missing")).is_err());
}

#[test]
fn a_folder_lasts_that_no_other_user_can_replace() {
    let folder = folder();
    let Some(above) = lasting_folder(&folder) else {
        return;
    };
    let inner = above.join("inner");
    fs::create_dir(&inner).unwrap();
    symlink("inner", above.join("link")).unwrap();
    for name in ["inner", "link"] {
        assert_eq!(lasting(&above.join(name)).unwrap(), inner);
    }
    for (mode, is_lasting) in [
        (0o700, true),
        (0o755, true),
        (0o757, false),
        (0o777, false),
        (0o1777, true),
        (0o1757, true),
    ] {
        for folder in [&above, &inner] {
            set_mode(folder, mode);
            match lasting(&inner) {
                Ok(_) => assert!(is_lasting, "{mode:o}"),
                refused => {
                    assert!(!is_lasting, "{mode:o}");
                    assert_refused(
                        refused,
                        &format!("others can write to {}", folder.display()),
                    );
                }
            }
            set_mode(folder, 0o755);
        }
    }
    assert_refused(lasting(Path::new("/dev/null")), "is no folder");
    assert!(lasting(&above.join("missing")).is_err());
    for name in [&inner, &above] {
        if !give_away(name) {
            return;
        }
        assert_refused(lasting(&inner), "belongs to another user");
        chown(name, Some(0), Some(0)).unwrap();
    }
}

#[test]
fn a_group_with_other_users_is_others() {
    let folder = folder();
    if lasting_folder(&folder).is_none() {
        return;
    }
    if chown(folder.path(), None, Some(OTHER)).is_err() {
        return eprintln!("skipped: only root can give folders to any group");
    }
    set_mode(folder.path(), 0o770);
    assert_refused(lasting(folder.path()), "others can write");
    set_mode(folder.path(), 0o1770);
    lasting(folder.path()).unwrap();
    assert_refused(exclusive(folder.path()), "others can make files");
}

#[test]
fn an_exclusive_folder_is_made_where_no_other_user_can_replace_it() {
    let folder = folder();
    let Some(above) = lasting_folder(&folder) else {
        return;
    };
    let wanted = above.join("a/b");
    assert_eq!(exclusive(&wanted).unwrap(), wanted);
    assert_eq!(exclusive(&wanted).unwrap(), wanted, "it is there");
    set_mode(&wanted, 0o1777);
    assert_refused(exclusive(&wanted), "others can make files in");
    set_mode(&above, 0o777);
    assert_refused(exclusive(&above.join("c/d")), "others can write to");
    assert!(!above.join("c").exists(), "nothing was made");
}
