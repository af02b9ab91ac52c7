//! Paths of C programs, there and back.

use std::ffi::{CStr, c_char, c_int};
use std::{mem, ptr};

use crate::c::{Failed, failed, text, with_errno_kept};
use crate::descriptors;
use crate::folders::{self, Folder, Place, Walk};
use crate::room::{ROOM, Room};
use crate::root;

/// What a path means.
#[derive(Clone, Copy)]
enum Meaning<'a> {
    /// What it says.
    Itself,
    At(Place<'a>),
    /// Behind a place in the tree it goes on with `..`, and a rest.
    Up(Place<'a>, &'a [u8]),
    /// It has a `..`, and begins within the tree.
    Within(&'a [u8]),
}

/// Calls `call` with the path of the tree that a path means, or with the path itself.
#[inline]
pub(crate) fn with_path<R: Failed>(
    folder: c_int,
    path: *const c_char,
    call: impl FnOnce(*const c_char) -> R,
) -> R {
    match meaning(folder, path) {
        Meaning::Itself => call(path),
        Meaning::At(place) => with_place(&place, b"", call),
        Meaning::Up(from, rest) => with_resolved(|room| write_up(&from, rest, room), call),
        Meaning::Within(path) => with_resolved(|room| write_within(folder, path, room), call),
    }
}

/// What a path means, relative to an opened folder.
fn meaning<'a>(folder: c_int, path: *const c_char) -> Meaning<'a> {
    let is_there = |_: &&[u8]| root::octets().len() > 0;
    let Some(path) = crate::c::path(path, ROOM).filter(is_there) else {
        return Meaning::Itself;
    };
    let walk = match path.first() {
        Some(b'/') => folders::absolute(path),
        _ => relative(folder, path),
    };
    let is_up = |path: &[u8]| path.split(|octet| *octet == b'/').any(|name| name == b"..");
    match walk {
        Walk::At(place) => Meaning::At(place),
        Walk::Up { from, rest } => Meaning::Up(from, rest),
        Walk::Elsewhere if !path.starts_with(b"/") && is_up(path) && is_within(folder) => {
            Meaning::Within(path)
        }
        Walk::Elsewhere => Meaning::Itself,
    }
}

/// Returns true if a path, or a pattern of paths, means a place in the tree.
pub(crate) fn leads_to_tree(path: *const c_char) -> bool {
    leads_to_tree_from(libc::AT_FDCWD, path)
}

/// As [`leads_to_tree`], relative to an opened folder.
pub(crate) fn leads_to_tree_from(folder: c_int, path: *const c_char) -> bool {
    match meaning(folder, path) {
        Meaning::Itself => false,
        Meaning::At(place) => place.is_in_tree,
        Meaning::Up(..) | Meaning::Within(_) => true,
    }
}

fn relative(folder: c_int, path: &[u8]) -> Walk<'_> {
    let mut starts = Folder::starts(path);
    let start = starts.find(|(start, _)| with_errno_kept(|| is_open_at(folder, *start)));
    start.map_or(Walk::Elsewhere, |(_, walk)| walk)
}

/// A path of a system call takes more stack than a signal handler may have, so only paths of the tree take it.
#[cold]
#[inline(never)]
fn with_place<R: Failed>(
    place: &Place<'_>,
    behind: &[u8],
    call: impl FnOnce(*const c_char) -> R,
) -> R {
    let mut path = Room::new();
    match path.write(in_tree(place).chain(behind.iter().copied())) {
        true => call(path.pointer()),
        false => failed(libc::ENAMETOOLONG),
    }
}

/// The path of a place for the kernel.
fn in_tree(place: &Place<'_>) -> impl Iterator<Item = u8> {
    let root = root::octets().take(if place.is_in_tree { usize::MAX } else { 0 });
    let rest = place.rest.iter().copied();
    root.chain(place.folder.bytes()).chain(rest)
}

