//! Functions that execute a program. If nothing can be preloaded into it, the wrapper says so in one sentence, and takes our libraries
//! out of its environment: else the program's dynamic linker would complain of each.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::binaries::is_for_other_linker;
use crate::c::{text, with_errno_kept};
use crate::descriptors;
use crate::next::Next;
use crate::root;

pub(crate) type Path = *const c_char;
pub(crate) type List = *const *const c_char;
/// A structure that only the C library looks at.
type Opaque = *const c_void;

/// The longest path of a system call, and of what is left of a variable.
const ROOM: usize = 4096;
/// The most variables of an environment that is changed.
const VARIABLES: usize = 2048;
/// Where programs are looked for that are named without a folder, if the environment does not say so.
const FOLDERS: &[u8] = b"/bin:/usr/bin";

static EXECVE: Next = Next::new(c"execve");
static EXECVPE: Next = Next::new(c"execvpe");
static FEXECVE: Next = Next::new(c"fexecve");
static SPAWN: Next = Next::new(c"posix_spawn");
static SPAWNP: Next = Next::new(c"posix_spawnp");

pub(crate) static ALL: &[&Next] = &[&EXECVE, &EXECVPE, &FEXECVE, &SPAWN, &SPAWNP];

// SAFETY: the C library has this variable with this type.
unsafe extern "C" {
    static environ: List;
}

/// The environment of this process.
pub(crate) fn own() -> List {
    // SAFETY: programs change the variable in no other thread while one executes a program.
    unsafe { environ }
}

/// Why nothing can be preloaded.
#[derive(Clone, Copy)]
enum Obstacle {
    OtherLinker,
    /// The folder of our libraries is not there, in a sandbox.
    Hidden,
}

/// The variables in which our libraries are, and what separates paths there.
const LISTS: [(&[u8], &[u8]); 2] = [(b"LD_PRELOAD=", b": "), (b"LD_LIBRARY_PATH=", b":;")];

/// The folder in which the tree and our libraries are, with its slash.
fn private() -> impl Iterator<Item = u8> {
    let slashes = root::octets().zip(1..).filter(|(octet, _)| *octet == b'/');
    let len = slashes.last().map_or(0, |(_, len)| len);
    root::octets().take(len)
}

fn is_private(path: &[u8]) -> bool {
    let mut path = path.iter().copied();
    let is_below = private().all(|octet| path.next() == Some(octet));
    is_below && path.next().is_some() && root::octets().len() > 0
}

/// Calls `call` with the environment that the program can use.
#[inline]
fn with_environment<R>(
    program: Path,
    variables: List,
    is_looked_for: bool,
    call: impl FnOnce(List) -> R,
) -> R {
    let obstacle = with_errno_kept(|| obstacle(program, variables, is_looked_for));
    match obstacle {
        None => call(variables),
        Some(obstacle) => {
            with_errno_kept(|| say(program, obstacle));
            without_ours(variables, call)
        }
    }
}

/// The variables of an environment.
fn pointers(list: List) -> impl Iterator<Item = Path> {
    let all = 0..if list.is_null() { 0 } else { usize::MAX };
    // SAFETY: a list of C ends in null, behind which nothing is read.
    let at = move |index| unsafe { list.wrapping_add(index).read() };
    all.map(at).take_while(|entry| !entry.is_null())
}

/// The value of a variable, with a name that ends in `=`.
fn value<'a>(list: List, name: &[u8]) -> Option<&'a [u8]> {
    let mut all = pointers(list).filter_map(text);
    all.find_map(|entry| entry.strip_prefix(name))
}

fn obstacle(program: Path, variables: List, is_looked_for: bool) -> Option<Obstacle> {
    let (name, separators) = LISTS[0];
    let preloaded = value(variables, name)?;
    let mut preloaded = preloaded.split(|octet| separators.contains(octet));
    preloaded.find(|path| is_private(path))?;
    if !is_there() {
        return Some(Obstacle::Hidden);
    }
    let is_other = match is_looked_for {
        true => is_found_for_other(program),
        false => is_for_other_linker(program),
    };
    is_other.then_some(Obstacle::OtherLinker)
}

