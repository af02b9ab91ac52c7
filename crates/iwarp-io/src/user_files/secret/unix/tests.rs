use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use tempfile::TempDir;

use crate::capture::Capture;
use crate::transport::quic::security::{KeyLog, SecurityError};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// A file with this content and mode.
fn file(folder: &TempDir, name: &str, mode: u32) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, "content").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn pipe(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    path
}

/// Reads a pipe without waiting for a writer.
fn reader(pipe: &Path) -> File {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    options.read(true).custom_flags(flags).open(pipe).unwrap()
}

/// Gives the file, or the link itself, to another user. Returns false if this user may not do that.
fn give_away(path: &Path) -> bool {
    let given = lchown(path, Some(54_321), None);
    if given.is_err() {
        eprintln!("skipped: files of other users, because only root can give files away");
    }
    given.is_ok()
}

/// The first octets of a pcapng file.
const BEGINNING: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

#[track_caller]
fn begins_as_capture(mut from: impl Read) {
    let mut beginning = [0; 4];
    from.read_exact(&mut beginning).unwrap();
    assert_eq!(beginning, BEGINNING);
}

#[track_caller]
fn assert_refused<T>(result: io::Result<T>, why: &str) {
    let error = result.err().expect("is refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn a_new_capture_is_for_this_user_alone() {
    let folder = folder();
    let path = folder.path().join("new.pcapng");
    Capture::create(&path).unwrap();
    assert_eq!(mode_of(&path), 0o600);
    begins_as_capture(File::open(&path).unwrap());
}

#[test]
fn a_capture_in_place_of_another_one_is_for_this_user_alone() {
    let folder = folder();
    for mode in [0o644, 0o666, 0o640, 0o777] {
        let path = file(&folder, "old.pcapng", mode);
        Capture::create(&path).unwrap();
        assert_eq!(mode_of(&path), 0o600);
        begins_as_capture(File::open(&path).unwrap());
    }
}

#[test]
fn a_link_to_a_file_is_refused_and_the_file_is_left_alone() {
    let folder = folder();
    let target = file(&folder, "target", 0o644);
    let link = folder.path().join("link.pcapng");
    let second = folder.path().join("second.pcapng");
    symlink(&target, &link).unwrap();
    symlink(&link, &second).unwrap();
    for link in [link, second] {
        assert_refused(Capture::create(link), "link");
    }
    assert_eq!(fs::read(&target).unwrap(), b"content");
    assert_eq!(mode_of(&target), 0o644);
}

#[test]
fn a_link_to_nothing_makes_no_file() {
    let folder = folder();
    let link = folder.path().join("link.pcapng");
    symlink(folder.path().join("missing"), &link).unwrap();
    let error = Capture::create(&link).expect_err("leads nowhere");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(!folder.path().join("missing").exists());
}

#[test]
fn a_file_of_another_user_is_refused() {
    let folder = folder();
    let path = file(&folder, "theirs.pcapng", 0o666);
    if give_away(&path) {
        assert_refused(Capture::create(&path), "another user");
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(mode_of(&path), 0o666);
    }
}

#[test]
fn a_file_with_several_names_is_refused() {
    let folder = folder();
    let path = file(&folder, "file", 0o600);
    let second = folder.path().join("second.pcapng");
    fs::hard_link(&path, &second).unwrap();
    for name in [&path, &second] {
        assert_refused(Capture::create(name), "2 names");
        assert_no_key_log(name, "2 names");
    }
    assert_eq!(fs::read(&path).unwrap(), b"content");
    fs::remove_file(&second).unwrap();
    Capture::create(&path).unwrap();
}

#[test]
fn pipes_of_others_are_refused_and_not_opened() {
    let folder = folder();
    let pipe = pipe(&folder);
    fs::set_permissions(&pipe, Permissions::from_mode(0o666)).unwrap();
    let link = folder.path().join("link");
    symlink(&pipe, &link).unwrap();
    if !give_away(&pipe) {
        return;
    }
    // With a reader, whatever is written would be read. Without one, to open the pipe would wait.
    for has_reader in [true, false] {
        let mut reader = has_reader.then(|| reader(&pipe));
        for name in [&pipe, &link] {
            assert_refused(Capture::create(name), "another user");
            assert_no_key_log(name, "another user");
        }
        if let Some(reader) = &mut reader {
            assert_eq!(reader.read(&mut [0]).unwrap(), 0, "nothing was written");
        }
    }
}

#[test]
fn links_of_others_are_not_followed() {
    let folder = folder();
    let pipe = pipe(&folder);
    let _reader = reader(&pipe);
    let missing = folder.path().join("missing");
    for (name, target) in [
        ("to a pipe", pipe.as_path()),
        ("to null", Path::new("/dev/null")),
        ("to nothing", &missing),
    ] {
        let link = folder.path().join(name);
        symlink(target, &link).unwrap();
        let second = folder.path().join(format!("link {name}"));
        symlink(&link, &second).unwrap();
        if !give_away(&link) {
            return;
        }
        for name in [&link, &second] {
            assert_refused(Capture::create(name), "a link that another user made");
            assert_no_key_log(name, "a link that another user made");
        }
    }
    assert!(!missing.exists());
}

#[test]
fn devices_other_than_terminals_and_null_are_refused() {
    for name in ["/dev/zero", "/dev/null"] {
        Capture::create(name).unwrap();
    }
    if cfg!(target_os = "linux") {
        // It takes the file's name, and no octets.
        let full = Capture::create("/dev/full").expect_err("is full");
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        for name in ["/dev/random", "/dev/urandom"] {
            assert_refused(Capture::create(name), "neither");
            assert_no_key_log(Path::new(name), "neither");
        }
    }
    assert!(Capture::create("/dev").is_err());
}

/// In a container the null device may belong to another user, or be somewhere else.
#[test]
fn null_is_known_by_its_number() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let null = rustix::fs::makedev(1, 3);
    let made = mknodat(
        CWD,
        at("null"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        null,
    );
    if made.is_err() || !cfg!(target_os = "linux") {
        eprintln!("skipped: devices cannot be made here");
        return;
    }
    // Without the right to open devices in this folder (nodev) nothing can be tried.
    if give_away(&at("null")) && OpenOptions::new().write(true).open(at("null")).is_ok() {
        Capture::create(at("null")).unwrap();
        symlink(at("null"), at("link")).unwrap();
        Capture::create(at("link")).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn terminals_of_this_user_are_written_to() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = match openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY) {
        Ok(terminal) => terminal,
        Err(error) => return eprintln!("skipped: no terminals: {error}"),
    };
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let path = PathBuf::from(name.to_str().unwrap());
    let capture = Capture::create(&path).unwrap();
    // The terminal may change line ends.
    let mut shown = File::from(terminal.try_clone().unwrap());
    assert!(shown.read(&mut [0; 4]).unwrap() > 0);
    drop(capture);
    KeyLog::open(&path).unwrap();
    if give_away(&path) {
        assert_refused(Capture::create(&path), "another user");
        assert_no_key_log(&path, "another user");
    }
}

#[test]
fn pipes_and_devices_are_written_to() {
    let folder = folder();
    let pipe = pipe(&folder);
    let link = folder.path().join("link");
    symlink(&pipe, &link).unwrap();
    for path in [&pipe, &link] {
        let reader = reader(&pipe);
        let capture = Capture::create(path).unwrap();
        begins_as_capture(&reader);
        drop(capture);
    }
    Capture::create("/dev/null").unwrap();
    let link = folder.path().join("null");
    symlink("/dev/null", &link).unwrap();
    Capture::create(&link).unwrap();
}

#[test]
fn descriptors_are_taken_for_what_they_are() {
    let (reader, writer) = io::pipe().unwrap();
    let capture = Capture::create(format!("/dev/fd/{}", writer.as_raw_fd())).unwrap();
    begins_as_capture(&reader);
    drop(capture);
    // On other systems this is a device that duplicates the descriptor, not a link to the file.
    if cfg!(target_os = "linux") {
        let folder = folder();
        let path = file(&folder, "file", 0o644);
        let open = OpenOptions::new().write(true).open(&path).unwrap();
        let named = format!("/dev/fd/{}", open.as_raw_fd());
        assert_refused(Capture::create(named), "link");
        assert_eq!(fs::read(&path).unwrap(), b"content");
    }
}

#[track_caller]
fn assert_no_key_log(path: &Path, why: &str) {
    let error = KeyLog::open(path).expect_err("is refused");
    let SecurityError::File {
        path: named,
        problem,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(named, path);
    assert!(problem.contains(why), "{problem}");
}

#[test]
fn a_new_key_log_is_for_this_user_alone() {
    let folder = folder();
    let path = folder.path().join("keys");
    KeyLog::open(&path).unwrap();
    assert_eq!(mode_of(&path), 0o600);
}

#[test]
fn a_key_log_is_appended_to_if_nobody_else_reads_it() {
    let folder = folder();
    for mode in [0o600, 0o700, 0o622] {
        let path = file(&folder, "keys", mode);
        let log = KeyLog::open(&path).unwrap();
        log.append("LABEL", &[0x0a, 0xff], &[1]);
        assert_eq!(fs::read(&path).unwrap(), b"contentLABEL 0aff 01\n");
        assert_eq!(mode_of(&path), mode);
    }
}

#[test]
fn a_key_log_that_others_read_is_refused() {
    let folder = folder();
    for mode in [0o644, 0o640, 0o604] {
        let path = file(&folder, "keys", mode);
        assert_no_key_log(
            &path,
            &format!("others may read it (its mode is {mode:04o}"),
        );
        assert_eq!(mode_of(&path), mode);
    }
}

#[test]
fn key_logs_by_links_and_of_other_users_are_refused() {
    let folder = folder();
    let target = file(&folder, "target", 0o600);
    let link = folder.path().join("link");
    symlink(&target, &link).unwrap();
    assert_no_key_log(&link, "link");
    if give_away(&target) {
        assert_no_key_log(&target, "another user");
    }
    assert_eq!(fs::read(&target).unwrap(), b"content");
    assert_no_key_log(&folder.path().join("missing").join("keys"), "No such file");
}

#[test]
fn keys_go_to_pipes_and_devices() {
    let folder = folder();
    let pipe = pipe(&folder);
    let mut reader = reader(&pipe);
    let log = KeyLog::open(&pipe).unwrap();
    log.append("LABEL", &[2], &[1]);
    drop(log);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(said, "LABEL 02 01\n");
    KeyLog::open("/dev/null").unwrap();
}
