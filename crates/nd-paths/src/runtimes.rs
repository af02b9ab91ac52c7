//! The runtimes of sanitizers, which have to be the first library of a program. A program that needs one gets it in front of what is
//! preloaded. It allocates nothing, as `binaries`.

use std::ffi::c_int;

use crate::descriptors::read_at;

/// The beginnings of the names of the runtimes' libraries, of gcc and of clang, as in `nd`'s `run/runtimes.rs`.
const RUNTIMES: [&[u8]; 7] = [
    b"libasan.so",
    b"libhwasan.so",
    b"liblsan.so",
    b"libtsan.so",
    b"libclang_rt.asan",
    b"libclang_rt.hwasan",
    b"libclang_rt.tsan",
];

/// The longest name of a runtime's library.
const NAME: usize = 64;
/// What is read of a file at once.
const BLOCK: usize = 1024;
/// The octets of the header of a file and of a section, of an entry of a dynamic section, and of a number.
const HEADER: usize = 64;
const ENTRY: usize = 16;
const WORD: usize = 8;

/// A runtime by the name of its library, in any folder.
pub(crate) fn runtime(path: &[u8]) -> Option<&'static [u8]> {
    let name = path.rsplit(|octet| *octet == b'/').next()?;
    RUNTIMES.into_iter().find(|known| name.starts_with(known))
}

/// A runtime that a program needs, by the name of its library.
#[derive(Clone, Copy)]
pub(crate) struct Runtime {
    octets: [u8; NAME],
    len: usize,
}

impl Runtime {
    pub(crate) fn name(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

/// A number, with its least octet first.
pub(crate) fn number(octets: &[u8], at: usize, len: usize) -> Option<usize> {
    let from = octets.get(at..at.checked_add(len)?)?;
    let shifted = |value: usize, octet: &u8| value << 8 | usize::from(*octet);
    Some(from.iter().rev().fold(0, shifted))
}

/// A part of the file: its offset and its length.
type Part = (usize, usize);

/// The offset and the length of a section, by its header.
fn part(header: &[u8]) -> Option<Part> {
    Some((number(header, 0x18, 8)?, number(header, 0x20, 8)?))
}

/// The dynamic section of a file, and that of the names in it, by the table of sections.
fn dynamic(file: c_int, header: &[u8]) -> Option<(Part, Part)> {
    const DYNAMIC: usize = 6;
    const PER_BLOCK: usize = BLOCK / HEADER;
    let (offset, count) = (number(header, 0x28, 8)?, number(header, 0x3C, 2)?);
    let at = |index: usize| index.checked_mul(HEADER)?.checked_add(offset);
    let mut block = [0; BLOCK];
    for index in (0..count).step_by(PER_BLOCK) {
        let headers = read_at(file, at(index)?, &mut block)?;
        let mut headers = headers.chunks_exact(HEADER).take(count - index);
        let Some(header) = headers.find(|header| number(header, 4, 4) == Some(DYNAMIC)) else {
            continue;
        };
        let (dynamic, names) = (part(header)?, number(header, 0x28, 4)?);
        let names = read_at(file, at(names)?, &mut block).and_then(part)?;
        return Some((dynamic, names));
    }
    None
}

/// The runtime that a program of 64 bits needs, by the header of its file.
pub(crate) fn needed(file: c_int, header: &[u8]) -> Option<Runtime> {
    const NEEDED: usize = 1;
    let ((offset, len), (names, names_len)) = dynamic(file, header)?;
    let mut block = [0; BLOCK];
    for at in (0..len).step_by(BLOCK) {
        let entries = read_at(file, offset.checked_add(at)?, &mut block)?;
        if entries.is_empty() {
            return None;
        }
        let entries = entries.get(..entries.len().min(len - at))?;
        for entry in entries.chunks_exact(ENTRY) {
            if number(entry, 0, WORD) == Some(NEEDED)
                && let Some(name) = number(entry, WORD, WORD).filter(|name| *name < names_len)
                && let Some(name) = runtime_at(file, names.checked_add(name)?)
            {
                return Some(name);
            }
        }
    }
    None
}

/// The name at an offset, if it is that of a runtime.
fn runtime_at(file: c_int, at: usize) -> Option<Runtime> {
    let mut octets = [0; NAME];
    let read = read_at(file, at, &mut octets)?;
    let len = read.iter().position(|octet| *octet == 0)?;
    let is_known = runtime(read.get(..len)?).is_some();
    let is_one_word = !read
        .get(..len)?
        .iter()
        .any(|octet| matches!(octet, b':' | b' '));
    (is_known && is_one_word).then_some(Runtime { octets, len })
}
