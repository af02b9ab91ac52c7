//! How a program finds its libraries, by the first octets of its file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The dynamic linkers of other C libraries than glibc, by the beginnings of their files' names.
const OTHER_LINKERS: [&[u8]; 3] = [b"ld-musl", b"ld-uClibc", b"linker"];

/// The way in which a program finds its libraries.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Linkage<'a> {
    /// By glibc's dynamic linker.
    Dynamic,
    /// By this dynamic linker of another C library, which cannot load libraries that were built for glibc.
    OtherLinker(&'a Path),
    Static,
    OtherMachine,
    /// A script: its interpreter is a separate program.
    Script(Script),
    /// No program that is known here.
    Unknown,
}

/// The first line of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) interpreter: PathBuf,
    /// What the interpreter gets in front of the script's name.
    pub(super) argument: Option<PathBuf>,
}

/// Reads the head of a file: an ELF program of 64 bits with an interpreter is linked dynamically.
pub(super) fn linkage(start: &[u8]) -> Linkage<'_> {
    if let Some(line) = start.strip_prefix(b"#!") {
        return script(line).map_or(Linkage::Unknown, Linkage::Script);
    }
    if !start.starts_with(b"\x7fELF") {
        return Linkage::Unknown;
    }
    // Class and byte order: 64 bits, little-endian.
    if start.get(4..6) != Some(&[2, 1]) {
        return Linkage::OtherMachine;
    }
    match interpreter(start) {
        None => Linkage::Unknown,
        Some(None) => Linkage::Static,
        Some(Some(linker)) if is_of_glibc(linker) => Linkage::Dynamic,
        Some(Some(linker)) => Linkage::OtherLinker(linker),
    }
}

fn is_of_glibc(linker: &Path) -> bool {
    let name = linker.file_name().unwrap_or_default().as_bytes();
    !OTHER_LINKERS.iter().any(|other| name.starts_with(other))
}

/// The interpreter that an ELF file names, if it names one. `None` if its table of segments is incomplete.
fn interpreter(start: &[u8]) -> Option<Option<&Path>> {
    const INTERPRETER: usize = 3;
    let number = |at: usize, len: usize| {
        let mut octets = [0; 8];
        let from = start.get(at..at.checked_add(len)?)?;
        octets[..len].copy_from_slice(from);
        usize::try_from(u64::from_le_bytes(octets)).ok()
    };
    let (offset, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let header = |index: usize| index.checked_mul(size)?.checked_add(offset);
    let mut headers = (0..count).filter_map(header);
    let Some(at) = headers.find(|at| number(*at, 4) == Some(INTERPRETER)) else {
        return Some(None);
    };
    // An interpreter that lies further behind is taken for glibc's.
    let name = || start.get(number(at.checked_add(8)?, 8)?..);
    let name = name().unwrap_or_default();
    let name = name.split(|octet| *octet == 0).next().unwrap_or_default();
    Some(Some(Path::new(OsStr::from_bytes(name))))
}

/// Reads the first line as the kernel does: a path, and the rest of the line as one argument.
fn script(line: &[u8]) -> Option<Script> {
    let line = line.split(|octet| *octet == b'\n').next()?.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace);
    let (interpreter, argument) = line.split_at(end.unwrap_or(line.len()));
    let argument = argument.trim_ascii();
    let path = |octets: &[u8]| PathBuf::from(OsStr::from_bytes(octets));
    (!interpreter.is_empty()).then(|| Script {
        interpreter: path(interpreter),
        argument: (!argument.is_empty()).then(|| path(argument)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with two segments, the second of which is of a kind.
    fn elf(kind: u8, linker: &str) -> Vec<u8> {
        let mut elf = vec![0; 64 + 2 * 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64; // e_phoff
        elf[54] = 56; // e_phentsize
        elf[56] = 2; // e_phnum
        elf[64 + 56] = kind; // p_type
        elf[64 + 56 + 8] = 64 + 2 * 56; // p_offset
        elf.extend(linker.bytes());
        elf.push(0);
        elf
    }

    #[test]
    fn a_program_is_dynamic_if_it_names_an_interpreter() {
        assert_eq!(linkage(&elf(1, "")), Linkage::Static);
        let glibc = elf(3, "/lib64/ld-linux-x86-64.so.2");
        assert_eq!(linkage(&glibc), Linkage::Dynamic);
        let musl = "/lib/ld-musl-x86_64.so.1";
        assert_eq!(
            linkage(&elf(3, musl)),
            Linkage::OtherLinker(Path::new(musl))
        );
        let mut other = glibc.clone();
        other[4] = 1; // ELFCLASS32
        assert_eq!(linkage(&other), Linkage::OtherMachine);
        assert_eq!(linkage(b"text\n"), Linkage::Unknown);
        for cut in 0..glibc.len() {
            let _ = linkage(&glibc[..cut]);
        }
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let read = |text: &str| match linkage(text.as_bytes()) {
            Linkage::Script(script) => {
                let path = |path: PathBuf| path.into_os_string().into_string().unwrap();
                Some((path(script.interpreter), script.argument.map(path)))
            }
            _ => None,
        };
        let with = |path: &str, argument: Option<&str>| {
            Some((path.to_owned(), argument.map(ToOwned::to_owned)))
        };
        assert_eq!(read("#!/bin/sh\necho"), with("/bin/sh", None));
        assert_eq!(read("#! /bin/sh -e \necho"), with("/bin/sh", Some("-e")));
        assert_eq!(read("#!/bin/env a b"), with("/bin/env", Some("a b")));
        assert_eq!(read("#!\n/bin/sh"), None);
        assert_eq!(read("#"), None);
    }
}
