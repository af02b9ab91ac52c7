//! Functions that return a path.

use std::ffi::c_char;

use libc::AT_FDCWD;

use crate::next::Next;
use crate::paths::{remove_root, with_path};

type Path = *const c_char;
type Text = *mut c_char;

static REALPATH: Next = Next::new(c"realpath");
static REALPATH_CHK: Next = Next::new(c"__realpath_chk");
static CANONICALIZE: Next = Next::new(c"canonicalize_file_name");

static GETCWD: Next = Next::new(c"getcwd");
static GETCWD_CHK: Next = Next::new(c"__getcwd_chk");
static CURRENT: Next = Next::new(c"get_current_dir_name");

pub(crate) static ALL: &[&Next] = &[
    &REALPATH,
    &REALPATH_CHK,
    &CANONICALIZE,
    &GETCWD,
    &GETCWD_CHK,
    &CURRENT,
];

/// Calls for a path, and takes the tree's root from the result.
fn known_to_programs(path: Path, call: impl FnOnce(Path) -> Text) -> Text {
    let found = with_path(AT_FDCWD, path, call);
    remove_root(found);
    found
}

// SAFETY: the C library has a function of this name and type, which the wrapper replaces.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn realpath(path: Path, to: Text) -> Text {
    known_to_programs(path, |path| {
        call_next!(
            REALPATH,
            unsafe extern "C-unwind" fn(Path, Text) -> Text,
            (path, to)
        )
    })
}

// SAFETY: as for `realpath`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __realpath_chk(path: Path, to: Text, room: usize) -> Text {
    known_to_programs(path, |path| {
        call_next!(
            REALPATH_CHK,
            unsafe extern "C-unwind" fn(Path, Text, usize) -> Text,
            (path, to, room)
        )
    })
}

// SAFETY: as for `realpath`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn canonicalize_file_name(path: Path) -> Text {
    known_to_programs(path, |path| {
        call_next!(
            CANONICALIZE,
            unsafe extern "C-unwind" fn(Path) -> Text,
            (path)
        )
    })
}

/// The working directory, as the program knows it.
fn folder_known_to_programs(found: Text) -> Text {
    remove_root(found);
    found
}

// SAFETY: as for `realpath`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getcwd(to: Text, room: usize) -> Text {
    folder_known_to_programs(call_next!(
        GETCWD,
        unsafe extern "C-unwind" fn(Text, usize) -> Text,
        (to, room)
    ))
}

// SAFETY: as for `realpath`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __getcwd_chk(to: Text, size: usize, room: usize) -> Text {
    folder_known_to_programs(call_next!(
        GETCWD_CHK,
        unsafe extern "C-unwind" fn(Text, usize, usize) -> Text,
        (to, size, room)
    ))
}

// SAFETY: as for `realpath`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn get_current_dir_name() -> Text {
    folder_known_to_programs(call_next!(
        CURRENT,
        unsafe extern "C-unwind" fn() -> Text,
        ()
    ))
}
