//! What a file that a program executes needs, by its first octets. It allocates nothing, because children of `vfork` ask for it.

use std::ffi::{c_char, c_int};

/// The first octets of a file, in which programs have the name of their interpreter.
pub(crate) const HEAD: usize = 4096;

/// The beginnings of the names of other C libraries' dynamic linkers, as in `nd`'s `run/linkage.rs`.
const OTHER_LINKERS: [&[u8]; 3] = [b"ld-musl", b"ld-uClibc", b"linker"];

/// As many scripts that run each other as the kernel follows.
const SCRIPTS: usize = 5;

/// Returns true if a file is a program for another C library, whose dynamic linker cannot load our libraries, or a script for one.
pub(crate) fn is_for_other_linker(path: *const c_char) -> bool {
    let mut head = [0; HEAD];
    let mut path = path;
    for _ in 0..SCRIPTS {
        let Some(len) = read_head(path, &mut head) else {
            return false;
        };
        let Some(interpreter) = script(&mut head, len) else {
            return head.get(..len).and_then(linker).is_some_and(is_other);
        };
        path = interpreter;
    }
    false
}

/// Returns true if a path names the dynamic linker of another C library.
fn is_other(linker: &[u8]) -> bool {
    let name = linker.rsplit(|octet| *octet == b'/').next();
    let name = name.unwrap_or_default();
    OTHER_LINKERS.iter().any(|other| name.starts_with(other))
}

fn read_head(path: *const c_char, head: &mut [u8; HEAD]) -> Option<usize> {
    // SAFETY: the path ends in a zero: it is the program's, or that of a script.
    let file = unsafe { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) };
    if file < 0 {
        return None;
    }
    let read = read(file, head);
    // SAFETY: the descriptor was opened here, and nobody else knows it.
    unsafe { libc::close(file) };
    read
}

fn read(file: c_int, head: &mut [u8; HEAD]) -> Option<usize> {
    // SAFETY: there is room for the octets.
    let read = unsafe { libc::pread(file, head.as_mut_ptr().cast(), head.len(), 0) };
    usize::try_from(read).ok()
}

/// The interpreter of a script, which gets a zero behind it.
fn script(head: &mut [u8; HEAD], len: usize) -> Option<*const c_char> {
    let line = head.get(..len)?.strip_prefix(b"#!")?;
    let is_space = |octet: &u8| matches!(octet, b' ' | b'\t');
    let start = 2 + line.iter().position(|octet| !is_space(octet))?;
    let rest = head.get(start..len)?;
    let end = rest
        .iter()
        .position(|octet| is_space(octet) || *octet == b'\n')?;
    *head.get_mut(start + end)? = 0;
    Some(head.get(start..)?.as_ptr().cast())
}

/// The dynamic linker that an ELF file of 64 bits names.
fn linker(head: &[u8]) -> Option<&[u8]> {
    const INTERPRETER: usize = 3;
    // Class and byte order: 64 bits, little-endian.
    head.strip_prefix(b"\x7fELF\x02\x01")?;
    let number = |at: usize, len: usize| {
        let from = head.get(at..at.checked_add(len)?)?;
        let shifted = |value: usize, octet: &u8| value << 8 | usize::from(*octet);
        Some(from.iter().rev().fold(0, shifted))
    };
    let (offset, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let header = |index: usize| index.checked_mul(size)?.checked_add(offset);
    let mut headers = (0..count).map_while(header);
    let at = headers.find(|at| number(*at, 4) == Some(INTERPRETER))?;
    let name = head.get(number(at.checked_add(8)?, 8)?..)?;
    name.split(|octet| *octet == 0).next()
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::path::Path;

    use super::*;

    fn is_for_other(path: &Path) -> bool {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        is_for_other_linker(path.as_ptr())
    }

    #[test]
    fn programs_of_this_system_are_for_glibc() {
        assert!(!is_for_other(&std::env::current_exe().unwrap()));
        assert!(!is_for_other(Path::new("/bin/sh")));
        assert!(!is_for_other(Path::new("/no/such/file")));
        assert!(!is_for_other(Path::new("/etc/passwd")));
    }

    #[test]
    fn another_linker_is_found_behind_scripts() {
        let name = format!("nd-paths-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64; // e_phoff
        elf[54] = 56; // e_phentsize
        elf[56] = 1; // e_phnum
        elf[64] = 3; // PT_INTERP
        elf[64 + 8] = 64 + 56; // p_offset
        elf.extend(b"/lib/ld-musl-x86_64.so.1\0");
        let (program, script) = (folder.join("program"), folder.join("script"));
        fs::write(&program, &elf).unwrap();
        fs::write(&script, format!("#! {} -x\n", program.display())).unwrap();
        assert!(is_for_other(&program) && is_for_other(&script));
        let around = folder.join("around");
        fs::write(&around, format!("#!{}\n", around.display())).unwrap();
        assert!(!is_for_other(&around));
        for cut in 0..elf.len() {
            fs::write(&program, &elf[..cut]).unwrap();
            is_for_other(&program);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
