//! What a file that a program executes needs, by its first octets. It allocates nothing, because children of `vfork` ask for it.

use std::ffi::{c_char, c_int};

use crate::descriptors::read_at;
use crate::runtimes::{self, Runtime, number};

/// The first octets of a file, in which programs have the name of their interpreter.
pub(crate) const HEAD: usize = 4096;

/// The beginnings of the names of other C libraries' dynamic linkers, as in `nd`'s `run/linkage.rs`.
const OTHER_LINKERS: [&[u8]; 3] = [b"ld-musl", b"ld-uClibc", b"linker"];

/// As many scripts that run each other as the kernel follows.
const SCRIPTS: usize = 5;

/// What a program is for the libraries that are preloaded.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Ordinary,
    /// It is for another C library, whose dynamic linker cannot load our libraries.
    OtherLinker,
    /// It needs this runtime of a sanitizer, in front of all other libraries.
    Sanitized(Runtime),
}

/// The kind of a program, or of the program that a script is for.
pub(crate) fn kind(path: *const c_char) -> Kind {
    let mut head = [0; HEAD];
    let mut path = path;
    for _ in 0..SCRIPTS {
        let Some(file) = File::open(path) else {
            break;
        };
        let Some(len) = file.head(&mut head) else {
            break;
        };
        let Some(interpreter) = script(&mut head, len) else {
            let head = head.get(..len).unwrap_or_default();
            return kind_by_head(&file, head);
        };
        path = interpreter;
    }
    Kind::Ordinary
}

fn kind_by_head(file: &File, head: &[u8]) -> Kind {
    let Some(linker) = linker(head) else {
        return Kind::Ordinary;
    };
    match is_other(linker) {
        true => Kind::OtherLinker,
        false => runtimes::needed(file.0, head).map_or(Kind::Ordinary, Kind::Sanitized),
    }
}

/// Returns true if a path names the dynamic linker of another C library.
fn is_other(linker: &[u8]) -> bool {
    let name = linker.rsplit(|octet| *octet == b'/').next();
    let name = name.unwrap_or_default();
    OTHER_LINKERS.iter().any(|other| name.starts_with(other))
}

/// A file that is closed when the value is dropped.
struct File(c_int);

impl File {
    fn open(path: *const c_char) -> Option<Self> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the path ends in a zero: it is the program's, or that of a script.
        let file = unsafe { libc::open(path, flags) };
        (file >= 0).then_some(Self(file))
    }

    fn head(&self, head: &mut [u8; HEAD]) -> Option<usize> {
        read_at(self.0, 0, head).map(<[u8]>::len)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor was opened here, and nobody else knows it.
        unsafe { libc::close(self.0) };
    }
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
    let number = |at, len| number(head, at, len);
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
        matches!(kind(path.as_ptr()), Kind::OtherLinker)
    }

    #[test]
    fn programs_of_this_system_are_for_glibc() {
        assert!(!is_for_other(&std::env::current_exe().unwrap()));
        assert!(!is_for_other(Path::new("/bin/sh")));
        assert!(!is_for_other(Path::new("/no/such/file")));
        assert!(!is_for_other(Path::new("/etc/passwd")));
    }

    #[test]
    fn a_program_that_is_cut_or_changed_needs_no_runtime() {
        let name = format!("nd-paths-cut-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let whole = fs::read("/bin/true").unwrap();
        let is_sanitized = |octets: &[u8]| {
            fs::write(&path, octets).unwrap();
            let path = CString::new(path.to_str().unwrap()).unwrap();
            matches!(kind(path.as_ptr()), Kind::Sanitized(_))
        };
        for cut in (0..whole.len()).step_by(997) {
            assert!(!is_sanitized(&whole[..cut]), "{cut}");
        }
        // Each octet of the header.
        for at in 0..64 {
            let mut changed = whole.clone();
            changed[at] = !changed[at];
            assert!(!is_sanitized(&changed), "{at}");
        }
        fs::remove_file(&path).unwrap();
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
