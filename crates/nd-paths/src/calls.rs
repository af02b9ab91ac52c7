//! Functions that take a path, and whose results have none.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{AT_FDCWD, mode_t};

use crate::next::Next;
use crate::paths::with_path;

type Path = *const c_char;
/// A structure or a stream, which only the C library looks at.
type Opaque = *mut c_void;

// Functions with a variable number of arguments. A wrapper takes the mode in the register in which a caller passes it, and passes on what
// is there where the caller passes none.
type Open = unsafe extern "C-unwind" fn(Path, c_int, ...) -> c_int;
type OpenAt = unsafe extern "C-unwind" fn(c_int, Path, c_int, ...) -> c_int;

/// Defines wrappers: which argument is the path, and from which folder a relative one starts.
macro_rules! calls {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty, $path:ident in $folder:expr $(, as $variable:ty)?;)*) => {
        $(
            // SAFETY: the C library has a function of this name and type, which the wrapper replaces.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
                with_path($folder, $path, |$path| {
                    call_next!(next::$name, calls!(@type [$($variable)?] ($($type),*) -> $result), ($($arg),*))
                })
            }
        )*

        #[expect(non_upper_case_globals, reason = "the names are those of the functions")]
        mod next {
            use crate::next::Next;

            $(pub(super) static $name: Next = Next::new(crate::next::name(concat!(stringify!($name), "\0")));)*
        }

        /// All definitions that the wrappers call.
        pub(crate) static ALL: &[&Next] = &[$(&next::$name),*];
    };
    (@type [] ($($type:ty),*) -> $result:ty) => { unsafe extern "C-unwind" fn($($type),*) -> $result };
    (@type [$variable:ty] $($fixed:tt)*) => { $variable };
}

calls! {
    open(path: Path, flags: c_int, mode: mode_t) -> c_int, path in AT_FDCWD, as Open;
    open64(path: Path, flags: c_int, mode: mode_t) -> c_int, path in AT_FDCWD, as Open;
    __open(path: Path, flags: c_int, mode: mode_t) -> c_int, path in AT_FDCWD, as Open;
    __open64(path: Path, flags: c_int, mode: mode_t) -> c_int, path in AT_FDCWD, as Open;
    openat(folder: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int, path in folder, as OpenAt;
    openat64(folder: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int, path in folder, as OpenAt;
    __open_2(path: Path, flags: c_int) -> c_int, path in AT_FDCWD;
    __open64_2(path: Path, flags: c_int) -> c_int, path in AT_FDCWD;
    __openat_2(folder: c_int, path: Path, flags: c_int) -> c_int, path in folder;
    __openat64_2(folder: c_int, path: Path, flags: c_int) -> c_int, path in folder;
    creat(path: Path, mode: mode_t) -> c_int, path in AT_FDCWD;
    creat64(path: Path, mode: mode_t) -> c_int, path in AT_FDCWD;

    fopen(path: Path, mode: Path) -> Opaque, path in AT_FDCWD;
    fopen64(path: Path, mode: Path) -> Opaque, path in AT_FDCWD;
    _IO_fopen(path: Path, mode: Path) -> Opaque, path in AT_FDCWD;
    freopen(path: Path, mode: Path, stream: Opaque) -> Opaque, path in AT_FDCWD;
    freopen64(path: Path, mode: Path, stream: Opaque) -> Opaque, path in AT_FDCWD;

    stat(path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    stat64(path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    lstat(path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    lstat64(path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    fstatat(folder: c_int, path: Path, to: Opaque, flags: c_int) -> c_int, path in folder;
    fstatat64(folder: c_int, path: Path, to: Opaque, flags: c_int) -> c_int, path in folder;
    __xstat(version: c_int, path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    __xstat64(version: c_int, path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    __lxstat(version: c_int, path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    __lxstat64(version: c_int, path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    __fxstatat(version: c_int, folder: c_int, path: Path, to: Opaque, flags: c_int) -> c_int, path in folder;
    __fxstatat64(version: c_int, folder: c_int, path: Path, to: Opaque, flags: c_int) -> c_int, path in folder;
    statx(folder: c_int, path: Path, flags: c_int, mask: c_uint, to: Opaque) -> c_int, path in folder;
    statfs(path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    statfs64(path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    statvfs(path: Path, to: Opaque) -> c_int, path in AT_FDCWD;
    statvfs64(path: Path, to: Opaque) -> c_int, path in AT_FDCWD;

    access(path: Path, mode: c_int) -> c_int, path in AT_FDCWD;
    faccessat(folder: c_int, path: Path, mode: c_int, flags: c_int) -> c_int, path in folder;
    euidaccess(path: Path, mode: c_int) -> c_int, path in AT_FDCWD;
    eaccess(path: Path, mode: c_int) -> c_int, path in AT_FDCWD;

    // `ls -l` looks for access control lists and labels.
    getxattr(path: Path, name: Path, value: Opaque, size: usize) -> isize, path in AT_FDCWD;
    lgetxattr(path: Path, name: Path, value: Opaque, size: usize) -> isize, path in AT_FDCWD;
    listxattr(path: Path, list: Opaque, size: usize) -> isize, path in AT_FDCWD;
    llistxattr(path: Path, list: Opaque, size: usize) -> isize, path in AT_FDCWD;

    readlink(path: Path, to: Opaque, size: usize) -> isize, path in AT_FDCWD;
    readlinkat(folder: c_int, path: Path, to: Opaque, size: usize) -> isize, path in folder;
    __readlink_chk(path: Path, to: Opaque, size: usize, room: usize) -> isize, path in AT_FDCWD;
    __readlinkat_chk(folder: c_int, path: Path, to: Opaque, size: usize, room: usize) -> isize, path in folder;

    opendir(path: Path) -> Opaque, path in AT_FDCWD;
    scandir(path: Path, list: Opaque, filter: Opaque, compare: Opaque) -> c_int, path in AT_FDCWD;
    scandir64(path: Path, list: Opaque, filter: Opaque, compare: Opaque) -> c_int, path in AT_FDCWD;
    scandirat(folder: c_int, path: Path, list: Opaque, filter: Opaque, compare: Opaque) -> c_int, path in folder;
    scandirat64(folder: c_int, path: Path, list: Opaque, filter: Opaque, compare: Opaque) -> c_int, path in folder;
    chdir(path: Path) -> c_int, path in AT_FDCWD;
    inotify_add_watch(descriptor: c_int, path: Path, mask: u32) -> c_int, path in AT_FDCWD;
}
