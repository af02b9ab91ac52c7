//! Paths of C programs, there and back.

use std::ffi::{CStr, c_char, c_int};
use std::{mem, ptr};

use crate::c::{Failed, failed, text, with_errno_kept};
use crate::folders::{self, Folder, Place};
use crate::root;

/// The longest path of a system call, with the zero behind it.
const ROOM: usize = 4096;

/// Calls `call` with the path of the tree that a path means, or with the path itself.
#[inline]
pub(crate) fn with_path<R: Failed>(
    folder: c_int,
    path: *const c_char,
    call: impl FnOnce(*const c_char) -> R,
) -> R {
    match place(folder, path) {
        None => call(path),
        Some(place) => with_rewritten(&place, call),
    }
}

/// The place in the tree that a path means, relative to an opened folder.
fn place<'a>(folder: c_int, path: *const c_char) -> Option<Place<'a>> {
    let path = crate::c::path(path, ROOM)?;
    let place = match path.first()? {
        b'/' => folders::absolute(path),
        _ => relative(folder, path),
    };
    place.filter(|_| root::octets().len() > 0)
}

/// Returns true if a path, or a pattern of paths, means a place in the tree.
pub(crate) fn leads_to_tree(path: *const c_char) -> bool {
    place(libc::AT_FDCWD, path).is_some()
}

fn relative(folder: c_int, path: &[u8]) -> Option<Place<'_>> {
    let mut starts = Folder::starts(path);
    let start = starts.find(|(start, _)| with_errno_kept(|| is_open_at(folder, *start)));
    start.map(|(_, place)| place)
}

/// A path of a system call takes more stack than a signal handler may have, so only paths of the tree take it.
#[cold]
#[inline(never)]
fn with_rewritten<R: Failed>(place: &Place<'_>, call: impl FnOnce(*const c_char) -> R) -> R {
    let mut path = [0_u8; ROOM];
    let (_zero, room) = path.split_last_mut().expect("there is room");
    let mut room = room.iter_mut();
    let folder = place.folder.bytes();
    for octet in root::octets()
        .chain(folder)
        .chain(place.rest.iter().copied())
    {
        match room.next() {
            Some(to) => *to = octet,
            None => return failed(libc::ENAMETOOLONG),
        }
    }
    call(path.as_ptr().cast())
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
    let Some(path) = text(path) else {
        return 0;
    };
    let mut root = root::octets();
    let len = root.len();
    let is_in_root = path.len() > len && path.iter().zip(&mut root).all(|(a, b)| *a == b);
    let is_whole = path.get(len).is_some_and(|next| *next == b'/');
    if is_in_root && is_whole { len } else { 0 }
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