/// Calls `call` with the path that another one means which goes up behind entries of the tree. `begin` writes the absolute path that the
/// program sees, or the one with which the call fails.
#[cold]
#[inline(never)]
fn with_resolved<R: Failed>(
    begin: impl FnOnce(&mut Room) -> Written,
    call: impl FnOnce(*const c_char) -> R,
) -> R {
    let [mut path, mut next] = [Room::new(), Room::new()];
    let mut written = with_errno_kept(|| begin(&mut path));
    while let Written::Seen = written {
        let (from, rest) = match folders::absolute(path.octets()) {
            Walk::Elsewhere => return call(path.pointer()),
            Walk::At(place) => return with_place(&place, b"", call),
            Walk::Up { from, rest } => (from, rest),
        };
        written = with_errno_kept(|| write_up(&from, rest, &mut next));
        mem::swap(&mut path, &mut next);
    }
    match written {
        Written::Failing => call(path.pointer()),
        _ => failed(libc::ENAMETOOLONG),
    }
}

/// What was written.
enum Written {
    /// A path that the program sees.
    Seen,
    /// The kernel's path, at which a call fails because what it leads through is missing.
    Failing,
    TooLong,
}

impl Written {
    fn or_too_long(self, has_room: bool) -> Self {
        if has_room { self } else { Self::TooLong }
    }
}

/// Writes the path of the folder above a place, as the program sees it, with a rest.
fn write_up(from: &Place<'_>, rest: &[u8], to: &mut Room) -> Written {
    let has_room = to.write(in_tree(from));
    // SAFETY: the path ends in a zero.
    let folder = unsafe {
        libc::open(
            to.pointer(),
            libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC,
        )
    };
    if folder < 0 {
        let failing = in_tree(from).chain(*b"..").chain(rest.iter().copied());
        return Written::Failing.or_too_long(has_room && to.write(failing));
    }
    let found = descriptors::path(folder, to);
    // SAFETY: the descriptor was opened here, and nobody else knows it.
    unsafe { libc::close(folder) };
    if !found {
        return Written::TooLong;
    }
    to.remove_root();
    to.remove_last();
    Written::Seen.or_too_long(to.append(rest))
}

/// Writes a relative path, behind that of the folder within the tree in which it begins.
fn write_within(folder: c_int, path: &[u8], to: &mut Room) -> Written {
    if !descriptors::path(folder, to) {
        return Written::TooLong;
    }
    to.remove_root();
    Written::Seen.or_too_long(to.append(b"/") && to.append(path))
}

/// Returns true if a descriptor, or the working directory, is within the tree.
#[cold]
#[inline(never)]
pub(crate) fn is_within(folder: c_int) -> bool {
    with_errno_kept(|| {
        let mut path = Room::new();
        descriptors::path(folder, &mut path) && root_of(path.pointer()) > 0
    })
}

/// Returns true if a descriptor, or the working directory, is this folder of the system.
fn is_open_at(descriptor: c_int, folder: Folder) -> bool {
    let mut octets = [0_u8; 32];
    for (to, from) in octets.iter_mut().zip(folder.path().bytes()) {
        *to = from;
    }
    let Ok(path) = CStr::from_bytes_until_nul(&octets) else {
        return false;
    };
    let this = identity(descriptor, c"", libc::AT_EMPTY_PATH);
    this.is_some() && this == identity(libc::AT_FDCWD, path, 0)
}

fn identity(folder: c_int, path: &CStr, flags: c_int) -> Option<(libc::dev_t, libc::ino_t)> {
    // SAFETY: the structure consists of integers, for which zeros are a value.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the path ends in a zero, and there is room for the result.
    let done = unsafe { libc::fstatat(folder, path.as_ptr(), &raw mut stat, flags) };
    (done == 0).then_some((stat.st_dev, stat.st_ino))
}

/// Returns how many octets of a path of the C library name the tree's root: behind them is the path that programs know.
pub(crate) fn root_of(path: *const c_char) -> usize {
    text(path).map_or(0, root::len_in)
}

/// Takes the tree's root away from a path that the C library has left in memory of the program.
pub(crate) fn remove_root(path: *mut c_char) {
    let root = root_of(path);
    if let Some(text) = text(path).filter(|_| root > 0) {
        let len = text.len() + 1 - root;
        // SAFETY: both stretches lie within the text and the zero behind it.
        unsafe { ptr::copy(path.wrapping_add(root), path, len) };
    }
}
