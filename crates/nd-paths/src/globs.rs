//! `glob`, which reads folders by functions of the C library's own, or by those that its caller names.

use std::ffi::{c_char, c_int, c_void};

use crate::calls;
use crate::next::Next;
use crate::paths::leads_to_tree;

/// `glob_t` and `glob64_t`, which are the same on x86-64.
#[repr(C)]
struct Glob {
    count: usize,
    paths: *mut *mut c_char,
    offset: usize,
    flags: c_int,
    functions: Functions,
}

/// The functions by which `glob` reads folders with `GLOB_ALTDIRFUNC`.
#[repr(C)]
struct Functions {
    closedir: *const c_void,
    readdir: *const c_void,
    opendir: *const c_void,
    lstat: *const c_void,
    stat: *const c_void,
}

type Function = unsafe extern "C-unwind" fn(*const c_char, c_int, *mut c_void, *mut Glob) -> c_int;

static GLOB: Next = Next::new(c"glob");
static GLOB64: Next = Next::new(c"glob64");

pub(crate) static ALL: &[&Next] = &[&GLOB, &GLOB64];

/// Has `glob` read folders by our wrappers, if the pattern leads to the tree. Returns the flags for it.
fn with_wrappers(pattern: *const c_char, flags: c_int, to: *mut Glob) -> c_int {
    if flags & libc::GLOB_ALTDIRFUNC != 0 || to.is_null() || !leads_to_tree(pattern) {
        return flags;
    }
    let functions = Functions {
        closedir: libc::closedir as *const c_void,
        readdir: libc::readdir as *const c_void,
        opendir: calls::opendir as *const c_void,
        lstat: calls::lstat as *const c_void,
        stat: calls::stat as *const c_void,
    };
    // SAFETY: the program passes room for a `glob_t`.
    let place = unsafe { &raw mut (*to).functions };
    // SAFETY: as above; without the flag the program has no use for this part.
    unsafe { place.write(functions) };
    flags | libc::GLOB_ALTDIRFUNC
}

// SAFETY: the C library has a function of this name and type, which the wrapper replaces.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn glob(
    pattern: *const c_char,
    flags: c_int,
    on_error: *mut c_void,
    to: *mut Glob,
) -> c_int {
    let flags = with_wrappers(pattern, flags, to);
    call_next!(GLOB, Function, (pattern, flags, on_error, to))
}

// SAFETY: as for `glob`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn glob64(
    pattern: *const c_char,
    flags: c_int,
    on_error: *mut c_void,
    to: *mut Glob,
) -> c_int {
    let flags = with_wrappers(pattern, flags, to);
    call_next!(GLOB64, Function, (pattern, flags, on_error, to))
}
