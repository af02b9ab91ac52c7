//! Functions that execute a program, which gets an environment that it can use.

use std::ffi::{c_int, c_void};

use crate::descriptors;
use crate::environments::{List, Path, own, with_environment};
use crate::exits::program_ends;
use crate::next::Next;

/// A structure that only the C library looks at.
type Opaque = *const c_void;

static EXECVE: Next = Next::new(c"execve");
static EXECVPE: Next = Next::new(c"execvpe");
static FEXECVE: Next = Next::new(c"fexecve");
static SPAWN: Next = Next::new(c"posix_spawn");
static SPAWNP: Next = Next::new(c"posix_spawnp");

pub(crate) static ALL: &[&Next] = &[&EXECVE, &EXECVPE, &FEXECVE, &SPAWN, &SPAWNP];

// SAFETY: the C library has a function of this name and type, which the wrapper replaces.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn execve(
    path: Path,
    arguments: List,
    variables: List,
) -> c_int {
    with_environment(path, variables, false, |variables| {
        program_ends();
        call_next!(
            EXECVE,
            unsafe extern "C-unwind" fn(Path, List, List) -> c_int,
            (path, arguments, variables)
        )
    })
}

// SAFETY: as for `execve`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn execv(path: Path, arguments: List) -> c_int {
    // SAFETY: the program passes what `execve` takes, with its own environment.
    unsafe { execve(path, arguments, own()) }
}

// SAFETY: as for `execve`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn execvpe(
    file: Path,
    arguments: List,
    variables: List,
) -> c_int {
    with_environment(file, variables, true, |variables| {
        program_ends();
        call_next!(
            EXECVPE,
            unsafe extern "C-unwind" fn(Path, List, List) -> c_int,
            (file, arguments, variables)
        )
    })
}

// SAFETY: as for `execve`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn execvp(file: Path, arguments: List) -> c_int {
    // SAFETY: the program passes what `execvpe` takes, with its own environment.
    unsafe { execvpe(file, arguments, own()) }
}

// SAFETY: as for `execve`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fexecve(file: c_int, arguments: List, variables: List) -> c_int {
    let path = descriptors::Name::new(file);
    with_environment(path.pointer(), variables, false, |variables| {
        program_ends();
        call_next!(
            FEXECVE,
            unsafe extern "C-unwind" fn(c_int, List, List) -> c_int,
            (file, arguments, variables)
        )
    })
}

type Spawn = unsafe extern "C-unwind" fn(*mut c_int, Path, Opaque, Opaque, List, List) -> c_int;

// SAFETY: as for `execve`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn posix_spawn(
    child: *mut c_int,
    path: Path,
    actions: Opaque,
    attributes: Opaque,
    arguments: List,
    variables: List,
) -> c_int {
    with_environment(path, variables, false, |variables| {
        call_next!(
            SPAWN,
            Spawn,
            (child, path, actions, attributes, arguments, variables)
        )
    })
}

// SAFETY: as for `execve`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn posix_spawnp(
    child: *mut c_int,
    file: Path,
    actions: Opaque,
    attributes: Opaque,
    arguments: List,
    variables: List,
) -> c_int {
    with_environment(file, variables, true, |variables| {
        call_next!(
            SPAWNP,
            Spawn,
            (child, file, actions, attributes, arguments, variables)
        )
    })
}
