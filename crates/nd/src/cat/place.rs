//! The places of files: follows links, and compares two paths.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use crate::args::AdapterArgs;
use crate::errors::{Failure, Result};

/// Checks that the capture goes to other files than the one that is sent or received.
pub(super) fn check_capture(adapter: &AdapterArgs, file: &Path) -> Result<()> {
    let Some(capture) = &adapter.capture else {
        return Ok(());
    };
    let captures = adapter.capture_room.options().paths(capture);
    match captures.iter().find(|capture| is_same(capture, file)) {
        Some(capture) => Err(Failure::new(
            format!(
                "the capture {} and the file {} are the same",
                capture.display(),
                file.display()
            ),
            "name another file for --capture",
        )),
        None => Ok(()),
    }
}

/// Returns true if two paths lead to the same file, or would do so once it exists. A device counts as different from itself.
fn is_same(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.is_file() && b.is_file() && is_one(&a, &b),
        (Err(_), Err(_)) => match (destination(a), destination(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        },
        _ => false,
    }
}

#[cfg(unix)]
fn is_one(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_one(_: &Metadata, _: &Metadata) -> bool {
    false
}

/// The path of a file that does not exist yet, with all links followed.
fn destination(path: &Path) -> Option<PathBuf> {
    let path = followed(path);
    let folder = fs::canonicalize(directory(&path)).ok()?;
    Some(folder.join(path.file_name()?))
}

/// The target of a link whose target does not exist yet. Any other path stays unchanged.
fn followed(path: &Path) -> PathBuf {
    /// The most links that are followed, as many as Linux follows.
    const LINKS: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            // A relative one begins where the link is.
            Ok(to) => path = directory(&path).join(to),
            Err(_) => break,
        }
    }
    path
}

/// The directory of a file.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

// Links of Unix.
#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_the_same_by_all_its_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for there in [false, true] {
            if there {
                fs::write(at("file"), "x").expect("written");
                fs::hard_link(at("file"), at("hard")).expect("linked");
                assert!(is_same(&at("file"), &at("hard")));
            }
            let link = if there {
                "link to it"
            } else {
                "link to nothing"
            };
            symlink("file", at(link)).expect("linked");
            for name in ["file", "./file", link] {
                assert!(is_same(&at("file"), &at(name)), "{name}");
                assert!(is_same(&at(name), &at("file")), "{name}");
            }
            for name in ["other", "file2", "no/file"] {
                assert!(!is_same(&at("file"), &at(name)), "{name}");
            }
        }
        let null = Path::new("/dev/null");
        assert!(!is_same(null, null), "it takes both");
        fs::write(at("c-2.pcapng"), "content").expect("written");
        for (capture, files, file) in [("file", None, "hard"), ("c.pcapng", Some(2), "c-2.pcapng")]
        {
            let mut adapter = AdapterArgs {
                capture: Some(at(capture)),
                ..AdapterArgs::default()
            };
            adapter.capture_room.files = files;
            let text = check_capture(&adapter, &at(file));
            let text = text.expect_err("the same").to_string();
            assert!(text.contains("are the same"), "{text}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).expect("created");
        symlink("sub/second", at("first")).expect("linked");
        symlink("../file", at("sub/second")).expect("linked");
        assert_eq!(followed(&at("first")), at("sub/../file"));
        assert_eq!(followed(&at("plain")), at("plain"));
        symlink("round", at("round")).expect("linked");
        let _ = followed(&at("round")); // comes to an end
    }
}
