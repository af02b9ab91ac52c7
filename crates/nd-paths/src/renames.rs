//! Functions that change files, and take more or less than one path: two of them, a descriptor, a pattern of a name, or an address.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{AT_FDCWD, gid_t, mode_t, uid_t};

use crate::c::{failed, is_readable};
use crate::changes::{
    Change, refusal_of, with_descriptor_unless, with_path_unless, with_two_paths,
};
use crate::next::Next;
use crate::room::Room;

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

/// Defines wrappers of functions that make a new name from a pattern, and a file or a folder of this name.
macro_rules! patterns {
    ($($name:ident($path:ident $(, $arg:ident)*) -> $result:ty = $next:ident, $change:expr;)*) => { $(
        static $next: Next = Next::new(crate::next::name(concat!(stringify!($name), "\0")));

        // SAFETY: as above.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($path: *mut c_char $(, $arg: c_int)*) -> $result {
            match refusal_of(AT_FDCWD, $path, $change) {
                Some(number) => failed(number),
                None => call_next!($next, patterns!(@type $result, ($($arg),*)), ($path $(, $arg)*)),
            }
        }
    )* };
    (@type $result:ty, ()) => { unsafe extern "C-unwind" fn(*mut c_char) -> $result };
    (@type $result:ty, ($a:ident)) => { unsafe extern "C-unwind" fn(*mut c_char, c_int) -> $result };
    (@type $result:ty, ($a:ident, $b:ident)) => { unsafe extern "C-unwind" fn(*mut c_char, c_int, c_int) -> $result };
}

const NEW_FILE: Change = Change::Open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);

patterns! {
    mkdtemp(path) -> *mut c_char = MKDTEMP, Change::Create;
    mkstemp(path) -> c_int = MKSTEMP, NEW_FILE;
    mkstemp64(path) -> c_int = MKSTEMP64, NEW_FILE;
    mkostemp(path, flags) -> c_int = MKOSTEMP, NEW_FILE;
    mkostemp64(path, flags) -> c_int = MKOSTEMP64, NEW_FILE;
    mkstemps(path, behind) -> c_int = MKSTEMPS, NEW_FILE;
    mkstemps64(path, behind) -> c_int = MKSTEMPS64, NEW_FILE;
    mkostemps(path, behind, flags) -> c_int = MKOSTEMPS, NEW_FILE;
    mkostemps64(path, behind, flags) -> c_int = MKOSTEMPS64, NEW_FILE;
}

static BIND: Next = Next::new(c"bind");

/// The path of a socket's address, if it has one. It may end without a zero.
fn path_of(address: Opaque, len: libc::socklen_t, to: &mut Room) -> bool {
    const FAMILY: usize = size_of::<libc::sa_family_t>();
    let len = usize::try_from(len).unwrap_or(0);
    if len <= FAMILY || len > size_of::<libc::sockaddr_un>() {
        return false;
    }
    // Both ends, which lie in two pages at most. The kernel refuses what cannot be read.
    let first = address.cast_const().cast::<c_char>();
    if !is_readable(first) || !is_readable(first.wrapping_add(len - 1)) {
        return false;
    }
    // SAFETY: all octets can be read, and the program changes them in no other thread during the call.
    let octets = unsafe { std::slice::from_raw_parts(first.cast::<u8>(), len) };
    let (family, path) = octets.split_at(FAMILY);
    let is_unix = *family == libc::AF_UNIX.to_ne_bytes()[..FAMILY];
    let mut names = path.split(|octet| *octet == 0);
    let path = names.next().unwrap_or_default();
    is_unix && !path.is_empty() && to.write(path.iter().copied())
}

// SAFETY: as above.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn bind(socket: c_int, address: Opaque, len: libc::socklen_t) -> c_int {
    let mut path = Room::new();
    if path_of(address, len, &mut path)
        && let Some(number) = refusal_of(AT_FDCWD, path.pointer(), Change::Create)
    {
        return failed(number);
    }
    call_next!(
        BIND,
        unsafe extern "C-unwind" fn(c_int, Opaque, libc::socklen_t) -> c_int,
        (socket, address, len)
    )
}

pub(crate) static ALL: &[&Next] = &[
    &BIND,
    &MKDTEMP,
    &MKSTEMP,
    &MKSTEMP64,
    &MKOSTEMP,
    &MKOSTEMP64,
    &MKSTEMPS,
    &MKSTEMPS64,
    &MKOSTEMPS,
    &MKOSTEMPS64,
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
