//! The environment of a program that is executed.
//!
//! If nothing can be preloaded into it, one sentence says so, and our libraries are taken out of its environment: else the program's dynamic
//! linker would complain of each. If it needs the runtime of a sanitizer, that comes in front of the libraries, as the runtime demands, and
//! is taken away again from a program that does not need it. An empty name behind it, which the dynamic linker skips, tells it from what
//! users preload.

use std::ffi::c_char;
use std::ptr;

use crate::binaries::{Kind, kind};
use crate::c::{text, with_errno_kept};
use crate::root;
use crate::runtimes::{Runtime, runtime};

pub(crate) type Path = *const c_char;
pub(crate) type List = *const *const c_char;

/// The longest path of a system call, and of what is left of a variable.
const ROOM: usize = 4096;
/// The most variables of an environment that is changed.
const VARIABLES: usize = 2048;
/// Where programs are looked for that are named without a folder, if the environment does not say so.
const FOLDERS: &[u8] = b"/bin:/usr/bin";

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

/// How an environment differs from that which the caller passes.
enum Change {
    /// Nothing is preloaded.
    Nothing(Obstacle),
    /// The runtime comes in front of the preloaded libraries, or the one that is there goes.
    Runtime(Option<Runtime>),
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
pub(crate) fn with_environment<R>(
    program: Path,
    variables: List,
    is_looked_for: bool,
    call: impl FnOnce(List) -> R,
) -> R {
    let change = with_errno_kept(|| change(program, variables, is_looked_for));
    match change {
        None => call(variables),
        Some(Change::Nothing(obstacle)) => {
            with_errno_kept(|| say(program, obstacle));
            with_changed(variables, without_ours, call)
        }
        Some(Change::Runtime(name)) => {
            let name = name.as_ref().map_or(&b""[..], Runtime::name);
            with_changed(
                variables,
                |variable, rooms| behind(name, variable, rooms),
                call,
            )
        }
    }
}

/// The variables of an environment.
fn pointers(list: List) -> impl Iterator<Item = Path> {
    let all = 0..if list.is_null() { 0 } else { usize::MAX };
    // SAFETY: a list of C ends in null, behind which nothing is read.
    let at = move |index| unsafe { list.wrapping_add(index).read_unaligned() };
    all.map(at).take_while(|entry| !entry.is_null())
}

/// The value of a variable, with a name that ends in `=`.
fn value<'a>(list: List, name: &[u8]) -> Option<&'a [u8]> {
    let mut all = pointers(list).filter_map(text);
    all.find_map(|entry| entry.strip_prefix(name))
}

fn change(program: Path, variables: List, is_looked_for: bool) -> Option<Change> {
    let (name, separators) = LISTS[0];
    let list = value(variables, name)?;
    let mut preloaded = list.split(|octet| separators.contains(octet));
    preloaded.find(|path| is_private(path))?;
    if !is_there() {
        return Some(Change::Nothing(Obstacle::Hidden));
    }
    let kind = match is_looked_for {
        true => kind_of_found(program),
        false => kind(program),
    };
    let (added, users) = runtime_and_rest(list);
    match kind {
        Kind::OtherLinker => Some(Change::Nothing(Obstacle::OtherLinker)),
        Kind::Ordinary => (!added.is_empty()).then_some(Change::Runtime(None)),
        Kind::Sanitized(needed) if needed.name() == added => None,
        Kind::Sanitized(needed) => {
            let known = runtime(needed.name());
            let mut users = users.split(|octet| separators.contains(octet));
            match users.any(|path| runtime(path) == known) {
                true => (!added.is_empty()).then_some(Change::Runtime(None)),
                false => Some(Change::Runtime(Some(needed))),
            }
        }
    }
}

/// A list of libraries, in two parts: the runtime that was put in front of it, and the rest.
fn runtime_and_rest(list: &[u8]) -> (&[u8], &[u8]) {
    let end = list.iter().position(|octet| *octet == b':');
    let (first, rest) = list.split_at(end.unwrap_or(list.len()));
    match rest.strip_prefix(b"::") {
        Some(rest) if runtime(first).is_some() => (first, rest),
        _ => (b"", list),
    }
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

/// The kind of a program that is looked for as `execvp` does it.
fn kind_of_found(program: Path) -> Kind {
    let Some(name) = text(program) else {
        return Kind::Ordinary;
    };
    if name.contains(&b'/') {
        return kind(program);
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
            return kind(path);
        }
    }
    Kind::Ordinary
}

/// Room for the variables that change.
type Rooms = [[u8; ROOM]; 2];

/// A variable without our libraries; none if nothing else is in it.
fn without_ours(variable: Path, [preloaded, libraries]: &mut Rooms) -> Option<Path> {
    let kept = without_our_libraries(variable, LISTS[0], preloaded)?;
    without_our_libraries(kept, LISTS[1], libraries)
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
    let (_, list) = runtime_and_rest(list);
    let paths = list.split(|octet| separators.contains(octet));
    let mut kept = paths.filter(|path| !path.is_empty() && !is_private(path));
    let first = kept.next()?;
    let others = kept.flat_map(|path| b":".iter().chain(path));
    let changed = name.iter().chain(first).chain(others).copied();
    write(room, changed).or(Some(variable))
}

/// A variable in which the list of preloaded libraries is behind this runtime alone, which may be none.
fn behind(runtime: &[u8], variable: Path, [preloaded, _]: &mut Rooms) -> Option<Path> {
    let (name, _) = LISTS[0];
    let Some(list) = text(variable).and_then(|variable| variable.strip_prefix(name)) else {
        return Some(variable);
    };
    let (_, rest) = runtime_and_rest(list);
    let separator: &[u8] = if runtime.is_empty() { b"" } else { b"::" };
    let changed = [name, runtime, separator, rest].into_iter().flatten();
    write(preloaded, changed.copied()).or(Some(variable))
}

/// Calls `call` with the variables that `changed` returns.
#[cold]
#[inline(never)]
fn with_changed<R>(
    variables: List,
    changed: impl Fn(Path, &mut Rooms) -> Option<Path>,
    call: impl FnOnce(List) -> R,
) -> R {
    let mut rooms = [[0; ROOM]; 2];
    let mut list: [Path; VARIABLES + 1] = [ptr::null(); VARIABLES + 1];
    // The last one stays null.
    let (_end, places) = list.split_last_mut().expect("there is one");
    let mut places = places.iter_mut();
    for variable in pointers(variables) {
        let Some(kept) = changed(variable, &mut rooms) else {
            continue;
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_was_put_in_front_is_known_by_the_empty_name() {
        for (list, runtime, rest) in [
            ("libasan.so.8::/a/b:c", "libasan.so.8", "/a/b:c"),
            ("libasan.so.8:/a/b", "", "libasan.so.8:/a/b"),
            ("libm.so.6::/a/b", "", "libm.so.6::/a/b"),
            ("::/a/b", "", "::/a/b"),
            ("", "", ""),
        ] {
            let found = runtime_and_rest(list.as_bytes());
            assert_eq!(found, (runtime.as_bytes(), rest.as_bytes()), "{list}");
        }
    }
}
