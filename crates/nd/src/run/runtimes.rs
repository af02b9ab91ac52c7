//! The runtimes of sanitizers, which have to be the first library of a program.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::elf;
use super::linkage::{Linkage, linkage};
use super::program::{SCRIPTS, head};

/// The beginnings of the names of the runtimes' libraries, of gcc and of clang, as in `nd-paths`' `runtimes.rs`.
const RUNTIMES: [&[u8]; 7] = [
    b"libasan.so",
    b"libhwasan.so",
    b"liblsan.so",
    b"libtsan.so",
    b"libclang_rt.asan",
    b"libclang_rt.hwasan",
    b"libclang_rt.tsan",
];

/// A runtime by the name of its library, in any folder.
fn runtime(path: &[u8]) -> Option<&'static [u8]> {
    let name = path.rsplit(|octet| *octet == b'/').next()?;
    RUNTIMES.into_iter().find(|known| name.starts_with(known))
}

/// The library that has to come in front of these, because the program needs it, or the program that the kernel runs for a script.
pub(super) fn in_front_of(libraries: &[OsString], program: &Path) -> Option<OsString> {
    let needed = needed_by(program)?;
    let known = runtime(&needed);
    let mut libraries = libraries.iter().map(|path| path.as_encoded_bytes());
    match libraries.any(|path| runtime(path) == known) {
        true => None,
        false => Some(OsString::from_vec(needed)),
    }
}

fn needed_by(program: &Path) -> Option<Vec<u8>> {
    let mut at = program.to_owned();
    for _ in 0..SCRIPTS {
        let mut file = File::open(&at).ok()?;
        match linkage(&head(&mut file).ok()?) {
            Linkage::Script(script) => at = script.interpreter,
            Linkage::Dynamic => {
                let needed = elf::needed(&mut file).ok()?;
                let is_one_word = |name: &[u8]| !name.iter().any(|octet| b": ".contains(octet));
                return needed
                    .into_iter()
                    .find(|name| runtime(name).is_some() && is_one_word(name));
            }
            _ => return None,
        }
    }
    None
}
