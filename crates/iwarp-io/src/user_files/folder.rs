//! Folders in which only this user makes files.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::owner;
use super::plain::create_new;
use super::refused::refused;

/// Write for the group and for all others.
const WRITE_BY_OTHERS: u32 = 0o022;
const WRITE_BY_ALL: u32 = 0o002;
/// In a folder with this bit, only its owner and that of a file remove or rename the file.
const STICKY: u32 = 0o1000;

/// The path of a folder with all links followed, if no other user can put another folder in its place: it and every folder above it belong to
/// this user or to root, and others cannot write there, unless the folder is sticky.
///
/// # Errors
///
/// [`io::ErrorKind::PermissionDenied`], with the folder that is not so; those of looking at a folder.
pub fn lasting(folder: &Path) -> io::Result<PathBuf> {
    let folder = fs::canonicalize(folder)?;
    for above in folder.ancestors() {
        let found = fs::metadata(above)?;
        if !found.is_dir() {
            return Err(refused(format!("{} is no folder", above.display())));
        }
        check_owner(above, &found)?;
        if found.mode() & STICKY == 0 && is_open(&found) {
            return Err(refused(format!(
                "others can write to {} and replace what is in it (its mode is {:04o})",
                above.display(),
                found.mode() & 0o7777
            )));
        }
    }
    Ok(folder)
}

/// The path of a folder with all links followed, which is made if it is missing. No other user can make a file in it, or put another folder in
/// its place.
///
/// # Errors
///
/// Those of [`lasting`] and of making folders.
pub fn exclusive(folder: &Path) -> io::Result<PathBuf> {
    let mut there = folder.ancestors();
    let there = there.find(|folder| folder.exists()).map(|folder| {
        // A relative path begins here.
        let is_here = folder.as_os_str().is_empty();
        if is_here { Path::new(".") } else { folder }
    });
    lasting(there.unwrap_or(Path::new(".")))?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)?;
    let folder = lasting(folder)?;
    let found = fs::metadata(&folder)?;
    if is_open(&found) {
        return Err(refused(format!(
            "others can make files in {} (its mode is {:04o})",
            folder.display(),
            found.mode() & 0o7777
        )));
    }
    Ok(folder)
}

/// Makes a file in a folder, and removes it: rights alone do not say if files can be made, as where a file system is read-only.
///
/// # Errors
///
/// Those of making a file.
pub fn try_to_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".nd-{}", std::process::id()));
    let made = create_new(&path);
    // One of this name is left of a process that was killed.
    if made.is_ok() || matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
        return fs::remove_file(&path);
    }
    made.map(drop)
}

fn check_owner(folder: &Path, found: &Metadata) -> io::Result<()> {
    if owner::is_trusted(found.uid()) {
        return Ok(());
    }
    Err(refused(format!(
        "{} belongs to another user (user {})",
        folder.display(),
        found.uid()
    )))
}

/// Returns true if others can write to the folder. A group that has no other user than this one is no others.
fn is_open(found: &Metadata) -> bool {
    match found.mode() & WRITE_BY_OTHERS {
        0 => false,
        open => open & WRITE_BY_ALL != 0 || !is_group_of_this_user(found.gid()),
    }
}

/// Returns true if this user alone is in the group, as the system's files of users and groups say: many systems give each user such a group,
/// and let it write to what the user makes.
fn is_group_of_this_user(group: u32) -> bool {
    let (Ok(groups), Ok(users)) = (
        fs::read_to_string("/etc/group"),
        fs::read_to_string("/etc/passwd"),
    ) else {
        return false;
    };
    is_group_of(group, geteuid().as_raw(), &groups, &users)
}

/// `groups` and `users` are as group(5) and passwd(5) have them.
fn is_group_of(group: u32, user: u32, groups: &str, users: &str) -> bool {
    let number = |fields: &[&str], at: usize| fields.get(at)?.parse::<u32>().ok();
    let lines = |text| str::lines(text).map(|line| line.split(':').collect::<Vec<_>>());
    // NAME:PASSWORD:NUMBER:GROUP:…
    let is_of_user = |fields: &Vec<&str>| number(fields, 2) == Some(user);
    let names: Vec<_> = lines(users)
        .filter(is_of_user)
        .map(|fields| fields[0])
        .collect();
    let mut with_group = lines(users).filter(|fields| number(fields, 3) == Some(group));
    // NAME:PASSWORD:NUMBER:MEMBERS
    let mut groups = lines(groups)
        .filter(|fields| number(fields, 2) == Some(group))
        .peekable();
    groups.peek().is_some()
        && !names.is_empty()
        && with_group.all(|fields| is_of_user(&fields))
        && groups.all(|fields| {
            let members = fields.get(3).copied().unwrap_or_default().split(',');
            let mut members = members.filter(|member| !member.is_empty());
            members.all(|member| names.contains(&member))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_of_one_user() {
        let users = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/:\nbob:x:1001:1001::/:\neve:x:1002:1003::/:\n";
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:eve\nann2:x:1006:ann\nshared:x:1003:\nboth:x:1004:ann,bob\n";
        let is_of = |group, user| is_group_of(group, user, groups, users);
        assert!(is_of(1000, 1000) && is_of(1006, 1000) && is_of(0, 0));
        assert!(!is_of(1000, 1001), "another user's");
        assert!(!is_of(1001, 1001), "eve is in it");
        assert!(!is_of(1003, 1000), "eve's");
        assert!(!is_of(1004, 1000), "it has members");
        assert!(!is_of(1005, 1000), "unknown");
    }
}
