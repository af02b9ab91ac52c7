//! `ftw` and `nftw`, which call a function of the program for every path of a tree.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use libc::AT_FDCWD;

use crate::next::Next;
use crate::paths::{leads_to_tree, root_of, with_path};

type Path = *const c_char;

/// `struct FTW`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Position {
    /// Where the name begins in the path.
    base: c_int,
    level: c_int,
}

/// The function of the program for each path. `ftw` passes no position.
type Callback = unsafe extern "C-unwind" fn(Path, *const c_void, c_int, *const Position) -> c_int;

type Ftw = unsafe extern "C-unwind" fn(Path, Option<Callback>, c_int) -> c_int;
type Nftw = unsafe extern "C-unwind" fn(Path, Option<Callback>, c_int, c_int) -> c_int;

static FTW: Next = Next::new(c"ftw");
static FTW64: Next = Next::new(c"ftw64");
static NFTW: Next = Next::new(c"nftw");
static NFTW64: Next = Next::new(c"nftw64");

pub(crate) static ALL: &[&Next] = &[&FTW, &FTW64, &NFTW, &NFTW64];

thread_local! {
    /// The function of the program whose call walks the tree in this thread.
    static CALLBACK: Cell<Option<Callback>> = const { Cell::new(None) };
}

/// Calls the program's function with the path as the program knows it.
unsafe extern "C-unwind" fn tell(
    path: Path,
    stat: *const c_void,
    kind: c_int,
    position: *const Position,
) -> c_int {
    let Some(callback) = CALLBACK.get() else {
        return -1;
    };
    let root = root_of(path);
    let path = path.wrapping_add(root);
    // SAFETY: the program's function is called as the C library would call it, with another part of the same path.
    unsafe { callback(path, stat, kind, position) }
}

/// As `tell`, for `nftw`, which says where the name begins.
unsafe extern "C-unwind" fn tell_with_position(
    path: Path,
    stat: *const c_void,
    kind: c_int,
    position: *const Position,
) -> c_int {
    // SAFETY: `nftw` passes a position.
    let mut moved = unsafe { position.read() };
    moved.base -= c_int::try_from(root_of(path)).unwrap_or(0);
    // SAFETY: called as `nftw` calls it.
    unsafe { tell(path, stat, kind, &raw const moved) }
}

/// Calls `walk` with the path, and with `tell` in place of the program's function where the path leads to the tree.
fn walk(
    path: Path,
    callback: Option<Callback>,
    tell: Callback,
    walk: impl FnOnce(Path, Option<Callback>) -> c_int,
) -> c_int {
    if !leads_to_tree(path) {
        return walk(path, callback);
    }
    let outer = CALLBACK.replace(callback);
    let result = with_path(AT_FDCWD, path, |path| walk(path, Some(tell)));
    CALLBACK.set(outer);
    result
}

macro_rules! walks {
    ($($name:ident = $next:ident: $function:ty, $tell:ident, ($($flags:ident)?);)*) => { $(
        // SAFETY: the C library has a function of this name and type, which the wrapper replaces.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name(
            path: Path,
            callback: Option<Callback>,
            descriptors: c_int,
            $($flags: c_int)?
        ) -> c_int {
            walk(path, callback, $tell, |path, callback| {
                call_next!($next, $function, (path, callback, descriptors $(, $flags)?))
            })
        }
    )* };
}

walks! {
    ftw = FTW: Ftw, tell, ();
    ftw64 = FTW64: Ftw, tell, ();
    nftw = NFTW: Nftw, tell_with_position, (flags);
    nftw64 = NFTW64: Nftw, tell_with_position, (flags);
}
