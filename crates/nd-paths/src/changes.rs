//! Changes of the tree, which fail as they fail in the kernel's `/sys`: EACCES where the mode of a file or a folder forbids them, and EPERM
//! for users to whom modes do not apply. What the kernel lets root do there, and forgets, is EPERM too: the tree is for all runs of a user.

use std::ffi::{c_char, c_int};
use std::mem;

use crate::c::{self, Failed, failed, text, with_errno_kept};
use crate::paths::{is_within, leads_to_tree_from, with_path};
use crate::room::{ROOM, Room};
use crate::root;

/// What a call would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Opening with these flags, which are not for reading alone.
    Open(c_int),
    /// A new entry.
    Create,
    /// A file is removed, or a folder, or whichever there is.
    Remove(Option<bool>),
    Truncate,
    /// The mode or the owner.
    Mode,
    Times,
    ExtendedAttributes,
}

impl Change {
    pub(crate) fn of_open(flags: c_int) -> Option<Self> {
        const BEYOND_READING: c_int = libc::O_CREAT | libc::O_TRUNC;
        let is_for_reading = flags & libc::O_ACCMODE == libc::O_RDONLY;
        let is_path = flags & libc::O_PATH != 0;
        let changes = !is_path && (!is_for_reading || flags & BEYOND_READING != 0);
        changes.then_some(Self::Open(flags))
    }

    /// For the mode of `fopen`.
    pub(crate) fn of_stream(mode: *const c_char) -> Option<Self> {
        let mode = text(mode)?;
        let access = match mode.contains(&b'+') {
            true => libc::O_RDWR,
            false => libc::O_WRONLY,
        };
        let exclusive = match mode.contains(&b'x') {
            true => libc::O_EXCL,
            false => 0,
        };
        match mode.first()? {
            b'w' => Self::of_open(access | libc::O_CREAT | libc::O_TRUNC | exclusive),
            b'a' => Self::of_open(access | libc::O_CREAT | exclusive),
            _ if mode.contains(&b'+') => Self::of_open(access),
            _ => None,
        }
    }

    /// A change of owners that keeps both is none.
    pub(crate) fn of_owners(user: libc::uid_t, group: libc::gid_t) -> Option<Self> {
        const KEPT: u32 = u32::MAX;
        ((user, group) != (KEPT, KEPT)).then_some(Self::Mode)
    }
}

/// Calls `call` as `with_path` does, unless it would change the tree.
#[inline]
pub(crate) fn with_path_unless<R: Failed>(
    folder: c_int,
    path: *const c_char,
    change: Option<Change>,
    call: impl FnOnce(*const c_char) -> R,
) -> R {
    let Some(change) = change.filter(|_| may_concern_tree(folder, path)) else {
        return with_path(folder, path, call);
    };
    with_path(folder, path, |path| {
        let refused = with_errno_kept(|| {
            let place = Place::find(folder, path)?;
            place.refusal(change)
        });
        refused.map_or_else(|| call(path), failed)
    })
}

/// Why a change fails of a path that the C library takes as it is. `None` if it does not change the tree.
pub(crate) fn refusal_of(folder: c_int, path: *const c_char, change: Change) -> Option<c_int> {
    if !may_concern_tree(folder, path) {
        return None;
    }
    let found = with_errno_kept(|| {
        with_path(folder, path, |path| {
            let refused = Place::find(folder, path).and_then(|place| place.refusal(change));
            refused.unwrap_or(0)
        })
    });
    (found > 0).then_some(found)
}

/// Calls `call` unless it would change the file of a descriptor, which is in the tree.
pub(crate) fn with_descriptor_unless(
    descriptor: c_int,
    change: Option<Change>,
    call: impl FnOnce() -> c_int,
) -> c_int {
    match change.filter(|_| is_within(descriptor)) {
        None => call(),
        // SAFETY: the call has no requirements.
        Some(change) => failed(change.denied(unsafe { libc::geteuid() } == 0)),
    }
}

/// Calls for a second name in place of a first one, or beside it.
pub(crate) fn with_two_paths(
    (from_folder, from): (c_int, *const c_char),
    (to_folder, to): (c_int, *const c_char),
    is_link: bool,
    call: impl FnOnce(*const c_char, *const c_char) -> c_int,
) -> c_int {
    if !may_concern_tree(from_folder, from) && !may_concern_tree(to_folder, to) {
        return call(from, to);
    }
    with_path(from_folder, from, |from| {
        with_path(to_folder, to, |to| {
            let refused =
                with_errno_kept(|| refusal_of_two((from_folder, from), (to_folder, to), is_link));
            refused.map_or_else(|| call(from, to), failed)
        })
    })
}

