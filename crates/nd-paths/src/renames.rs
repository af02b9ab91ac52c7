//! Functions that take two paths, or a descriptor, and change what is there.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{AT_FDCWD, gid_t, mode_t, uid_t};

use crate::changes::{Change, with_descriptor_unless, with_path_unless, with_two_paths};
use crate::next::Next;

type Path = *const c_char;
/// A structure that only the C library looks at.
type Opaque = *mut c_void;

/// Defines wrappers of functions that give a file another name, or a second one.
macro_rules! two_paths {
    ($($name:ident($($arg:ident: $type:ty),*) = $next:ident, $from:ident in $from_folder:expr, $to:ident in $to_folder:expr, $is_link:expr;)*) => { $(
        static $next: Next = Next::new(crate::next::name(concat!(stringify!($name), "\0")));

        // SAFETY: the C library has a function of this name and type, which the wrapper replaces.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            with_two_paths(($from_folder, $from), ($to_folder, $to), $is_link, |$from, $to| {
                call_next!($next, unsafe extern "C-unwind" fn($($type),*) -> c_int, ($($arg),*))
            })
        }
    )* };
}

two_paths! {
    rename(from: Path, to: Path) = RENAME, from in AT_FDCWD, to in AT_FDCWD, false;
    renameat(a: c_int, from: Path, b: c_int, to: Path) = RENAMEAT, from in a, to in b, false;
    renameat2(a: c_int, from: Path, b: c_int, to: Path, flags: c_uint) = RENAMEAT2, from in a, to in b, false;
    link(from: Path, to: Path) = LINK, from in AT_FDCWD, to in AT_FDCWD, true;
    linkat(a: c_int, from: Path, b: c_int, to: Path, flags: c_int) = LINKAT, from in a, to in b, true;
}

/// Defines wrappers of functions that change the file of a descriptor.
macro_rules! descriptors {
    ($($name:ident($($arg:ident: $type:ty),*) = $next:ident, $descriptor:ident, $change:expr;)*) => { $(
        static $next: Next = Next::new(crate::next::name(concat!(stringify!($name), "\0")));

        // SAFETY: as above.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            with_descriptor_unless($descriptor, $change, || {
                call_next!($next, unsafe extern "C-unwind" fn($($type),*) -> c_int, ($($arg),*))
            })
        }
    )* };
}

descriptors! {
    fchmod(file: c_int, mode: mode_t) = FCHMOD, file, Some(Change::Mode);
    fchown(file: c_int, user: uid_t, group: gid_t) = FCHOWN, file, Change::of_owners(user, group);
    futimens(file: c_int, times: Opaque) = FUTIMENS, file, Some(Change::Times);
    futimes(file: c_int, times: Opaque) = FUTIMES, file, Some(Change::Times);
    fsetxattr(file: c_int, name: Path, value: Opaque, size: usize, flags: c_int) = FSETXATTR, file, Some(Change::ExtendedAttributes);
    fremovexattr(file: c_int, name: Path) = FREMOVEXATTR, file, Some(Change::ExtendedAttributes);
}

/// Defines wrappers of functions that set the times of a path, or without one those of the folder's descriptor.
macro_rules! times {
    ($($name:ident($folder:ident, $path:ident, $($arg:ident: $type:ty),*) = $next:ident;)*) => { $(
        static $next: Next = Next::new(crate::next::name(concat!(stringify!($name), "\0")));

        // SAFETY: as above.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($folder: c_int, $path: Path, $($arg: $type),*) -> c_int {
            let call = |$path| {
                call_next!($next, unsafe extern "C-unwind" fn(c_int, Path, $($type),*) -> c_int, ($folder, $path, $($arg),*))
            };
            let change = Some(Change::Times);
            match $path.is_null() {
                true => with_descriptor_unless($folder, change, || call($path)),
                false => with_path_unless($folder, $path, change, call),
            }
        }
    )* };
}

times! {
    utimensat(folder, path, times: Opaque, flags: c_int) = UTIMENSAT;
    futimesat(folder, path, times: Opaque) = FUTIMESAT;
}

pub(crate) static ALL: &[&Next] = &[
    &RENAME,
    &RENAMEAT,
    &RENAMEAT2,
    &LINK,
    &LINKAT,
    &FCHMOD,
    &FCHOWN,
    &FUTIMENS,
    &FUTIMES,
    &FSETXATTR,
    &FREMOVEXATTR,
    &UTIMENSAT,
    &FUTIMESAT,
];