/// Writes octets and a zero. `None` if there is no room.
fn write(to: &mut [u8], octets: impl Iterator<Item = u8>) -> Option<Path> {
    for (at, octet) in octets.chain([0]).enumerate() {
        *to.get_mut(at)? = octet;
    }
    Some(to.as_ptr().cast())
}

fn is_there() -> bool {
    let mut path = [0; ROOM];
    // SAFETY: the path ends in a zero.
    let is_there = |path| unsafe { libc::access(path, libc::F_OK) } == 0;
    write(&mut path, root::octets()).is_some_and(is_there)
}

/// Looks for a program as `execvp` does.
fn is_found_for_other(program: Path) -> bool {
    let Some(name) = text(program) else {
        return false;
    };
    if name.contains(&b'/') {
        return is_for_other_linker(program);
    }
    let folders = value(own(), b"PATH=").unwrap_or(FOLDERS);
    let mut room = [0; ROOM];
    for folder in folders.split(|octet| *octet == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let path = folder.iter().chain(b"/").chain(name).copied();
        let Some(path) = write(&mut room, path) else {
            continue;
        };
        // SAFETY: the path ends in a zero.
        if unsafe { libc::access(path, libc::X_OK) } == 0 {
            return is_for_other_linker(path);
        }
    }
    false
}

/// A variable without our libraries: itself, one in `room`, or none.
fn without_our_libraries(
    variable: Path,
    (name, separators): (&[u8], &[u8]),
    room: &mut [u8],
) -> Option<Path> {
    let Some(list) = text(variable).and_then(|variable| variable.strip_prefix(name)) else {
        return Some(variable);
    };
    let paths = list.split(|octet| separators.contains(octet));
    let mut kept = paths.filter(|path| !path.is_empty() && !is_private(path));
    let first = kept.next()?;
    let others = kept.flat_map(|path| b":".iter().chain(path));
    let changed = name.iter().chain(first).chain(others).copied();
    write(room, changed).or(Some(variable))
}

#[cold]
#[inline(never)]
fn without_ours<R>(variables: List, call: impl FnOnce(List) -> R) -> R {
    let [mut preloaded, mut libraries] = [[0; ROOM]; 2];
    let mut list: [Path; VARIABLES + 1] = [ptr::null(); VARIABLES + 1];
    // The last one stays null.
    let (_end, places) = list.split_last_mut().expect("there is one");
    let mut places = places.iter_mut();
    for variable in pointers(variables) {
        let kept = without_our_libraries(variable, LISTS[0], &mut preloaded)
            .and_then(|kept| without_our_libraries(kept, LISTS[1], &mut libraries));
        let Some(kept) = kept else { continue };
        match places.next() {
            Some(place) => *place = kept,
            None => return call(variables),
        }
    }
    call(list.as_ptr())
}

/// Says why a program has no devices.
fn say(program: Path, obstacle: Obstacle) {
    let name = text(program).unwrap_or_default().iter().copied();
    let mut room = [0; 2 * ROOM];
    let start = b"nd run: ".iter().copied().chain(name);
    let written = match obstacle {
        Obstacle::OtherLinker => {
            let why: &[u8] = b" is linked for another C library than glibc, which cannot load softnd's libraries: it finds no devices\n";
            write(&mut room, start.chain(why.iter().copied()))
        }
        Obstacle::Hidden => {
            let hidden = b" finds no devices, because it does not see the folder ";
            let advice = b": name a folder that it sees with XDG_RUNTIME_DIR or TMPDIR\n";
            let why = hidden.iter().copied().chain(private());
            write(&mut room, start.chain(why).chain(advice.iter().copied()))
        }
    };
    let len = text(written.unwrap_or(c"".as_ptr())).map_or(0, <[u8]>::len);
    // SAFETY: as many octets were written there.
    unsafe { libc::write(libc::STDERR_FILENO, room.as_ptr().cast(), len) };
}

// SAFETY: the C library has a function of this name and type, which the wrapper replaces.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn execve(
    path: Path,
    arguments: List,
    variables: List,
) -> c_int {
    with_environment(path, variables, false, |variables| {
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
    let path = descriptors::Name::of(file);
    with_environment(path.pointer(), variables, false, |variables| {
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