/// Returns false if a path has nothing to do with the tree, which is seen without a look at the file.
fn may_concern_tree(folder: c_int, path: *const c_char) -> bool {
    let Some(octets) = c::path(path, ROOM).filter(|_| root::octets().len() > 0) else {
        return false;
    };
    match octets.starts_with(b"/") {
        true => leads_to_tree_from(folder, path) || root::len_in(octets) > 0,
        false => leads_to_tree_from(folder, path) || is_within(folder),
    }
}

type Mode = libc::mode_t;

/// The mode and the identity of a file, of a link itself.
fn look(folder: c_int, path: *const c_char, flags: c_int) -> Option<libc::stat> {
    // SAFETY: the structure consists of integers, for which zeros are a value.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW | flags;
    // SAFETY: the path ends in a zero, and there is room for the result.
    let done = unsafe { libc::fstatat(folder, path, &raw mut stat, flags) };
    (done == 0).then_some(stat)
}

/// A descriptor that only looks, and is closed at the end.
struct Opened(c_int);

impl Opened {
    fn new(folder: c_int, path: *const c_char, flags: c_int) -> Option<Self> {
        let flags = libc::O_PATH | libc::O_CLOEXEC | flags;
        // SAFETY: the path ends in a zero.
        let opened = unsafe { libc::openat(folder, path, flags) };
        (opened >= 0).then_some(Self(opened))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the descriptor was opened for this value, and nobody else knows it.
        unsafe { libc::close(self.0) };
    }
}

/// A place in a folder of the tree, where there is an entry or none.
struct Place {
    folder: Opened,
    name: Room,
    entry: Option<libc::stat>,
}

impl Place {
    /// The place that a path of the kernel means, if it is in the tree.
    fn find(folder: c_int, path: *const c_char) -> Option<Self> {
        let octets = c::path(path, ROOM)?;
        let len = octets
            .iter()
            .rposition(|octet| *octet != b'/')
            .map_or(0, |at| at + 1);
        let octets = octets.get(..len)?;
        let start = octets
            .iter()
            .rposition(|octet| *octet == b'/')
            .map_or(0, |at| at + 1);
        let (above, name) = match octets.get(start..)? {
            // The folder itself.
            b"" | b"." | b".." => (octets, &b"."[..]),
            name => (octets.get(..start)?, name),
        };
        let mut room = Room::new();
        let above = if above.is_empty() { b"." } else { above };
        let has_room = room.write(above.iter().copied());
        let opened = Opened::new(folder, room.pointer(), libc::O_DIRECTORY).filter(|_| has_room)?;
        if !is_within(opened.0) || !room.write(name.iter().copied()) {
            return None;
        }
        let entry = look(opened.0, room.pointer(), 0);
        Some(Self {
            folder: opened,
            name: room,
            entry,
        })
    }

    /// Returns true if modes let this user change the folder: those of the tree let root alone.
    fn is_writable(&self) -> bool {
        let here = c".".as_ptr();
        // SAFETY: the path ends in a zero.
        unsafe { libc::faccessat(self.folder.0, here, libc::W_OK, libc::AT_EACCESS) == 0 }
    }

    /// Why a change fails. `None` if it fails anyway, or changes nothing of the tree.
    fn refusal(&self, change: Change) -> Option<c_int> {
        let mode = self.entry.map(|entry| entry.st_mode);
        let concerns = match (change, mode) {
            (Change::Open(flags), _) => return self.refusal_to_open(flags, mode),
            (Change::Truncate, Some(mode)) => {
                return is_file(self.followed(mode)?).then_some(libc::EACCES);
            }
            (Change::Create, mode) => mode.is_none(),
            (Change::Remove(Some(folder)), Some(mode)) => is_folder(mode) == folder,
            (_, mode) => mode.is_some(),
        };
        concerns.then(|| change.denied(self.is_writable()))
    }

