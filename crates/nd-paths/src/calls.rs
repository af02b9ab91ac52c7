//! Functions that take a path, and whose results have none.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{AT_FDCWD, AT_REMOVEDIR, dev_t, gid_t, mode_t, uid_t};

use crate::changes::{Change, with_path_unless};
use crate::next::Next;
use crate::paths::with_path;

type Path = *const c_char;
/// A structure or a stream, which only the C library looks at.
type Opaque = *mut c_void;

// Functions with a variable number of arguments. A wrapper takes the mode in the register in which a caller passes it, and passes on what
// is there where the caller passes none.
type Open = unsafe extern "C-unwind" fn(Path, c_int, ...) -> c_int;
type OpenAt = unsafe extern "C-unwind" fn(c_int, Path, c_int, ...) -> c_int;

/// What `creat` does.
const CREAT: Option<Change> = Some(Change::Open(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC));

/// Defines wrappers: which argument is the path, from which folder a relative one starts, and what the call would change.
macro_rules! calls {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty, $path:ident in $folder:expr $(, as $variable:ty)? $(, if $change:expr)?;)*) => {
        $(
            // SAFETY: the C library has a function of this name and type, which the wrapper replaces.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
                calls!(@call [$($change)?] $folder, $path, |$path| {
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
    (@call [] $folder:expr, $path:ident, $call:expr) => { with_path($folder, $path, $call) };
    (@call [$change:expr] $folder:expr, $path:ident, $call:expr) => {
        with_path_unless($folder, $path, $change, $call)
    };
}

calls! {
    open(path: Path, flags: c_int, mode: mode_t) -> c_int, path in AT_FDCWD, as Open, if Change::of_open(flags);
    open64(path: Path, flags: c_int, mode: mode_t) -> c_int, path in AT_FDCWD, as Open, if Change::of_open(flags);
    __open(path: Path, flags: c_int, mode: mode_t) -> c_int, path in AT_FDCWD, as Open, if Change::of_open(flags);
    __open64(path: Path, flags: c_int, mode: mode_t) -> c_int, path in AT_FDCWD, as Open, if Change::of_open(flags);
    openat(folder: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int, path in folder, as OpenAt, if Change::of_open(flags);
    openat64(folder: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int, path in folder, as OpenAt, if Change::of_open(flags);
    __open_2(path: Path, flags: c_int) -> c_int, path in AT_FDCWD, if Change::of_open(flags);
    __open64_2(path: Path, flags: c_int) -> c_int, path in AT_FDCWD, if Change::of_open(flags);
    __openat_2(folder: c_int, path: Path, flags: c_int) -> c_int, path in folder, if Change::of_open(flags);
    __openat64_2(folder: c_int, path: Path, flags: c_int) -> c_int, path in folder, if Change::of_open(flags);
    creat(path: Path, mode: mode_t) -> c_int, path in AT_FDCWD, if CREAT;
    creat64(path: Path, mode: mode_t) -> c_int, path in AT_FDCWD, if CREAT;

    fopen(path: Path, mode: Path) -> Opaque, path in AT_FDCWD, if Change::of_stream(mode);
    fopen64(path: Path, mode: Path) -> Opaque, path in AT_FDCWD, if Change::of_stream(mode);
    _IO_fopen(path: Path, mode: Path) -> Opaque, path in AT_FDCWD, if Change::of_stream(mode);
    freopen(path: Path, mode: Path, stream: Opaque) -> Opaque, path in AT_FDCWD, if Change::of_stream(mode);
    freopen64(path: Path, mode: Path, stream: Opaque) -> Opaque, path in AT_FDCWD, if Change::of_stream(mode);

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
    mkdir(path: Path, mode: mode_t) -> c_int, path in AT_FDCWD, if Some(Change::Create);
    mkdirat(folder: c_int, path: Path, mode: mode_t) -> c_int, path in folder, if Some(Change::Create);
    mkfifo(path: Path, mode: mode_t) -> c_int, path in AT_FDCWD, if Some(Change::Create);
    mkfifoat(folder: c_int, path: Path, mode: mode_t) -> c_int, path in folder, if Some(Change::Create);
    mknod(path: Path, mode: mode_t, number: dev_t) -> c_int, path in AT_FDCWD, if Some(Change::Create);
    mknodat(folder: c_int, path: Path, mode: mode_t, number: dev_t) -> c_int, path in folder, if Some(Change::Create);
    __xmknod(version: c_int, path: Path, mode: mode_t, number: Opaque) -> c_int, path in AT_FDCWD, if Some(Change::Create);
    __xmknodat(version: c_int, folder: c_int, path: Path, mode: mode_t, number: Opaque) -> c_int, path in folder, if Some(Change::Create);
    symlink(to: Path, path: Path) -> c_int, path in AT_FDCWD, if Some(Change::Create);
    symlinkat(to: Path, folder: c_int, path: Path) -> c_int, path in folder, if Some(Change::Create);

    unlink(path: Path) -> c_int, path in AT_FDCWD, if Some(Change::Remove(Some(false)));
    unlinkat(folder: c_int, path: Path, flags: c_int) -> c_int, path in folder, if Some(Change::Remove(Some(flags & AT_REMOVEDIR != 0)));
    rmdir(path: Path) -> c_int, path in AT_FDCWD, if Some(Change::Remove(Some(true)));
    remove(path: Path) -> c_int, path in AT_FDCWD, if Some(Change::Remove(None));

    truncate(path: Path, len: i64) -> c_int, path in AT_FDCWD, if Some(Change::Truncate);
    truncate64(path: Path, len: i64) -> c_int, path in AT_FDCWD, if Some(Change::Truncate);

    chmod(path: Path, mode: mode_t) -> c_int, path in AT_FDCWD, if Some(Change::Mode);
    lchmod(path: Path, mode: mode_t) -> c_int, path in AT_FDCWD, if Some(Change::Mode);
    fchmodat(folder: c_int, path: Path, mode: mode_t, flags: c_int) -> c_int, path in folder, if Some(Change::Mode);
    chown(path: Path, user: uid_t, group: gid_t) -> c_int, path in AT_FDCWD, if Change::of_owners(user, group);
    lchown(path: Path, user: uid_t, group: gid_t) -> c_int, path in AT_FDCWD, if Change::of_owners(user, group);
    fchownat(folder: c_int, path: Path, user: uid_t, group: gid_t, flags: c_int) -> c_int, path in folder, if Change::of_owners(user, group);

    utime(path: Path, times: Opaque) -> c_int, path in AT_FDCWD, if Some(Change::Times);
    utimes(path: Path, times: Opaque) -> c_int, path in AT_FDCWD, if Some(Change::Times);
    lutimes(path: Path, times: Opaque) -> c_int, path in AT_FDCWD, if Some(Change::Times);

    setxattr(path: Path, name: Path, value: Opaque, size: usize, flags: c_int) -> c_int, path in AT_FDCWD, if Some(Change::ExtendedAttributes);
    lsetxattr(path: Path, name: Path, value: Opaque, size: usize, flags: c_int) -> c_int, path in AT_FDCWD, if Some(Change::ExtendedAttributes);
    removexattr(path: Path, name: Path) -> c_int, path in AT_FDCWD, if Some(Change::ExtendedAttributes);
    lremovexattr(path: Path, name: Path) -> c_int, path in AT_FDCWD, if Some(Change::ExtendedAttributes);

    inotify_add_watch(descriptor: c_int, path: Path, mask: u32) -> c_int, path in AT_FDCWD;
}
