//! The program that `nd run` becomes.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::errors::Failure;

/// The program's path. A name without a slash is looked for as a shell does.
pub(super) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    if name.as_encoded_bytes().contains(&b'/') {
        return Ok(path.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find(|path| {
            path.metadata()
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        });
    found.ok_or_else(|| {
        Failure::new(
            format!("there is no program {} in PATH", path.display()),
            "install it, or name it with its folder",
        )
    })
}

/// Refuses programs for which the dynamic linker preloads nothing.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let doing = || format!("read {}", path.display());
    let mut file = File::open(path).map_err(|error| Failure::io(doing(), &error))?;
    let metadata = file
        .metadata()
        .map_err(|error| Failure::io(doing(), &error))?;
    if metadata.permissions().mode() & 0o6000 != 0 {
        return Err(Failure::new(
            format!(
                "{} is a set-uid or set-gid program, for which libraries are not replaced",
                path.display()
            ),
            "run a copy without these bits",
        ));
    }
    let mut start = Vec::new();
    let read = file.by_ref().take(64 << 10).read_to_end(&mut start);
    read.map_err(|error| Failure::io(doing(), &error))?;
    match linkage(&start) {
        Linkage::Dynamic | Linkage::NoElf => Ok(()),
        Linkage::Static => Err(Failure::new(
            format!(
                "{} is linked statically, so its libraries cannot be replaced",
                path.display()
            ),
            "run a program that is linked with libibverbs.so.1",
        )),
        Linkage::OtherMachine => Err(Failure::new(
            format!("{} is not a program for 64 bits", path.display()),
            "run one for the processor of this machine",
        )),
    }
}

/// The way in which a program finds its libraries.
#[derive(Debug, PartialEq, Eq)]
enum Linkage {
    Dynamic,
    Static,
    OtherMachine,
    /// A script: its interpreter is a separate program.
    NoElf,
}

/// Reads the head of an ELF file of 64 bits: a program with an interpreter is linked dynamically.
fn linkage(start: &[u8]) -> Linkage {
    const INTERPRETER: u32 = 3;
    if !start.starts_with(b"\x7fELF") {
        return Linkage::NoElf;
    }
    // Class and byte order: 64 bits, little-endian.
    if start.get(4..6) != Some(&[2, 1]) {
        return Linkage::OtherMachine;
    }
    let number = |at: usize, len: usize| {
        let mut octets = [0; 8];
        let from = start.get(at..at.checked_add(len)?)?;
        octets[..len].copy_from_slice(from);
        usize::try_from(u64::from_le_bytes(octets)).ok()
    };
    let table = number(32, 8).zip(number(54, 2)).zip(number(56, 2));
    let Some(((offset, size), count)) = table else {
        return Linkage::NoElf;
    };
    let is_interpreter = |index: usize| {
        let at = index
            .checked_mul(size)
            .and_then(|at| at.checked_add(offset));
        at.and_then(|at| number(at, 4)) == Some(INTERPRETER as usize)
    };
    match (0..count).any(is_interpreter) {
        true => Linkage::Dynamic,
        false => Linkage::Static,
    }
}

/// Becomes the program. Returns why it could not.
pub(super) fn execute(mut command: Command, path: &Path) -> Failure {
    let error = command.exec();
    Failure::new(
        format!("cannot run {}: {error}", path.display()),
        "check that the file is a program that you may execute",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_dynamic_if_it_names_an_interpreter() {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64; // e_phoff
        elf[54] = 56; // e_phentsize
        elf[56] = 2; // e_phnum
        elf.resize(64 + 2 * 56, 0);
        assert_eq!(linkage(&elf), Linkage::Static);
        elf[64 + 56] = 3; // PT_INTERP
        assert_eq!(linkage(&elf), Linkage::Dynamic);
        elf[4] = 1; // ELFCLASS32
        assert_eq!(linkage(&elf), Linkage::OtherMachine);
        assert_eq!(linkage(b"#!/bin/sh\n"), Linkage::NoElf);
        for cut in 0..elf.len() {
            let _ = linkage(&elf[..cut]);
        }
    }

    #[test]
    fn this_test_is_a_dynamic_program() {
        let own = env::current_exe().unwrap();
        assert!(check(&own).is_ok());
        assert!(find(OsStr::new("sh")).is_ok());
        assert!(find(OsStr::new("no-such-program-anywhere")).is_err());
    }
}