    fn refusal_to_open(&self, flags: c_int, mode: Option<Mode>) -> Option<c_int> {
        let Some(mode) = mode else {
            return (flags & libc::O_CREAT != 0).then_some(libc::EACCES);
        };
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            let denied = Change::ExtendedAttributes.denied(self.is_writable());
            return is_folder(self.followed(mode)?).then_some(denied);
        }
        const NEW: c_int = libc::O_CREAT | libc::O_EXCL;
        // The kernel refuses to make what is there, and to follow a link where the program forbids it.
        if flags & NEW == NEW || flags & libc::O_NOFOLLOW != 0 && is_link(mode) {
            return None;
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        (writes && is_file(self.followed(mode)?)).then_some(libc::EACCES)
    }

    /// The mode of the entry, or of what a link leads to, if that is in the tree.
    fn followed(&self, mode: Mode) -> Option<Mode> {
        if !is_link(mode) {
            return Some(mode);
        }
        let target = Opened::new(self.folder.0, self.name.pointer(), 0)?;
        let is_in_tree = is_within(target.0);
        let found = look(target.0, c"".as_ptr(), libc::AT_EMPTY_PATH)?;
        is_in_tree.then_some(found.st_mode)
    }
}

impl Change {
    /// The error that sysfs has for a change.
    fn denied(self, is_writable: bool) -> c_int {
        match (self, is_writable) {
            (Self::Mode, _) => libc::EPERM,
            (Self::ExtendedAttributes, true) => libc::EOPNOTSUPP,
            (_, true) => libc::EPERM,
            (_, false) => libc::EACCES,
        }
    }
}

fn is_of_kind(mode: Mode, kind: Mode) -> bool {
    mode & libc::S_IFMT == kind
}

fn is_folder(mode: Mode) -> bool {
    is_of_kind(mode, libc::S_IFDIR)
}

fn is_file(mode: Mode) -> bool {
    is_of_kind(mode, libc::S_IFREG)
}

fn is_link(mode: Mode) -> bool {
    is_of_kind(mode, libc::S_IFLNK)
}

fn refusal_of_two(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    is_link: bool,
) -> Option<c_int> {
    let places = [Place::find(from.0, from.1), Place::find(to.0, to.1)];
    let [found, there] = [look(from.0, from.1, 0), look(to.0, to.1, 0)];
    let identity = |entry: libc::stat| (entry.st_dev, entry.st_ino);
    let is_same = there.map(identity) == found.map(identity);
    // Without a file there is nothing to do, and neither if both are one, or where a link would be.
    found?;
    if is_same || is_link && there.is_some() {
        return None;
    }
    match places {
        [None, None] => None,
        [Some(_), Some(_)] if is_link => Some(libc::EPERM),
        [Some(_), Some(to)] => Some(Change::Create.denied(to.is_writable())),
        // The tree is a file system to the program.
        _ => Some(libc::EXDEV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_changes_nothing() {
        for flags in [
            libc::O_RDONLY,
            libc::O_RDONLY | libc::O_DIRECTORY,
            libc::O_PATH | libc::O_RDWR,
        ] {
            assert_eq!(Change::of_open(flags), None, "{flags:o}");
        }
        for flags in [
            libc::O_WRONLY,
            libc::O_RDWR,
            libc::O_RDONLY | libc::O_CREAT,
            libc::O_RDONLY | libc::O_TRUNC,
        ] {
            assert_eq!(Change::of_open(flags), Some(Change::Open(flags)));
        }
    }

    #[test]
    fn streams_have_flags() {
        let change_of = |mode: &std::ffi::CStr| Change::of_stream(mode.as_ptr());
        let made = libc::O_WRONLY | libc::O_CREAT;
        assert_eq!(change_of(c"r"), None);
        assert_eq!(change_of(c"rb,ccs=UTF-8"), None);
        assert_eq!(change_of(c"r+"), Some(Change::Open(libc::O_RDWR)));
        assert_eq!(change_of(c"we"), Some(Change::Open(made | libc::O_TRUNC)));
        assert_eq!(change_of(c"a"), Some(Change::Open(made)));
        assert_eq!(
            change_of(c"wx"),
            Some(Change::Open(made | libc::O_TRUNC | libc::O_EXCL))
        );
    }

    #[test]
    fn an_owner_that_stays_is_no_change() {
        assert_eq!(Change::of_owners(u32::MAX, u32::MAX), None);
        assert_eq!(Change::of_owners(0, u32::MAX), Some(Change::Mode));
    }
}
